"""What finds the nearest pictures: exactly, or with an index that some package brings."""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from torch import Tensor

from ..centred import CentredVectors
from ..errors import GalleryError
from ..filters import Selection
from ..vectors import Vectors
from .exact import Exact
from .scan import Scan, exact_for

__all__ = ["EXACT_UP_TO", "Engine", "Exact", "MakeEngine", "Scan", "engine_named", "exact_for"]


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


# Up to here a comparison with every picture takes a moment, and nothing has to be made for it.
EXACT_UP_TO: Final = 50_000


def _faiss(vectors: Vectors) -> Engine:
    from .faiss import Faiss

    return exact_for(vectors) if isinstance(vectors, CentredVectors) else Faiss(vectors)


def _by_size(vectors: Vectors) -> Engine:
    return exact_for(vectors) if vectors.sources.snapshot.state.rows <= EXACT_UP_TO else _faiss(vectors)


_ENGINES: Final[dict[str, MakeEngine]] = {"auto": _by_size, "exact": exact_for, "faiss": _faiss}


def engine_named(name: str) -> MakeEngine:
    """The engine that a user calls "auto", "exact", "faiss" or "milvus://host:port/collection"."""
    if name in _ENGINES:
        return _ENGINES[name]
    if name.startswith("milvus:"):
        try:
            from .milvus import milvus_engine
        except ModuleNotFoundError as missing:
            raise GalleryError(f"this engine needs {missing.name}: pip install 'andornot[milvus]'") from None
        return milvus_engine(name)
    raise GalleryError(f'unknown engine "{name}", there are auto, exact, faiss and milvus://host:port/collection')
