"""Many pictures through one function, by threads, in order, with a bar when it takes long."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..progress import track
from .errors import BrokenImageError
from .readers import Reader
from .resizing import Fit, square_pixels

_AT_ONCE: Final = 512  # pictures under way: bounds what waits in memory, and hides that some take longer

Row = np.ndarray
Prepare = Callable[[int], Row]


@dataclass(frozen=True)
class Preparation:
    """A function from a position in `indices` to the picture as a uint8 array (C, size, size)."""

    reader: Reader
    indices: np.ndarray
    size: int
    fit: Fit

    def __call__(self, position: int) -> Row:
        """Reads and resizes, or raises a BrokenImageError."""
        image = self.reader.read(int(self.indices[position]), self.size)
        pixels: Row = square_pixels(image, self.size, self.fit).numpy()
        return pixels


def default_workers() -> int:
    """The cores that this process may use, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 16)


def prepare_all(
    prepare: Prepare,
    count: int,
    *,
    strict: bool = False,
    workers: int | None = None,
    progress: bool = True,
    text: str = "reading",
) -> Iterator[Row | BrokenImageError]:
    """Every picture in order, or the error in its place; with `strict` the first error is raised.

    Pillow decodes without Python's lock, so threads help.
    """

    def attempt(position: int) -> Row | BrokenImageError:
        try:
            return prepare(position)
        except BrokenImageError as error:
            if strict:
                raise
            return error

    bar = track(text, count, shown=None if progress else False, delay=1)
    with bar, ThreadPoolExecutor(workers or default_workers(), "andornot-pictures") as pool:
        for start in range(0, count, _AT_ONCE):
            for result in pool.map(attempt, range(start, min(start + _AT_ONCE, count))):
                bar.update(1)
                yield result
