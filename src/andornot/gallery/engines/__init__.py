"""What finds the nearest pictures: exactly, or with an index that some package brings."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from torch import Tensor

from ..errors import GalleryError
from ..filters import Selection
from ..vectors import Vectors
from .exact import Exact

__all__ = ["Engine", "Exact", "MakeEngine", "engine_named"]


class Engine(Protocol):
    """Finds rows of a gallery by the inner product of their vectors with those of queries."""

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """For queries `(Q, D)` the `k = min(top, len(selection))` best rows and their scores, `(Q, k)`, best first.

        Of equal scores the lower row is first.
        """

    def prepare(self) -> None:
        """Brings what the engine keeps up to date with the gallery. Only for who holds the gallery's lock."""


MakeEngine = Callable[[Vectors], Engine]
"""An engine is made for the vectors of one score, in one state of a gallery."""


def engine_named(name: str) -> MakeEngine:
    """The engine that a user calls "auto" or "exact"."""
    if name in ("auto", "exact"):
        return Exact
    raise GalleryError(f'unknown engine "{name}", there are auto and exact')
