"""Which pictures show a class, and how much, class by class: a word then reads its own classes, and no others.

Made of the classes that are kept of each picture, in `derived/`, in files of 65,536 rows. A file that is missing or
damaged is done without, until whoever holds the gallery's lock writes it again.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from ..files import write_atomically
from ..words import KeptClasses
from ..words.classes import weights_of_bytes
from ..words.describing import NUM_NOUNS, which_are_likely
from ..words.nouns import NUM_CLASSES
from .layout import DERIVED

SEGMENT: Final = 2**16
# Rows that are looked at together where there is no file.
_BLOCK: Final = 8192
_MAGIC: Final = b"aonword1"
_HEAD: Final = struct.Struct("<8sII")
_TABLES: Final = np.dtype(
    [
        ("has", "u1", (SEGMENT // 8,)),
        ("nouns", "<u4", (NUM_NOUNS,)),
        ("starts", "<u4", (NUM_CLASSES + 1,)),
        ("crcs", "<u4", (NUM_CLASSES,)),
    ]
)
_NAME: Final = re.compile(r"words-(\d{4,9})-(\d{5})\.bin", re.ASCII)
_NOTHING: Final = 255


class Evidence(Protocol):
    """The classes that are kept of pictures, by rows."""

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Whether those of some rows are there `(n,)`."""

    def read(self, rows: np.ndarray) -> KeptClasses:
        """Those of some rows; nothing that weighs anything where there are none."""


class _Tables(NamedTuple):
    """What a segment says of itself: how many rows it has, which of them have classes, how many show each noun."""

    rows: int
    has: np.ndarray
    nouns: np.ndarray
    starts: np.ndarray
    crcs: np.ndarray


class _Segment:
    """A file of postings: for each class the rows that show it, and beside them how much, a byte each."""

    def __init__(self, file: Path) -> None:
        """An OSError or a ValueError for what is no such file."""
        with file.open("rb") as opened:
            head, tables = opened.read(_HEAD.size), opened.read(_TABLES.itemsize)
        magic, rows, crc = _HEAD.unpack(head)
        if magic != _MAGIC or zlib.crc32(tables, rows) != crc:
            raise ValueError(f"{file} is damaged")
        table = np.frombuffer(tables, _TABLES)[0]
        has = np.unpackbits(table["has"])[:rows].astype(bool)
        self.tables = _Tables(rows, has, table["nouns"], table["starts"], table["crcs"])
        count, start = int(self.tables.starts[-1]), _HEAD.size + _TABLES.itemsize
        if file.stat().st_size != start + 3 * count:
            raise ValueError(f"{file} is damaged")
        # A file is never changed once it is there, but for another one in its place.
        self._rows = np.memmap(file, "<u2", "r", start, (count,)) if count else np.empty(0, "<u2")
        self._bytes = np.memmap(file, "u1", "r", start + 2 * count, (count,)) if count else np.empty(0, "u1")
        self._checked: set[int] = set()

    def add(self, classes: Sequence[int], into: np.ndarray) -> None:
        """Adds the weights of classes to the rows `(rows,)`; a ValueError if what is read is not what was written."""
        for number in classes:
            first, last = int(self.tables.starts[number]), int(self.tables.starts[number + 1])
            rows, steps = self._rows[first:last], self._bytes[first:last]
            if number not in self._checked:
                if _crc(rows, steps) != self.tables.crcs[number]:
                    raise ValueError("damaged")
                self._checked.add(number)
            into[rows] += weights_of_bytes(steps)  # a row has a class once

    @staticmethod
    def write(file: Path, evidence: Evidence, first: int, count: int, known: _Tables | None) -> None:
        """Writes rows from the `first` on. `known` is what there was of them before."""
        rows = np.arange(first, first + count)
        has = evidence.has(rows)
        before = np.zeros(count, bool)
        nouns = np.zeros(NUM_NOUNS, np.int64)
        if known is not None and not (known.has & ~has[: known.rows]).any():
            before[: known.rows], nouns = known.has, known.nouns.astype(np.int64)
        nouns += count_nouns(evidence, rows[has & ~before])
        kept = [evidence.read(part) for part in np.split(rows, range(_BLOCK, count, _BLOCK))]
        classes = np.concatenate([part.classes.numpy() for part in kept])
        steps = np.concatenate([part.weights.numpy() for part in kept])
        shown = (steps < _NOTHING) & has[:, None]
        by_class, places = classes[shown], np.broadcast_to(np.arange(count)[:, None], classes.shape)[shown]
        order = np.argsort(by_class, kind="stable")
        places, steps = places[order].astype("<u2"), steps[shown][order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(by_class, minlength=NUM_CLASSES))]).astype("<u4")
        table = np.zeros(1, _TABLES)[0]
        table["has"] = np.packbits(np.pad(has, (0, 8 * len(table["has"]) - count)))
        table["nouns"], table["starts"] = nouns, starts
        table["crcs"] = [_crc(places[a:b], steps[a:b]) for a, b in pairwise(starts)]
        tables = table.tobytes()
        content = _HEAD.pack(_MAGIC, count, zlib.crc32(tables, count)) + tables + places.tobytes() + steps.tobytes()
        write_atomically(file, lambda partial: partial.write_bytes(content))


class Postings:
    """The postings of the rows of one state of a gallery."""

    def __init__(self, folder: Path, first_file: int, rows: int, evidence: Evidence) -> None:
        self._folder, self._first_file, self._rows, self._evidence = folder / DERIVED, first_file, rows, evidence
        self._segments = [self._opened(number) for number in range(-(-rows // SEGMENT))]

    @property
    def is_complete(self) -> bool:
        """Whether a file has each row."""
        return all(self._covered(number) for number in range(len(self._segments)))

    def support(self, classes: Sequence[int]) -> np.ndarray:
        """The summed weights of some classes in all rows, at most 1, `(rows,)` float32; 0 where nothing is kept."""
        result = np.zeros(self._rows, np.float32)
        for number, segment in enumerate(self._segments):
            first, last = self._span(number)
            covered = 0
            if segment is not None:
                covered = min(segment.tables.rows, last - first)
                part = np.zeros(segment.tables.rows, np.float32)
                try:
                    segment.add(classes, part)
                except ValueError:
                    self._segments[number], covered = None, 0
                result[first : first + covered] = part[:covered]
            rows = np.arange(first, last)[self._is_missing(number, covered)]
            result[rows] = support_of(self._evidence, rows, classes)
        return result.clip(max=1, out=result)

    def nouns(self, used: np.ndarray) -> np.ndarray:
        """How many of the pictures, which have the `used` rows, show each noun, `(nouns,)`."""
        is_used = np.zeros(self._rows, bool)
        is_used[used] = True
        result = np.zeros(NUM_NOUNS, np.int64)
        for number, segment in enumerate(self._segments):
            first, last = self._span(number)
            counted = np.zeros(last - first, bool)
            if segment is not None and segment.tables.rows <= last - first:  # more rows are those of a later state
                result += segment.tables.nouns
                counted[: segment.tables.rows] = segment.tables.has
            here = is_used[first:last]
            result += count_nouns(self._evidence, first + np.flatnonzero(here & ~counted))
            result -= count_nouns(self._evidence, first + np.flatnonzero(counted & ~here))
        return result

    def extend(self) -> None:
        """Writes what is missing, and forgets what is of rows that are no more. Only for who holds the lock."""
        self._folder.mkdir(exist_ok=True)
        for number, segment in enumerate(self._segments):
            first, last = self._span(number)
            rows = np.arange(first, last)
            if segment is not None and self._covered(number):
                missing = ~segment.tables.has[: last - first]
                if not self._evidence.has(rows[missing]).any():
                    continue
            known = segment.tables if segment is not None and segment.tables.rows <= last - first else None
            _Segment.write(self._file(number), self._evidence, first, last - first, known)
            self._segments[number] = self._opened(number)
        for file in self._folder.glob("words-*.bin"):
            match = _NAME.fullmatch(file.name)
            if match and (int(match[1]) != self._first_file or int(match[2]) >= len(self._segments)):
                file.unlink(missing_ok=True)

    def _is_missing(self, number: int, covered: int) -> np.ndarray:
        """Which rows of a segment its file does not tell: those beyond it, and those that gained classes since."""
        first, last = self._span(number)
        result = np.ones(last - first, bool)
        segment = self._segments[number]
        if segment is not None and covered:
            without = np.flatnonzero(~segment.tables.has[:covered])
            result[:covered] = False
            result[without] = self._evidence.has(first + without)
        return result

    def _covered(self, number: int) -> bool:
        first, last = self._span(number)
        segment = self._segments[number]
        return segment is not None and segment.tables.rows >= last - first

    def _span(self, number: int) -> tuple[int, int]:
        return number * SEGMENT, min((number + 1) * SEGMENT, self._rows)

    def _file(self, number: int) -> Path:
        return self._folder / f"words-{self._first_file:04}-{number:05}.bin"

    def _opened(self, number: int) -> _Segment | None:
        with suppress(OSError, ValueError, struct.error):
            return _Segment(self._file(number))
        return None


def support_of(evidence: Evidence, rows: np.ndarray, classes: Sequence[int]) -> np.ndarray:
    """The summed weights of some classes in some rows, `(n,)` float32, from what is kept of each."""
    is_one = np.zeros(NUM_CLASSES, bool)
    is_one[list(classes)] = True
    result = np.empty(len(rows), np.float32)
    for start, part in _blocks(rows):
        kept = evidence.read(part)
        steps = kept.weights.numpy()
        counts = is_one[kept.classes.numpy()] & (steps < _NOTHING)
        result[start : start + len(part)] = (weights_of_bytes(steps) * counts).sum(1)
    return result


def count_nouns(evidence: Evidence, rows: np.ndarray) -> np.ndarray:
    """How many of some rows show each noun, `(nouns,)`."""
    result = np.zeros(NUM_NOUNS, np.int64)
    for _, part in _blocks(rows):
        result += which_are_likely(evidence.read(part).evidence().numpy()).sum(0)
    return result


def forget_postings(folder: Path) -> None:
    """Removes the files, to be made again."""
    for file in (folder / DERIVED).glob("words-*.bin"):
        file.unlink(missing_ok=True)


def _blocks(rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    return ((start, rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK))


def _crc(rows: np.ndarray, steps: np.ndarray) -> int:
    return zlib.crc32(steps.tobytes(), zlib.crc32(rows.tobytes()))
