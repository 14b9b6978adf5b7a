"""The search planner: turns formulas into plans for shards, and their answers into hits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..concepts import Meaning
from ..concepts.heads import Box
from ..logic import Formula, Representation
from ..logic.distance import SCORES, Score
from ..model import Model
from ..similarity import ALIKE, SCALE_SAMPLE, Scale, best_region_dot, chance_level, evenly, int8_dot, scale_of
from ..ssl.backbones import windows_of
from .blocks import CodeProjector
from .condition_truth import necessary_terms, positive_truth
from .errors import GalleryError
from .filters import EVERYTHING, ResolvedFilter, resolve_filter
from .hits import Hit, Reason, Strength, TermBox
from .names import Binding, BoundFormula, Names, key_of
from .near_duplicates import DuplicateImage, group_duplicates, stacked_on
from .options import CENTERED, SearchOptions
from .plan import (
    ConditionPlan,
    Matches,
    Nearest,
    SampleRows,
    ScorePlan,
    Term,
    VectorPlan,
    merge_matches,
    merge_nearest,
    merge_samples,
)
from .projections import degrees_of
from .queries import (
    NamedInputs,
    Neighbours,
    Query,
    QueryEncoder,
    QueryInputs,
    RegionInputs,
    TermVectors,
    Values,
    evaluate_term,
    is_word,
    refuse_empty,
)
from .reasons import Explainer
from .records import ImageRecord
from .rows import CLASSES
from .shard import Shards
from .table import ImageTable
from .words import GalleryWords, Vocabulary, words_in

# The truth above which at least 80 % of the hits are right, for one word and for several: docs/concepts.md.
_STRONG: Final = 0.8, 0.85


class Planner:
    """Searches one version of a gallery."""

    def __init__(self, table: ImageTable, model: Model, shards: Shards) -> None:
        self.table, self.model, self.shards = table, model, shards
        self.vocabulary = Vocabulary(model, CLASSES in table.columns)
        self.words = GalleryWords(table, self.vocabulary, shards)
        self.encoder = QueryEncoder(table, model, self.words)
        self._projector = CodeProjector(table, model)
        self.names = Names(table, self.vocabulary)
        self._explainer = Explainer(table, model, self.words)

    def search(
        self, queries: Sequence[Query], options: SearchOptions, given: Mapping[str, Representation]
    ) -> list[list[Hit]]:
        """Return the hits of each query, best first. `given` are representations by name."""
        where = resolve_filter(options.filter, self.table)
        inputs = self.encoder.encode([query for query in queries if isinstance(query, BoundFormula)], given)
        count = len(self.table) if where == EVERYTHING else sum(self.shards.map("count", where))
        results: dict[int, list[Hit]] = {}
        terms: dict[int, Query] = {}
        for number, query in enumerate(queries):
            if isinstance(query, BoundFormula) and (query.formula.is_condition or is_word(query.formula, query.named)):
                results[number] = self._search_condition(query, options, where, count, inputs) if count else []
            else:
                terms[number] = query
        if terms:
            found = self._search_terms([*terms.values()], options, where, count, inputs)
            results.update(zip(terms, found, strict=True))
        return [results[number] for number in range(len(queries))]

    # --- terms ------------------------------------------------------------------------------------------------------

    def _search_terms(
        self, queries: Sequence[Query], options: SearchOptions, where: ResolvedFilter, count: int, inputs: QueryInputs
    ) -> list[list[Hit]]:
        evaluated = self._evaluate(queries, options, inputs.values)
        for query, degrees in zip(queries, evaluated.degrees, strict=True):
            text = query.asked.text if isinstance(query, BoundFormula) else repr(query)
            refuse_empty(text, degrees, needs_direction=options.score in ("degrees", CENTERED))
        if not count:
            return [[] for _ in queries]
        wholes = self._whole_vectors(queries, evaluated, options, inputs)
        # The images of a formula are removed from its hits, so request that many more.
        own = [_own_ids(query, options) for query in queries]
        found = self._nearest(evaluated, wholes, options, options.top + max(map(len, own)), where)
        similarities = (
            torch.from_numpy(found.scores) if options.score == CENTERED else self._similarities(wholes, found)
        )
        truths = self._whole_scale(wholes).truth(similarities).float().numpy()
        weak = chance_level(count, 1)
        results = []
        for number, left_out in enumerate(own):
            kept = _kept(found.ids[number], left_out, options.top)
            ids, scores = found.ids[number, kept], found.scores[number, kept]
            distances = [_distance(options.score, score) for score in scores.tolist()]
            reasons = self._explain_term(evaluated[number], options, ids) if options.why else [()] * len(ids)
            kept_truths = truths[number, kept]
            strengths = [_strength(truth, truth < weak, 1) for truth in kept_truths.tolist()]
            results.append(self._hits(ids, distances, kept_truths, strengths, reasons, options.min_truth))
        return results

    def _nearest(
        self, queries: Representation, wholes: Tensor, options: SearchOptions, top: int, where: ResolvedFilter
    ) -> Nearest:
        if options.score == CENTERED:
            return merge_nearest(self.shards.map("nearest", VectorPlan(wholes, top, where)), top)
        return merge_nearest(self.shards.map("compare", ScorePlan(queries, options.score, top, where)), top)

    def _explain_term(
        self, query: Representation, options: SearchOptions, ids: np.ndarray
    ) -> Sequence[tuple[Reason, ...]]:
        if options.score == CENTERED:
            direction = normalize(self._projector.components.remove_mean(query.degrees), dim=-1)
            return self._explainer.explain(direction, ids, SCORES["degrees"])
        score = SCORES[options.score] if isinstance(options.score, str) else options.score
        if not isinstance(score, Score):  # a function has no contributions of features
            return [()] * len(ids)
        return self._explainer.explain(score.query(Representation.stack([query])).float()[0], ids, score)

    def _whole_vectors(
        self, queries: Sequence[Query], evaluated: Representation, options: SearchOptions, inputs: QueryInputs
    ) -> Tensor:
        """Return the vectors `(Q, d)` of queries that are single terms."""
        names = self._projector.names
        vectors = self._projector.components.project(evaluated.degrees)
        vectors = vectors if names is None else names.join(vectors, None)
        of_terms = self._term_vectors(options, inputs)
        for number, query in enumerate(queries):
            if isinstance(query, BoundFormula) and (query.formula.examples or names is not None):
                vectors[number] = of_terms.whole(query.formula, query.named, inputs.values)
        return vectors

    def _similarities(self, vectors: Tensor, found: Nearest) -> Tensor:
        """Return the similarity `(Q, k)` of each found image `(Q, k)` to its query."""
        codes = [self._codes(ids) for ids in found.ids]
        return torch.stack([int8_dot(one, vector[None])[0] for one, vector in zip(codes, vectors, strict=True)])

    def _evaluate(self, queries: Sequence[Query], options: SearchOptions, values: Values) -> Representation:
        """Return the representation of each query, `(Q, N, M)`."""
        return Representation.stack(
            [
                evaluate_term(query.formula, {key: values[thing] for key, thing in query.named.items()}, options)
                if isinstance(query, BoundFormula)
                else self._checked(query)
                for query in queries
            ]
        )

    def _checked(self, query: Representation) -> Representation:
        model = self.model
        if query.probs.shape != (model.num_features, model.num_values):
            raise GalleryError(
                f"a query is one image of this gallery's model, N={model.num_features} and M={model.num_values}; "
                f"this is {query}"
            )
        return query.detach().to("cpu", torch.float32)

    # --- conditions -------------------------------------------------------------------------------------------------

    def _search_condition(
        self, query: BoundFormula, options: SearchOptions, where: ResolvedFilter, count: int, inputs: QueryInputs
    ) -> list[Hit]:
        left_out = _own_ids(query, options)
        plan = self.plan(query, options, where, inputs, options.top + len(left_out))
        found: Matches = merge_matches(self.shards.map("search", plan), plan.top)
        kept = _kept(found.ids, left_out, options.top)
        ids, truths = found.ids[kept], found.truths[kept]
        reasons = self._explain_condition(query, ids, options, inputs.values) if options.why else [()] * len(ids)
        weak = found.positive[kept] < self._weak_truth(plan, count)
        terms = {
            query.called.get(str(term), str(term)): query.formula.terms.index(term)
            for term in query.formula.positive_terms
        }
        strengths = [_strength(*hit, len(terms)) for hit in zip(truths.tolist(), weak.tolist(), strict=True)]
        places = {text: found.regions[n][kept] for text, n in terms.items() if n in found.regions}
        words = {text: word for text, n in terms.items() if (word := plan.terms[n].word) is not None}
        hits = self._hits(ids, (1 - truths).tolist(), truths, strengths, reasons, options.min_truth, places, words)
        names = [query.called.get(str(term), str(term)) for term in query.formula.terms]
        by_id = dict(zip(ids.tolist(), found.terms[:, kept].T.tolist(), strict=True))
        return [replace(hit, terms=dict(zip(names, by_id[hit.id], strict=True))) for hit in hits]

    def plan(
        self, query: BoundFormula, options: SearchOptions, where: ResolvedFilter, inputs: QueryInputs, top: int
    ) -> ConditionPlan:
        """Return the plan of a condition."""
        regions = self._region_inputs(inputs)
        terms = self._term_vectors(options, inputs).terms_of(query, inputs.values, regions, self._word_term)
        wholes = [term.whole for term in terms if term.whole is not None]
        in_regions = [term.region for term in terms if term.region is not None]
        scale = self._whole_scale(torch.stack(wholes)) if wholes else None
        logic = options.logic or "product"
        return ConditionPlan(
            query.formula,
            tuple(terms if scale is None else self._relative(terms, scale, logic, query, options, inputs)),
            scale,
            self._region_scale(torch.stack(in_regions)) if in_regions else None,
            logic,
            top,
            where,
        )

    def _relative(
        self,
        terms: Sequence[Term],
        scale: Scale,
        logic: str,
        query: BoundFormula,
        options: SearchOptions,
        inputs: QueryInputs,
    ) -> list[Term]:
        """Return the terms with `relative_to` set for negated ones.

        A negated term is relative to each necessary term that has several examples or resembles it. It is not relative
        to a single dissimilar example, such as a scene in `ab and not b` from which b is to be removed.
        """
        formula = query.formula
        vectors = {number: term.whole for number, term in enumerate(terms) if term.whole is not None}
        places = {number: place for place, number in enumerate(vectors)}
        wanted = [number for number in necessary_terms(formula, logic) if number in vectors]
        result = list(terms)
        for number in vectors:
            if formula.terms[number] in formula.positive_terms:
                continue
            unwanted = self._term_vectors(options, inputs).whole(formula.terms[number], query.named, inputs.values)
            alike = {other: scale.select([places[other]]).deviations(vectors[other] @ unwanted) for other in wanted}
            relative = tuple(other for other in wanted if terms[other].examples > 1 or bool(alike[other] >= ALIKE))
            result[number] = replace(terms[number], relative_to=relative)
        return result

    def _word_term(self, word: Meaning) -> Term:
        """Return the term of a word in this gallery."""
        return Term(word=self.words.scaled(word), half=self.words.half(word))

    def _weak_truth(self, plan: ConditionPlan, images: int) -> float:
        """Return the truth that the best of `images` unrelated images may reach by chance; 0 without positive terms.

        Words use their own limit, not the chance level. If a condition requires a word that is not likely in any image,
        all hits are weak.
        """
        formula = plan.formula
        positive = [formula.terms.index(term) for term in formula.positive_terms]
        if not positive:
            return 0.0
        possible = [term.word is None or self.words.may_be_seen(term.word) for term in plan.terms]
        if not positive_truth(formula, [torch.tensor(float(truth)) for truth in possible], plan.logic):
            return math.inf
        count = sum(plan.terms[number].whole is not None for number in positive)
        reached = [chance_level(images, count) if term.word is None else term.word.weak for term in plan.terms]
        return float(positive_truth(formula, [torch.tensor(truth) for truth in reached], plan.logic))

    def _region_inputs(self, inputs: QueryInputs) -> RegionInputs | None:
        """Return the inputs for region vectors, or None without regions. Regions have their own head."""
        basis = self._projector.basis
        if basis is None:
            return None
        values = dict(inputs.values)
        if inputs.activations:
            represented = basis.represent(torch.stack([*inputs.activations.values()]))
            values.update(zip(inputs.activations, represented, strict=True))
        return RegionInputs(basis, values, self._projector.components.axes.T @ basis.components.axes)

    def _explain_condition(
        self, query: BoundFormula, ids: np.ndarray, options: SearchOptions, values: Values
    ) -> Sequence[tuple[Reason, ...]]:
        """Return for each image the features that contributed most to its match with the positive terms."""
        positive = [term for term in query.formula.positive_terms if not is_word(term, query.named)]
        if not positive:
            return [()] * len(ids)
        terms = self._evaluate([BoundFormula(term, _named_in(term, query)) for term in positive], options, values)
        directions = normalize(self._projector.components.remove_mean(terms.degrees), dim=-1)
        return self._explainer.explain(normalize(directions.mean(0), dim=0), ids, SCORES["degrees"])

    # --- codes and scales -------------------------------------------------------------------------------------------

    def _term_vectors(self, options: SearchOptions, inputs: QueryInputs) -> TermVectors:
        def find(vectors: Tensor, top: int) -> Nearest:
            return merge_nearest(self.shards.map("nearest", VectorPlan(vectors, top)), top)

        names = self._projector.names
        named = None if names is None else NamedInputs(names, inputs.named)
        neighbours = Neighbours(len(self.table), find, self._codes)
        return TermVectors(self._projector.components, named, neighbours, options)

    def _codes(self, ids: np.ndarray) -> Tensor:
        """Return the codes `(n, d)` int8 of images, in the given order."""
        found = merge_samples(self.shards.map("sample", np.unique(ids), False))
        return found.codes[torch.from_numpy(np.searchsorted(found.ids, ids))]

    def _whole_scale(self, vectors: Tensor) -> Scale:
        """Return the scale of the similarities of the gallery's images to vectors `(Q, d)`."""
        return scale_of(int8_dot(self._sample.codes, vectors))

    def _region_scale(self, vectors: Tensor) -> Scale:
        sample = self._region_sample
        assert sample.regions is not None, "the sample was drawn with regions"
        assert sample.has_regions is not None, "the sample was drawn with regions"
        return scale_of(best_region_dot(sample.regions[torch.from_numpy(sample.has_regions)], vectors))

    @cached_property
    def _sample(self) -> SampleRows:
        ids = evenly(self.table.ids, SCALE_SAMPLE)
        return merge_samples(self.shards.map("sample", ids, False))

    @cached_property
    def _region_sample(self) -> SampleRows:
        ids = evenly(self.table.ids, SCALE_SAMPLE)
        return merge_samples(self.shards.map("sample", ids, True))

    # --- hits -------------------------------------------------------------------------------------------------------

    def _hits(
        self,
        ids: np.ndarray,
        distances: Sequence[float],
        truths: np.ndarray,
        strengths: Sequence[Strength],
        reasons: Sequence[tuple[Reason, ...]],
        min_truth: float,
        regions: Mapping[str, np.ndarray] | None = None,
        words: Mapping[str, Meaning] | None = None,
    ) -> list[Hit]:
        """Return hits. `regions` has the index of the best region for each term, `words` the terms that are words."""
        kept = np.flatnonzero(truths >= min_truth)
        records = self.table.get_many(ids[kept])
        described = self.words.describe(ids[kept])
        boxes = [
            {
                term: self._region_box(record, index)
                for term, found in (regions or {}).items()
                if (index := int(found[place])) >= 0
            }
            | {term: self._box_in(record, box) for term, box in of_words.items()}
            for place, record, of_words in zip(
                kept.tolist(), records, self.words.boxes(words or {}, ids[kept]), strict=True
            )
        ]
        return [
            Hit(
                record.path,
                distances[place],
                record.id,
                reasons[place],
                record.taken_at.isoformat(),
                record.taken_from,
                float(truths[place]),
                strengths[place],
                tuple(itertools.starmap(TermBox, found.items())),
                words_in(shown),
            )
            for place, record, shown, found in zip(kept.tolist(), records, described, boxes, strict=True)
        ]

    def _region_box(self, record: ImageRecord, index: int) -> Box:
        """Return the box of a region of an image, as fractions of the image."""
        grid = self.table.state.grid
        assert grid is not None, "there are regions"
        width, height = self.model.input_size(record.width, record.height)
        rows, columns = round(grid[0] * height / self.model.size), round(grid[1] * width / self.model.size)
        return self._box_in(record, windows_of(rows, columns)[index].box(rows, columns))

    def _box_in(self, record: ImageRecord, box: Box) -> Box:
        """Convert a box in the backbone's input to fractions of the upright image."""
        return box_in_image(box, record, "whole" if self.model.sees_all else self.model.fit)

    def near_copies(self, ids: Sequence[int]) -> list[int | None]:
        """Return for each image the first earlier near duplicate in the list, or None."""
        if not ids:
            return []
        rows = np.array(ids, np.int64)

        def degrees(doubtful: np.ndarray) -> Tensor:
            return degrees_of(self.model, torch.from_numpy(self.table.activations(rows[doubtful])))

        codes = self._codes(rows)[:, : self._projector.components.axes.shape[1]]
        return [None if place is None else ids[place] for place in stacked_on(codes, degrees)]

    def duplicates(self) -> list[list[DuplicateImage]]:
        """Return groups of exact and near copies, the largest first."""
        ids = self.table.ids.tolist()
        return group_duplicates(dict(zip(ids, self.near_copies(ids), strict=True)), self.table)


def _strength(truth: float, is_weak: bool, positive_terms: int) -> Strength:
    if is_weak:
        return "weak"
    return "strong" if truth >= _STRONG[positive_terms > 1] else "maybe"


def box_in_image(box: Box, record: ImageRecord, fit: str) -> Box:
    """Convert a box in the backbone's input to fractions of the upright image.

    The input is the center square of an image (`fit` is "crop"), or all of it.
    """
    left, top, right, bottom = box
    if fit != "crop":
        return box
    side = min(record.width, record.height)
    across, down = side / record.width, side / record.height
    start, above = (1 - across) / 2, (1 - down) / 2
    return start + left * across, above + top * down, start + right * across, above + bottom * down


def _kept(ids: np.ndarray, left_out: set[int], top: int) -> list[int]:
    """Return the positions of the first `top` images that are not left out."""
    return [place for place, identity in enumerate(ids.tolist()) if identity not in left_out][:top]


def _own_ids(query: Query, options: SearchOptions) -> set[int]:
    """Return the images to remove from the hits: those that a formula names, crops or excludes."""
    if not isinstance(query, BoundFormula):
        return set()
    named = {thing.id for thing in query.named.values() if thing.id is not None and not options.include_queries}
    return named | query.excluded


def _named_in(term: Formula, query: BoundFormula) -> dict[str, Binding]:
    return {key: query.named[key] for key in map(key_of, term.atoms)}


def _distance(score: object, value: float) -> float:
    """Convert an inner product to a distance. With rounded vectors, the product may be slightly above 1."""
    return max(0.0, 1 - value) if score in ("degrees", "containment", CENTERED) else -value
