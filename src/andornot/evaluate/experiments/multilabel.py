"""Multilabel classification (Sec. V-C, Table 2): mean average precision of one linear layer on a frozen backbone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self

import torch
from pydantic import field_validator, model_validator
from torch import Tensor, nn

from ...data import ImageSet, ResizedImages
from ...data.resized import UncroppedImages
from ...errors import EvaluationError, unknown
from ...model import Model
from ...probes import fit_linear
from ...ssl.views import CropBox, SampledParams, Views, ViewSettings
from ..metrics.ranking import VARIANTS, Variant, mean_average_precision
from ..report.outcome import Cell, Outcome, Section, Table
from .probing import (
    CONVERGED,
    BatchSize,
    Epochs,
    Inputs,
    LearningRate,
    ProbeConfig,
    ProbeFeatures,
    augmented_inputs,
    cache_views,
    cached_inputs,
    common_protocol,
    evaluation_images,
    evaluation_view,
    frozen,
    new_layer,
    train_layer,
)
from .sets import check_labels

# The paper's side lengths of crops, for views of 224; images are resized to the first.
CROP_SIDES: Final = (640, 576, 512, 384, 320)
VIEW_SIDE: Final = 224
# The paper's "resized to 640 × 640" is read as the whole image, because objects may be at its border.
_FIT: Final = "squash"
DIFFICULT: Final = (
    "no image is ignored: labels are used as the source gives them. voc leaves out difficult objects, so an image with "
    "only difficult objects of a class is a negative; voc:…?difficult=yes includes them"
)


@dataclass(frozen=True)
class ActivationCache:
    """Images and activations shared by models with the same backbone on the same data.

    `images` are stored by split and size, `activations` `(n, width)` by hash of the backbone, split and size.
    """

    images: dict[tuple[str, int], ResizedImages] = field(default_factory=dict)
    activations: dict[tuple[str, str, int], Tensor] = field(default_factory=dict)


class MultilabelConfig(ProbeConfig):
    """Training settings of the linear layer, and the variant of average precision.

    Epochs and learning rate are the paper's. It does not state the rest: momentum 0.9, no weight decay, batches of 32
    as in its pretraining, and cosine decay are our assumptions.

    `cached` inputs come from `cached_views` random crops of each image, or with 0, from the evaluation view.
    With possession degrees as `probe_input`, different heads on the same backbone can be compared.
    """

    epochs: Epochs = 500
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 0.02
    cached_views: int = 0
    variant: Variant = "plain"

    @model_validator(mode="after")
    def _check_cached_views(self) -> Self:
        if self.cached_views < 0 or (self.cached_views and not self.cached):
            raise EvaluationError(f"cached_views={self.cached_views} must be 0, or positive with cached=True")
        return self

    @field_validator("variant", mode="before")
    @classmethod
    def _check_variant(cls, variant: str) -> str:
        if variant not in VARIANTS:
            raise EvaluationError(unknown("average precision", variant, VARIANTS))
        return variant


@dataclass(frozen=True)
class MultilabelResult:
    """mAP from 0 to 1; `by_class` has None for a class that no test image shows.

    `converged` is the mAP of `fit_linear` on whole images, which does not depend on how far SGD converges.
    """

    mean: float
    converged: float
    by_class: dict[str, float | None]
    variant: Variant
    difficult: str
    protocol: dict[str, Any]


def measure_multilabel(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    config: MultilabelConfig = MultilabelConfig(),  # noqa: B008 - frozen
    *,
    cache: ActivationCache | None = None,
    progress: bool | None = None,
) -> MultilabelResult:
    """Train a linear layer with one sigmoid per class on `train`, and return its mAP on `test`.

    `cache` stores images and activations for the next model with the same backbone on the same data. `progress` shows
    progress bars (default: if it takes long).
    """
    check_labels(train, test)
    generator = torch.Generator().manual_seed(config.seed)
    cropped = not config.cached or config.cached_views > 0
    features = ProbeFeatures(model, config.probe_input)
    with frozen(model) as backbone_hash:
        whole = _WholeImages(features, backbone_hash, cache or ActivationCache(), progress)
        test_images = whole.images("test", test)
        if cropped:
            train_images = _training_images(model, train, progress)
            inputs = _crop_inputs(features, train_images, config, generator, progress)
        else:
            train_images = whole.images("training", train)
            inputs = cached_inputs(whole.inputs("training", train_images)[None])
        layer = new_layer(features, len(train_images.class_names), generator)
        train_layer(
            layer,
            torch.optim.SGD(
                layer.parameters(), config.learning_rate, config.momentum, weight_decay=config.weight_decay
            ),
            nn.functional.binary_cross_entropy_with_logits,
            inputs,
            _labels(train_images).float(),
            torch.arange(len(train_images)),
            config,
            generator,
            progress=progress,
        )
        tested = whole.inputs("test", test_images)
        known = whole.images("training", train)
        scores: dict[str, Tensor] = {
            "paper": layer(tested).detach().cpu(),
            "converged": fit_linear(whole.inputs("training", known), _labels(known))(tested).cpu(),
        }
    precision, converged = (mean_average_precision(of, _labels(test_images), config.variant) for of in scores.values())
    protocol = {
        "evaluation": "multilabel",
        **common_protocol(features, config, backbone_hash, train_images, test_images),
        "loss": "binary cross-entropy of each class, mean over classes",
        "optimizer": "SGD with momentum",
        "our_assumptions": ["batch_size", "momentum", "weight_decay", "schedule", "mean over classes", "no flip"],
        "training_views": {
            "resized_to": train_images.size,
            "fit": _FIT,
            "crop_sides": [round(side * train_images.size / CROP_SIDES[0]) for side in CROP_SIDES],
            "shape": "square",
            "flip": 0.0,
            "features": f"cached, of {config.cached_views} crops per image" if config.cached else "of new crops",
        }
        if cropped
        else "none: inputs cached, without augmentation",
        "evaluation_view": evaluation_view(model, test_images, _FIT),
        "average_precision": config.variant,
        "difficult": DIFFICULT,
        "converged_probe": CONVERGED,
        "classes_without_test_images": [test_images.class_names[number] for number in precision.skipped],
    }
    by_class = dict(zip(test_images.class_names, precision.by_class, strict=True))
    return MultilabelResult(precision.mean, converged.mean, by_class, config.variant, DIFFICULT, protocol)


def evaluate_multilabel(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    config: MultilabelConfig = MultilabelConfig(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> Outcome:
    """Report `measure_multilabel`: the mean average precision, and that of each class."""
    result = measure_multilabel(model, train, test, config, progress=progress)
    images, skipped = result.protocol["images"], result.protocol["classes_without_test_images"]
    rows: list[list[Cell]] = [["all classes", result.mean], ["all classes, converged probe", result.converged]]
    means = Table(f"Mean average precision ({result.variant}).", ["", "mAP"], rows)
    classes = Table(
        f"Average precision of each class ({result.variant}).",
        ["class", "AP"],
        [[name, value] for name, value in result.by_class.items()],
    )
    text = f"Difficult objects: {result.difficult}."
    if skipped:
        text += f"\n\nNo test image shows {', '.join(skipped)}: left out of the mean."
    return Outcome(
        "Multilabel classification",
        f"mAP {result.mean:.3f} ({result.variant}) over {len(result.by_class) - len(skipped)} classes on "
        f"{images['test']:,} test images, with one linear layer; {result.converged:.3f} if it is trained to "
        "convergence on standardised features.",
        {"mAP": result.mean, "converged_mAP": result.converged, "by_class": result.by_class},
        result.protocol,
        [Section("Average precision", text, [means, classes])],
    )


class ScaleCrops:
    """The paper's crops: squares with a random side from `CROP_SIDES` and a random position, resized to `size`.

    The paper draws "the width and height" from these sides; public code with this list draws one side for both.
    `CROP_SIDES` are for images of 640 × 640, and are scaled to the given images.
    """

    def __init__(self, size: int) -> None:
        self._views = Views(ViewSettings(size))

    def __call__(self, images: Tensor, generator: torch.Generator, _shapes: Tensor | None = None) -> Tensor:
        """Return views `(B, C, size, size)` from 0 to 1 of uint8 images `(B, C, side, side)`."""
        return self._views.render(images, SampledParams(self.draw(images, generator), jitter=None, sigma=None))

    def draw(self, images: Tensor, generator: torch.Generator) -> CropBox:
        """Draw the crops."""
        count, side = len(images), images.shape[-1]
        sides = torch.tensor(CROP_SIDES) * side / CROP_SIDES[0]
        lengths = sides.round()[torch.randint(len(CROP_SIDES), (count,), generator=generator)]
        # The product can round up to the number of positions.
        positions = (torch.rand(2, count, generator=generator) * (side - lengths + 1)).floor().minimum(side - lengths)
        (top, left), length = positions.to(images.device), lengths.to(images.device)
        return CropBox(top, left, length, length, flip=torch.zeros_like(top, dtype=torch.bool))


def _training_images(model: Model, images: ImageSet, progress: bool | None) -> ResizedImages:
    return images.resized(round(model.size * CROP_SIDES[0] / VIEW_SIDE), _FIT, progress=progress is not False)


class _WholeImages:
    """Inputs of the layer for whole images; activations are computed once for all models with the same backbone."""

    def __init__(
        self, features: ProbeFeatures, backbone_hash: str, cache: ActivationCache, progress: bool | None
    ) -> None:
        self._features, self._hash, self._cache, self._progress = features, backbone_hash, cache, progress

    def images(self, split: str, images: ImageSet) -> ResizedImages:
        """Return the images of a split, read once."""
        key, cached = (split, self._features.model.size), self._cache.images
        if key not in cached:
            cached[key] = evaluation_images(self._features.model, images, _FIT, self._progress)
        return cached[key]

    def inputs(self, split: str, images: ResizedImages) -> Tensor:
        """Return `(n, width)` for all images of a split."""
        key, cached = (self._hash, split, images.size), self._cache.activations
        if key not in cached:
            everything = torch.arange(len(images))
            cached[key] = self._features.center_activations(images, everything, self._progress)
        return self._features.from_activations(cached[key])


def _crop_inputs(
    features: ProbeFeatures,
    images: ResizedImages,
    config: MultilabelConfig,
    generator: torch.Generator,
    progress: bool | None,
) -> Inputs:
    crops = ScaleCrops(features.model.size)
    if not config.cached:
        return augmented_inputs(features, UncroppedImages(images), crops)
    return cache_views(features, images, crops, config.cached_views, generator, progress)


def _labels(images: ResizedImages) -> Tensor:
    if images.labels is None:
        raise EvaluationError("the images have no labels")
    return images.labels
