"""From formulas to hits, in one state of a gallery."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..logic import Formula, FormulaError, Representation
from ..logic.distance import SCORES, Distance, Score
from .browsing import Browser
from .digests import digest_of
from .engines import Engine, Exact, MakeEngine
from .engines.exact import search_by
from .errors import GalleryError
from .filters import Selection
from .names import Named, Names, Resolved
from .options import CENTRED, SearchOptions, Where
from .records import Entry, Origin, Picture, Records
from .vectors import MANY, Computed, Degrees, Sources, Stored, Vectors, evenly

Query = Resolved | Representation

# Degrees that differ by less, relative to themselves, are equal but for their rounding.
_ROUNDING: Final = 1e-6
_REASONS: Final = 5
_SHOWN_BY: Final = 3
# Pictures that stand for the average one, and rows that are looked at together.
_SAMPLE: Final = 512
_BLOCK: Final = 8192


@dataclass(frozen=True)
class Reason:
    """A feature that carried a match: what it gave to the score beyond what it gives to the gallery's average picture.

    `shown_by` are the pictures of the gallery with the highest degrees of it.
    """

    feature: int
    contribution: float
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """A picture that was found. Smaller distances are nearer, whatever the score.

    `taken` is its date, as "2024-05-31T18:00:00"; `taken_from` is "camera" if the camera noted it, "file" where there
    is only the time of the file, and "unknown" in galleries of version 0.1 that were not indexed since.
    """

    path: str
    distance: float
    id: int
    why: tuple[Reason, ...] = field(default=())
    taken: str = ""
    taken_from: Origin = "unknown"


ReasonsOf = Callable[[int, np.ndarray], list[tuple[Reason, ...]]]
"""For a query, by its number, and rows that it found: why."""


class EmptyQueryError(FormulaError):
    """A query that is like no picture more than like any other."""

    def __init__(self, text: str) -> None:
        super().__init__("nothing is left to look for: this has no feature more than any other", text, 0)

    def __reduce__(self) -> tuple[type["EmptyQueryError"], tuple[str]]:  # type: ignore[override]
        return type(self), (self.text,)


class Searcher:
    """One state of a gallery, ready to be searched."""

    def __init__(self, sources: Sources, make_engine: MakeEngine) -> None:
        self._sources, self._make_engine = sources, make_engine
        self._records: Records = sources.snapshot
        self._names = Names(self._records)
        self.degrees = Degrees(sources)
        self._engines: dict[str, tuple[Vectors, Engine]] = {}
        self._most: dict[int, tuple[str, ...]] = {}
        self._everything = self._select(None)

    def resolve(self, formula: Formula, given: Collection[str] | None = None) -> Resolved:
        """A formula with what its names stand for."""
        return self._names.resolve(formula, given)

    def browse(self) -> Browser:
        """The same state, to look around in."""
        return Browser(self._sources, self.degrees)

    def search(
        self, queries: Sequence[Query], options: SearchOptions, pictures: Mapping[str, Representation]
    ) -> list[list[Hit]]:
        """The hits of each query, all found by one call of the engine."""
        named = [query.named if isinstance(query, Resolved) else {} for query in queries]
        selection = self._everything if options.where == Where() else self._select(options.where)
        if not queries:
            return []
        evaluated = self._evaluate(queries, options, pictures)
        _refuse_empty(queries, evaluated, options.score)
        # The pictures of a formula are left out of its own hits; so more are asked for.
        own = [{thing.id for thing in things.values()} - {None} for things in named]
        spare = 0 if options.include_queries else max(map(len, own))
        rows, scores, reasons_of = self._nearest(evaluated, options.score, options.top + spare, selection)
        found = self._records.ids_of_rows(rows)
        results = []
        for query, left_out in enumerate(own):
            if options.include_queries:
                left_out = set()
            places = [place for place, identity in enumerate(found[query].tolist()) if identity not in left_out]
            places = places[: options.top]
            why = reasons_of(query, rows[query, places]) if options.why else [()] * len(places)
            results.append(
                [
                    self._hit(int(found[query, place]), _distance(options.score, float(scores[query, place])), reasons)
                    for place, reasons in zip(places, why, strict=True)
                ]
            )
        return results

    @property
    def kept_scores(self) -> list[str]:
        """Degrees, and those whose vectors are on disk."""
        return [score for score in SCORES if score == "degrees" or Stored(self._sources, score).is_kept]

    def prepare(self, score: str) -> None:
        """Brings the engine of a score up to date. Only for who holds the gallery's lock."""
        with suppress(OSError):  # all works without, but slower
            self.degrees.extend()
        self._engine(score)[1].prepare()

    def _hit(self, identity: int, distance: float, reasons: tuple[Reason, ...]) -> Hit:
        entry = self._entry(identity)
        return Hit(entry.picture.path, distance, identity, reasons, entry.taken_at.isoformat(), entry.taken_from)

    def _entry(self, identity: int) -> Entry:
        entry = self._records.entry(identity)
        assert entry is not None, "an engine finds rows of pictures only"
        return entry

    def _nearest(
        self, queries: Representation, score: str | Score | Distance, top: int, selection: Selection
    ) -> tuple[np.ndarray, np.ndarray, ReasonsOf]:
        """The best rows of each query and their scores, `(Q, k)` each, and what tells why."""
        if not isinstance(score, str | Score):
            return *search_by(score, queries, top, selection.rows, self._sources), _no_reasons
        asking = self._asking(queries, score)
        vectors, engine = self._engine(score) if isinstance(score, str) else self._own_engine(score, asking.shape[1])
        found = engine.search(asking, top, selection)
        return *found, lambda query, rows: self._why(asking[query], rows, vectors)

    def _select(self, where: Where | None) -> Selection:
        return Selection(self._sources.snapshot, where)

    def _own_engine(self, score: Score, dimensions: int) -> tuple[Vectors, Engine]:
        vectors = Computed(self._sources, score, dimensions)
        return vectors, Exact(vectors)

    def _engine(self, score: str) -> tuple[Vectors, Engine]:
        if score not in self._engines:
            stored = self.degrees if score in ("degrees", CENTRED) else Stored(self._sources, score)
            vectors = Vectors(self._sources, stored)
            # What other engines find is measured with the queries of the other scores.
            self._engines[score] = vectors, Exact(vectors) if score == CENTRED else self._make_engine(vectors)
        return self._engines[score]

    def _asking(self, queries: Representation, score: str | Score) -> Tensor:
        """The vectors of queries, `(Q, D)`."""
        if score == CENTRED:
            return self._centred(queries)
        return (SCORES[score] if isinstance(score, str) else score).query(queries).float()

    def _centred(self, queries: Representation) -> Tensor:
        directions = SCORES["degrees"].query(queries).float()
        return normalize(directions - (directions @ self._mean)[:, None] * self._mean, dim=1)

    @cached_property
    def _mean(self) -> Tensor:
        """The direction of the mean of all pictures, or of many of them."""
        sample = evenly(self._everything.rows, MANY)
        return normalize(self._engine(CENTRED)[0].take(sample).mean(0), dim=0)

    def _evaluate(
        self, queries: Sequence[Query], options: SearchOptions, pictures: Mapping[str, Representation]
    ) -> Representation:
        """The representation of each query, `(Q, N, M)`; a picture in several of them is looked at once."""
        resolved = [query for query in queries if isinstance(query, Resolved)]
        things = list(dict.fromkeys(thing for query in resolved for thing in query.named.values()))
        given = {Named(name, None): picture for name, picture in pictures.items()}
        files = [thing for thing in things if thing not in given]
        representations = {**given, **(dict(zip(files, self.represent(files), strict=True)) if files else {})}
        return Representation.stack(
            [
                query.formula.evaluate(
                    {name: representations[thing] for name, thing in query.named.items()},
                    options.semantics,
                    options.logic,
                )
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

    def represent(self, things: Sequence[Named]) -> Representation:
        """Pictures outside are encoded, but for copies of what is in the gallery: the same picture, the same answer."""
        inside: Iterator[Representation]
        outside: Iterator[Representation]
        known = [self._known(thing) for thing in things]
        rows = np.array([picture.row for picture in known if picture is not None], np.int64)
        inside = outside = iter([])
        if len(rows):
            inside = iter(self._sources.represent(rows))
        paths = [thing.path for thing, picture in zip(things, known, strict=True) if picture is None]
        if paths:
            outside = map(self._sources.encode_file, paths)
        return Representation.stack([next(outside if picture is None else inside) for picture in known])

    def _known(self, thing: Named) -> Picture | None:
        """The picture of the gallery that it is, or that has the same content."""
        if thing.id is not None:
            return self._entry(thing.id).picture
        return next((entry.picture for entry in self._records.with_digest(digest_of(thing.path))), None)

    def _why(self, query: Tensor, rows: np.ndarray, vectors: Vectors) -> list[tuple[Reason, ...]]:
        """For each row the features that carried its match."""
        if not len(rows):
            return []
        used = self._everything.rows
        sample = evenly(used, _SAMPLE)
        order = np.argsort(rows)
        hits = vectors.take(rows[order])[np.argsort(order)]
        beyond = query * (hits - vectors.take(sample).mean(0))
        if beyond.shape[1] % self._sources.model.num_features:
            raise GalleryError(
                "why cannot be told by this score: its vectors have not as many numbers for each feature"
            )
        given = beyond.view(len(rows), self._sources.model.num_features, -1).sum(-1)
        values, features = given.topk(min(_REASONS, given.shape[1]), dim=1)
        shown_by = self._shown_by(np.unique(features.numpy()), used)
        return [
            tuple(
                Reason(feature, value, shown_by[feature])
                for value, feature in zip(of_hit, features[number].tolist(), strict=True)
                if value > 0
            )
            for number, of_hit in enumerate(values.tolist())
        ]

    def _shown_by(self, features: np.ndarray, used: np.ndarray) -> dict[int, tuple[str, ...]]:
        """The paths of the pictures with the highest degree of each feature, looked for once."""
        best: list[tuple[float, int]]
        features = np.array([feature for feature in features.tolist() if feature not in self._most], np.int64)
        candidates: dict[int, list[tuple[float, int]]] = {feature: [] for feature in features.tolist()}
        for start in range(0, len(used) if len(features) else 0, _BLOCK):
            rows = used[start : start + _BLOCK]
            degrees = self.degrees.of_features(rows, features)
            for column, feature in enumerate(features.tolist()):
                best = candidates[feature]
                top = np.argsort(-degrees[:, column], kind="stable")[:_SHOWN_BY]
                best += [(-float(degrees[place, column]), int(rows[place])) for place in top]
                best.sort()
                del best[_SHOWN_BY:]
        for feature, best in candidates.items():
            ids = self._records.ids_of_rows(np.array([row for _, row in best], np.int64))
            self._most[feature] = tuple(self._entry(identity).picture.path for identity in ids.tolist())
        return self._most


def _no_reasons(_: int, rows: np.ndarray) -> list[tuple[Reason, ...]]:
    return [()] * len(rows)


def _refuse_empty(queries: Sequence[Query], evaluated: Representation, score: object) -> None:
    """An EmptyQueryError for what the same pictures, or arbitrary ones, would be the hits of, whatever was asked.

    A query without a feature, such as `a - a`, is at one distance from all pictures by degrees and by containment, and
    by cross-entropy nearest to those that have least. One with all features alike has no direction either.
    """
    most, least = evaluated.degrees.amax(-1), evaluated.degrees.amin(-1)
    alike = most - least if score in ("degrees", CENTRED) else most
    for query, is_empty in zip(queries, (alike <= _ROUNDING * most).tolist(), strict=True):
        if is_empty:
            raise EmptyQueryError(query.formula.text if isinstance(query, Resolved) else repr(query))


def _distance(score: object, value: float) -> float:
    """The distance that an inner product stands for; of rounded vectors it may be a little above 1."""
    return max(0.0, 1 - value) if score in ("degrees", "containment", CENTRED) else -value
