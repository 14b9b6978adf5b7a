"""Features of pictures on disk: rows of float16 in files that only grow.

A row never changes once a commit has named it, so a reader may map the files while a writer appends. What stands behind
the last committed row was left by a killed writer, and the next one cuts it off. Nobody begins a file that is there.
"""

import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from torch import Tensor

from .errors import DamagedError

ROWS_PER_FILE: Final = 2**18
_HALF_MAX: Final = 65_504.0
_PATTERN: Final = "features-{:04}.bin"
_NAME: Final = re.compile(r"features-(\d{4,9})\.bin", re.ASCII)


def as_rows(features: Tensor) -> np.ndarray:
    """Features `(n, width)` as they are stored. Everything is computed from these, never from wider ones."""
    return features.float().clamp(-_HALF_MAX, _HALF_MAX).half().cpu().numpy()


def checksum(row: np.ndarray) -> int:
    """Of one row of features."""
    return zlib.crc32(row.tobytes())


def feature_file(folder: Path, number: int) -> Path:
    """The path of a file of features."""
    return folder / _PATTERN.format(number)


class Features:
    """The committed rows, for reading. Files are mapped at once: they stay readable when a writer replaces them."""

    def __init__(self, folder: Path, width: int, first_file: int, rows: int) -> None:
        self.width, self.rows = width, rows
        self._maps: list[np.ndarray] = []
        for number, count in files_of(first_file, rows):
            file = feature_file(folder, number)
            if file.stat().st_size < count * width * 2:
                raise DamagedError(f"{file} is damaged: it is shorter than what was written to it")
            self._maps.append(np.memmap(file, np.float16, "r", shape=(count, width)))

    def read(self, rows: np.ndarray) -> np.ndarray:
        """A copy of some rows `(n, width)`."""
        result = np.empty((len(rows), self.width), np.float16)
        files = rows // ROWS_PER_FILE
        for number in np.unique(files):
            chosen = files == number
            result[chosen] = self._maps[number][rows[chosen] % ROWS_PER_FILE]
        return result


class FeatureWriter:
    """Appends rows. They are on the disk after `sync`, and count once a commit names them."""

    def __init__(self, folder: Path, width: int, first_file: int, rows: int, claim: Callable[[str], None]) -> None:
        """`claim` is told the name of each file before it is begun."""
        self._folder, self._width, self._claim = folder, width, claim
        self.first_file, self.rows = first_file, rows
        self._unsynced: set[Path] = set()
        for number, count in files_of(first_file, rows):
            file = feature_file(folder, number)
            if file.exists() and file.stat().st_size > count * width * 2:
                os.truncate(file, count * width * 2)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files that have rows in them."""
        return tuple(_PATTERN.format(number) for number, _ in files_of(self.first_file, self.rows))

    def append(self, features: np.ndarray) -> int:
        """Writes rows `(n, width)` behind the last; the number of the first of them."""
        first, done = self.rows, 0
        while done < len(features):
            number, place = divmod(first + done, ROWS_PER_FILE)
            part = features[done : done + ROWS_PER_FILE - place]
            file = feature_file(self._folder, self.first_file + number)
            if place == 0:
                self._claim(file.name)
            write_at(file, place * self._width * 2, np.ascontiguousarray(part, np.float16).tobytes())
            self._unsynced.add(file)
            done += len(part)
        self.rows += len(features)
        return first

    def read(self, row: int) -> np.ndarray:
        """One row `(width,)`, committed or not."""
        return read_row(self._folder, self._width, self.first_file, row)

    def sync(self) -> None:
        """Waits until all rows are on the disk."""
        sync_files(self._folder, self._unsynced)
        self._unsynced.clear()

    def start_anew(self) -> None:
        """Goes on in new files, from row 0; the old ones are there still."""
        self.first_file += -(-self.rows // ROWS_PER_FILE)
        self.rows = 0

    def extend(self) -> None:
        """Makes files that were cut off or removed as long as they should be, with zeros."""
        for number, count in files_of(self.first_file, self.rows):
            file = feature_file(self._folder, number)
            with file.open("ab") as opened:
                if opened.tell() < count * self._width * 2:
                    opened.truncate(count * self._width * 2)
                    self._unsynced.add(file)


def read_row(folder: Path, width: int, first_file: int, row: int) -> np.ndarray:
    """One row `(width,)`, committed or not."""
    number, place = divmod(row, ROWS_PER_FILE)
    file = feature_file(folder, first_file + number)
    with file.open("rb") as opened:
        opened.seek(place * width * 2)
        content = opened.read(width * 2)
    if len(content) < width * 2:
        raise DamagedError(f"{file} is damaged: it is shorter than what was written to it")
    return np.frombuffer(content, np.float16)


def first_files(folder: Path) -> list[int]:
    """The numbers of the files that are there: the gallery's first one is among them, if there is any."""
    return sorted(int(match[1]) for child in folder.iterdir() if (match := _NAME.fullmatch(child.name)))


def sync_files(folder: Path, files: Collection[Path]) -> None:
    """Waits until some files of a folder are on the disk."""
    # The folder as well, or a new file itself may be lost.
    for path in [*files, folder] if files else []:
        with opened_file(path, os.O_RDONLY) as number:
            os.fsync(number)


def files_of(first_file: int, rows: int) -> list[tuple[int, int]]:
    """The number of each file, and how many rows it has."""
    starts = range(0, rows, ROWS_PER_FILE)
    return [(first_file + index, min(rows - start, ROWS_PER_FILE)) for index, start in enumerate(starts)]


def write_at(file: Path, offset: int, content: bytes) -> None:
    """Writes into a file, which is made if it is not there."""
    with opened_file(file, os.O_WRONLY | os.O_CREAT) as number:
        while content:
            written = os.pwrite(number, content, offset)
            content, offset = content[written:], offset + written


@contextmanager
def opened_file(file: Path, flags: int) -> Iterator[int]:
    """The number of an opened file. Errors name the file: that of a full disk by itself does not."""
    try:
        number = os.open(file, flags, 0o666)
        try:
            yield number
        finally:
            os.close(number)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None
