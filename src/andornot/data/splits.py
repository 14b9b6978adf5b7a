"""Which split of a data set to train on, and which to hold out."""

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from .imageset import ImageSet
from .sources import open_images

_YEAR: Final = re.compile(r"\d{4}$")


class Splits(NamedTuple):
    """The images to train on, and those that are held out to measure with, if there are any."""

    train: ImageSet
    held_out: ImageSet | None


def train_split(spec: str | os.PathLike[str]) -> Splits:
    """Return the images of a source to train on, and the held-out ones.

    Held out is the split `test`; where there is none `val`, unless the source itself counts it to `trainval`. All
    others are trained on. Of splits with a year in their names, as COCO's, only those of the latest year with a part
    to train on count: the same images are in several years. A spec that names a split is taken at its word, and
    nothing is held out.
    """
    images = open_images(spec)
    if images.split is not None:
        return Splits(images, None)
    splits = images.splits
    year = next((year for year in years(splits) if {f"train{year}", f"trainval{year}"} & {*splits}), "")
    trainval, val, test = (f"{name}{year}" for name in ("trainval", "val", "test"))
    name = test if test in splits else val if val in splits and trainval not in splits else None
    held_out = None if name is None else _part(images, name, spec)
    if year:
        return Splits(_part(images, trainval if trainval in splits else f"train{year}", spec), held_out)
    if held_out is None:
        return Splits(images, None)
    names = set(held_out.names)
    return Splits(images.subset(np.array([name not in names for name in images.names])), held_out)


def _part(images: ImageSet, split: str, spec: str | os.PathLike[str]) -> ImageSet:
    """Return a split of a set of all images; opened separately if it is not in the set, as test scenes."""
    if not len(images.parts.get(split, ())):
        return open_images(spec, split=split)
    part = images.subset(images.parts[split])
    part.split = split
    return part


def years(splits: Sequence[str]) -> list[str]:
    """Return the years in the names of splits, as in COCO's train2017, latest first, then an empty string.

    >>> years(["train2014", "val2014", "train2017", "val2017"])
    ['2017', '2014', '']
    """
    found = {match[0] for split in splits if (match := _YEAR.search(split))}
    return [*sorted(found, reverse=True), ""]
