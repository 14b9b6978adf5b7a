"""From formulas to hits, in one state of a gallery."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..data import BrokenImageError
from ..data.decoding import measure
from ..logic import Formula, Representation
from ..logic.distance import SCORES, Distance, Score
from .asking import Asking, InRegions, Values, evaluate, is_word, refuse_empty
from .browsing import Browser
from .centred import Centred, CentredVectors
from .conditions import ConditionSearch, Term, Truths, truth_of_asked_for
from .engines import Engine, Exact, MakeEngine
from .engines.exact import search_by
from .errors import GalleryError
from .filters import Selection
from .hits import Hit, Place, Reason
from .likeness.products import similarities
from .likeness.truth import unrelated
from .looking import Looked, Looker
from .names import Kept, Named, Names, Resolved, key_of
from .options import CENTRED, SearchOptions, Where
from .postings import Evidence
from .reasons import Reasons, ReasonsOf, no_reasons
from .records import Records, entry_of
from .regions import Regions
from .stacking import stacked_on
from .vectors import Computed, Degrees, Sources, Stored, Vectors
from .vocabulary import Vocabulary
from .word_truths import WordTruths, nouns_in

Query = Resolved | Representation

# The truth of a word from which on it is not weak.
_HALF: Final = 0.5


class Searcher:
    """One state of a gallery, ready to be searched."""

    def __init__(
        self,
        sources: Sources,
        make_engine: MakeEngine,
        regions: Regions | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        """`evidence`: what is kept of the classes of its pictures, which words need."""
        self._sources, self._make_engine, self._regions = sources, make_engine, regions
        self._records: Records = sources.snapshot
        self.vocabulary = Vocabulary(sources.folder, sources.model, evidence is not None)
        self.word_truths = WordTruths(sources, self.vocabulary, evidence)
        self._names = Names(self._records, sources.snapshot.definitions, self.vocabulary)
        self.degrees = Degrees(sources)
        self.centred = Centred(sources, self.degrees)
        self._degrees = Vectors(sources, self.degrees)
        self._engines: dict[str, tuple[Vectors, Engine]] = {}
        self._everything = self._select(None)
        self.looker = Looker(sources, self.vocabulary, self.word_truths)
        self.reasons = Reasons(sources, self.degrees, self.word_truths, self._everything)

    def resolve(self, formula: Formula, given: Collection[str] | None = None) -> Resolved:
        """A formula with what its names stand for."""
        return self._names.resolve(formula, given)

    def define(self, name: str, formula: Formula) -> Kept:
        """A formula as it is kept under a name."""
        return self._names.define(name, formula)

    def browse(self) -> Browser:
        """The same state, to look around in."""
        return Browser(self._sources, self.degrees)

    def search(
        self, queries: Sequence[Query], options: SearchOptions, pictures: Mapping[str, Representation]
    ) -> list[list[Hit]]:
        """The hits of each query; those of all terms are found by one call of the engine."""
        selection = self._everything if options.where == Where() else self._select(options.where)
        looked = self.looker.look([query for query in queries if isinstance(query, Resolved)], pictures)
        results: dict[int, list[Hit]] = {}
        terms: dict[int, Query] = {}
        for number, query in enumerate(queries):
            if isinstance(query, Resolved) and (query.formula.is_condition or is_word(query.formula, query.named)):
                results[number] = self._search_condition(query, options, selection, looked) if len(selection) else []
            else:
                terms[number] = query
        if terms:
            results.update(
                zip(terms, self._search_terms([*terms.values()], options, selection, looked.values), strict=True)
            )
        return [results[number] for number in range(len(queries))]

    def _search_terms(
        self, queries: Sequence[Query], options: SearchOptions, selection: Selection, values: Values
    ) -> list[list[Hit]]:
        evaluated = self._evaluate(queries, options, values)
        for query, degrees in zip(queries, evaluated.degrees, strict=True):
            text = query.asked.text if isinstance(query, Resolved) else repr(query)
            refuse_empty(text, degrees, needs_direction=options.score in ("degrees", CENTRED))
        if not len(selection):
            return [[] for _ in queries]
        wholes = self._wholes(queries, evaluated, options, values)
        # The pictures of a formula are left out of its own hits; so more are asked for.
        own = [_own_ids(query, options) for query in queries]
        found, scores, reasons_of = self._nearest(
            evaluated, wholes, options.score, options.top + max(map(len, own)), selection
        )
        scale = Truths([Term(whole) for whole in wholes], self.centred, self._everything).whole_scale
        alike = torch.from_numpy(scores) if options.score == CENTRED else self._alike(wholes, found)
        truths = scale.truth(alike).float().numpy()
        weak = unrelated(len(selection), 1)
        results = []
        for number, left_out in enumerate(own):
            kept = self._kept(found[number], left_out, options.top)
            rows, distances = found[number, kept], [_distance(options.score, float(scores[number, at])) for at in kept]
            reasons = reasons_of(number, rows) if options.why else no_reasons(number, rows)
            hits = map(
                self._hit,
                rows.tolist(),
                distances,
                truths[number, kept].tolist(),
                reasons,
                repeat(weak),
                self._words_of(rows),
            )
            results.append([hit for hit in hits if hit.truth >= options.min_truth])
        return results

    def _search_condition(
        self, query: Resolved, options: SearchOptions, selection: Selection, looked: Looked
    ) -> list[Hit]:
        formula, logic = query.formula, options.logic or "product"
        terms = self._asking(options).terms_of(query, looked.values, self._in_regions(looked))
        left_out = _own_ids(query, options)
        found = self._conditions.search(formula, terms, logic, options.top + len(left_out), selection)
        kept = self._kept(found.rows, left_out, options.top)
        rows, truths = found.rows[kept], found.truths[kept]
        reasons = self._why_condition(query, rows, options, looked.values) if options.why else no_reasons(0, rows)
        hits = map(
            self._hit, rows.tolist(), (1 - truths).tolist(), truths.tolist(), reasons, repeat(0.0), self._words_of(rows)
        )
        weak = found.asked_for[kept] < self._weak(formula, terms, logic, len(selection))
        asked_for = {
            query.called.get(str(term), str(term)): formula.terms.index(term) for term in formula.positive_terms
        }
        places = {text: found.places[number] for text, number in asked_for.items() if number in found.places}
        return [
            replace(hit, is_weak=is_weak, where=self._where(hit.path, {term: at[place] for term, at in places.items()}))
            for hit, is_weak, place in zip(hits, weak.tolist(), kept, strict=True)
            if hit.truth >= options.min_truth
        ]

    def _weak(self, formula: Formula, terms: Sequence[Term], logic: str, pictures: int) -> float:
        """The truth that the best of so many unrelated pictures may reach of what is asked for; 0 where nothing is.

        A word says by itself what is true. Where it cannot be without a word that is likely nowhere, all are weak.
        """
        asked_for = [formula.terms.index(term) for term in formula.positive_terms]
        if not asked_for:
            return 0.0
        may_be = [term.meaning is None or self.word_truths.may_be_seen(term.meaning) for term in terms]
        if not truth_of_asked_for(formula, [torch.tensor(float(truth)) for truth in may_be], logic):
            return math.inf
        count = sum(terms[number].whole is not None for number in asked_for)
        reached = [_HALF if term.whole is None else unrelated(pictures, count) for term in terms]
        return float(truth_of_asked_for(formula, [torch.tensor(truth) for truth in reached], logic))

    @property
    def _conditions(self) -> ConditionSearch:
        engine = self._engine(CENTRED)[1]
        return ConditionSearch(self.centred, engine, self._everything, self._regions, self.word_truths)

    def _in_regions(self, looked: Looked) -> InRegions | None:
        """What terms are asked by in regions, if there are any: they have a head of their own."""
        if self._regions is None:
            return None
        basis = self._regions.basis
        values = dict(looked.values)
        if looked.activations:
            seen = basis.represent(torch.stack([*looked.activations.values()]))
            values.update(zip(looked.activations, seen, strict=True))
        return InRegions(basis, values, self.centred.components.axes.T @ basis.components.axes)

    def _where(self, path: str, numbers: Mapping[str, int]) -> tuple[Place, ...]:
        """The places of terms in a picture, by the numbers of its regions; -1 for none."""
        found = {term: int(number) for term, number in numbers.items() if number >= 0}
        if not found or self._regions is None:
            return ()
        try:
            size = measure(path)
        except BrokenImageError:
            size = (1, 1)  # the file is gone: as if it were a square
        return tuple(Place(term, self._regions.box_in(number, *size)) for term, number in found.items())

    def _kept(self, rows: np.ndarray, left_out: set[int], top: int) -> list[int]:
        """The places of the first rows whose pictures are not left out."""
        ids = self._records.ids_of_rows(rows).tolist()
        return [place for place, identity in enumerate(ids) if identity not in left_out][:top]

    @property
    def kept_scores(self) -> list[str]:
        """Degrees, as they are and centred, and those whose vectors are on disk."""
        return [CENTRED, *(score for score in SCORES if score == "degrees" or Stored(self._sources, score).is_kept)]

    def prepare(self, score: str) -> None:
        """Brings the engine of a score up to date. Only for who holds the gallery's lock."""
        with suppress(OSError):  # all works without, but slower
            self.degrees.extend()
        self._engine(score)[1].prepare()

    def _words_of(self, rows: np.ndarray) -> Iterator[tuple[str, ...]]:
        return map(nouns_in, self.word_truths.describe(rows))

    def _hit(
        self,
        row: int,
        distance: float,
        truth: float,
        reasons: tuple[Reason, ...],
        weak: float,
        words: tuple[str, ...],
    ) -> Hit:
        identity = int(self._records.ids_of_rows(np.array([row]))[0])
        entry = entry_of(self._records, identity)
        return Hit(
            entry.picture.path,
            distance,
            identity,
            reasons,
            entry.taken_at.isoformat(),
            entry.taken_from,
            truth,
            truth < weak,
            words=words,
        )

    def _nearest(
        self, queries: Representation, wholes: Tensor, score: str | Score | Distance, top: int, selection: Selection
    ) -> tuple[np.ndarray, np.ndarray, ReasonsOf]:
        """The best rows of each query and their scores, `(Q, k)` each, and what tells why."""
        if not isinstance(score, str | Score):
            return *search_by(score, queries, top, selection.rows, self._sources), no_reasons
        if score == CENTRED:
            found = self._engine(CENTRED)[1].search(wholes, top, selection)
            beyond = normalize(self.centred.components.beyond_mean(queries.degrees), dim=-1)
            return *found, lambda query, rows: self.reasons.why(beyond[query], rows, self._degrees)
        asking = (SCORES[score] if isinstance(score, str) else score).query(queries).float()
        vectors, engine = self._engine(score) if isinstance(score, str) else self._own_engine(score, asking.shape[1])
        found = engine.search(asking, top, selection)
        return *found, lambda query, rows: self.reasons.why(asking[query], rows, vectors)

    def _select(self, where: Where | None) -> Selection:
        return Selection(self._sources.snapshot, where)

    def _own_engine(self, score: Score, dimensions: int) -> tuple[Vectors, Engine]:
        vectors = Computed(self._sources, score, dimensions)
        return vectors, Exact(vectors)

    def _engine(self, score: str) -> tuple[Vectors, Engine]:
        if score not in self._engines:
            if score == CENTRED:
                vectors: Vectors = CentredVectors(self._sources, self.centred)
            else:
                vectors = self._degrees if score == "degrees" else Vectors(self._sources, Stored(self._sources, score))
            self._engines[score] = vectors, self._make_engine(vectors)
        return self._engines[score]

    def _asking(self, options: SearchOptions) -> Asking:
        return Asking(self.centred, self._engine(CENTRED)[1], self._everything, options)

    def _wholes(
        self, queries: Sequence[Query], evaluated: Representation, options: SearchOptions, values: Values
    ) -> Tensor:
        """The components `(Q, d)` of queries that are terms."""
        wholes, asking = self.centred.components.project(evaluated.degrees), self._asking(options)
        for number, query in enumerate(queries):
            if isinstance(query, Resolved) and query.formula.examples:
                wholes[number] = asking.whole(query.formula, query.named, values)
        return wholes

    def _alike(self, wholes: Tensor, rows: np.ndarray) -> Tensor:
        """How alike some rows `(Q, k)` are to the query of theirs, `(Q, k)`."""
        pairs = zip(wholes, rows, strict=True)
        return torch.stack([similarities(self.centred.codes_of(found), whole[None])[0] for whole, found in pairs])

    def _evaluate(self, queries: Sequence[Query], options: SearchOptions, values: Values) -> Representation:
        """The representation of each query, `(Q, N, M)`."""
        return Representation.stack(
            [
                evaluate(query.formula, {key: values[thing] for key, thing in query.named.items()}, options)
                if isinstance(query, Resolved)
                else self._checked(query)
                for query in queries
            ]
        )

    def _checked(self, query: Representation) -> Representation:
        model = self._sources.model
        if query.probs.shape != (model.num_features, model.num_values):
            raise GalleryError(
                f"a query is one picture of this gallery's model, N={model.num_features} and M={model.num_values}; "
                f"this is {query}"
            )
        return query.detach().to("cpu", torch.float32)

    def near_copies(self, ids: Sequence[int]) -> list[int | None]:
        """For each picture the first earlier one of the list that it nearly equals."""
        if not ids:
            return []
        rows = self._records.rows_of(np.array(ids))
        places = stacked_on(
            self.centred.codes_of(rows), lambda doubtful: self._sources.represent(rows[doubtful]).degrees
        )
        return [None if place is None else ids[place] for place in places]

    def _why_condition(
        self, query: Resolved, rows: np.ndarray, options: SearchOptions, values: Values
    ) -> Sequence[tuple[Reason, ...]]:
        """For each row the features that carried its match with what is asked for."""
        asked_for = [term for term in query.formula.positive_terms if not is_word(term, query.named)]
        if not asked_for:
            return [()] * len(rows)
        terms = self._evaluate([Resolved(term, _named_in(term, query)) for term in asked_for], options, values)
        beyond = normalize(self.centred.components.beyond_mean(terms.degrees), dim=-1).mean(0)
        return self.reasons.why(normalize(beyond, dim=0), rows, self._degrees)


def _own_ids(query: Query, options: SearchOptions) -> set[int]:
    """The pictures that are to be left out of the hits: those that a formula names. A crop's picture is one of them."""
    if options.include_queries or not isinstance(query, Resolved):
        return set()
    return {thing.id for thing in query.named.values() if thing.id is not None}


def _named_in(term: Formula, query: Resolved) -> dict[str, Named]:
    return {key: query.named[key] for key in map(key_of, term.atoms)}


def _distance(score: object, value: float) -> float:
    """The distance that an inner product stands for; of rounded vectors it may be a little above 1."""
    return max(0.0, 1 - value) if score in ("degrees", "containment", CENTRED) else -value
