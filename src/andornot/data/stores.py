"""Where the squares of a set are kept: in memory, in a cache on disk, or nowhere, to be decoded when asked for."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .errors import BrokenImageError
from .loading import Prepare, Row, default_workers

Broken = list[tuple[int, str]]


class Store(Protocol):
    """Squares by number."""

    def get(self, indices: Tensor) -> Tensor:
        """(B,) int64, each from 0 to n - 1, to (B, C, size, size) uint8, a copy."""


class Memory:
    """One uint8 tensor (n, C, size, size)."""

    def __init__(self, pixels: Tensor) -> None:
        self._pixels = pixels

    def get(self, indices: Tensor) -> Tensor:
        """A copy of the chosen rows."""
        return self._pixels.index_select(0, indices)


class Disk:
    """A file that is mapped, so that the system keeps in memory what is used."""

    def __init__(self, pixels: np.memmap) -> None:
        self._pixels = pixels

    def get(self, indices: Tensor) -> Tensor:
        """Reads the chosen rows."""
        return torch.from_numpy(np.array(self._pixels[indices.numpy()]))

    def __reduce__(self) -> tuple[Callable[..., "Disk"], tuple[Any, ...]]:
        # Another process maps the file again; the pixels themselves are not sent.
        return _mapped, (self._pixels.filename, self._pixels.shape)


def _mapped(path: str, shape: tuple[int, ...]) -> Disk:
    return Disk(np.memmap(path, np.uint8, "r", shape=shape))


class Decoded:
    """Nothing is kept: the chosen pictures are decoded by threads, each time."""

    def __init__(self, prepare: Prepare, kept: np.ndarray, shape: tuple[int, ...], workers: int | None) -> None:
        self._prepare = prepare
        self._kept = kept
        self._shape = shape
        self._workers = workers or default_workers()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def get(self, indices: Tensor) -> Tensor:
        """Decodes the chosen pictures; one that became unreadable since the check is a BrokenImageError."""
        if self._pool is None or self._process != os.getpid():
            # Threads do not survive a fork, and a DataLoader may fork.
            self._pool = ThreadPoolExecutor(self._workers, "andornot-pictures")
            self._process = os.getpid()
        rows = np.empty((len(indices), *self._shape), np.uint8)
        for place, row in enumerate(self._pool.map(self._prepare, self._kept[indices.numpy()].tolist())):
            rows[place] = row
        return torch.from_numpy(rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


def in_memory(rows: Iterable[Row | BrokenImageError], shape: tuple[int, ...]) -> tuple[Memory, Broken]:
    """Keeps the squares, at most shape[0] of them; with (position, reason) of each that could not be read."""
    pixels = np.empty(shape, np.uint8)
    broken: Broken = []
    for position, row in enumerate(rows):
        if isinstance(row, BrokenImageError):
            broken.append((position, row.reason))
        else:
            pixels[position - len(broken)] = row
    return Memory(torch.from_numpy(pixels[: shape[0] - len(broken)])), broken
