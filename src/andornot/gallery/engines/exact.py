"""Compares a query with every picture, some at a time, so that memory does not grow with the gallery."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..filters import Selection
from ..vectors import Vectors

_BLOCK_BYTES: Final = 2**23


class Exact:
    """All inner products, block by block. Nothing is prepared and nothing kept."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._block = max(1, _BLOCK_BYTES // (4 * vectors.dimensions))

    def prepare(self) -> None:
        """Nothing is needed."""

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`."""
        rows = selection.rows
        top = min(top, len(rows))
        best_scores = torch.empty(len(queries), 0)
        best_rows = torch.empty(len(queries), 0, dtype=torch.int64)
        # One block for all: fresh memory for each costs as much as the product.
        block = torch.empty(min(self._block, len(rows)), self._vectors.dimensions)
        for start in range(0, len(rows), self._block):
            chosen = rows[start : start + self._block]
            scores = queries @ self._vectors.take(chosen, block).T
            values, places = scores.topk(min(top, len(chosen)), dim=1)
            best_scores = torch.cat([best_scores, values], 1)
            best_rows = torch.cat([best_rows, torch.from_numpy(chosen)[places]], 1)
            if best_scores.shape[1] > top:
                best_scores, kept = best_scores.topk(top, dim=1)
                best_rows = best_rows.gather(1, kept)
        order = np.lexsort((best_rows.numpy(), -best_scores.numpy()))
        return np.take_along_axis(best_rows.numpy(), order, 1), np.take_along_axis(best_scores.numpy(), order, 1)
