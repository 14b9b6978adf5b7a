"""How one picture of a set is got: from a file, or out of an array that is in memory anyway."""

import hashlib
import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from PIL import Image

from .decoding import decode, measure


class Reader(Protocol):
    """Pictures by number, in mode L or RGB."""

    def __len__(self) -> int:
        """How many pictures there are."""

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """The picture, or a BrokenImageError. With `size` it may be smaller, but not below twice that size."""

    def measure(self, index: int) -> tuple[int, int]:
        """Width and height of the picture, without decoding it, or a BrokenImageError."""

    def key(self, index: int) -> str:
        """A text that changes when the picture changes."""

    def pixels(self, indices: np.ndarray) -> np.ndarray | None:
        """The chosen pictures (n, H, W) or (n, H, W, 3) where they lie in memory with one size, else None."""


class FileReader:
    """Pictures in files."""

    def __init__(self, paths: Sequence[str], channels: int = 3) -> None:
        self._paths = paths
        self._channels = channels

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """Decodes the file."""
        return decode(self._paths[index], size=size, channels=self._channels)

    def measure(self, index: int) -> tuple[int, int]:
        """From the head of the file."""
        return measure(self._paths[index])

    def key(self, index: int) -> str:
        """The absolute path, the time of the last change, and the size."""
        path = os.path.abspath(self._paths[index])  # noqa: PTH100 - a Path for each of a million files is slow
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return f"{path}|missing"
        return f"{path}|{status.st_mtime_ns}|{status.st_size}"

    def pixels(self, indices: np.ndarray) -> None:  # noqa: ARG002
        """None: files are not in memory."""
        return


class ArrayReader:
    """Pictures in one uint8 array (n, H, W) or (n, H, W, 3)."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def read(self, index: int, size: int | None = None) -> Image.Image:  # noqa: ARG002
        """The picture as it is, whatever the size."""
        return Image.fromarray(self._array[index])

    def measure(self, index: int) -> tuple[int, int]:  # noqa: ARG002
        """The same for all."""
        return self._array.shape[2], self._array.shape[1]

    def key(self, index: int) -> str:
        """A hash of the pixels."""
        return hashlib.sha256(np.ascontiguousarray(self._array[index]).tobytes()).hexdigest()

    def pixels(self, indices: np.ndarray) -> np.ndarray:
        """A copy of the chosen pictures."""
        chosen: np.ndarray = self._array[indices]
        return chosen
