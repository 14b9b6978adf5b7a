"""Evaluation of possession degrees (Sec. V-D): top images of features, separation of classes, and object crops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from ...data import ImageSet, ResizedImages
from ...errors import EvaluationError
from ...model import Model
from ..metrics.intervals import bootstrap
from ..metrics.ranking import MIN_IMAGES, BestFeature, best_features, random_halves
from ..report.figures import BarRow, BoxPanel, TopImagesRow, draw_bars, draw_boxes, draw_top_images
from ..report.outcome import Figure, Outcome, Section, Table
from .crops import MARGIN, MAX_OVERLAP, MIN_IN_VIEW, CropDegrees, crop_degrees, crop_pair

_EXAMPLES: Final = 3
# Representations are computed for this many images at a time, and only their degrees are kept.
_BLOCK: Final = 1024

_TOP_IMAGES, _CLASSES, _CROPS = "Images with the highest degrees", "Features and classes", "Two objects and their crops"
_NO_LABELS: Final = "Skipped: these images have no labels."
_FEW_LABELS: Final = (
    f"Skipped: no class has {MIN_IMAGES} positives and {MIN_IMAGES} negatives in each half of the images."
)
_NO_BOXES: Final = "Skipped: these images have no object boxes."
_NO_PAIRS: Final = "Skipped: no image has boxes of objects of exactly two classes that can be cropped separately."


class ImageActivations(NamedTuple):
    """Resized images and their activations `(n, width)`, shared by all models with the same backbone."""

    images: ResizedImages
    activations: Tensor


def compute_activations(model: Model, images: ImageSet, progress: bool | None = None) -> ImageActivations:
    """Read the images and run the backbone. `progress` shows progress bars (default: if it takes long)."""
    resized = images.resized(model.size, model.fit, progress=progress is not False)
    return ImageActivations(resized, model.activations(resized, progress=progress))


@dataclass(frozen=True)
class _Encoded:
    """The input of all sections; `images`, `resized`, `degrees` and `labels` have the same order."""

    model: Model
    images: ImageSet
    resized: ResizedImages
    degrees: Tensor  # (n, N)
    labels: Tensor  # (n, C), with C = 0 without labels
    held_out: Tensor
    best: list[BestFeature]

    def name(self, best: BestFeature) -> str:
        """Return the name of the class of a feature."""
        return self.images.class_names[best.class_number]


def evaluate_degrees(
    model: Model,
    images: ImageSet,
    *,
    top: int = 5,
    features: int = 6,
    seed: int = 0,
    activations: ImageActivations | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Evaluate possession degrees as the paper does; separation of classes needs labels, object crops need boxes.

    The report shows `top` images for each of `features` features. `seed` determines the half of the images on which
    features are chosen. `activations` is the result of `compute_activations` for these images with the same backbone.
    `progress` shows progress bars (default: if it takes long).
    """
    for name, value in (("top", top), ("features", features)):
        if value < 1:
            raise EvaluationError(f"{name} must be 1 or more, not {value}")
    resized, pooled = compute_activations(model, images, progress) if activations is None else activations
    images = images.subset(resized.kept)
    degrees = torch.cat([model.encode_activations(block).degrees for block in torch.split(pooled, _BLOCK)])
    labels = torch.zeros(len(images), 0, dtype=torch.bool) if images.labels is None else images.labels
    chosen_on, held_out = random_halves(len(images), seed)
    best = best_features(degrees, labels, chosen_on, held_out)
    encoded = _Encoded(model, images, resized, degrees, labels, held_out, best)

    parts = [_top_images(encoded, top, features), _classes(encoded, features), _crops(encoded)]
    metrics = {name: part[1] for name, part in zip(("top", "classes", "crops"), parts, strict=True)}
    protocol = {
        "images": len(images),
        "unreadable": len(resized.broken),
        "num_features": model.num_features,
        "num_values": model.num_values,
        "seed": seed,
        "chosen_on": len(chosen_on),
        "held_out": len(held_out),
        "least_images_of_a_class": MIN_IMAGES,
        "crop_margin": MARGIN,
        "crop_most_overlap": MAX_OVERLAP,
        "object_in_view_above": MIN_IN_VIEW,
    }
    return Outcome("Possession degrees", _summary(encoded, metrics), metrics, protocol, [part[0] for part in parts])


def _summary(encoded: _Encoded, metrics: Mapping[str, Any]) -> str:
    n, classes, crops = encoded.degrees.shape, metrics["classes"], metrics["crops"]
    text = f"{n[1]:,} features in {n[0]:,} images."
    if classes:
        text += (
            " The best feature of a class separates it from the others with an area under the ROC curve of "
            f"{classes['mean_area_held_out']:.3f}, the mean over {len(encoded.best)} classes on held-out images "
            "(chance: 0.5)."
        )
    if crops:
        share = crops["all"]["higher_in_own_crop"]
        text += (
            " Of two objects in an image, each cropped, the feature of an object's class is higher in its own crop in "
            f"{share['value']:.0%} of cases (95 % interval {share['low']:.0%} to {share['high']:.0%}, "
            f"{crops['all']['images']:,} images; chance: 50%). {_compare_with_chance(share)}"
        )
    return text


def _compare_with_chance(share: Mapping[str, float]) -> str:
    """Return a sentence on whether the interval of a rate contains chance."""
    if share["low"] <= 0.5 <= share["high"]:
        return "The interval contains chance: there are too few images to tell, or there is no effect."
    return f"The interval lies {'above' if share['low'] > 0.5 else 'below'} chance."


def _top_images(encoded: _Encoded, top: int, features: int) -> tuple[Section, list[dict[str, Any]]]:
    """Return the top images of features: first those of the best separated classes, then those of most variance."""
    degrees = encoded.degrees
    classes = {
        one.feature: one for one in reversed(encoded.best)
    }  # if two classes have the same feature, the better separated one
    varied = degrees.std(dim=0, correction=0).argsort(descending=True, stable=True).tolist()
    chosen = list(dict.fromkeys([*(one.feature for one in encoded.best), *varied]))[:features]
    rows, metrics = [], []
    for feature in chosen:
        # A stable sort keeps ties in the order of the data.
        highest, numbers = (column[:top] for column in degrees[:, feature].sort(descending=True, stable=True))
        names = [encoded.images.name(number) for number in numbers.tolist()]
        row: dict[str, Any] = {"feature": feature, "images": names, "degrees": highest.tolist()}
        text = f"feature {feature}"
        if feature in classes:
            shown = int(encoded.labels[numbers, classes[feature].class_number].sum())
            row |= {"class": encoded.name(classes[feature]), "of_the_class": shown}
            text += f"\nbest for “{row['class']}”,\nshown by {shown} of {len(numbers)}"
        rows.append(TopImagesRow(text, list(encoded.resized[numbers]), row["degrees"]))
        metrics.append(row)
    text = "If a feature stands for something visible, the images with the highest degree of it should look alike. "
    if encoded.best:
        text += "These features separate a class best from the others, the best first. "
    if len(classes) < len(chosen):
        text += "Features without a class are those whose degrees vary most over images."
    caption = (
        f"The {len(rows[0].images)} images with the highest possession degree of each feature, from left to right; "
        "the degree, from 0 to 1, is below each image."
    )
    return Section(_TOP_IMAGES, text.strip(), [Figure(caption, draw_top_images(rows))]), metrics


def _classes(encoded: _Encoded, panels: int) -> tuple[Section, dict[str, Any] | None]:
    """Return a table and box plots of how well the best feature of each class separates it."""
    best = encoded.best
    if not best:
        return Section(_CLASSES, _reason_without_classes(encoded)), None
    metrics, boxes = {}, []
    for one in best:
        degrees, inside = encoded.degrees[encoded.held_out, one.feature], encoded.labels[:, one.class_number]
        metrics[encoded.name(one)] = {"images": int(inside.sum()), **one._asdict()}
        inside = inside[encoded.held_out]
        groups = {encoded.name(one): degrees[inside], "others": degrees[~inside]}
        shown = {f"{name}\n({len(group):,})": group.tolist() for name, group in groups.items()}
        boxes.append(BoxPanel(f"feature {one.feature}, area {one.area_held_out:.2f}", shown))
    areas = bootstrap(torch.tensor([[one.area_held_out] for one in best]))
    mean = areas.value
    left_out = [name for name in encoded.images.class_names if name not in metrics]
    text = (
        "For each class, the feature that separates it best from all other images by the area under the ROC curve: the "
        "probability that an image of the class has a higher degree than an image without it (chance: 0.5). The area "
        f"of the best of {encoded.degrees.shape[1]:,} features is biased where it was chosen, so they are chosen on a "
        "random half of the images; area held out, medians and boxes are from the other half. There the mean area "
        f"is {mean:.3f}."
    )
    if left_out:
        text += (
            f"\n\nSkipped, with fewer than {MIN_IMAGES} positives or negatives in one of the halves: "
            f"{', '.join(left_out)}."
        )
    table = Table(
        "The feature that separates each class best: area under the ROC curve, and held-out median degrees.",
        ["class", "images", "feature", "area where chosen", "area held out", "median in class", "median in others"],
        [[name, row["images"], *one[1:]] for one, (name, row) in zip(best, metrics.items(), strict=True)],
    )
    caption = (
        "Degrees of the best feature of the best separated classes, in held-out images with and without the class "
        "(number in parentheses). Boxes are quartiles with the median; whiskers are the 5th and 95th percentiles."
    )
    section = Section(_CLASSES, text, [table, Figure(caption, draw_boxes(boxes[:panels]))])
    return section, {
        "mean_area_held_out": mean,
        "area_interval": asdict(areas),
        "left_out": left_out,
        "classes": metrics,
    }


def _crops(encoded: _Encoded) -> tuple[Section, dict[str, Any] | None]:
    """Return degrees in images of two objects and in the crop of each object, with some examples."""
    images = encoded.images
    if not encoded.best or images.boxes is None:
        return Section(_CROPS, _NO_BOXES if encoded.best else _reason_without_classes(encoded)), None
    features = {one.class_number: one.feature for one in encoded.best}
    measured = crop_degrees(encoded.model, images, encoded.degrees, features)
    if not measured.pairs:
        return Section(_CROPS, _NO_PAIRS), None
    count, classes = len(measured.pairs), torch.tensor([pair.classes for pair in measured.pairs])
    held_out = torch.isin(torch.tensor([pair.number for pair in measured.pairs]), encoded.held_out)
    groups = {"all": torch.ones_like(classes).bool(), "held out": held_out.unsqueeze(1).expand_as(classes)}
    overall = {name: measured.summarize(mask) for name, mask in groups.items() if bool(mask.any())}
    by_class = {
        images.class_names[number]: measured.summarize(classes == number)
        for number in sorted(set(classes.flatten().tolist()))
    }
    text = (
        "An image of two objects should have the features of both, and the crop of one object more of its own feature "
        "than the crop of the other. The features are those of the two classes in the table above. Used are all "
        "images with boxes of exactly two classes, if the largest object of each can be cropped by a square "
        f"{MARGIN:.0%} longer than the object, or tighter if the other is near, with an overlap of at most "
        f"{MAX_OVERLAP:.0%} with objects of the other class. More than {MIN_IN_VIEW:.0%} of both objects must be "
        f"visible when the model encodes the whole image. There are {count:,} such images. The row “held out” leaves "
        "out the images on which features were chosen. Chance is one half; if two classes have the same feature, one "
        "object is always right and the other wrong. Intervals are Wilson's, of 95 %, over images, because the two "
        "objects of an image are not independent."
        f"\n\n{_compare_with_chance(asdict(overall['all'].higher_in_own_crop))}"
    )
    table = Table(
        "How often the feature of an object's class has a higher degree in the crop of that object than in the other "
        "crop, and its mean degrees in the whole image and in both crops.",
        ["class of the object", "images", "higher in its own crop", "whole image", "own crop", "other crop"],
        [[name, *vars(summary).values()] for name, summary in [*overall.items(), *by_class.items()]],
    )
    caption = (
        f"The first {min(_EXAMPLES, count)} of these images, as the model sees them: whole image, crop of each object, "
        "and below them the degrees of the features of both classes."
    )
    rows = [_example(encoded, measured, row, features) for row in range(min(_EXAMPLES, count))]
    metrics: dict[str, Any] = {name: asdict(summary) for name, summary in overall.items()}
    metrics["classes"] = {name: asdict(summary) for name, summary in by_class.items()}
    return Section(_CROPS, text, [table, Figure(caption, draw_bars(rows))]), metrics


def _example(encoded: _Encoded, measured: CropDegrees, row: int, features: Mapping[int, int]) -> BarRow:
    """Return an image, its crops, and the degrees of both features in each."""
    pair, (first, second) = measured.pairs[row], measured.degrees[row].tolist()
    names = [encoded.images.class_names[number] for number in pair.classes]
    crops = crop_pair(encoded.images.read(pair.number), pair, encoded.model)
    bars = [f"{name}\n(feature {features[number]})" for name, number in zip(names, pair.classes, strict=True)]
    # The crop of the second object is the last image.
    degrees = dict(zip(bars, [first, [second[0], second[2], second[1]]], strict=True))
    titles = ["whole image", *(f"crop of {name}" for name in names)]
    return BarRow(titles, [encoded.resized[pair.number], *crops], degrees)


def _reason_without_classes(encoded: _Encoded) -> str:
    return _NO_LABELS if encoded.images.labels is None else _FEW_LABELS
