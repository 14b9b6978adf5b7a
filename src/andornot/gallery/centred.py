"""What each picture has beyond the gallery's average one, in few bytes: what conditions, and most terms, search.

The file is derived from the degrees. Its index keeps the mean and the axes (`likeness.components`), which are fitted on
a sample of the gallery, anew when the model is calibrated anew, and when the gallery has grown much.
"""

import zlib
from base64 import b64decode, b64encode
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from .likeness.components import Components, fit_components, from_bytes, to_bytes
from .options import CENTRED
from .vectors import Degrees, Sources, Stored, Vectors

_DIMENSIONS: Final = 128
# torch's product of bytes reads past vectors of one.
_FEWEST_DIMENSIONS: Final = 2
# Rows that are computed together where they are missing on disk.
_AT_ONCE: Final = 2048
# As many pictures tell the axes of any gallery.
_SAMPLE: Final = 4096
# Up to here the axes follow each change; beyond, they stay until there are so many times as many pictures.
_FEW: Final = 512
_GROWN: Final = 10


class Centred(Stored):
    """The file of all pictures' components, a byte each; what is missing in it is computed, and kept in memory."""

    _type = np.int8

    def __init__(self, sources: Sources, degrees: Degrees) -> None:
        self._degrees = Vectors(sources, degrees)
        self._basis: tuple[Components, int] | None = None
        self._made: dict[int, np.ndarray] = {}
        super().__init__(sources, CENTRED)

    def _dimensions_of(self, model: Model) -> int:
        return max(_FEWEST_DIMENSIONS, min(_DIMENSIONS, model.num_features))

    @property
    def basis(self) -> str:
        """Another text for other axes."""
        return f"{self._as_index()['basis_checksum']:08x}"

    @property
    def components(self) -> Components:
        """The mean and the axes of the gallery."""
        return self._fitted()[0]

    def codes(self, rows: np.ndarray) -> Tensor:
        """The components of some rows, which ascend, `(n, dimensions)` int8. Not to be written to."""
        stored = self.covers(rows)
        if stored == len(rows):
            return torch.from_numpy(self._read(rows))
        found = np.empty((len(rows), self.dimensions), np.int8)
        found[:stored] = self._read(rows[:stored])
        chunks = rows[stored:] // _AT_ONCE
        for chunk in np.unique(chunks).tolist():
            places = stored + np.flatnonzero(chunks == chunk)
            found[places] = self._chunk(chunk)[rows[places] - chunk * _AT_ONCE]
        return torch.from_numpy(found)

    def codes_of(self, rows: np.ndarray) -> Tensor:
        """The same of a few rows in any order."""
        ascending, places = np.unique(rows, return_inverse=True)
        return self.codes(ascending)[torch.from_numpy(places.reshape(-1))]

    def extend(self) -> None:
        """Computes what is missing and writes it. Only for who holds the gallery's lock."""
        super().extend()
        self._made.clear()

    def _chunk(self, chunk: int) -> np.ndarray:
        if chunk not in self._made:
            end = min((chunk + 1) * _AT_ONCE, self._sources.snapshot.state.rows)
            self._made[chunk] = self._computed(np.arange(chunk * _AT_ONCE, end))
        return self._made[chunk]

    def _computed(self, rows: np.ndarray) -> np.ndarray:
        return to_bytes(self.components.project(self._directions(rows))).numpy()

    def _directions(self, rows: np.ndarray) -> Tensor:
        """Degrees in the half precision of their file, wherever they come from: the same bytes each time."""
        return self._degrees.take(rows).half()

    # --- the axes ---------------------------------------------------------------------------------------------------

    def _fitted(self) -> tuple[Components, int]:
        """The components, and how many pictures there were when they were fitted."""
        if self._basis is None:
            used = np.flatnonzero(self._sources.snapshot.id_of_row)
            components = fit_components(self._directions(evenly(used, _SAMPLE)), self.dimensions)
            self._basis = components, len(used)
        return self._basis

    def _as_index(self) -> dict[str, Any]:
        components, pictures = self._fitted()
        content = torch.cat([components.mean[:, None], components.axes], 1).contiguous().numpy().tobytes()
        return {"fitted_on": pictures, "basis": b64encode(content).decode(), "basis_checksum": zlib.crc32(content)}

    def _fits(self, index: dict[str, Any]) -> bool:
        """Whether its axes are whole, and those of a gallery that is not much smaller than this one."""
        self._basis = None
        pictures, fitted_on = len(self._sources.snapshot), index["fitted_on"]
        if type(fitted_on) is not int or pictures > _GROWN * fitted_on:
            return False
        if min(pictures, fitted_on) < _FEW and pictures != fitted_on:
            return False
        content = b64decode(index["basis"], validate=True)
        if zlib.crc32(content) != index["basis_checksum"]:
            return False
        basis = torch.frombuffer(bytearray(content), dtype=torch.float32).view(-1, 1 + self.dimensions)
        if len(basis) != self._sources.model.num_features:
            return False
        self._basis = Components(basis[:, 0].contiguous(), basis[:, 1:].contiguous()), fitted_on
        return True


class CentredVectors(Vectors):
    """The same as floats, for engines that keep vectors elsewhere."""

    def __init__(self, sources: Sources, centred: Centred) -> None:
        super().__init__(sources, centred)
        self.centred = centred

    @property
    def version(self) -> str:
        """That of the axes."""
        return self.centred.basis

    def take(self, rows: np.ndarray, out: Tensor | None = None) -> Tensor:
        """As those of other scores."""
        found = from_bytes(self.centred.codes(rows))
        return found if out is None else out[: len(rows)].copy_(found)


def evenly(rows: np.ndarray, count: int) -> np.ndarray:
    """So many of the rows, evenly spread over them."""
    return np.asarray(rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(np.int64)])
