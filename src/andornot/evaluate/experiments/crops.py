"""Crops of two objects in one image: is the feature of an object higher in the crop that shows it?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from ...data import Box, ImageSet
from ...data.converting import Fit
from ...model import Model
from ..metrics.intervals import Interval, wilson

Rectangle = tuple[float, float, float, float]
"""(x0, y0, x1, y1) in pixels, as in a `Box`."""

# More than this fraction of an object's area must be visible when the model encodes the whole image.
MIN_IN_VIEW: Final = 0.5
# The margin of a crop around its object, if possible, as a fraction of the object's size.
MARGIN: Final = 0.2
# The largest overlap of a crop with objects of the other class, as a fraction of the smaller area.
MAX_OVERLAP: Final = 0.1
# The number of images whose crops are encoded at once.
_BLOCK: Final = 64


class ObjectPair(NamedTuple):
    """An image (as an index of the set) with objects of two classes, and a crop around one object of each."""

    number: int
    classes: tuple[int, int]
    crops: tuple[Rectangle, Rectangle]


@dataclass(frozen=True)
class CropSummary:
    """How often the feature of an object is higher in its own crop than in the other, and its mean degrees."""

    images: int
    higher_in_own_crop: Interval
    whole: float
    own_crop: float
    other_crop: float


@dataclass(frozen=True)
class CropDegrees:
    """Degrees `(P, 2, 3)` of the features of the two classes of P pairs.

    The last dimension is the degree in the whole image, in the crop of the object of that class, and in the other crop.
    """

    pairs: Sequence[ObjectPair]
    degrees: Tensor

    def summarize(self, objects: Tensor) -> CropSummary:
        """Return the summary over the objects of a mask `(P, 2)`; ties between crops count half."""
        whole, own, other = self.degrees[objects].double().unbind(dim=1)
        rate = float(((own > other).double() + (own >= other).double()).mean() / 2)
        images = int(objects.any(dim=1).sum())
        return CropSummary(images, wilson(rate, images), float(whole.mean()), float(own.mean()), float(other.mean()))


def crop_degrees(model: Model, images: ImageSet, degrees: Tensor, features: Mapping[int, int]) -> CropDegrees:
    """Crop and encode the two objects of every image that has objects of two classes.

    `degrees` `(n, N)` are those of the whole images; `features` maps a class to its feature.
    """
    pairs: list[ObjectPair] = []
    measured = [torch.zeros(0, 2, 3)]
    found = _find_pairs(model, images, features)
    while block := list(islice(found, _BLOCK)):
        crops = model.encode([crop for _, both in block for crop in both], progress=False).degrees
        for (pair, _), (first, second) in zip(block, crops.view(len(block), 2, -1), strict=True):
            whole = degrees[pair.number]
            one, other = (features[number] for number in pair.classes)
            rows = [[whole[one], first[one], second[one]], [whole[other], second[other], first[other]]]
            measured.append(torch.tensor([rows]))
            pairs.append(pair)
    return CropDegrees(pairs, torch.cat(measured))


def _find_pairs(
    model: Model, images: ImageSet, features: Mapping[int, int]
) -> Iterator[tuple[ObjectPair, list[Tensor]]]:
    """Yield the images with boxes of exactly two classes that can be separated, in order, and their crops."""
    if images.boxes is None or images.labels is None:
        return
    for number in (images.labels.sum(1) == 2).nonzero().flatten().tolist():
        boxes = images.boxes[number]
        first, second = images.labels[number].nonzero().flatten().tolist()
        if first not in features or second not in features or {box[0] for box in boxes} != {first, second}:
            continue
        image = images.read(number)
        crops = separate_objects(boxes, (first, second), image.size, model.fit)
        if crops is not None:
            pair = ObjectPair(number, (first, second), crops)
            yield pair, crop_pair(image, pair, model)


def crop_pair(image: Image.Image, pair: ObjectPair, model: Model) -> list[Tensor]:
    """Return the two crops, preprocessed for the model."""
    return [model.preprocess(image.crop(_whole_pixels(crop))) for crop in pair.crops]


def separate_objects(
    boxes: Sequence[Box], classes: tuple[int, int], size: tuple[int, int], fit: Fit
) -> tuple[Rectangle, Rectangle] | None:
    """Return a crop of the largest object of each of two classes, or None if they are too close to each other.

    `size` is the image's width and height. Both objects must be visible when the model encodes the whole image;
    `fit="crop"` keeps its center only.
    """
    visible = _center(size) if fit == "crop" else (0.0, 0.0, float(size[0]), float(size[1]))
    crops = []
    for own in classes:
        largest = max((box for number, box in boxes if number == own), key=_area)
        if _intersection(largest, visible) <= MIN_IN_VIEW * _area(largest):
            return None
        crop = crop_around(largest, [box for number, box in boxes if number != own], size)
        if crop is None:
            return None
        crops.append(crop)
    return crops[0], crops[1]


def crop_around(box: Rectangle, others: Sequence[Rectangle], size: tuple[int, int]) -> Rectangle | None:
    """Return a rectangle in the image that contains the box and almost nothing of the others, or None.

    It tries a square with a margin, a square, the box with a margin, and the box alone.

    >>> crop_around((10, 10, 20, 30), [(40, 10, 60, 30)], (100, 100))
    (3.0, 8.0, 27.0, 32.0)
    """
    width, height = box[2] - box[0], box[3] - box[1]
    longer, grown = max(width, height), 1 + MARGIN
    for extent in (
        (grown * longer, grown * longer),
        (longer, longer),
        (grown * width, grown * height),
        (width, height),
    ):
        crop = min(_positions(box, extent, size), key=lambda position: _max_overlap(position, others))
        if _max_overlap(crop, others) <= MAX_OVERLAP:
            return crop
    return None


def _positions(box: Rectangle, extent: tuple[float, float], size: tuple[int, int]) -> list[Rectangle]:
    """Return rectangles of size `extent` within the image that contain the box, the centered one first."""
    ranges = []
    for low, high, wanted, end in zip(box[:2], box[2:], extent, size, strict=True):
        low, high, length = (
            max(low, 0.0),
            min(high, end),
            min(wanted, end),
        )  # boxes may exceed the image
        first, last = max(0.0, high - length), min(low, end - length)
        middle = min(max((low + high - length) / 2, first), last)
        ranges.append([(start, start + length) for start in (middle, first, last)])
    return [(x0, y0, x1, y1) for x0, x1 in ranges[0] for y0, y1 in ranges[1]]


def _center(size: tuple[int, int]) -> Rectangle:
    """Return the largest centered square."""
    side = min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def _area(box: Rectangle) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def _intersection(a: Rectangle, b: Rectangle) -> float:
    """Return the area that two rectangles share."""
    return _area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))


def _max_overlap(crop: Rectangle, others: Sequence[Rectangle]) -> float:
    """Return the largest overlap with one of the others, as a fraction of the smaller area."""
    return max((_intersection(crop, other) / (min(_area(crop), _area(other)) or 1.0) for other in others), default=0.0)


def _whole_pixels(crop: Rectangle) -> tuple[int, int, int, int]:
    return math.floor(crop[0]), math.floor(crop[1]), math.ceil(crop[2]), math.ceil(crop[3])
