"""Compares a query with every picture, some at a time, so that memory does not grow with the gallery."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..filters import Selection
from ..vectors import Vectors

# Vectors that are multiplied at once stay in the cache; the best are chosen from the scores of many such blocks.
_BLOCK_BYTES: Final = 2**22
_SCORES_BYTES: Final = 2**25
_GROUP: Final = 256


class Exact:
    """All inner products, block by block."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._block = max(1, _BLOCK_BYTES // (4 * vectors.dimensions))

    def prepare(self) -> None:
        """Keeps the vectors on disk, or the model's head has to make them for every search."""
        self._vectors.store()

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`."""
        return self.search_rows(queries, top, selection.rows)

    def search_rows(self, queries: Tensor, top: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same among some rows, which ascend."""
        top = min(top, len(rows))
        span = self._block * max(1, _SCORES_BYTES // (4 * len(queries) * self._block))
        best_scores = torch.empty(len(queries), 0)
        best_rows = torch.empty(len(queries), 0, dtype=torch.int64)
        # One memory for all: fresh one for each block costs as much as the product.
        block = torch.empty(min(self._block, len(rows)), self._vectors.dimensions)
        scores = torch.empty(len(queries), min(span, len(rows)))
        for start in range(0, len(rows), span):
            chosen = rows[start : start + span]
            for place in range(0, len(chosen), self._block):
                vectors = self._vectors.take(chosen[place : place + self._block], block)
                scores[:, place : place + len(vectors)] = queries @ vectors.T
            values, places = largest(scores[:, : len(chosen)], min(top, len(chosen)))
            best_scores = torch.cat([best_scores, values], 1)
            best_rows = torch.cat([best_rows, torch.from_numpy(chosen)[places]], 1)
            if best_scores.shape[1] > top:
                best_scores, kept = best_scores.topk(top, dim=1)
                best_rows = best_rows.gather(1, kept)
        return best_first(best_rows.numpy(), best_scores.numpy())

    def best_of(self, query: Tensor, rows: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """The best of some rows for one query `(D,)`, at most `top`, and their scores: what other engines end with."""
        rows = np.sort(rows)
        scores = (self._vectors.take(rows) @ query).numpy()
        best = np.lexsort((rows, -scores))[:top]
        return rows[best], scores[best]


def largest(scores: Tensor, top: int) -> tuple[Tensor, Tensor]:
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
