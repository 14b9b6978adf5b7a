"""`ImageSet`: images that are read when indexed, with labels and boxes if the source has them."""

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from .converting import Fit, to_tensor
from .errors import BrokenImageError, DataError
from .readers import ImageReader
from .resized import GIB, ResizedImages, class_targets, load_resized

T = TypeVar("T")

Box = tuple[int, tuple[float, float, float, float]]
"""The number of the class, and (x0, y0, x1, y1) in pixels from the top left corner, x1 and y1 exclusive."""


class ImageSet(Dataset[tuple[Any, Tensor]]):
    """Images by number, lazily, as a data set of torch: `image, label = images[i]`, for any `DataLoader`.

    The image is a uint8 tensor (C, H, W) at its original size, or what `transform` makes of it. The label is a row of
    `labels`, bool (classes,); of a set without labels it is an empty row (0,), so that batches can be made of it too.

    - `labels` is a bool tensor (n, classes), several true where an image shows several classes; None without labels.
    - `boxes[i]` is a list of `Box`, in pixels of the upright original; `boxes` is None where the source has none.
    - `channels` is 1 for grey and 3 for colour; `split` the part that was asked for, `splits` the parts there are.
    - `parts` has the numbers of the images of each split, where the set is of several.
    - `source` is the name of the source that it was opened from, such as `voc`; None for a set made by hand.
    - `images[i]`, `names[i]`: the images without labels, whatever the transform, and texts that stand for them.
    """

    def __init__(
        self,
        reader: ImageReader,
        names: Sequence[str],
        *,
        labels: Tensor | None = None,
        class_names: Sequence[str] = (),
        boxes: Sequence[list[Box]] | None = None,
        channels: int = 3,
        split: str | None = None,
        splits: Sequence[str] = (),
        parts: Mapping[str, Sequence[int] | np.ndarray] | None = None,
        source: str | None = None,
        indices: np.ndarray | None = None,
        transform: Callable[[Tensor], Any] | None = None,
    ) -> None:
        self.reader = reader
        self.indices = np.arange(len(reader)) if indices is None else indices
        self.names = names
        self.labels = labels
        self.class_names = tuple(class_names)
        self.boxes = boxes
        self.channels = channels
        self.split = split
        self.splits = tuple(splits)
        self.parts = parts or {}
        self.source = source
        self.transform = transform
        expected = len(self.indices)
        for what, items in (("names", names), ("labels", labels), ("boxes", boxes)):
            if items is not None and len(items) != expected:
                raise ValueError(f"{len(items)} {what} for {expected} images")
        if labels is not None and (labels.dtype != torch.bool or labels.shape[1:] != (len(self.class_names),)):
            raise ValueError(f"labels are bool (n, {len(self.class_names)}), not {labels.dtype} {tuple(labels.shape)}")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Tensor]:
        """Return an image and its label; a BrokenImageError if it cannot be read, an IndexError beyond the last."""
        position = operator.index(index)
        image = self.images[position]
        label = torch.zeros(0, dtype=torch.bool) if self.labels is None else self.labels[position]
        return image if self.transform is None else self.transform(image), label

    def __repr__(self) -> str:
        labels = f", {len(self.class_names)} classes" if self.labels is not None else ""
        split = f", split={self.split!r}" if self.split else ""
        colour = "grey" if self.channels == 1 else "colour"
        return f"ImageSet({len(self):,} images in {colour}{labels}{split})"

    def name(self, index: int) -> str:
        """Return a stable name of the image: its path, or for example "digits/17"."""
        return self.names[index]

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """Return the image as a Pillow image in mode L or RGB, or raise a BrokenImageError.

        With `size` it may be smaller than the original, but not below twice that size: big JPEGs are faster then.
        """
        return self.reader.read(int(self.indices[index]), size)

    def shapes(self) -> Tensor:
        """Return height and width `(n, 2)` of each upright original, from the file headers; 1 x 1 for a broken one."""
        return torch.tensor([self._shape(int(index)) for index in self.indices], dtype=torch.int64).view(-1, 2)

    def _shape(self, index: int) -> tuple[int, int]:
        try:
            width, height = self.reader.measure(index)
        except BrokenImageError:
            return 1, 1
        return height, width

    @property
    def targets(self) -> Tensor | None:
        """The class number of each image `(n,)`, or `labels` if some image shows no class or several; None without."""
        return class_targets(self.labels)

    @property
    def images(self) -> Sequence[Tensor]:
        """The images at their original sizes: `images[i]` is a uint8 tensor (C, H, W)."""
        return _Images(self)

    def subset(self, indices: Sequence[int] | Tensor | np.ndarray) -> "ImageSet":
        """Return the images with these indices, in that order; nothing is read."""
        chosen = np.asarray(indices)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise DataError(f"a mask of shape {chosen.shape} for {len(self)} images")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64).reshape(-1)
        if chosen.size and not (-len(self) <= chosen.min() and chosen.max() < len(self)):
            wrong = chosen[(chosen < -len(self)) | (chosen >= len(self))][0]
            raise DataError(f"there are {len(self)} images, numbered from 0; {wrong} was asked for")
        chosen = np.where(chosen < 0, chosen + len(self), chosen)
        return ImageSet(
            self.reader,
            Chosen(self.names, chosen),
            labels=None if self.labels is None else self.labels[torch.from_numpy(chosen)],
            class_names=self.class_names,
            boxes=None if self.boxes is None else Chosen(self.boxes, chosen),
            channels=self.channels,
            split=self.split,
            splits=self.splits,
            source=self.source,
            indices=self.indices[chosen],
            transform=self.transform,
        )

    def resized(
        self,
        size: int,
        fit: Fit = "crop",
        *,
        strict: bool = False,
        memory_limit: int = 2 * GIB,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: int = 20 * GIB,
        workers: int | None = None,
        progress: bool = True,
    ) -> ResizedImages:
        """Return all images as `size` x `size`, to be indexed in batches.

        `fit="crop"` takes the center, with the shorter side resized to `size`; `"squash"` takes all, distorted.
        Images that cannot be read are left out and listed in `broken`; with `strict` the first of them is raised.

        Up to `memory_limit` bytes the result is one tensor in memory. Beyond, it is a file in the folder `cache`
        (default: the user's cache folder, or `$ANDORNOT_CACHE`), used again next time, where all files together stay
        below `cache_limit` bytes. Beyond that too, images are decoded by `workers` threads (default: one a core)
        whenever they are asked for. `progress` shows a bar on a terminal if it takes longer than a second.
        """
        return load_resized(
            self,
            size,
            fit,
            strict=strict,
            memory_limit=memory_limit,
            cache=cache,
            cache_limit=cache_limit,
            workers=workers,
            progress=progress,
        )


class Chosen(Sequence[T], Generic[T]):
    """The items at the given positions; each is fetched when it is asked for.

    >>> Chosen("abcdef", np.array([5, 0, 0]))[0]
    'f'
    """

    def __init__(self, items: Sequence[T], indices: np.ndarray) -> None:
        self._items = items
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "Chosen[T]": ...
    def __getitem__(self, index: int | slice) -> "T | Chosen[T]":
        if isinstance(index, slice):
            return Chosen(self._items, self._indices[index])
        return self._items[int(self._indices[index])]

    def __iter__(self) -> Iterator[T]:
        return (self._items[int(index)] for index in self._indices)


class _Images(Sequence[Tensor]):
    def __init__(self, images: ImageSet) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            raise TypeError("originals differ in size: take them one by one, or use .resized(size)")
        return to_tensor(self._images.read(index))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))


def multi_hot(classes: Sequence[Sequence[int]] | np.ndarray, num_classes: int) -> Tensor:
    """Return labels as a bool tensor (n, num_classes): of one class each (n,), or of a list of classes each.

    >>> multi_hot([[0, 2], []], 3)
    tensor([[ True, False,  True],
            [False, False, False]])
    """
    labels = torch.zeros(len(classes), num_classes, dtype=torch.bool)
    if isinstance(classes, np.ndarray):
        labels[torch.arange(len(classes)), torch.from_numpy(classes.astype(np.int64))] = True
    else:
        for row, present in enumerate(classes):
            labels[row, list(present)] = True
    return labels
