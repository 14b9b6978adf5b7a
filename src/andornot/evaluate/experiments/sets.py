"""Image sets of experiments: choose the splits to train on, test on and search, and check their labels."""

from torch import Tensor

from ...data import ImageSet, ResizedImages, open_images, scenes, source_of
from ...data.sources import years
from ...errors import EvaluationError
from ..metrics.ranking import single_classes


def train_and_test(data: str) -> tuple[ImageSet, ImageSet]:
    """Return the training split and the test split of a data set."""
    splits = open_images(data).splits
    for train, test in (("trainval", "test"), ("train", "test"), ("train", "val")):
        for year in years(splits):
            if {train + year, test + year} <= set(splits):
                return open_images(data, split=train + year), open_images(data, split=test + year)
    raise EvaluationError(
        f"{data} has no split to test on: it needs the splits train and test (or val), "
        f"and has {', '.join(splits) or 'none'}"
    )


def gallery_and_queries(data: str) -> tuple[ImageSet, ImageSet | None]:
    """Return the gallery and the query images; None if queries should be held out of the gallery."""
    images = open_images(data)
    if images.split is None and "test" in images.splits:
        return train_and_test(data)
    if images.split is None and "trainval" in images.splits:
        return open_images(data, split="trainval"), None
    return images, None


def attribution(data: str) -> dict[str, str]:
    """Return the attribution that a report with these images must show, as settings; empty if none is required."""
    return {"images": scenes.ATTRIBUTION} if source_of(data) == "scenes" else {}


def check_labels(train: ImageSet, test: ImageSet, *, single_class: bool = False) -> None:
    """Raise an EvaluationError for sets without labels or with different classes, before any image is read."""
    for name, images in (("training", train), ("test", test)):
        if images.labels is None:
            raise EvaluationError(
                f"the {name} images have no labels: use a labelled source, such as digits or imagefolder:PATH"
            )
    if train.class_names != test.class_names:
        raise EvaluationError(
            f"the training images have {_list_classes(train.class_names)}, and the test images "
            f"{_list_classes(test.class_names)}: both need the same classes in the same order"
        )
    if single_class:
        class_labels(train, "training")
        class_labels(test, "test")


def class_labels(images: ImageSet | ResizedImages, name: str) -> Tensor:
    """Return the class `(n,)` of each image; raise an EvaluationError if an image has no class or several."""
    classes = single_classes(images.labels)
    if classes is None:
        raise EvaluationError(
            f"some {name} images have no class or several, and this evaluation needs exactly one: "
            "try multilabel evaluation"
        )
    return classes


def _list_classes(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} classes ({shown})"
