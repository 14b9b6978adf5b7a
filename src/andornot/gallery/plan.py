"""Requests to shards and their answers: small values that can be sent to another machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..concepts import Meaning
from ..logic import Formula, Representation
from ..logic.distance import Distance, Score
from ..similarity import Scale
from .filters import EVERYTHING, ResolvedFilter

# Columns whose maxima are compared first.
_GROUP: Final = 256


@dataclass(frozen=True)
class Term:
    """A term of a condition: a vector `whole` `(d,)` of an image, a vector `region` `(r,)` of a region, or a word.

    A term with both vectors is searched in the regions of images that have regions. A word has truth 0.5 at the support
    `half`. `own` are the ids of the term's images, `examples` is their number. A negated term is true only where it
    stands out more than the terms that it is `relative_to`.
    """

    whole: Tensor | None = None
    region: Tensor | None = None
    word: Meaning | None = None
    half: float = 0.0
    own: frozenset[int] = frozenset()
    examples: int = 1
    relative_to: tuple[int, ...] = ()


@dataclass(frozen=True)
class ConditionPlan:
    """A search for a condition. The scales belong to the terms with vectors, in their order."""

    formula: Formula
    terms: tuple[Term, ...]
    whole_scale: Scale | None
    region_scale: Scale | None
    logic: str
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class VectorPlan:
    """A search for the images nearest to unit vectors `(Q, d)`, by the codes of whole images."""

    vectors: Tensor
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class ScorePlan:
    """A search for the images nearest to representations `(Q, N, M)`, by another score."""

    queries: Representation
    score: str | Score | Distance
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class Matches:
    """Ids `(k,)` of the truest images, their truths, truths without negated terms, and truths per term `(T, k)`.

    `regions` has, for each term that is searched in regions, the index of each image's best region; -1 for an image
    without regions.
    """

    ids: np.ndarray
    truths: np.ndarray
    positive: np.ndarray
    terms: np.ndarray
    regions: Mapping[int, np.ndarray] = field(default_factory=dict)


class Nearest(NamedTuple):
    """The ids `(Q, k)` of the nearest images of each query, and their scores, best first."""

    ids: np.ndarray
    scores: np.ndarray


class SampleRows(NamedTuple):
    """Codes of sampled images: `(n, d)` of whole images and, if requested, `(n, R, r)` of regions with a mask."""

    ids: np.ndarray
    codes: Tensor
    regions: Tensor | None
    has_regions: np.ndarray | None


def merge_nearest(parts: list[Nearest], top: int) -> Nearest:
    """Return the best of several answers; ties are broken by the lower id."""
    ids = np.concatenate([part.ids for part in parts], 1)
    scores = np.concatenate([part.scores for part in parts], 1)
    order = np.lexsort((ids, -scores))[:, :top]
    return Nearest(np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1))


def merge_matches(parts: list[Matches], top: int) -> Matches:
    """Return the best of several answers; ties are broken by the lower id."""
    ids = np.concatenate([part.ids for part in parts])
    truths = np.concatenate([part.truths for part in parts])
    order = np.lexsort((ids, -truths))[:top]
    regions = {
        number: np.concatenate([part.regions.get(number, np.full(len(part.ids), -1)) for part in parts])[order]
        for number in {number: None for part in parts for number in part.regions}
    }
    positive = np.concatenate([part.positive for part in parts])[order]
    terms = np.concatenate([part.terms for part in parts], 1)[:, order]
    return Matches(ids[order], truths[order], positive, terms, regions)


def merge_samples(parts: list[SampleRows]) -> SampleRows:
    """Return the rows of several shards, ordered by id."""
    ids = np.concatenate([part.ids for part in parts])
    order = np.argsort(ids, kind="stable")
    by_id = torch.from_numpy(order)
    regions = [part.regions for part in parts if part.regions is not None]
    has = [part.has_regions for part in parts if part.has_regions is not None]
    return SampleRows(
        ids[order],
        torch.cat([part.codes for part in parts])[by_id],
        torch.cat(regions)[by_id] if regions else None,
        np.concatenate(has)[order] if has else None,
    )


class Best:
    """The best images of each query so far, by id, and their scores, `(Q, k)` each."""

    def __init__(self, queries: int, top: int) -> None:
        self.ids, self.scores = np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32)
        self._top = top

    @property
    def last(self) -> float:
        """The score that an image must reach to be among the best; for a single query."""
        return float(self.scores[0, -1]) if self.scores.shape[1] == self._top else -math.inf

    def add(self, ids: np.ndarray, scores: Tensor) -> None:
        """Add images with ascending ids `(n,)` and their scores `(Q, n)`."""
        if not len(ids):
            return
        values, places = largest(scores, min(self._top, len(ids)))
        all_ids = np.concatenate([self.ids, ids[places.numpy()]], 1)
        all_scores = np.concatenate([self.scores, values.numpy()], 1)
        order = np.lexsort((all_ids, -all_scores))[:, : self._top]
        self.ids, self.scores = (np.take_along_axis(values, order, 1) for values in (all_ids, all_scores))


def largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Return the largest values of each row and their columns, `(Q, top)` each; ties prefer lower columns."""
    values, places = _some_largest(scores, min(top + 1, scores.shape[1]))
    # If the first value left out equals the last one kept, there may be more ties.
    for query in (values[:, top:] == values[:, top - 1 : top]).any(1).nonzero()[:, 0].tolist():
        least = values[query, top - 1]
        above, equal = ((scores[query] > least).nonzero()[:, 0], (scores[query] == least).nonzero()[:, 0])
        places[query, :top] = torch.cat([above, equal])[:top]
        values[query, :top] = scores[query, places[query, :top]]
    return values[:, :top], places[:, :top]


def _some_largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Compute `scores.topk(top, dim=1)`, ten times faster if there are many columns.

    The `top` largest values are in the `top` groups of columns with the largest maxima.
    """
    groups = scores.shape[1] // _GROUP
    if groups <= 2 * top:
        values, places = scores.topk(top, dim=1)
        return values, places
    grouped = scores[:, : groups * _GROUP].view(len(scores), groups, _GROUP)
    chosen = grouped.amax(-1).topk(top, dim=1).indices[:, :, None]
    columns = (chosen * _GROUP + torch.arange(_GROUP)).flatten(1)
    behind = torch.arange(groups * _GROUP, scores.shape[1]).expand(len(scores), -1)
    columns = torch.cat([columns, behind], 1)
    values, places = scores.gather(1, columns).topk(top, dim=1)
    return values, columns.gather(1, places)
