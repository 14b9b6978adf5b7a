"""Which part of a data set is trained on, and which is held out: decided here for all that train."""

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from .imageset import ImageSet
from .sources import open_images

_YEAR: Final = re.compile(r"\d{4}$")


class Parts(NamedTuple):
    """The pictures to train on, and those that are held out to measure with, if there are any."""

    train: ImageSet
    held_out: ImageSet | None


def training_part(spec: str | os.PathLike[str]) -> Parts:
    """The pictures of a source to train on, and those that are held out.

    Held out is the split `test`; where there is none `val`, unless the source itself counts it to `trainval`. All
    others are trained on. Of splits with a year in their names, as COCO's, only those of the latest year with a part
    to train on count: the same pictures are in several years. A spec that names a split is taken at its word, and
    nothing is held out.
    """
    images = open_images(spec)
    if images.split is not None:
        return Parts(images, None)
    splits = images.splits
    year = next((year for year in years(splits) if {f"train{year}", f"trainval{year}"} & {*splits}), "")
    trainval, val, test = (f"{name}{year}" for name in ("trainval", "val", "test"))
    name = test if test in splits else val if val in splits and trainval not in splits else None
    held_out = None if name is None else _part(images, name, spec)
    if year:
        return Parts(_part(images, trainval if trainval in splits else f"train{year}", spec), held_out)
    if held_out is None:
        return Parts(images, None)
    names = set(held_out.names)
    return Parts(images.subset(np.array([name not in names for name in images.names])), held_out)


def _part(images: ImageSet, split: str, spec: str | os.PathLike[str]) -> ImageSet:
    """A split out of a set of all; opened anew where it is not in it, as scenes for the test are not."""
    if not len(images.parts.get(split, ())):
        return open_images(spec, split=split)
    part = images.subset(images.parts[split])
    part.split = split
    return part


def years(splits: Sequence[str]) -> list[str]:
    """What stands behind the names of splits, as in COCO's train2017: the latest first, and at last nothing.

    >>> years(["train2014", "val2014", "train2017", "val2017"])
    ['2017', '2014', '']
    """
    found = {match[0] for split in splits if (match := _YEAR.search(split))}
    return [*sorted(found, reverse=True), ""]
