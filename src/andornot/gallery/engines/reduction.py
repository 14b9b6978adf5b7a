"""Fewer dimensions for the vectors of a gallery, chosen for the queries that formulas make.

The principal components of the pictures would be the best choice if queries were pictures. But `~a`, `a & b` and
`a - b` lie elsewhere, and weigh directions in which pictures differ little: so the queries have their say here.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...logic import Formula
from ...logic.distance import SCORES
from ..vectors import Sources

# What people ask for: one of each kind of operation.
KINDS: Final = ("a", "a | b", "a & b", "~a", "a & ~b", "a - b", "(a | b) - c")
# Directions that queries use less than that, relative to the one they use most, are noise.
_NEGLIGIBLE: Final = 1e-4


class Reduction(NamedTuple):
    """Linear maps `(D, d)` of queries and of pictures, so that inner products change as little as possible.

    A picture's vector is taken relative to the `mean`, which changes all scores of a query by the same amount.
    """

    queries: Tensor
    pictures: Tensor
    mean: Tensor

    def cut(self, dimensions: int) -> "Reduction":
        """The first dimensions, which are the most important ones."""
        return Reduction(self.queries[:, :dimensions], self.pictures[:, :dimensions], self.mean)

    def reduce_queries(self, vectors: Tensor) -> np.ndarray:
        """`(Q, D)` to `(Q, d)`."""
        return np.ascontiguousarray((vectors @ self.queries).numpy())

    def reduce_pictures(self, vectors: Tensor) -> np.ndarray:
        """`(n, D)` to `(n, d)`."""
        return np.ascontiguousarray(((vectors - self.mean) @ self.pictures).numpy())


def best_reduction(queries: Tensor, pictures: Tensor, dimensions: int) -> Reduction:
    """The reduction with the least mean square error of `q·x` over samples of queries `(s, D)` and pictures `(n, D)`.

    With `Q` and `X` the second moments of both, the error of `q·A Bᵀx` is `|Q^½ (1 - A Bᵀ) X^½|²`, least for
    `A = Q^-½ U` and `B = Q^½ U`, where `U` are the first left singular vectors of `Q^½ X^½`.
    """
    mean = pictures.mean(0)
    _, strength, directions = torch.linalg.svd(queries, full_matrices=False)
    used = strength > _NEGLIGIBLE * strength[0]
    strength, directions = strength[used], directions[used]
    spread = (pictures - mean) @ (directions.T * strength)
    order = torch.linalg.eigh(spread.T @ spread).eigenvectors.flip(1)[:, :dimensions]
    return Reduction(directions.T @ (order / strength[:, None]), directions.T @ (order * strength[:, None]), mean)


def sample_queries(sources: Sources, score: str, count: int, generator: np.random.Generator) -> Iterator[Tensor]:
    """Vectors `(count, D)` of queries of each kind, about random pictures of the gallery."""
    names = ("a", "b", "c")
    rows = generator.choice(sources.snapshot.rows, (len(names), count))
    pictures = {name: sources.represent(chosen) for name, chosen in zip(names, rows, strict=True)}
    for kind in KINDS:
        formula = Formula(kind)
        representation = formula.evaluate({name: pictures[name] for name in formula.names}, "independent")
        yield SCORES[score].query(representation).float()
