"""Two objects of one picture, each cut out: has a crop more of the feature of the object that it shows?"""

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
from ...data.resizing import Fit
from ...model import Model
from ..metrics.intervals import Interval, wilson

Rectangle = tuple[float, float, float, float]
"""(x0, y0, x1, y1) in pixels, as in a `Box`."""

# More of an object than this, as a share of its area, must be in view where the model takes the whole picture.
MIN_IN_VIEW: Final = 0.5
# A crop is longer than its object by this, if it can be,
MARGIN: Final = 0.2
# and overlaps with objects of the other class by at most this, as a share of the smaller area.
MAX_OVERLAP: Final = 0.1
# The crops of so many pictures are encoded at a time.
_BLOCK: Final = 64


class Pair(NamedTuple):
    """A picture, by its number in the set, with objects of two classes, and a crop around one object of each."""

    number: int
    classes: tuple[int, int]
    crops: tuple[Rectangle, Rectangle]


@dataclass(frozen=True)
class CropSummary:
    """How often the feature of an object is higher in its own crop than in the other, and mean degrees of it."""

    pictures: int
    higher_in_own_crop: Interval
    whole: float
    own_crop: float
    other_crop: float


@dataclass(frozen=True)
class CropDegrees:
    """What crops show: `degrees` `(P, 2, 3)` of P pairs, of the features of their two classes.

    The three are the degree in the whole picture, in the crop to the object of that class, and in the other crop.
    """

    pairs: Sequence[Pair]
    degrees: Tensor

    def over(self, objects: Tensor) -> CropSummary:
        """The summary over some of the objects, a mask `(P, 2)`; where both crops have the same degree, half counts."""
        whole, own, other = self.degrees[objects].double().unbind(dim=1)
        rate = float(((own > other).double() + (own >= other).double()).mean() / 2)
        pictures = int(objects.any(dim=1).sum())
        return CropSummary(
            pictures, wilson(rate, pictures), float(whole.mean()), float(own.mean()), float(other.mean())
        )


def crop_degrees(model: Model, images: ImageSet, degrees: Tensor, features: Mapping[int, int]) -> CropDegrees:
    """Cuts the two objects out of every picture that has two, and encodes the crops.

    `degrees` `(n, N)` are those of the whole pictures, `features` has the feature of each class that has one.
    """
    pairs: list[Pair] = []
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


def _find_pairs(model: Model, images: ImageSet, features: Mapping[int, int]) -> Iterator[tuple[Pair, list[Tensor]]]:
    """The pictures with boxes of exactly two classes that can be cut apart, in order, and their crops."""
    if images.boxes is None or images.labels is None:
        return
    for number in (images.labels.sum(1) == 2).nonzero().flatten().tolist():
        boxes = images.boxes[number]
        first, second = images.labels[number].nonzero().flatten().tolist()
        if first not in features or second not in features or {box[0] for box in boxes} != {first, second}:
            continue
        picture = images.read(number)
        crops = cut_apart(boxes, (first, second), picture.size, model.recipe.fit)
        if crops is not None:
            pair = Pair(number, (first, second), crops)
            yield pair, cut_out(picture, pair, model)


def cut_out(picture: Image.Image, pair: Pair, model: Model) -> list[Tensor]:
    """The two crops, as the model takes them."""
    return [model.preprocess(picture.crop(_whole_pixels(crop))) for crop in pair.crops]


def cut_apart(
    boxes: Sequence[Box], classes: tuple[int, int], size: tuple[int, int], fit: Fit
) -> tuple[Rectangle, Rectangle] | None:
    """A crop to the largest object of each of two classes, or None where they are too near to each other.

    `size` is the picture's width and height. Both objects must be in view when the model takes the whole picture, of
    which `fit="crop"` keeps the centre.
    """
    seen = _centre(size) if fit == "crop" else (0.0, 0.0, float(size[0]), float(size[1]))
    crops = []
    for own in classes:
        largest = max((box for number, box in boxes if number == own), key=_area)
        if _common(largest, seen) <= MIN_IN_VIEW * _area(largest):
            return None
        crop = crop_around(largest, [box for number, box in boxes if number != own], size)
        if crop is None:
            return None
        crops.append(crop)
    return crops[0], crops[1]


def crop_around(box: Rectangle, others: Sequence[Rectangle], size: tuple[int, int]) -> Rectangle | None:
    """A rectangle in the picture that contains the box and next to nothing of the others, or None.

    If possible it is a square with a margin, else a square, the box with a margin, or at last the box alone.

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
        crop = min(_places(box, extent, size), key=lambda place: _most_overlap(place, others))
        if _most_overlap(crop, others) <= MAX_OVERLAP:
            return crop
    return None


def _places(box: Rectangle, extent: tuple[float, float], size: tuple[int, int]) -> list[Rectangle]:
    """Rectangles of that width and height, as far as the picture has it, that contain the box: centred first."""
    ranges = []
    for low, high, wanted, end in zip(box[:2], box[2:], extent, size, strict=True):
        low, high, length = max(low, 0.0), min(high, end), min(wanted, end)  # a box may reach outside by a pixel
        first, last = max(0.0, high - length), min(low, end - length)
        middle = min(max((low + high - length) / 2, first), last)
        ranges.append([(start, start + length) for start in (middle, first, last)])
    return [(x0, y0, x1, y1) for x0, x1 in ranges[0] for y0, y1 in ranges[1]]


def _centre(size: tuple[int, int]) -> Rectangle:
    """The largest square in the middle."""
    side = min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def _area(box: Rectangle) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def _common(a: Rectangle, b: Rectangle) -> float:
    """The area that two rectangles share."""
    return _area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))


def _most_overlap(crop: Rectangle, others: Sequence[Rectangle]) -> float:
    """The largest common area with one of the others, as a share of the smaller of the two."""
    return max((_common(crop, other) / (min(_area(crop), _area(other)) or 1.0) for other in others), default=0.0)


def _whole_pixels(crop: Rectangle) -> tuple[int, int, int, int]:
    return math.floor(crop[0]), math.floor(crop[1]), math.ceil(crop[2]), math.ceil(crop[3])
