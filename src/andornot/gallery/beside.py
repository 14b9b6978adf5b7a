"""What is kept of pictures beside their features: rows of bytes under the same numbers, in files of their own.

Not every picture has such a row. Each has a seal: a checksum that goes on from that of the features, so that a row is
believed only if it is as it was written, and belongs to just these features. Therefore a row that was missing may be
written at any time, without a commit; one that was half written, or left by a killed process, is as good as missing.
"""

import os
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from . import feature_store
from .feature_store import files_of, opened_file, sync_files, write_at

MISSING: Final = 0
WHOLE: Final = 1
DAMAGED: Final = 2
_SEAL: Final = 4


class Kind(NamedTuple):
    """What rows are of: the beginning of the names of their files, their size, and what else they depend on."""

    name: str
    size: int
    depends_on: str = ""

    def seal(self, content: bytes, features_crc: int) -> int:
        """That of a row; 0 is that of none."""
        return zlib.crc32(content, zlib.crc32(self.depends_on.encode(), features_crc)) or 1

    def names(self, number: int) -> tuple[str, str]:
        """The names of a file of rows, and of the file of their seals."""
        return f"{self.name}-{number:04}.bin", f"{self.name}-{number:04}.seals"


class Beside:
    """The rows of one kind, for reading. Files are mapped at once: they stay readable when a writer removes them."""

    def __init__(self, folder: Path, kind: Kind, first_file: int, rows: int, owned: Collection[str]) -> None:
        """`owned` are the names of the gallery's own files."""
        self.kind, self.rows = kind, rows
        self._expected: list[bool] = []
        self._content: list[np.ndarray] = []
        self._seals: list[np.ndarray] = []
        for number, count in files_of(first_file, rows):
            names = kind.names(number)
            self._expected.append(names[0] in owned)
            files = [folder / name if name in owned else None for name in names]
            self._content.append(_mapped(files[0], count, kind.size))
            self._seals.append(_mapped(files[1], count, _SEAL).view("<u4").reshape(-1))

    @property
    def is_begun(self) -> bool:
        """Whether any row was ever written."""
        return any(self._expected)

    def content(self, rows: np.ndarray) -> np.ndarray:
        """The bytes `(n, size)` of rows, whole or not; 0 where there are none. Copied only where they do not follow."""
        if (following := as_slice(rows)) is not None:
            number, start = divmod(following.start, feature_store.ROWS_PER_FILE)
            part = self._content[number][start : start + len(rows)]
            if len(part) == len(rows):
                return np.asarray(part)
        return _gathered(self._content, rows, np.zeros((len(rows), self.kind.size), np.uint8))

    def are_there(self, rows: np.ndarray) -> np.ndarray:
        """Which rows were written `(n,)`; quick, because their content is not looked at."""
        return np.asarray(_gathered(self._seals, rows, np.zeros(len(rows), np.uint32)) != 0)

    def conditions(self, rows: np.ndarray, features_crcs: np.ndarray) -> np.ndarray:
        """MISSING, WHOLE or DAMAGED, for each of some rows `(n,)`, by the checksums of their features."""
        content = self.content(rows)
        seals = _gathered(self._seals, rows, np.zeros(len(rows), np.uint32))
        pairs = zip(content, features_crcs.tolist(), strict=True)
        made = [self.kind.seal(part.data, crc) for part, crc in pairs]
        result = np.where(seals == np.array(made, np.uint32), WHOLE, np.where(seals == 0, MISSING, DAMAGED)).astype(
            np.int8
        )
        for number in np.unique(rows // feature_store.ROWS_PER_FILE).tolist():  # what was cut off had rows, perhaps
            behind = rows - number * feature_store.ROWS_PER_FILE
            is_cut = (behind >= len(self._seals[number])) & (behind < feature_store.ROWS_PER_FILE)
            result[is_cut & self._expected[number]] = DAMAGED
        return result


class BesideWriter:
    """Writes rows of one kind, in any order. They are on the disk after `sync`."""

    def __init__(
        self, folder: Path, kind: Kind, first_file: int, rows: int, owned: Collection[str], claim: Callable[[str], None]
    ) -> None:
        """`owned` are the names of the gallery's own files; `claim` is told that of each other one before it is begun.

        What stands behind the last of the `rows` was left by a killed writer, and is cut off.
        """
        self.kind = kind
        self._folder, self._first_file, self._claim = folder, first_file, claim
        self._owned = {name for name in owned if name.startswith(f"{kind.name}-")}
        self._unsynced: set[Path] = set()
        self._fit(rows, longer=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files that there are."""
        return tuple(sorted(self._owned))

    def put(self, row: int, content: bytes, features_crc: int) -> None:
        """Writes a row beside features with this checksum."""
        number, place = divmod(row, feature_store.ROWS_PER_FILE)
        seal = self.kind.seal(content, features_crc).to_bytes(_SEAL, "little")
        for name, part in zip(self.kind.names(self._first_file + number), (content, seal), strict=True):
            if name not in self._owned:
                self._claim(name)
                self._owned.add(name)
            write_at(self._folder / name, place * len(part), part)
            self._unsynced.add(self._folder / name)

    def forget(self, row: int) -> None:
        """Makes a row a missing one."""
        number, place = divmod(row, feature_store.ROWS_PER_FILE)
        name = self.kind.names(self._first_file + number)[1]
        if name in self._owned:
            write_at(self._folder / name, place * _SEAL, bytes(_SEAL))
            self._unsynced.add(self._folder / name)

    def read(self, row: int, features_crc: int) -> bytes | None:
        """One row beside features with this checksum; None unless it is whole."""
        number, place = divmod(row, feature_store.ROWS_PER_FILE)
        parts = []
        for name, size in zip(self.kind.names(self._first_file + number), (self.kind.size, _SEAL), strict=True):
            if name not in self._owned or not (self._folder / name).exists():
                return None
            with opened_file(self._folder / name, os.O_RDONLY) as file:
                parts.append(os.pread(file, size, place * size))
        content, seal = parts
        return content if int.from_bytes(seal, "little") == self.kind.seal(content, features_crc) else None

    def sync(self, rows: int) -> None:
        """Waits until all is on the disk; the files are as long as so many rows are, written or not."""
        self._fit(rows, longer=True)
        sync_files(self._folder, self._unsynced)
        self._unsynced.clear()

    def start_anew(self, first_file: int) -> None:
        """Goes on in new files; the old ones are there still."""
        self._owned.clear()
        self._first_file = first_file

    def _fit(self, rows: int, *, longer: bool) -> None:
        """Makes all files as long as they should be, or no longer than that."""
        for number, count in files_of(self._first_file, rows):
            for name, size in zip(self.kind.names(number), (self.kind.size, _SEAL), strict=True):
                file = self._folder / name
                if name not in self._owned or not (longer or file.exists()):
                    continue
                with opened_file(file, os.O_RDWR | os.O_CREAT) as opened:
                    length = os.fstat(opened).st_size
                    if length > count * size or (longer and length < count * size):
                        os.truncate(opened, count * size)
                        self._unsynced.add(file)


def as_slice(rows: np.ndarray) -> slice | None:
    """Rows that follow each other, as they are read without a copy; None for others."""
    if not len(rows) or rows[-1] - rows[0] + 1 != len(rows) or not (np.diff(rows) == 1).all():
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)


def _mapped(file: Path | None, count: int, size: int) -> np.ndarray:
    """The rows `(n, size)` of a file, as many as are there."""
    try:
        there = 0 if file is None else min(count, file.stat().st_size // size)
        if file is None or not there:
            return np.empty((0, size), np.uint8)
        # "c", because torch warns of arrays that it cannot write to; what is written would not reach the file.
        return np.memmap(file, np.uint8, "c", shape=(there, size))
    except OSError:
        return np.empty((0, size), np.uint8)


def _gathered(parts: list[np.ndarray], rows: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Rows of several files, written into `out`, which stays as it is where there are none."""
    files = rows // feature_store.ROWS_PER_FILE
    for number in np.unique(files).tolist():
        places = rows - number * feature_store.ROWS_PER_FILE
        chosen = (files == number) & (places < len(parts[number]))
        out[chosen] = parts[number][places[chosen]]
    return out
