"""Linear evaluation (Sec. V-B, Table 1): the accuracy of one linear layer on the features of a frozen backbone."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from ...data import ImageSet
from ...data.originals import open_originals
from ...model import Model
from ...ssl.views import Views, ViewSettings
from ..errors import EvaluationError
from ..report.charts import draw_curve
from ..report.outcome import Outcome, Picture, Section, Table
from .lars import LARS
from .probing import (
    BatchSize,
    Epochs,
    LayerSettings,
    LearningRate,
    Reader,
    cached_inputs,
    check_sets,
    classes_of,
    common_protocol,
    evaluation_pictures,
    evaluation_view,
    fresh_inputs,
    frozen,
    new_layer,
    train_layer,
)


class LinearSettings(LayerSettings):
    """How the layer is trained; the defaults are the paper's.

    `cached` features are without augmentation. `validation` is the part of the training pictures, drawn by `seed`, that
    the layer is not trained on, but its best epoch chosen with.
    """

    epochs: Epochs = 200
    batch_size: BatchSize = 512
    learning_rate: LearningRate = 1.6
    validation: Annotated[float, Field(gt=0, lt=1, description="validation is a part between 0 and 1, as 0.1")] = 0.1


@dataclass(frozen=True)
class LinearResult:
    """Accuracies are parts from 0 to 1; `curve` is that on the validation pictures after each epoch, 1 the first."""

    accuracy: float
    validation_accuracy: float
    best_epoch: int
    curve: tuple[float, ...]
    protocol: dict[str, Any]


def linear_evaluation(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    settings: LinearSettings = LinearSettings(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> LinearResult:
    """Trains a linear layer on `train`, and gives its accuracy on `test`, for pictures of one class each.

    The epoch with the highest accuracy on the validation pictures is the one that is tested. `progress`: whether
    to show bars; by default when it takes long.
    """
    check_sets(train, test, one_class_each=True)
    fit = model.recipe.fit
    known, new = (evaluation_pictures(model, images, fit, progress) for images in (train, test))
    classes, new_classes = classes_of(known, "training"), classes_of(new, "test")
    generator = torch.Generator().manual_seed(settings.seed)
    learnt, held_out = split_off(classes, settings.validation, generator)
    # A mirrored digit or letter is another sign, and grey pictures are mostly of those.
    flip = 0.0 if 1 in (model.channels, train.channels) else 0.5
    views = ViewSettings(model.size, crop_scale=(0.08, 1.0), flip=flip, jitter=0.0, grey=0.0, blur=0.0)
    reader = Reader(model, settings.reads)
    with frozen(model) as digest:
        if settings.cached:
            features = reader.of_centres(known, torch.arange(len(known)), progress)
            inputs, validation = cached_inputs(features[None]), features[held_out]
        else:
            inputs = fresh_inputs(
                reader, open_originals(train, model.size, progress=progress is not False), Views(views)
            )
            validation = reader.of_centres(known, held_out, progress)
        layer = new_layer(reader, len(known.class_names), generator)
        curve: list[float] = []
        best = layer

        def validate(_epoch: int) -> None:
            nonlocal best
            accuracy = _accuracy(layer, validation, classes[held_out])
            if accuracy > max(curve, default=-1.0):
                best = copy.deepcopy(layer)
            curve.append(accuracy)

        train_layer(
            layer,
            LARS(layer.parameters(), settings.learning_rate, settings.momentum, settings.weight_decay),
            nn.functional.cross_entropy,
            inputs,
            classes,
            learnt,
            settings,
            generator,
            after_epoch=validate,
            progress=progress,
        )
        features = reader.of_centres(new, torch.arange(len(new)), progress)
        accuracy = _accuracy(best, features, new_classes)
    protocol = {
        "evaluation": "linear",
        **common_protocol(reader, settings, digest, known, new),
        "optimiser": "LARS, trust coefficient 0.001; the bias takes plain momentum steps",
        "training_views": "none: features cached, without augmentation"
        if settings.cached
        else {"random_resized_crop": list(views.crop_scale), "flip": views.flip, "cut_from": "the original"},
        "evaluation_view": evaluation_view(model, known, fit),
        "validation_pictures": len(held_out),
        "tested_epoch": "highest validation accuracy, the first of equals",
    }
    return LinearResult(accuracy, max(curve), 1 + curve.index(max(curve)), tuple(curve), protocol)


def split_off(classes: Tensor, part: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The numbers of the pictures to train on, and of those held out: that part, of each class as many as is fair."""
    count = max(1, round(part * len(classes)))
    if count == len(classes):
        raise EvaluationError(f"a part of {part:g} of {len(classes)} training pictures leaves none to train on")
    order = torch.randperm(len(classes), generator=generator)
    by_class = order[classes[order].argsort(stable=True)]
    # Places at equal distances, in pictures that lie class by class.
    places = (2 * torch.arange(count) + 1) * len(classes) // (2 * count)
    held_out = torch.zeros(len(classes), dtype=torch.bool)
    held_out[by_class[places]] = True
    return (~held_out).nonzero().flatten(), held_out.nonzero().flatten()


def linear_outcome(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    settings: LinearSettings = LinearSettings(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> Outcome:
    """`linear_evaluation` as a report: a table, and the validation accuracy from epoch to epoch."""
    result = linear_evaluation(model, train, test, settings, progress=progress)
    tested = result.protocol["pictures"]["test"]
    how = "features computed once, without augmentation" if settings.cached else "fresh views in each epoch"
    table = Table(
        "Top-1 accuracy of a linear layer on the frozen backbone.",
        ["split", "accuracy"],
        [["test", result.accuracy], ["validation", result.validation_accuracy]],
    )
    picture = Picture(
        f"Validation accuracy after each epoch; epoch {result.best_epoch} was tested.",
        draw_curve(result.curve, result.best_epoch),
    )
    return Outcome(
        "Linear evaluation",
        f"{result.accuracy:.1%} of {tested:,} test pictures get their class from one linear layer "
        f"(epoch {result.best_epoch} of {settings.epochs}, {how}).",
        {
            "accuracy": result.accuracy,
            "validation_accuracy": result.validation_accuracy,
            "best_epoch": result.best_epoch,
            "curve": list(result.curve),
        },
        result.protocol,
        [Section("Accuracy", "The backbone is bit-identical before and after.", [table, picture])],
    )


@torch.no_grad()
def _accuracy(layer: nn.Linear, features: Tensor, classes: Tensor) -> float:
    scores: Tensor = layer(features)
    return (scores.argmax(1).cpu() == classes).double().mean().item()
