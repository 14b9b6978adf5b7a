"""Compares a query with the components of every picture, in integers: ten million take a second."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..centred import CentredVectors
from ..filters import Selection
from ..likeness.products import similarities
from ..vectors import Vectors
from .exact import Best, Exact, best_first

# Pictures whose components are in memory at once, and whose scores are, from which the best are chosen.
_BLOCK: Final = 2**16
_SCORES: Final = 2**20


class Scan:
    """All inner products of bytes, block by block."""

    def __init__(self, vectors: CentredVectors) -> None:
        self._centred = vectors.centred

    def prepare(self) -> None:
        """Keeps the components on disk."""
        self._centred.extend()

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`."""
        rows = selection.rows
        top = min(top, len(rows))
        best = Best(len(queries), top)
        span = max(1, _SCORES // len(queries))
        for start in range(0, len(rows), span):
            chosen = rows[start : start + span]
            scores = torch.empty(len(queries), len(chosen))
            for place in range(0, len(chosen), _BLOCK):
                block = chosen[place : place + _BLOCK]
                scores[:, place : place + len(block)] = similarities(self._centred.codes(block), queries)
            best.add(chosen, scores)
        return best.rows, best.scores

    def best_of(self, query: Tensor, rows: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """The best of some rows for one query `(D,)`, at most `top`, and their scores: what other engines end with."""
        rows = np.sort(rows)
        scores = similarities(self._centred.codes(rows), query[None])
        found, values = best_first(rows[None], scores.numpy())
        return found[0, :top], values[0, :top]


def exact_for(vectors: Vectors) -> Exact | Scan:
    """What compares with every picture. Of components all are read in the time that an index of them would take."""
    return Scan(vectors) if isinstance(vectors, CentredVectors) else Exact(vectors)
