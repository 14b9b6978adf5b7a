"""Compares a query with every picture, some at a time, so that memory does not grow with the gallery."""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ...logic import Representation
from ...logic.distance import Distance
from ..errors import GalleryError
from ..filters import Selection
from ..vectors import Sources, Vectors

# Vectors that are multiplied at once stay in the cache; the best are chosen from the scores of many such blocks.
_BLOCK_BYTES: Final = 2**22
_SCORES_BYTES: Final = 2**25
_GROUP: Final = 256
# The last rows of a product are rounded in another way, unless there are a multiple of these.
_ROWS_ALIKE: Final = 16
# Pictures whose whole distributions are in memory at once.
_COMPARED_AT_ONCE: Final = 256


class Best:
    """The best rows of each query so far, and their scores, `(Q, k)` each: what a comparison block by block keeps."""

    def __init__(self, queries: int, top: int) -> None:
        self.rows, self.scores = np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32)
        self._top = top

    @property
    def last(self) -> float:
        """The score of one query that a row must reach to be among its best."""
        return float(self.scores[0, -1]) if self.scores.shape[1] == self._top else -math.inf

    def add(self, rows: np.ndarray, scores: Tensor) -> None:
        """Looks at more rows `(n,)`, which ascend, with their scores `(Q, n)`."""
        values, places = largest(scores, min(self._top, len(rows)))
        found, values_found = best_first(
            np.concatenate([self.rows, rows[places.numpy()]], 1), np.concatenate([self.scores, values.numpy()], 1)
        )
        self.rows, self.scores = found[:, : self._top], values_found[:, : self._top]


class Exact:
    """All inner products, block by block."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._block = _BLOCK_BYTES // (4 * vectors.dimensions)

    def prepare(self) -> None:
        """Keeps the vectors on disk, or the model's head has to make them for every search."""
        self._vectors.store()

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`."""
        return self.search_rows(queries, top, selection.rows)

    def search_rows(self, queries: Tensor, top: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same among some rows, which ascend."""
        top = min(top, len(rows))
        at_once = _alike(min(len(rows), self._block))
        span = at_once * max(1, _SCORES_BYTES // (4 * len(queries) * at_once))
        best = Best(len(queries), top)
        # One memory for all: fresh one for each block costs as much as the product. A block is multiplied whole, with
        # rows of nothing at its end, so that equal vectors have equal scores wherever they are.
        block = torch.zeros(at_once, self._vectors.dimensions)
        scores = torch.empty(len(queries), min(span, -(-len(rows) // at_once) * at_once))
        for start in range(0, len(rows), span):
            chosen = rows[start : start + span]
            for place in range(0, len(chosen), at_once):
                self._vectors.take(chosen[place : place + at_once], block)
                scores[:, place : place + at_once] = queries @ block.T
            best.add(chosen, scores[:, : len(chosen)])
        return best.rows, best.scores

    def best_of(self, query: Tensor, rows: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """The best of some rows for one query `(D,)`, at most `top`, and their scores: what other engines end with."""
        rows = np.sort(rows)
        block = torch.zeros(_alike(len(rows)), self._vectors.dimensions)
        self._vectors.take(rows, block)
        scores = (block @ query)[: len(rows)].numpy()
        best = np.lexsort((rows, -scores))[:top]
        return rows[best], scores[best]


def search_by(
    distance: Distance, queries: Representation, top: int, rows: np.ndarray, sources: Sources
) -> tuple[np.ndarray, np.ndarray]:
    """As `Engine.search`, by any function of queries `(Q, N, M)` and pictures; scores are distances below zero."""
    best_rows = np.empty((len(queries), 0), np.int64)
    best_scores = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(rows), _COMPARED_AT_ONCE):
        chosen = rows[start : start + _COMPARED_AT_ONCE]
        found = distance(queries, sources.represent(chosen))
        if found.shape != (len(queries), len(chosen)):
            raise GalleryError(
                f"a score takes queries (Q, N, M) and pictures (G, N, M) to distances (Q, G): this one made "
                f"{tuple(found.shape)} of Q = {len(queries)} and G = {len(chosen)}"
            )
        best_rows, best_scores = best_first(
            np.concatenate([best_rows, np.broadcast_to(chosen, found.shape)], 1),
            np.concatenate([best_scores, -found.float().numpy()], 1),
        )
        best_rows, best_scores = best_rows[:, :top], best_scores[:, :top]
    return best_rows, best_scores


def _alike(rows: int) -> int:
    """So many rows, or a few more, whose products are all rounded in the same way."""
    return max(1, -(-rows // _ROWS_ALIKE)) * _ROWS_ALIKE


def largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The largest of each row and their columns, `(Q, top)` each; of equal ones those of the lowest columns."""
    values, places = _some_largest(scores, min(top + 1, scores.shape[1]))
    # Where the first that is left out is as large as the last that is not, others may be as large too.
    for query in (values[:, top:] == values[:, top - 1 : top]).any(1).nonzero()[:, 0].tolist():
        least = values[query, top - 1]
        above, equal = ((scores[query] > least).nonzero()[:, 0], (scores[query] == least).nonzero()[:, 0])
        places[query, :top] = torch.cat([above, equal])[:top]
        values[query, :top] = scores[query, places[query, :top]]
    return values[:, :top], places[:, :top]


def _some_largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """As `scores.topk(top, dim=1)`, in a tenth of the time if there are many columns.

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


def best_first(rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both `(Q, k)` in order of the scores; of equal ones the lower row is first."""
    order = np.lexsort((rows, -scores))
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
