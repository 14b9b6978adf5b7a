"""What finds the nearest pictures: exactly, or with an index that some package brings."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from torch import Tensor

from ..vectors import Vectors
from .exact import Exact

__all__ = ["Engine", "Exact", "MakeEngine"]


class Engine(Protocol):
    """Finds rows of a gallery by the inner product of their vectors with those of queries."""

    def search(self, vectors: Tensor, top: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For queries `(Q, D)` the `k = min(top, allowed)` best rows and their scores, both `(Q, k)`, best first.

        `allowed` is a mask over all rows: not every row belongs to a picture, and filters leave out more. Of equal
        scores the lower row is first.
        """


MakeEngine = Callable[[Vectors], Engine]
"""An engine is made for the vectors of one score, in one state of a gallery."""
