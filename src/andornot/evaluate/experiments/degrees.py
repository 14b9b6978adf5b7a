"""What possession degrees stand for: the pictures with most of a feature, its classes, and objects cut out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from ...data import ImageSet, Pictures
from ...model import Model
from ..errors import EvaluationError
from ..metrics.intervals import bootstrap
from ..metrics.separation import MIN_PICTURES, BestFeature, best_features, halves
from ..report.figures import BarRow, BoxPanel, SheetRow, draw_bars, draw_boxes, draw_sheet
from ..report.outcome import Outcome, Picture, Section, Table
from .crops import MARGIN, MAX_OVERLAP, MIN_IN_VIEW, CropDegrees, crop_degrees, cut_out

_EXAMPLES: Final = 3
# So many pictures have distributions at a time; of the others only degrees are kept.
_BLOCK: Final = 1024

_SHEET, _CLASSES, _CROPS = "The pictures with the highest degree", "Features and classes", "Two objects and their crops"
_NO_LABELS: Final = "Left out: these pictures have no labels."
_FEW_LABELS: Final = (
    f"Left out: no class has {MIN_PICTURES} pictures in each half of the pictures, and as many others beside it."
)
_NO_BOXES: Final = "Left out: these pictures come without boxes around their objects."
_NO_PAIRS: Final = (
    "Left out: no picture shows objects of exactly two classes, with boxes around them, that can be cut apart."
)


class Seen(NamedTuple):
    """Pictures, and what a backbone sees in them, `(n, width)`: the same for all models that have it."""

    pictures: Pictures
    activations: Tensor


def look(model: Model, images: ImageSet, progress: bool | None = None) -> Seen:
    """Reads the pictures, and runs the backbone on them. `progress`: whether to show bars; by default if it is long."""
    pictures = images.pictures(model.size, model.recipe.fit, progress=progress is not False)
    return Seen(pictures, model.activations(pictures, progress=progress))


@dataclass(frozen=True)
class _Material:
    """What all parts look at; numbers of pictures are the same in `images`, `pictures`, `degrees` and `labels`."""

    model: Model
    images: ImageSet
    pictures: Pictures
    degrees: Tensor  # (n, N)
    labels: Tensor  # (n, C), with C = 0 where there are none
    held_out: Tensor
    best: list[BestFeature]

    def name(self, best: BestFeature) -> str:
        """The name of its class."""
        return self.images.class_names[best.class_number]


def degrees_outcome(
    model: Model,
    images: ImageSet,
    *,
    top: int = 5,
    features: int = 6,
    seed: int = 0,
    seen: Seen | None = None,
    progress: bool | None = None,
) -> Outcome:
    """The paper's evaluation of the possession degree; classes need labels, and cut-out objects need boxes.

    `top` pictures are shown for each of so many `features`; `seed` draws the half on which features are chosen.
    `seen`: what `look` found in these images with the same backbone. `progress`: whether to show bars; by default when
    it takes long.
    """
    for name, value in (("top", top), ("features", features)):
        if value < 1:
            raise EvaluationError(f"{name}={value}: at least 1 must be shown")
    pictures, pooled = look(model, images, progress) if seen is None else seen
    images = images.subset(pictures.kept)
    degrees = torch.cat([model.represent(block).degrees for block in torch.split(pooled, _BLOCK)])
    labels = torch.zeros(len(images), 0, dtype=torch.bool) if images.labels is None else images.labels
    chosen_on, held_out = halves(len(images), seed)
    best = best_features(degrees, labels, chosen_on, held_out)
    material = _Material(model, images, pictures, degrees, labels, held_out, best)

    parts = [_sheet(material, top, features), _classes(material, features), _crops(material)]
    figures = {name: part[1] for name, part in zip(("top", "classes", "crops"), parts, strict=True)}
    protocol = {
        "pictures": len(images),
        "unreadable": len(pictures.broken),
        "num_features": model.num_features,
        "num_values": model.num_values,
        "seed": seed,
        "chosen_on": len(chosen_on),
        "held_out": len(held_out),
        "least_pictures_of_a_class": MIN_PICTURES,
        "crop_margin": MARGIN,
        "crop_most_overlap": MAX_OVERLAP,
        "object_in_view_above": MIN_IN_VIEW,
    }
    return Outcome("Possession degrees", _summary(material, figures), figures, protocol, [part[0] for part in parts])


def _summary(material: _Material, figures: Mapping[str, Any]) -> str:
    n, classes, crops = material.degrees.shape, figures["classes"], figures["crops"]
    text = f"{n[1]:,} features in {n[0]:,} pictures."
    if classes:
        text += (
            " The best single feature of a class separates it from the others with an area under the ROC curve of "
            f"{classes['mean_area_held_out']:.3f}, the mean of {len(material.best)} classes on held-out pictures "
            "(0.5 is chance)."
        )
    if crops:
        share = crops["all"]["higher_in_own_crop"]
        text += (
            " Of two objects in a picture, each cut out, the feature of an object's class is higher in its own crop in "
            f"{share['value']:.0%} of cases (95 % interval {share['low']:.0%} to {share['high']:.0%}, "
            f"{crops['all']['pictures']:,} pictures; 50% is chance). {_told(share)}"
        )
    return text


def _told(share: Mapping[str, float]) -> str:
    """Whether an interval of a rate leaves out chance, in words."""
    if share["low"] <= 0.5 <= share["high"]:
        return "The interval contains chance: these pictures are too few to tell, or there is nothing to be told."
    return f"The interval lies {'above' if share['low'] > 0.5 else 'below'} chance."


def _sheet(material: _Material, top: int, features: int) -> tuple[Section, list[dict[str, Any]]]:
    """The pictures with the highest degree, for the features of the best separated classes, then of most variance."""
    degrees = material.degrees
    classes = {one.feature: one for one in reversed(material.best)}  # of two classes with one feature, the better
    varied = degrees.std(dim=0, correction=0).argsort(descending=True, stable=True).tolist()
    chosen = list(dict.fromkeys([*(one.feature for one in material.best), *varied]))[:features]
    rows, figures = [], []
    for feature in chosen:
        # Of equal degrees the first in the data.
        highest, numbers = (column[:top] for column in degrees[:, feature].sort(descending=True, stable=True))
        names = [material.images.name(number) for number in numbers.tolist()]
        row: dict[str, Any] = {"feature": feature, "pictures": names, "degrees": highest.tolist()}
        text = f"feature {feature}"
        if feature in classes:
            shown = int(material.labels[numbers, classes[feature].class_number].sum())
            row |= {"class": material.name(classes[feature]), "of_the_class": shown}
            text += f"\nbest for “{row['class']}”,\nwhich {shown} of {len(numbers)} show"
        rows.append(SheetRow(text, list(material.pictures[numbers]), row["degrees"]))
        figures.append(row)
    text = (
        "If a feature stands for something that can be seen, then the pictures with the highest degree of it should be "
        "alike. "
    )
    if material.best:
        text += "These are the features that separate a class best from the others, the best of them first. "
    if len(classes) < len(chosen):
        text += "Features without a class are those whose degrees vary most from picture to picture."
    caption = (
        f"The {len(rows[0].pictures)} pictures with the highest possession degree of each feature, from left to right; "
        "the degree, from 0 (not at all) to 1 (fully), is under each picture."
    )
    return Section(_SHEET, text.strip(), [Picture(caption, draw_sheet(rows))]), figures


def _classes(material: _Material, panels: int) -> tuple[Section, dict[str, Any] | None]:
    """How well the best feature of each class separates it, as a table and as box plots."""
    best = material.best
    if not best:
        return Section(_CLASSES, _why_no_classes(material)), None
    figures, boxes = {}, []
    for one in best:
        degrees, inside = material.degrees[material.held_out, one.feature], material.labels[:, one.class_number]
        figures[material.name(one)] = {"pictures": int(inside.sum()), **one._asdict()}
        inside = inside[material.held_out]
        groups = {material.name(one): degrees[inside], "others": degrees[~inside]}
        shown = {f"{name}\n({len(group):,})": group.tolist() for name, group in groups.items()}
        boxes.append(BoxPanel(f"feature {one.feature}, area {one.area_held_out:.2f}", shown))
    areas = bootstrap(torch.tensor([[one.area_held_out] for one in best]))
    mean = areas.value
    left_out = [name for name in material.images.class_names if name not in figures]
    text = (
        "For each class, the one feature that separates it best from all other pictures, found by the area under the "
        "ROC curve: how often a picture of the class has a higher degree of it than a picture without the class (0.5 "
        f"by chance). The best of {material.degrees.shape[1]:,} features looks better than it is where it was chosen. "
        "So it was chosen on one half of the pictures, drawn at random; the area held out, the medians and the boxes "
        f"are of the other half. There the area is {mean:.3f} on average."
    )
    if left_out:
        text += (
            f"\n\nLeft out, with less than {MIN_PICTURES} pictures that show them, or do not, in one of the halves: "
            f"{', '.join(left_out)}."
        )
    table = Table(
        "The feature that separates each class best: area under the ROC curve, and median degrees held out.",
        ["class", "pictures", "feature", "area where chosen", "area held out", "median in the class", "… in others"],
        [[name, row["pictures"], *one[1:]] for one, (name, row) in zip(best, figures.items(), strict=True)],
    )
    caption = (
        "Degrees of the best feature of the best separated classes, in held-out pictures with the class and without "
        "(how many, in brackets). A box goes from the first quartile to the third, with the median as a line; the "
        "whiskers leave out 5 % at each end."
    )
    section = Section(_CLASSES, text, [table, Picture(caption, draw_boxes(boxes[:panels]))])
    return section, {
        "mean_area_held_out": mean,
        "area_interval": asdict(areas),
        "left_out": left_out,
        "classes": figures,
    }


def _crops(material: _Material) -> tuple[Section, dict[str, Any] | None]:
    """Degrees in pictures of two objects and in crops to each, over all such pictures, and some of them to look at."""
    images = material.images
    if not material.best or images.boxes is None:
        return Section(_CROPS, _NO_BOXES if material.best else _why_no_classes(material)), None
    features = {one.class_number: one.feature for one in material.best}
    measured = crop_degrees(material.model, images, material.degrees, features)
    if not measured.pairs:
        return Section(_CROPS, _NO_PAIRS), None
    count, classes = len(measured.pairs), torch.tensor([pair.classes for pair in measured.pairs])
    held_out = torch.isin(torch.tensor([pair.number for pair in measured.pairs]), material.held_out)
    groups = {"all": torch.ones_like(classes).bool(), "held out": held_out.unsqueeze(1).expand_as(classes)}
    overall = {name: measured.over(mask) for name, mask in groups.items() if bool(mask.any())}
    by_class = {
        images.class_names[number]: measured.over(classes == number)
        for number in sorted(set(classes.flatten().tolist()))
    }
    text = (
        "A picture of two objects should have the features of both, and a crop to one of them more of its own feature "
        "than a crop to the other. The features are those of the two classes in the table above. Taken are all "
        "pictures that show exactly two classes, with boxes around their objects, if the largest object of each can be "
        f"cut out: by a square {MARGIN:.0%} longer than the object, or by a tighter crop where the other is near, so "
        f"that the crop overlaps with objects of the other class by {MAX_OVERLAP:.0%} at most. Of both objects, more "
        f"than {MIN_IN_VIEW:.0%} must be in view when the model takes the whole picture. There are {count:,} such "
        "pictures. The line “held out” is without those that the features were chosen on. Half of the cases would be "
        "chance; where two classes have the same feature, one object is always right and the other wrong. Intervals "
        "are Wilson's, of 95 %, and count pictures, because the two objects of one are not independent."
        f"\n\n{_told(asdict(overall['all'].higher_in_own_crop))}"
    )
    table = Table(
        "How often the feature of an object's class has a higher degree in the crop to that object than in the crop to "
        "the other object, and mean degrees of it in the whole picture and in both crops.",
        ["class of the object", "pictures", "higher in its own crop", "whole picture", "own crop", "other crop"],
        [[name, *vars(summary).values()] for name, summary in [*overall.items(), *by_class.items()]],
    )
    caption = (
        f"The first {min(_EXAMPLES, count)} of these pictures, in the order of the data, as the model sees them: the "
        "whole picture, a crop to each object, and below them the degrees of the features of both classes."
    )
    rows = [_example(material, measured, row, features) for row in range(min(_EXAMPLES, count))]
    figures: dict[str, Any] = {name: asdict(summary) for name, summary in overall.items()}
    figures["classes"] = {name: asdict(summary) for name, summary in by_class.items()}
    return Section(_CROPS, text, [table, Picture(caption, draw_bars(rows))]), figures


def _example(material: _Material, measured: CropDegrees, row: int, features: Mapping[int, int]) -> BarRow:
    """A picture, its crops, and the degrees of both features in each."""
    pair, (first, second) = measured.pairs[row], measured.degrees[row].tolist()
    names = [material.images.class_names[number] for number in pair.classes]
    crops = cut_out(material.images.read(pair.number), pair, material.model)
    bars = [f"{name}\n(feature {features[number]})" for name, number in zip(names, pair.classes, strict=True)]
    # What is the second feature's own crop is the last picture.
    degrees = dict(zip(bars, [first, [second[0], second[2], second[1]]], strict=True))
    titles = ["whole picture", *(f"crop to {name}" for name in names)]
    return BarRow(titles, [material.pictures[pair.number], *crops], degrees)


def _why_no_classes(material: _Material) -> str:
    return _NO_LABELS if material.images.labels is None else _FEW_LABELS
