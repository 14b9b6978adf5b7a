"""Read images of a data set from files or from an array, with several threads."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from PIL import Image

from ..progress import track
from .converting import Fit, square_pixels
from .decoding import decode, measure
from .errors import BrokenImageError


class ImageReader(Protocol):
    """Images by index, in mode L or RGB."""

    def __len__(self) -> int:
        """Return the number of images."""

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """Return the image, or raise a BrokenImageError. With `size`, it may be shrunk to twice that size."""

    def measure(self, index: int) -> tuple[int, int]:
        """Return width and height of the image without decoding it, or raise a BrokenImageError."""

    def key(self, index: int) -> str:
        """Return a string that changes when the image changes."""

    def pixels(self, indices: np.ndarray) -> np.ndarray | None:
        """Return the images (n, H, W) or (n, H, W, 3) at `indices` if they are in memory with one size, else None."""


class FileReader:
    """Images in files."""

    def __init__(self, paths: Sequence[str], channels: int = 3) -> None:
        self._paths = paths
        self._channels = channels

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """Decode the file."""
        return decode(self._paths[index], size=size, channels=self._channels)

    def measure(self, index: int) -> tuple[int, int]:
        """Return width and height from the header of the file."""
        return measure(self._paths[index])

    def key(self, index: int) -> str:
        """Return the absolute path, the modification time and the size."""
        path = os.path.abspath(self._paths[index])  # noqa: PTH100 - creating a Path per file is slow for millions of files
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return f"{path}|missing"
        return f"{path}|{status.st_mtime_ns}|{status.st_size}"

    def pixels(self, indices: np.ndarray) -> None:  # noqa: ARG002
        """Return None: files are not in memory."""
        return


class ArrayReader:
    """Images in one uint8 array (n, H, W) or (n, H, W, 3)."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def read(self, index: int, size: int | None = None) -> Image.Image:  # noqa: ARG002
        """Return the image at its original size."""
        return Image.fromarray(self._array[index])

    def measure(self, index: int) -> tuple[int, int]:  # noqa: ARG002
        """Return width and height, the same for all images."""
        return self._array.shape[2], self._array.shape[1]

    def key(self, index: int) -> str:
        """Return a hash of the pixels."""
        return hashlib.sha256(np.ascontiguousarray(self._array[index]).tobytes()).hexdigest()

    def pixels(self, indices: np.ndarray) -> np.ndarray:
        """Return a copy of the images at `indices`."""
        chosen: np.ndarray = self._array[indices]
        return chosen


_AT_ONCE: Final = 512  # images in flight: bounds memory, and keeps threads busy while a slow image is decoded

Row = np.ndarray
Prepare = Callable[[int], Row]


@dataclass(frozen=True)
class Preparation:
    """A callable that maps a position in `indices` to the image as a uint8 array (C, size, size)."""

    reader: ImageReader
    indices: np.ndarray
    size: int
    fit: Fit

    def __call__(self, position: int) -> Row:
        """Read and resize an image, or raise a BrokenImageError."""
        image = self.reader.read(int(self.indices[position]), self.size)
        pixels: Row = square_pixels(image, self.size, self.fit).numpy()
        return pixels


def default_workers() -> int:
    """Return the number of cores that this process may use, at most 16."""
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
    """Yield every image in order, or its error; with `strict`, raise the first error.

    Pillow releases the GIL while decoding, so threads run in parallel.
    """

    def attempt(position: int) -> Row | BrokenImageError:
        try:
            return prepare(position)
        except BrokenImageError as error:
            if strict:
                raise
            return error

    bar = track(text, count, shown=None if progress else False, delay=1)
    with bar, ThreadPoolExecutor(workers or default_workers(), "andornot-images") as pool:
        for start in range(0, count, _AT_ONCE):
            for result in pool.map(attempt, range(start, min(start + _AT_ONCE, count))):
                bar.update(1)
                yield result
