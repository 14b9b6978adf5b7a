"""The planner of searches: from formulas to plans that shards answer, and from their answers to hits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..logic import Formula, Representation
from ..logic.distance import SCORES, Score
from ..model import Model
from ..similarity import SCALE_SAMPLE, Scale, best_region_dot, chance_level, evenly, int8_dot, scale_of
from ..ssl.backbones import windows_of
from .blocks import CodeProjector
from .condition_truth import positive_truth
from .definitions import Definitions
from .errors import GalleryError
from .filters import EVERYTHING, ResolvedFilter, resolve_filter
from .hits import Hit, Reason, TermBox
from .names import Binding, BoundFormula, Names, key_of
from .near_duplicates import stacked_on
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
from .query_inputs import QueryEncoder, QueryInputs
from .query_vectors import Neighbours, RegionInputs, TermVectors, Values, evaluate_term, is_word, refuse_empty
from .reasons import Explainer, no_reasons
from .records import ImageRecord, UnreadableFile
from .rows import CLASSES
from .shard import Shards
from .table import ImageTable
from .words import GalleryWords, Vocabulary, words_in

Query = BoundFormula | Representation

# The truth of a word from which on it is not weak.
_HALF: Final = 0.5


class Planner:
    """Searches one version of a gallery."""

    def __init__(
        self,
        table: ImageTable,
        model: Model,
        definitions: Definitions,
        unreadable: Mapping[str, UnreadableFile],
        shards: Shards,
    ) -> None:
        self.table, self.model, self.shards = table, model, shards
        self.definitions, self.unreadable = definitions, unreadable
        self.vocabulary = Vocabulary(model, CLASSES in table.columns)
        self.words = GalleryWords(table, self.vocabulary, shards)
        self.encoder = QueryEncoder(table, model, self.words)
        self._projector = CodeProjector(table, model)
        self.names = Names(table, definitions, self.vocabulary, unreadable)
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
            found = self._search_terms([*terms.values()], options, where, count, inputs.values)
            results.update(zip(terms, found, strict=True))
        return [results[number] for number in range(len(queries))]

    # --- terms ------------------------------------------------------------------------------------------------------

    def _search_terms(
        self, queries: Sequence[Query], options: SearchOptions, where: ResolvedFilter, count: int, values: Values
    ) -> list[list[Hit]]:
        evaluated = self._evaluate(queries, options, values)
        for query, degrees in zip(queries, evaluated.degrees, strict=True):
            text = query.asked.text if isinstance(query, BoundFormula) else repr(query)
            refuse_empty(text, degrees, needs_direction=options.score in ("degrees", CENTERED))
        if not count:
            return [[] for _ in queries]
        wholes = self._whole_vectors(queries, evaluated, options, values)
        # The images of a formula are left out of its own hits, so more are asked for.
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
            reasons = self._explain_term(evaluated[number], options, ids) if options.why else no_reasons(ids)
            kept_truths = truths[number, kept]
            is_weak = kept_truths < weak
            results.append(self._hits(ids, distances, kept_truths, is_weak, reasons, options.min_truth))
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
        if not isinstance(score, Score):  # a function says nothing about features
            return no_reasons(ids)
        return self._explainer.explain(score.query(Representation.stack([query])).float()[0], ids, score)

    def _whole_vectors(
        self, queries: Sequence[Query], evaluated: Representation, options: SearchOptions, values: Values
    ) -> Tensor:
        """Return the vectors `(Q, d)` of queries that are terms."""
        vectors = self._projector.components.project(evaluated.degrees)
        of_terms = self._term_vectors(options)
        for number, query in enumerate(queries):
            if isinstance(query, BoundFormula) and query.formula.examples:
                vectors[number] = of_terms.whole(query.formula, query.named, values)
        return vectors

    def _similarities(self, vectors: Tensor, found: Nearest) -> Tensor:
        """Return how similar images `(Q, k)` are to the query of theirs, `(Q, k)`."""
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
        reasons = self._explain_condition(query, ids, options, inputs.values) if options.why else no_reasons(ids)
        weak = found.positive[kept] < self._weak_truth(plan, count)
        terms = {
            query.called.get(str(term), str(term)): query.formula.terms.index(term)
            for term in query.formula.positive_terms
        }
        places = {text: found.regions[n][kept] for text, n in terms.items() if n in found.regions}
        return self._hits(ids, (1 - truths).tolist(), truths, weak, reasons, options.min_truth, places)

    def plan(
        self, query: BoundFormula, options: SearchOptions, where: ResolvedFilter, inputs: QueryInputs, top: int
    ) -> ConditionPlan:
        """Return what shards are asked for a condition."""
        regions = self._region_inputs(inputs)
        terms = self._term_vectors(options).terms_of(query, inputs.values, regions, self._half)
        wholes = [term.whole for term in terms if term.whole is not None]
        in_regions = [term.region for term in terms if term.region is not None]
        return ConditionPlan(
            query.formula,
            tuple(terms),
            self._whole_scale(torch.stack(wholes)) if wholes else None,
            self._region_scale(torch.stack(in_regions)) if in_regions else None,
            options.logic or "product",
            top,
            where,
        )

    def _half(self, term: Term) -> float:
        assert term.word is not None, "only words have a half"
        return self.words.half(term.word)

    def _weak_truth(self, plan: ConditionPlan, images: int) -> float:
        """Return the truth of the positive terms that the best of so many unrelated images may reach; 0 without any.

        A word's truth stands for itself. Where a condition cannot be true without a word that is likely in no image,
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
        reached = [_HALF if term.whole is None else chance_level(images, count) for term in plan.terms]
        return float(positive_truth(formula, [torch.tensor(truth) for truth in reached], plan.logic))

    def _region_inputs(self, inputs: QueryInputs) -> RegionInputs | None:
        """Return what terms are compared by in regions, if there are any: these have a head of their own."""
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
            return no_reasons(ids)
        terms = self._evaluate([BoundFormula(term, _named_in(term, query)) for term in positive], options, values)
        directions = normalize(self._projector.components.remove_mean(terms.degrees), dim=-1)
        return self._explainer.explain(normalize(directions.mean(0), dim=0), ids, SCORES["degrees"])

    # --- codes and scales -------------------------------------------------------------------------------------------

    def _term_vectors(self, options: SearchOptions) -> TermVectors:
        def find(vectors: Tensor, top: int) -> Nearest:
            return merge_nearest(self.shards.map("nearest", VectorPlan(vectors, top)), top)

        return TermVectors(self._projector.components, Neighbours(len(self.table), find, self._codes), options)

    def _codes(self, ids: np.ndarray) -> Tensor:
        """Return the codes `(n, d)` int8 of images, in the order given."""
        found = merge_samples(self.shards.map("sample", np.unique(ids), False))
        return found.codes[torch.from_numpy(np.searchsorted(found.ids, ids))]

    def _whole_scale(self, vectors: Tensor) -> Scale:
        """Return how similar the images of the gallery are to vectors `(Q, d)`."""
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
        weak: np.ndarray,
        reasons: Sequence[tuple[Reason, ...]],
        min_truth: float,
        places: Mapping[str, np.ndarray] | None = None,
    ) -> list[Hit]:
        kept = np.flatnonzero(truths >= min_truth)
        records = self.table.get_many(ids[kept])
        words = self.words.describe(ids[kept])
        return [
            Hit(
                record.path,
                distances[place],
                record.id,
                reasons[place],
                record.taken_at.isoformat(),
                record.taken_from,
                float(truths[place]),
                bool(weak[place]),
                tuple(self._places(record, {term: int(found[place]) for term, found in (places or {}).items()})),
                words_in(shown),
            )
            for place, record, shown in zip(kept.tolist(), records, words, strict=True)
        ]

    def _places(self, record: ImageRecord, regions: Mapping[str, int]) -> Iterator[TermBox]:
        """Yield the boxes of terms in an image, by the indexes of its regions; none for -1."""
        for term, index in regions.items():
            if index >= 0:
                yield TermBox(term, box_in_image(self._boxes[index], record, self.model.recipe.fit))

    @cached_property
    def _boxes(self) -> list[Box]:
        """The boxes of all regions, as fractions of what the backbone sees."""
        grid = self.table.state.grid
        return [] if grid is None else [window.box(*grid) for window in windows_of(*grid)]

    def near_copies(self, ids: Sequence[int]) -> list[int | None]:
        """Return for each image the first earlier one of the list that it nearly equals."""
        if not ids:
            return []
        rows = np.array(ids, np.int64)

        def degrees(doubtful: np.ndarray) -> Tensor:
            return degrees_of(self.model, torch.from_numpy(self.table.activations(rows[doubtful])))

        return [None if place is None else ids[place] for place in stacked_on(self._codes(rows), degrees)]


Box = tuple[float, float, float, float]


def box_in_image(box: Box, record: ImageRecord, fit: str) -> Box:
    """Return a box of what the backbone saw, as fractions of the upright image.

    The backbone sees the center square of an image, or all of it: the recipe's `fit`.
    """
    left, top, right, bottom = box
    if fit != "crop":
        return box
    side = min(record.width, record.height)
    across, down = side / record.width, side / record.height
    start, above = (1 - across) / 2, (1 - down) / 2
    return start + left * across, above + top * down, start + right * across, above + bottom * down


def _kept(ids: np.ndarray, left_out: set[int], top: int) -> list[int]:
    """Return the places of the first images that are not left out."""
    return [place for place, identity in enumerate(ids.tolist()) if identity not in left_out][:top]


def _own_ids(query: Query, options: SearchOptions) -> set[int]:
    """Return the images that are left out of the hits: those that a formula names, or names crops of."""
    if options.include_queries or not isinstance(query, BoundFormula):
        return set()
    return {thing.id for thing in query.named.values() if thing.id is not None}


def _named_in(term: Formula, query: BoundFormula) -> dict[str, Binding]:
    return {key: query.named[key] for key in map(key_of, term.atoms)}


def _distance(score: object, value: float) -> float:
    """Return the distance that an inner product stands for; of rounded vectors it may be a little above 1."""
    return max(0.0, 1 - value) if score in ("degrees", "containment", CENTERED) else -value
