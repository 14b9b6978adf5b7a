"""`ImageSet`: a data set of images that are read when indexed, with labels and boxes if the source has them."""

import hashlib
import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from .converting import Fit, to_rgb, to_tensor
from .errors import BrokenImageError, DataError
from .inputs import as_image, image_of
from .readers import ImageReader
from .resized import GIB, ResizedImages, class_targets, load_resized

T = TypeVar("T")

Box = tuple[int, tuple[float, float, float, float]]
"""The class index, and (x0, y0, x1, y1) in pixels from the top left corner, x1 and y1 exclusive."""


class ImageSet(Dataset[tuple[Any, Tensor]]):
    """A map-style torch data set of images that are read lazily: `image, label = images[i]`, for any `DataLoader`.

    The image is a uint8 tensor (C, H, W) at its original size, or the result of `transform`. The label is a row of
    `labels`, bool (classes,). Without labels it is an empty row (0,), so that batches can still be collated.

    - `labels` is a bool tensor (n, classes), with several true values if an image shows several classes, or None.
    - `boxes[i]` is a list of `Box`, in pixels of the upright original; `boxes` is None if the source has none.
    - `channels` is 1 for grey and 3 for colour; `split` is the requested split, `splits` are all splits of the source.
    - `parts` has the indices of the images of each split, if the set contains several.
    - `source` is the name of the source it was opened from, such as `voc`; None for a set constructed directly.
    - `images[i]` and `names[i]` are the images without labels and transform, and their names.
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

    @classmethod
    def from_dataset(cls, dataset: Dataset[Any], *, labelled: bool = True) -> "ImageSet":
        """Wrap any map-style data set whose items are an image or (image, class index).

        An image is a PIL image, an array or a tensor; items that raise an OSError count as broken images. The classes
        are `dataset.targets`, which data sets of torchvision have; else they are read from the items, one by one,
        unless `labelled` is false.

        >>> from torch.utils.data import TensorDataset
        >>> ImageSet.from_dataset(TensorDataset(torch.zeros(5, 3, 8, 8), torch.tensor([0, 1, 2, 0, 1])))
        ImageSet(5 images in colour, 3 classes)
        """
        count = len(dataset)  # type: ignore[arg-type]
        if not count:
            raise DataError("the data set is empty")
        first = dataset[0]
        targets = getattr(dataset, "targets", None)
        if targets is None and labelled and isinstance(first, tuple | list) and len(first) == 2:
            targets = [dataset[index][1] for index in range(count)]
        classes = None if targets is None else np.asarray(targets)
        if classes is not None and (classes.ndim != 1 or not np.issubdtype(classes.dtype, np.integer)):
            classes = None
        names = getattr(dataset, "classes", None) or range(0 if classes is None else int(classes.max()) + 1)
        channels = 1 if as_image(image_of(first)).mode in ("1", "L") else 3
        return cls(
            _DatasetReader(dataset, channels),
            [str(index) for index in range(count)],
            labels=None if classes is None else multi_hot(classes, len(names)),
            class_names=() if classes is None else [str(name) for name in names],
            channels=channels,
        )

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Tensor]:
        """Return an image and its label; raise a BrokenImageError if it cannot be read."""
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
        """Return a stable name of the image: its path, or a name such as "digits/17"."""
        return self.names[index]

    def read(self, index: int, size: int | None = None) -> Image.Image:
        """Return the image as a Pillow image in mode L or RGB, or raise a BrokenImageError.

        With `size`, it may be smaller than the original, but not below twice that size; large JPEGs are then faster.
        """
        return self.reader.read(int(self.indices[index]), size)

    def read_parts(self, size: int, count: int = 256) -> Iterator[list[Image.Image]]:
        """Yield all images in lists of `count`, each as returned by `read(index, size)`."""
        for start in range(0, len(self), count):
            yield [self.read(index, size) for index in range(start, min(start + count, len(self)))]

    def shapes(self) -> Tensor:
        """Return height and width `(n, 2)` of each upright original, from file headers; 1 x 1 for broken images."""
        return torch.tensor([self._shape(int(index)) for index in self.indices], dtype=torch.int64).view(-1, 2)

    def _shape(self, index: int) -> tuple[int, int]:
        try:
            width, height = self.reader.measure(index)
        except BrokenImageError:
            return 1, 1
        return height, width

    @property
    def targets(self) -> Tensor | None:
        """The class index of each image `(n,)`, or `labels` if images may have no class or several, or None."""
        return class_targets(self.labels)

    @property
    def images(self) -> Sequence[Tensor]:
        """The images at their original sizes: `images[i]` is a uint8 tensor (C, H, W)."""
        return _Images(self)

    def subset(self, indices: Sequence[int] | Tensor | np.ndarray) -> "ImageSet":
        """Return the images with these indices, in this order, without reading them."""
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
        """Return all images resized to `size` x `size`, to be indexed in batches.

        `fit="crop"` resizes the shorter side to `size` and crops the center; `"squash"` distorts the whole image.
        Images that cannot be read are left out and listed in `broken`; with `strict`, the first one raises its error.

        Up to `memory_limit` bytes, the result is a tensor in memory. Larger results are stored and reused as a file in
        the folder `cache` (default: `$ANDORNOT_CACHE` or the user's cache folder), whose total size stays below
        `cache_limit` bytes. Results beyond that limit are not stored: `workers` threads (default: one per core) decode
        images on access. `progress` shows a progress bar on a terminal if it takes longer than a second.
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


class _DatasetReader:
    """Images of a torch data set, read one at a time because few data sets are thread-safe."""

    def __init__(self, dataset: Dataset[Any], channels: int) -> None:
        self._dataset, self._channels = dataset, channels
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _DatasetReader, (self._dataset, self._channels)

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def read(self, index: int, size: int | None = None) -> Image.Image:
        try:
            with self._lock:
                image = image_of(self._dataset[index])
            return to_rgb(as_image(image), self._channels, size)
        except OSError as error:
            raise BrokenImageError(str(index), str(error)) from None

    def measure(self, index: int) -> tuple[int, int]:
        return self.read(index).size

    def key(self, index: int) -> str:
        return hashlib.sha256(self.read(index).tobytes()).hexdigest()

    def pixels(self, indices: np.ndarray) -> None:  # noqa: ARG002
        return


class Chosen(Sequence[T], Generic[T]):
    """A lazy selection of items by index.

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
    """Return a bool tensor (n, num_classes) of labels, given one class (n,) or a list of classes per image.

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
