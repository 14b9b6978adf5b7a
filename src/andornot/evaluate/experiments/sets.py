"""Which pictures of a data set an experiment takes for what."""

import re
from collections.abc import Sequence
from typing import Final

from ...data import ImageSet, open_images, scenes, source_of
from ..errors import EvaluationError

_YEAR: Final = re.compile(r"\d{4}$")


def train_and_test(data: str) -> tuple[ImageSet, ImageSet]:
    """The part of a data set to learn from, and the part to be measured on."""
    splits = open_images(data).splits
    for train, test in (("trainval", "test"), ("train", "test"), ("train", "val")):
        for year in _years(splits):
            if {train + year, test + year} <= set(splits):
                return open_images(data, split=train + year), open_images(data, split=test + year)
    raise EvaluationError(
        f"{data} has no part to be measured on: it needs the splits train and test (or val), "
        f"and has {', '.join(splits) or 'none'}"
    )


def training_part(data: str) -> ImageSet:
    """The part of a data set to learn from, where it is divided and the source does not say which; else all of it."""
    images = open_images(data)
    parts = [part + year for year in _years(images.splits) for part in ("trainval", "train")]
    part = next((part for part in parts if part in images.splits), None)
    return images if images.split is not None or part is None else open_images(data, split=part)


def _years(splits: Sequence[str]) -> list[str]:
    """What stands behind the names of splits, as in COCO's train2017: the latest first, and at last nothing.

    >>> _years(["train2014", "val2014", "train2017", "val2017"])
    ['2017', '2014', '']
    """
    found = {match[0] for split in splits if (match := _YEAR.search(split))}
    return [*sorted(found, reverse=True), ""]


def gallery_and_queries(data: str) -> tuple[ImageSet, ImageSet | None]:
    """The pictures to search and those to ask with; None where these are to be held out of the others."""
    images = open_images(data)
    if images.split is None and "test" in images.splits:
        return train_and_test(data)
    if images.split is None and "trainval" in images.splits:
        return open_images(data, split="trainval"), None
    return images, None


def attribution(data: str) -> dict[str, str]:
    """Whose pictures a report shows, where that has to be said: as a setting of the experiment."""
    return {"pictures": scenes.ATTRIBUTION} if source_of(data) == "scenes" else {}
