"""What queries are compared with: a vector for each row of features, for each way to score.

Those of the possession degrees are kept on disk in half precision, and those of other scores if that was asked for: one
pass over a file instead of the model's head for every picture. The files are derived: they may be deleted at any time,
and what is missing or damaged in them is computed.
"""

import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..files import write_atomically, write_text
from ..logic.distance import SCORES, Score
from ..logic.representation import Representation
from ..model import Model
from .database import Snapshot
from .errors import GalleryError
from .feature_store import Features, as_rows
from .layout import DERIVED
from .options import CENTRED
from .postings import forget_postings
from .reading import checked

_FORMAT: Final = 1
# Rows under one checksum, and rows whose representations are in memory at once.
_CHUNK: Final = 2048
_ROWS_AT_ONCE: Final = 256


class Sources:
    """A state of a gallery with its model: the representation of any row."""

    def __init__(self, folder: Path, snapshot: Snapshot, features: Features, model: Model) -> None:
        self.folder, self.snapshot, self.features, self.model = folder, snapshot, features, model

    def activations(self, rows: np.ndarray) -> Tensor:
        """The features `(n, width)` of rows, which are checked."""
        return torch.from_numpy(checked(self.snapshot, self.features, rows)).float()

    def represent(self, rows: np.ndarray) -> Representation:
        """The representations `(n, N, M)` of rows."""
        return self.model.represent(self.activations(rows))

    def look_at(self, picture: str | Image.Image) -> Tensor:
        """The features `(width,)` of a picture that the gallery has not, a file or part of one.

        By way of the half precision that features are stored in; and alone, because in a batch a picture's last digits
        depend on the others.
        """
        return torch.from_numpy(as_rows(self.model.activations([picture], progress=False))).float()[0]


def forget_derived(folder: Path) -> None:
    """Removes what was derived from the features, to be made again; what else there is stays."""
    for score in (*SCORES, CENTRED):
        for name in (f"{score}.json", f"faiss-{score}.safetensors"):
            (folder / DERIVED / name).unlink(missing_ok=True)
    forget_postings(folder)


class Vectors:
    """The vectors of all rows for one score: `take(rows)` is `(n, dimensions)` float32."""

    def __init__(self, sources: Sources, stored: "Stored") -> None:
        self.sources, self.score = sources, stored.score
        self.dimensions = stored.dimensions
        self._stored = stored

    @property
    def version(self) -> str:
        """What the vectors depend on besides the pictures and the model."""
        return ""

    def take(self, rows: np.ndarray, out: Tensor | None = None) -> Tensor:
        """The vectors of some rows, which ascend; written into `out`, and its first rows returned, if it is given."""
        out = torch.empty(len(rows), self.dimensions) if out is None else out[: len(rows)]
        stored = self._stored.covers(rows)
        if stored:
            out[:stored] = self._stored.read(rows[:stored])
        return _compute(self.sources, SCORES[self.score], rows, stored, out)

    def store(self) -> None:
        """Keeps all on disk, which makes `take` quick. Only for who holds the gallery's lock."""
        self._stored.extend()


class Computed(Vectors):
    """The vectors of a score of the asker's own: made for each search, and kept nowhere."""

    def __init__(self, sources: Sources, score: Score, dimensions: int) -> None:
        self.sources, self.dimensions, self._made_by = sources, dimensions, score

    def take(self, rows: np.ndarray, out: Tensor | None = None) -> Tensor:
        """As those that are kept."""
        out = torch.empty(len(rows), self.dimensions) if out is None else out[: len(rows)]
        return _compute(self.sources, self._made_by, rows, 0, out)


def _compute(sources: Sources, score: Score, rows: np.ndarray, first: int, out: Tensor) -> Tensor:
    """Writes the vectors of the rows from the `first` on."""
    for start in range(first, len(rows), _ROWS_AT_ONCE):
        made = score.gallery(sources.represent(rows[start : start + _ROWS_AT_ONCE]))
        if made.shape[1:] != out.shape[1:]:
            raise GalleryError(
                f"a score takes the inner product of two vectors: this one's have {out.shape[1]} numbers for a query, "
                f"and {made.shape[-1]} for a picture"
            )
        out[start : start + _ROWS_AT_ONCE] = made
    return out


class Stored:
    """The file of the vectors of one score, in float16.

    `rows` of them are there; fewer than the gallery has if it grew, none if the file is missing or of another model.
    """

    _columns_behind = 0
    _type: type[np.generic] = np.float16

    def __init__(self, sources: Sources, score: str) -> None:
        self.score, self._sources = score, sources
        state = sources.snapshot.state
        self.dimensions = self._dimensions_of(sources.model)
        self._width = self.dimensions + self._columns_behind
        self._folder = sources.folder / DERIVED
        self._file, self._index_file = self._folder / f"{score}.bin", self._folder / f"{score}.json"
        self._index: dict[str, Any] = {
            "format": _FORMAT,
            "model": state.model_id,
            "first_file": state.first_file,
            "rows": 0,
            "checksums": [],
        }
        self._checked: set[int] = set()
        self._damaged = False
        self._map = self._mapped()

    def _dimensions_of(self, model: Model) -> int:
        return model.num_features * (1 if self.score == "degrees" else model.num_values)

    @property
    def rows(self) -> int:
        """How many rows can be used."""
        return len(self._map)

    @property
    def is_kept(self) -> bool:
        """Whether a file is there, be it outdated."""
        return self._index_file.exists()

    def read(self, rows: np.ndarray) -> Tensor:
        """The vectors of some rows that it covers, `(n, dimensions)` float16."""
        return torch.from_numpy(self._read(rows)[:, : self.dimensions])

    def covers(self, rows: np.ndarray) -> int:
        """How many of the rows, which ascend, are there and undamaged."""
        count = int(np.searchsorted(rows, self.rows))
        for chunk in range(rows[0] // _CHUNK, rows[count - 1] // _CHUNK + 1) if count else ():
            if chunk not in self._checked:
                content = self._map[chunk * _CHUNK : (chunk + 1) * _CHUNK].data
                if zlib.crc32(content) != self._index["checksums"][chunk]:
                    self._cut(chunk)
                    return int(np.searchsorted(rows, self.rows))
                self._checked.add(chunk)
        return count

    def extend(self) -> None:
        """Computes what is missing and writes it. Only for who holds the gallery's lock."""
        total = self._sources.snapshot.state.rows
        if not self._damaged:  # another process may have extended it meanwhile
            self._checked.clear()
            self._map = self._mapped()
        if self.rows >= total:
            return
        self._folder.mkdir(exist_ok=True)
        # Readers have the file mapped: it may grow, but what is in it changes only by another file in its place.
        if self.rows and not self._damaged:
            checksums = self._append(self._file, self.rows, list(self._index["checksums"]))
        else:
            checksums = []
            write_atomically(self._file, lambda partial: self._append(partial, 0, checksums))
        text = json.dumps({**self._index, **self._as_index(), "rows": total, "checksums": checksums})
        write_text(self._index_file, text)
        self._checked.clear()
        self._damaged = False
        self._map = self._mapped()

    def _append(self, file: Path, start: int, checksums: list[int]) -> list[int]:
        """Writes the rows from `start` on, and the checksums of all."""
        total = self._sources.snapshot.state.rows
        try:
            with file.open("rb+" if start else "wb") as opened:
                opened.seek(start * self._width * np.dtype(self._type).itemsize)
                opened.truncate()
                while start < total:
                    end = min(start - start % _CHUNK + _CHUNK, total)
                    content = self._computed(np.arange(start, end)).tobytes()
                    if start % _CHUNK:
                        checksums[-1] = zlib.crc32(content, checksums[-1])
                    else:
                        checksums.append(zlib.crc32(content))
                    opened.write(content)
                    start = end
        except OSError as error:  # that of a full disk does not name the file
            raise OSError(error.errno, error.strerror, str(file)) from None
        return checksums

    def _computed(self, rows: np.ndarray) -> np.ndarray:
        result = np.empty((len(rows), self._width), np.float16)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            representation = self._sources.represent(rows[start : start + _ROWS_AT_ONCE])
            result[start : start + _ROWS_AT_ONCE] = self._columns(representation).numpy()
        return result

    def _columns(self, representation: Representation) -> Tensor:
        return SCORES[self.score].gallery(representation)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, which ascend: nothing is copied where they follow each other."""
        follow = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        return np.asarray(self._map[rows[0] : rows[-1] + 1] if follow else self._map[rows])

    def _mapped(self) -> np.ndarray:
        """The rows of the file, as far as it is of this gallery and this model."""
        nothing = np.empty((0, self._width), self._type)
        # What is not as it was written may be anything: too deep, infinite, or of another kind.
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            index = json.loads(self._index_file.read_text(encoding="utf-8"))
            if any(index[key] != self._index[key] for key in ("format", "model", "first_file")):
                return nothing
            if not self._fits(index):
                return nothing
            rows, checksums = index["rows"], index["checksums"]
            if type(rows) is not int or type(checksums) is not list or len(checksums) != -(-rows // _CHUNK) or rows < 1:
                return nothing
            # "c", because torch warns of arrays that it cannot write to; what is written would not reach the file.
            mapped = np.memmap(self._file, self._type, "c", shape=(rows, self._width))
            self._index = {**self._index, "rows": rows, "checksums": checksums}
            return mapped
        return nothing

    def _as_index(self) -> dict[str, Any]:
        """What else the index says."""
        return {}

    def _fits(self, index: dict[str, Any]) -> bool:  # noqa: ARG002 - of subclasses
        """Whether that is as it should be."""
        return True

    def _cut(self, chunk: int) -> None:
        """Forgets a damaged chunk and all behind it; the next `extend` writes everything anew."""
        self._damaged = True
        self._map = self._map[: chunk * _CHUNK]


class Degrees(Stored):
    """The directions of the possession degrees, and behind each its length."""

    _columns_behind = 1

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, "degrees")

    def of_features(self, rows: np.ndarray, features: np.ndarray) -> np.ndarray:
        """The possession degrees of some features in some rows, `(n, k)`."""
        stored = self.covers(rows)
        block = self._read(rows[:stored])
        parts = [block[:, features].astype(np.float32) * block[:, -1:].astype(np.float32)]
        for start in range(stored, len(rows), _ROWS_AT_ONCE):
            degrees = self._sources.represent(rows[start : start + _ROWS_AT_ONCE]).degrees
            parts.append(degrees[:, torch.from_numpy(features)].numpy())
        return np.concatenate(parts)

    def _columns(self, representation: Representation) -> Tensor:
        length = representation.degrees.norm(dim=-1, keepdim=True)
        return torch.cat([super()._columns(representation), length], -1)
