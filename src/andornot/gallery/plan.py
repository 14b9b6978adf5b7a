"""What shards are asked and answer: small values that can be sent to another machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..logic import Formula, Representation
from ..logic.distance import Distance, Score
from ..similarity import Scale
from ..words import Meaning
from .filters import EVERYTHING, ResolvedFilter

# Columns whose maxima are compared first.
_GROUP: Final = 256


@dataclass(frozen=True)
class Term:
    """What a term asks of an image: to be like `whole` `(d,)`, to have a region like `region` `(r,)`, or a word.

    One with both vectors is looked for in regions where an image has them. A word is half true at the support `half`.
    `own` are the ids of the images it is made of.
    """

    whole: Tensor | None = None
    region: Tensor | None = None
    word: Meaning | None = None
    half: float = 0.0
    own: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ConditionPlan:
    """A condition to be searched for. Scales are those of terms with vectors, in their order."""

    formula: Formula
    terms: tuple[Term, ...]
    whole_scale: Scale | None
    region_scale: Scale | None
    logic: str
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class VectorPlan:
    """Unit vectors `(Q, d)` whose nearest images, by the codes of whole images, are searched for."""

    vectors: Tensor
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class ScorePlan:
    """Representations `(Q, N, M)` whose nearest images by another score are searched for."""

    queries: Representation
    score: str | Score | Distance
    top: int
    filter: ResolvedFilter = EVERYTHING


@dataclass(frozen=True)
class Matches:
    """The truest images `(k,)` by id, their truths, and the truths without negated terms.

    `regions` has, for each term that is looked for in regions, the index of each image's best region; -1 for an image
    without regions.
    """

    ids: np.ndarray
    truths: np.ndarray
    positive: np.ndarray
    regions: Mapping[int, np.ndarray] = field(default_factory=dict)


class Nearest(NamedTuple):
    """The ids `(Q, k)` of the nearest images of each query, and their scores, best first."""

    ids: np.ndarray
    scores: np.ndarray


class SampleRows(NamedTuple):
    """The codes of some images: `(n, d)` of wholes, and `(n, R, r)` of regions, if asked for, with who has any."""

    ids: np.ndarray
    codes: Tensor
    regions: Tensor | None
    has_regions: np.ndarray | None


def merge_nearest(parts: list[Nearest], top: int) -> Nearest:
    """Return the best of several answers; of equal scores the lower id is first."""
    ids = np.concatenate([part.ids for part in parts], 1)
    scores = np.concatenate([part.scores for part in parts], 1)
    order = np.lexsort((ids, -scores))[:, :top]
    return Nearest(np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1))


def merge_matches(parts: list[Matches], top: int) -> Matches:
    """Return the best of several answers; of equal truths the lower id is first."""
    ids = np.concatenate([part.ids for part in parts])
    truths = np.concatenate([part.truths for part in parts])
    order = np.lexsort((ids, -truths))[:top]
    regions = {
        number: np.concatenate([part.regions.get(number, np.full(len(part.ids), -1)) for part in parts])[order]
        for number in {number: None for part in parts for number in part.regions}
    }
    return Matches(ids[order], truths[order], np.concatenate([part.positive for part in parts])[order], regions)


def merge_samples(parts: list[SampleRows]) -> SampleRows:
    """Return the rows of several shards, in the order of their ids."""
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
        """The score that an image must reach to be among the best of one query."""
        return float(self.scores[0, -1]) if self.scores.shape[1] == self._top else -math.inf

    def add(self, ids: np.ndarray, scores: Tensor) -> None:
        """Take more images `(n,)`, whose ids ascend, with their scores `(Q, n)`."""
        if not len(ids):
            return
        values, places = largest(scores, min(self._top, len(ids)))
        all_ids = np.concatenate([self.ids, ids[places.numpy()]], 1)
        all_scores = np.concatenate([self.scores, values.numpy()], 1)
        order = np.lexsort((all_ids, -all_scores))[:, : self._top]
        self.ids, self.scores = (np.take_along_axis(values, order, 1) for values in (all_ids, all_scores))


def largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Return the largest of each row and their columns, `(Q, top)` each; of equal ones those of the lowest columns."""
    values, places = _some_largest(scores, min(top + 1, scores.shape[1]))
    # Where the first that is left out equals the last that is not, others may be equal too.
    for query in (values[:, top:] == values[:, top - 1 : top]).any(1).nonzero()[:, 0].tolist():
        least = values[query, top - 1]
        above, equal = ((scores[query] > least).nonzero()[:, 0], (scores[query] == least).nonzero()[:, 0])
        places[query, :top] = torch.cat([above, equal])[:top]
        values[query, :top] = scores[query, places[query, :top]]
    return values[:, :top], places[:, :top]


def _some_largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """Do what `scores.topk(top, dim=1)` does, in a tenth of the time if there are many columns.

    The best of all are in the groups of columns with the largest maxima, as many groups as are asked for.
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
