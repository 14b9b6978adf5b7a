"""All pictures of a set as squares of one size, by number: from memory, from a cache on disk, or decoded anew."""

import hashlib
import operator
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from ..errors import printable
from .cache import DiskCache, default_cache_folder
from .errors import BrokenImageError, DataError
from .loading import Preparation, Row, prepare_all
from .resizing import Fit, check_fit
from .stores import Broken, Decoded, Disk, Memory, Store, in_memory

if TYPE_CHECKING:
    from .imageset import ImageSet

GIB: Final = 2**30
# Broken pictures that a report names.
_REPORTED: Final = 10
Storage = Literal["memory", "disk", "decoded"]


class Pictures:
    """The readable pictures of a set: `pictures[index]` is a uint8 tensor (B, C, size, size), a copy.

    `index` is an int64 tensor or a list (B,), a bool mask (n,), a slice, or one int, which drops the first dimension.
    `labels` (n, classes) and `names` are aligned with it, `kept` (n,) has the positions in the `ImageSet`, `broken`
    a (name, reason) for each picture left out, and `storage` says where the pixels are.
    """

    def __init__(self, store: Store | None, images: "ImageSet", size: int, broken: Broken, storage: Storage) -> None:
        kept = _kept(len(images), broken)
        if store is None or not len(kept):
            name, reason = images.names[broken[0][0]], broken[0][1]
            raise DataError(f"none of the {len(images):,} pictures can be read; {name}: {reason}")
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
        return f"Pictures({len(self):,} of {self.channels} x {self.size} x {self.size}, storage={self.storage!r})"

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
                raise IndexError(f"a mask of shape {tuple(chosen.shape)} for {len(self)} pictures")
            chosen = chosen.nonzero().flatten()
        return self._store.get(self._checked(chosen.to("cpu", torch.int64)))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def broken_report(self) -> str:
        """What was left out and why, a line each for the first few; empty if nothing was."""
        if not self.broken:
            return ""
        lines = [f"{len(self.broken):,} of {len(self) + len(self.broken):,} pictures could not be read:"]
        lines += [f"  {printable(name)}: {reason}" for name, reason in self.broken[:_REPORTED]]
        if len(self.broken) > _REPORTED:
            lines.append(f"  … and {len(self.broken) - _REPORTED:,} more")
        return "\n".join(lines)

    def _checked(self, index: Tensor) -> Tensor:
        if index.ndim != 1:
            raise IndexError(f"expected numbers of pictures (B,), got a tensor of shape {tuple(index.shape)}")
        if index.numel() and not (-len(self) <= int(index.min()) and int(index.max()) < len(self)):
            raise IndexError(f"there are {len(self)} pictures, numbered from 0")
        return torch.where(index < 0, index + len(self), index)


def load_pictures(
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
) -> Pictures:
    """`ImageSet.pictures`, which describes the arguments."""
    check_fit(fit)
    if size < 1:
        raise DataError(f"the size of a picture is 1 or more, not {size}")
    if not len(images):
        raise DataError("the set is empty: there is no picture to read")
    count, shape = len(images), (images.channels, size, size)
    needed = count * int(np.prod(shape))
    if needed <= memory_limit and (squares := _already_square(images, size)) is not None:
        return Pictures(Memory(squares), images, size, [], "memory")

    prepare = Preparation(images.reader, images.indices, size, fit)

    def rows(text: str) -> Iterator[Row | BrokenImageError]:
        return prepare_all(prepare, count, strict=strict, workers=workers, progress=progress, text=text)

    if needed <= memory_limit:
        store, broken = in_memory(rows("reading pictures"), (count, *shape))
        return Pictures(store, images, size, broken, "memory")
    if needed <= cache_limit:
        disk = DiskCache(cache or default_cache_folder(), cache_limit)
        try:
            entry = disk.get_or_write(_key(images, size, fit), shape, count, rows("resizing pictures to a cache"))
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(f"no cache in {disk.folder} ({reason}): pictures are decoded anew each time", stacklevel=3)
        else:
            if strict and entry.broken:
                raise BrokenImageError(images.names[entry.broken[0][0]], entry.broken[0][1])
            return Pictures(
                Disk(entry.pixels) if entry.pixels is not None else None, images, size, entry.broken, "disk"
            )
    checked = enumerate(rows("checking pictures"))
    broken = [(position, row.reason) for position, row in checked if isinstance(row, BrokenImageError)]
    return Pictures(Decoded(prepare, _kept(count, broken), shape, workers), images, size, broken, "decoded")


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
    """A name for these pictures at this size, which changes when any of them changes."""
    digest = hashlib.sha256(f"{size}|{fit}|{images.channels}".encode())
    for index in images.indices:
        digest.update(b"\0" + os.fsencode(images.reader.key(int(index))))
    return digest.hexdigest()[:32]
