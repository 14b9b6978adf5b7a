"""Multilabel classification (Sec. V-C, Table 2): mean average precision of one linear layer on a frozen backbone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self

import torch
from pydantic import field_validator, model_validator
from torch import Tensor, nn

from ...data import ImageSet, Pictures
from ...data.originals import Originals
from ...errors import unknown
from ...model import Model
from ...ssl.views import Drawn, Views, ViewSettings, Warp
from ..errors import EvaluationError
from ..metrics.average_precision import VARIANTS, Variant, mean_average_precision
from ..report.outcome import Outcome, Section, Table
from .probing import (
    BatchSize,
    Epochs,
    Inputs,
    LayerSettings,
    LearningRate,
    Reader,
    cache_views,
    cached_inputs,
    check_sets,
    common_protocol,
    evaluation_pictures,
    evaluation_view,
    fresh_inputs,
    frozen,
    new_layer,
    train_layer,
)

# The paper's, for views of 224: pictures are resized to the first, and crops have sides of these.
CROP_SIDES: Final = (640, 576, 512, 384, 320)
VIEW_SIDE: Final = 224
# "resized to 640 × 640": all of a picture, because what is to be found may lie at its border.
_FIT: Final = "squash"
DIFFICULT: Final = (
    "no picture is ignored: the labels count as the source gives them. voc leaves out objects that are difficult to "
    "see, so that a picture with only such ones of a class counts as without it; voc:…?difficult=yes counts them"
)


@dataclass(frozen=True)
class Shared:
    """What models with one backbone have in common, on the same data.

    `pictures` by part of the data and size; `features` `(n, width)` of them, by digest of the backbone as well.
    """

    pictures: dict[tuple[str, int], Pictures] = field(default_factory=dict)
    features: dict[tuple[str, str, int], Tensor] = field(default_factory=dict)


class MultilabelSettings(LayerSettings):
    """How the layer is trained, and which average precision is taken.

    Epochs and learning rate are the paper's, and it names no more: momentum 0.9, no weight decay, a batch of 32 as in
    its pretraining, and cosine decay are our assumptions.

    `cached` features are of `cached_views` random crops of each picture, one of which is drawn each time, or, with 0,
    of the picture as it is evaluated. A layer that `reads` possession degrees tells heads on the same backbone apart.
    """

    epochs: Epochs = 500
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 0.02
    cached_views: int = 0
    variant: Variant = "plain"

    @model_validator(mode="after")
    def _views_are_cached(self) -> Self:
        if self.cached_views < 0 or (self.cached_views and not self.cached):
            raise EvaluationError(f"cached_views={self.cached_views} must be 0 or more, and needs cached=True")
        return self

    @field_validator("variant", mode="before")
    @classmethod
    def _is_known(cls, variant: str) -> str:
        if variant not in VARIANTS:
            raise EvaluationError(unknown("average precision", variant, VARIANTS))
        return variant


@dataclass(frozen=True)
class MultilabelResult:
    """`mean` is the mAP, from 0 to 1; `by_class` has None for a class that no test picture shows."""

    mean: float
    by_class: dict[str, float | None]
    variant: Variant
    difficult: str
    protocol: dict[str, Any]


def multilabel_evaluation(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    settings: MultilabelSettings = MultilabelSettings(),  # noqa: B008 - frozen
    *,
    shared: Shared | None = None,
    progress: bool | None = None,
) -> MultilabelResult:
    """Trains a linear layer on `train` to tell for each class whether a picture shows it, and ranks `test` with it.

    `shared` is filled with pictures and features, and used by the next model with the same backbone, on the same data.
    `progress`: whether to show bars; by default when it takes long.
    """
    check_sets(train, test)
    generator = torch.Generator().manual_seed(settings.seed)
    cropped = not settings.cached or settings.cached_views > 0
    reader = Reader(model, settings.reads)
    with frozen(model) as digest:
        seen = _Centres(reader, digest, shared or Shared(), progress)
        new = seen.pictures("test", test)
        if cropped:
            known = _training_pictures(model, train, progress)
            inputs = _crops(reader, known, settings, generator, progress)
        else:
            known = seen.pictures("training", train)
            inputs = cached_inputs(seen.of("training", known)[None])
        layer = new_layer(reader, len(known.class_names), generator)
        train_layer(
            layer,
            torch.optim.SGD(
                layer.parameters(), settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
            ),
            nn.functional.binary_cross_entropy_with_logits,
            inputs,
            _truth(known).float(),
            torch.arange(len(known)),
            settings,
            generator,
            progress=progress,
        )
        features = seen.of("test", new)
    scores: Tensor = layer(features).detach().cpu()
    precision = mean_average_precision(scores, _truth(new), settings.variant)
    protocol = {
        "evaluation": "multilabel",
        **common_protocol(reader, settings, digest, known, new),
        "loss": "binary cross-entropy of each class, mean over classes",
        "optimiser": "SGD with momentum",
        "our_assumptions": ["batch_size", "momentum", "weight_decay", "schedule", "mean over classes", "no flip"],
        "training_views": {
            "resized_to": known.size,
            "fit": _FIT,
            "crop_sides": [round(side * known.size / CROP_SIDES[0]) for side in CROP_SIDES],
            "width_and_height": "drawn independently of each other",
            "flip": 0.0,
            "features": f"cached, of {settings.cached_views} crops a picture" if settings.cached else "of fresh crops",
        }
        if cropped
        else "none: features cached, without augmentation",
        "evaluation_view": evaluation_view(model, new, _FIT),
        "average_precision": settings.variant,
        "difficult": DIFFICULT,
        "classes_without_test_pictures": [new.class_names[number] for number in precision.skipped],
    }
    by_class = dict(zip(new.class_names, precision.by_class, strict=True))
    return MultilabelResult(precision.mean, by_class, settings.variant, DIFFICULT, protocol)


def multilabel_outcome(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    settings: MultilabelSettings = MultilabelSettings(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> Outcome:
    """`multilabel_evaluation` as a report: the mean average precision, and that of each class."""
    result = multilabel_evaluation(model, train, test, settings, progress=progress)
    pictures, skipped = result.protocol["pictures"], result.protocol["classes_without_test_pictures"]
    means = Table(f"Mean average precision ({result.variant}).", ["", "mAP"], [["all classes", result.mean]])
    classes = Table(
        f"Average precision of each class ({result.variant}).",
        ["class", "AP"],
        [[name, value] for name, value in result.by_class.items()],
    )
    text = f"Difficult objects: {result.difficult}."
    if skipped:
        text += f"\n\nNo test picture shows {', '.join(skipped)}: the mean leaves that out."
    return Outcome(
        "Multilabel classification",
        f"mAP {result.mean:.3f} ({result.variant}) over {len(result.by_class) - len(skipped)} classes on "
        f"{pictures['test']:,} test pictures, with one linear layer.",
        {"mAP": result.mean, "by_class": result.by_class},
        result.protocol,
        [Section("Average precision", text, [means, classes])],
    )


class ScaleCrops:
    """The paper's crops: width and height of each are drawn from `CROP_SIDES`, and its place; it is resized to `size`.

    `CROP_SIDES` are for squares of 640, and scale with those given.
    """

    def __init__(self, size: int) -> None:
        self._views = Views(ViewSettings(size))

    def __call__(self, pictures: Tensor, generator: torch.Generator, _shapes: Tensor | None = None) -> Tensor:
        """Squares `(B, C, side, side)` become floats `(B, C, size, size)` from 0 to 1, whatever their first shape."""
        return self._views.render(pictures, Drawn(self.draw(pictures, generator), jitter=None, sigma=None))

    def draw(self, pictures: Tensor, generator: torch.Generator) -> Warp:
        """The random part of a call."""
        count, side = len(pictures), pictures.shape[-1]
        sides = torch.tensor(CROP_SIDES) * side / CROP_SIDES[0]
        lengths = sides.round()[torch.randint(len(CROP_SIDES), (2, count), generator=generator)]
        # The product can round up to the count itself.
        places = (torch.rand(2, count, generator=generator) * (side - lengths + 1)).floor().minimum(side - lengths)
        (top, left), (height, width) = places.to(pictures.device), lengths.to(pictures.device)
        return Warp(top, left, height, width, flip=torch.zeros_like(top, dtype=torch.bool))


def _training_pictures(model: Model, images: ImageSet, progress: bool | None) -> Pictures:
    return images.pictures(round(model.size * CROP_SIDES[0] / VIEW_SIDE), _FIT, progress=progress is not False)


class _Centres:
    """What the layer reads of whole pictures, with the backbone's features computed once for all that share it."""

    def __init__(self, reader: Reader, digest: str, shared: Shared, progress: bool | None) -> None:
        self._reader, self._digest, self._shared, self._progress = reader, digest, shared, progress

    def pictures(self, part: str, images: ImageSet) -> Pictures:
        """The pictures of a part, read once."""
        key, known = (part, self._reader.model.size), self._shared.pictures
        if key not in known:
            known[key] = evaluation_pictures(self._reader.model, images, _FIT, self._progress)
        return known[key]

    def of(self, part: str, pictures: Pictures) -> Tensor:
        """`(n, width)` of all pictures of that part."""
        key, known = (self._digest, part, pictures.size), self._shared.features
        if key not in known:
            everything = torch.arange(len(pictures))
            known[key] = self._reader.pooled_centres(pictures, everything, self._progress)
        return self._reader.of_features(known[key])


def _crops(
    reader: Reader,
    pictures: Pictures,
    settings: MultilabelSettings,
    generator: torch.Generator,
    progress: bool | None,
) -> Inputs:
    crops = ScaleCrops(reader.model.size)
    if not settings.cached:
        return fresh_inputs(reader, Originals(pictures), crops)
    return cache_views(reader, pictures, crops, settings.cached_views, generator, progress)


def _truth(pictures: Pictures) -> Tensor:
    if pictures.labels is None:
        raise EvaluationError("the pictures have no labels")
    return pictures.labels
