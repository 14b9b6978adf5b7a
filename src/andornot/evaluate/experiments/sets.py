"""Which pictures of a data set an experiment takes for what."""

from ...data import ImageSet, open_images, scenes, source_of
from ...data.parts import years
from ..errors import EvaluationError


def train_and_test(data: str) -> tuple[ImageSet, ImageSet]:
    """The part of a data set to learn from, and the part to be measured on."""
    splits = open_images(data).splits
    for train, test in (("trainval", "test"), ("train", "test"), ("train", "val")):
        for year in years(splits):
            if {train + year, test + year} <= set(splits):
                return open_images(data, split=train + year), open_images(data, split=test + year)
    raise EvaluationError(
        f"{data} has no part to be measured on: it needs the splits train and test (or val), "
        f"and has {', '.join(splits) or 'none'}"
    )


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
