"""Data sets resized to squares of one size: in memory, in a disk cache, or decoded on access."""

import hashlib
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from ..errors import printable
from .cache import DiskCache, default_cache_folder
from .converting import Fit, check_fit
from .errors import BrokenImageError, DataError
from .readers import Preparation, Prepare, Row, default_workers, prepare_all

if TYPE_CHECKING:
    from .imageset import ImageSet

Broken = list[tuple[int, str]]


class Store(Protocol):
    """Square images by index."""

    def get(self, indices: Tensor) -> Tensor:
        """Return a copy of the images at indices (B,) as uint8 (B, C, size, size)."""


class Memory:
    """One uint8 tensor (n, C, size, size)."""

    def __init__(self, pixels: Tensor) -> None:
        self._pixels = pixels

    def get(self, indices: Tensor) -> Tensor:
        """Return a copy of the images at `indices`."""
        return self._pixels.index_select(0, indices)


class Disk:
    """A memory-mapped file."""

    def __init__(self, pixels: np.memmap) -> None:
        self._pixels = pixels

    def get(self, indices: Tensor) -> Tensor:
        """Read the images at `indices`."""
        return torch.from_numpy(np.array(self._pixels[indices.numpy()]))

    def __reduce__(self) -> tuple[Callable[..., "Disk"], tuple[Any, ...]]:
        # Pickle the path instead of the pixels; another process maps the file again.
        return _mapped, (self._pixels.filename, self._pixels.shape)


def _mapped(path: str, shape: tuple[int, ...]) -> Disk:
    return Disk(np.memmap(path, np.uint8, "r", shape=shape))


class Decoded:
    """Images that are not stored but decoded by threads on every access."""

    def __init__(self, prepare: Prepare, kept: np.ndarray, shape: tuple[int, ...], workers: int | None) -> None:
        self._prepare = prepare
        self._kept = kept
        self._shape = shape
        self._workers = workers or default_workers()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def get(self, indices: Tensor) -> Tensor:
        """Decode the images at `indices`; raise a BrokenImageError if one became unreadable."""
        if self._pool is None or self._process != os.getpid():
            # Started on first use in each process: threads do not survive a fork, and a DataLoader may fork.
            self._pool = ThreadPoolExecutor(self._workers, "andornot-images")
            self._process = os.getpid()
        rows = np.empty((len(indices), *self._shape), np.uint8)
        for place, row in enumerate(self._pool.map(self._prepare, self._kept[indices.numpy()].tolist())):
            rows[place] = row
        return torch.from_numpy(rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


def in_memory(rows: Iterable[Row | BrokenImageError], shape: tuple[int, ...]) -> tuple[Memory, Broken]:
    """Load at most shape[0] images, and return (position, reason) of each one that could not be read."""
    pixels = np.empty(shape, np.uint8)
    broken: Broken = []
    for position, row in enumerate(rows):
        if isinstance(row, BrokenImageError):
            broken.append((position, row.reason))
        else:
            pixels[position - len(broken)] = row
    return Memory(torch.from_numpy(pixels[: shape[0] - len(broken)])), broken


GIB: Final = 2**30
# The number of broken images that a report lists.
_REPORTED: Final = 10
Storage = Literal["memory", "disk", "decoded"]


class ResizedImages:
    """The readable images of a set: `images[index]` copies them to a uint8 tensor (B, C, size, size).

    `index` is an int64 tensor or a list (B,), a bool mask (n,), a slice, or one int, which drops the first dimension.
    `labels` (n, classes) and `names` belong to these images, `kept` (n,) are their indices in the `ImageSet`, `broken`
    has a (name, reason) for each image left out, and `storage` says where the pixels are.
    """

    def __init__(self, store: Store | None, images: "ImageSet", size: int, broken: Broken, storage: Storage) -> None:
        kept = _kept(len(images), broken)
        if store is None or not len(kept):
            name, reason = images.names[broken[0][0]], broken[0][1]
            raise DataError(f"none of the {len(images):,} images can be read; {name}: {reason}")
        self._store = store
        self.storage = storage
        self.size = size
        self.channels = images.channels
        self.class_names = images.class_names
        self.kept = torch.from_numpy(kept)
        readable = images.subset(kept) if broken else images
        self.names, self.labels = readable.names, readable.labels
        self.broken = [(images.names[position], reason) for position, reason in broken]

    def __len__(self) -> int:
        return len(self.kept)

    def __repr__(self) -> str:
        return f"ResizedImages({len(self):,} of {self.channels} x {self.size} x {self.size}, storage={self.storage!r})"

    @property
    def targets(self) -> Tensor | None:
        """The class index of each image `(n,)`, or `labels` if images may have no class or several, or None."""
        return class_targets(self.labels)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(n, C, size, size)."""
        return len(self), self.channels, self.size, self.size

    def __getitem__(self, index: SupportsIndex | slice | Sequence[int] | np.ndarray | Tensor) -> Tensor:
        if isinstance(index, slice):
            return self._store.get(torch.from_numpy(np.arange(len(self))[index]))
        chosen = torch.as_tensor(index)
        if chosen.ndim == 0:
            return self._store.get(self._checked(torch.tensor([operator.index(chosen)])))[0]
        if chosen.dtype == torch.bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of shape {tuple(chosen.shape)} for {len(self)} images")
            chosen = chosen.nonzero().flatten()
        return self._store.get(self._checked(chosen.to("cpu", torch.int64)))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def broken_report(self) -> str:
        """Return a text that lists the first few images left out, with reasons; empty if there are none."""
        if not self.broken:
            return ""
        lines = [f"{len(self.broken):,} of {len(self) + len(self.broken):,} images could not be read:"]
        lines += [f"  {printable(name)}: {reason}" for name, reason in self.broken[:_REPORTED]]
        if len(self.broken) > _REPORTED:
            lines.append(f"  … and {len(self.broken) - _REPORTED:,} more")
        return "\n".join(lines)

    def _checked(self, index: Tensor) -> Tensor:
        if index.ndim != 1:
            raise IndexError(f"expected numbers of images (B,), got a tensor of shape {tuple(index.shape)}")
        if index.numel() and not (-len(self) <= int(index.min()) and int(index.max()) < len(self)):
            raise IndexError(f"there are {len(self)} images, numbered from 0")
        return torch.where(index < 0, index + len(self), index)


def class_targets(labels: Tensor | None) -> Tensor | None:
    """Return the class indices `(n,)` of labels `(n, classes)` with one class each; other labels unchanged.

    >>> class_targets(torch.eye(3, dtype=torch.bool))
    tensor([0, 1, 2])
    """
    if labels is None or not bool((labels.sum(1) == 1).all()):
        return labels
    return labels.int().argmax(1)


def load_resized(
    images: "ImageSet",
    size: int,
    fit: Fit,
    *,
    strict: bool,
    memory_limit: int,
    cache: str | os.PathLike[str] | None,
    cache_limit: int,
    workers: int | None,
    progress: bool,
) -> ResizedImages:
    """Implement `ImageSet.resized`; see there for the arguments."""
    check_fit(fit)
    if size < 1:
        raise DataError(f"the size of an image is 1 or more, not {size}")
    if not len(images):
        raise DataError("the set is empty: there is no image to read")
    count, shape = len(images), (images.channels, size, size)
    needed = count * int(np.prod(shape))
    if needed <= memory_limit and (squares := _already_square(images, size)) is not None:
        return ResizedImages(Memory(squares), images, size, [], "memory")

    prepare = Preparation(images.reader, images.indices, size, fit)

    def rows(text: str) -> Iterator[Row | BrokenImageError]:
        return prepare_all(prepare, count, strict=strict, workers=workers, progress=progress, text=text)

    if needed <= memory_limit:
        store, broken = in_memory(rows("reading images"), (count, *shape))
        return ResizedImages(store, images, size, broken, "memory")
    if needed <= cache_limit:
        disk = DiskCache(cache or default_cache_folder(), cache_limit)
        try:
            entry = disk.get_or_write(_key(images, size, fit), shape, count, rows("resizing images to a cache"))
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(f"no cache in {disk.folder} ({reason}): images are decoded anew each time", stacklevel=3)
        else:
            if strict and entry.broken:
                raise BrokenImageError(images.names[entry.broken[0][0]], entry.broken[0][1])
            return ResizedImages(
                Disk(entry.pixels) if entry.pixels is not None else None, images, size, entry.broken, "disk"
            )
    checked = enumerate(rows("checking images"))
    broken = [(position, row.reason) for position, row in checked if isinstance(row, BrokenImageError)]
    return ResizedImages(Decoded(prepare, _kept(count, broken), shape, workers), images, size, broken, "decoded")


def _kept(count: int, broken: Broken) -> np.ndarray:
    readable = np.ones(count, dtype=bool)
    readable[[position for position, _ in broken]] = False
    return np.flatnonzero(readable)


def _already_square(images: "ImageSet", size: int) -> Tensor | None:
    pixels = images.reader.pixels(images.indices)
    if pixels is None or pixels.shape[1:3] != (size, size):
        return None
    tensor = torch.from_numpy(pixels)
    return tensor.unsqueeze(1) if tensor.ndim == 3 else tensor.permute(0, 3, 1, 2).contiguous()


def _key(images: "ImageSet", size: int, fit: Fit) -> str:
    """Return a cache key for these images at this size; it changes when any image changes."""
    digest = hashlib.sha256(f"{size}|{fit}|{images.channels}".encode())
    for index in images.indices:
        digest.update(b"\0" + os.fsencode(images.reader.key(int(index))))
    return digest.hexdigest()[:32]


# Stored size / view size: with 2, a crop of a quarter of the area has as many pixels as the view.
_SHARPNESS: Final = 2


# Images up to this side length are stored without a margin.
_SMALL: Final = 64


class UncroppedImages(NamedTuple):
    """Images squashed to squares, with their original heights and widths `(n, 2)`; None if they were square.

    Images of different shapes thus form one tensor. A crop of the original is a rectangle of the square as well, so one
    matrix product crops a whole batch and undoes the distortion.
    """

    images: ResizedImages
    shapes: Tensor | None = None


def with_margin(size: int) -> int:
    """Return the side length at which to store images for views of this size: 8/7 of it, unless it is small.

    >>> with_margin(224), with_margin(28)
    (256, 28)
    """
    return size if size <= _SMALL else size * 8 // 7


def open_uncropped(images: "ImageSet", size: int, *, strict: bool = False, progress: bool = True) -> UncroppedImages:
    """Load whole images, at twice the size of the views, or that of the largest original if that is smaller."""
    shapes = images.shapes()
    side = min(_SHARPNESS * size, int(shapes.max()))
    resized = images.resized(side, "squash", strict=strict, progress=progress)
    return UncroppedImages(resized, shapes[resized.kept])
