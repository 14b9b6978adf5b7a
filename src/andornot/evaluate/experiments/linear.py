"""Linear evaluation (Sec. V-B, Table 1) and kNN evaluation: how well features agree with the classes of images."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, overload

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from ...data import ImageSet
from ...data.resized import open_uncropped
from ...errors import EvaluationError
from ...model import Model
from ...probes import linear_accuracy
from ...ssl.views import Views, ViewSettings
from ..metrics.ranking import knn_accuracy
from ..report.charts import draw_curve
from ..report.outcome import Figure, Outcome, Section, Table
from .probing import (
    CONVERGED,
    BatchSize,
    Epochs,
    LearningRate,
    ProbeConfig,
    ProbeFeatures,
    augmented_inputs,
    cached_inputs,
    common_protocol,
    evaluation_images,
    evaluation_view,
    frozen,
    new_layer,
    train_layer,
)
from .sets import check_labels, class_labels


class LinearConfig(ProbeConfig):
    """Training settings of the linear layer; the defaults are the paper's.

    `cached` inputs are computed without augmentation. `validation` is the fraction of the training images, drawn by
    `seed`, that is held out to choose the best epoch.
    """

    epochs: Epochs = 200
    batch_size: BatchSize = 512
    learning_rate: LearningRate = 1.6
    validation: Annotated[float, Field(gt=0, lt=1, description="validation must be between 0 and 1, such as 0.1")] = 0.1


@dataclass(frozen=True)
class LinearResult:
    """Accuracies from 0 to 1; `curve` has the validation accuracy after each epoch, and epochs count from 1.

    `converged` is the accuracy of `fit_linear` on all training images. Unlike `accuracy`, it does not depend on how far
    a few epochs of LARS converge.
    """

    accuracy: float
    converged: float
    validation_accuracy: float
    best_epoch: int
    curve: tuple[float, ...]
    protocol: dict[str, Any]


def measure_linear(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    config: LinearConfig = LinearConfig(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> LinearResult:
    """Train a linear layer on `train` and return its accuracy on `test`, for images of one class each.

    As in the paper, the epoch with the highest validation accuracy is tested. `progress` shows progress bars (default:
    if it takes long).
    """
    check_labels(train, test, single_class=True)
    fit = model.fit
    train_images, test_images = (evaluation_images(model, images, fit, progress) for images in (train, test))
    train_classes, test_classes = class_labels(train_images, "training"), class_labels(test_images, "test")
    generator = torch.Generator().manual_seed(config.seed)
    learned, held_out = stratified_split(train_classes, config.validation, generator)
    # Greyscale images are mostly digits and letters, which must not be mirrored.
    flip = 0.0 if 1 in (model.channels, train.channels) else 0.5
    views = ViewSettings(model.size, crop_scale=(0.08, 1.0), flip=flip, jitter=0.0, grey=0.0, blur=0.0)
    features = ProbeFeatures(model, config.probe_input)
    with frozen(model) as backbone_hash:
        known = features.of_center_crops(train_images, torch.arange(len(train_images)), progress)
        validation = known[held_out]
        if config.cached:
            inputs = cached_inputs(known[None])
        else:
            originals = open_uncropped(train, model.size, progress=progress is not False)
            inputs = augmented_inputs(features, originals, Views(views))
        layer = new_layer(features, len(train_images.class_names), generator)
        curve: list[float] = []
        best = layer

        def validate(_epoch: int) -> None:
            nonlocal best
            accuracy = _accuracy(layer, validation, train_classes[held_out])
            if accuracy > max(curve, default=-1.0):
                best = copy.deepcopy(layer)
            curve.append(accuracy)

        train_layer(
            layer,
            LARS(layer.parameters(), config.learning_rate, config.momentum, config.weight_decay),
            nn.functional.cross_entropy,
            inputs,
            train_classes,
            learned,
            config,
            generator,
            after_epoch=validate,
            progress=progress,
        )
        tested = features.of_center_crops(test_images, torch.arange(len(test_images)), progress)
        accuracy = _accuracy(best, tested, test_classes)
        converged = linear_accuracy(known, train_classes, tested, test_classes)
    protocol = {
        "evaluation": "linear",
        **common_protocol(features, config, backbone_hash, train_images, test_images),
        "optimizer": "LARS, trust coefficient 0.001; plain momentum for the bias",
        "training_views": "none: inputs cached, without augmentation"
        if config.cached
        else {"random_resized_crop": list(views.crop_scale), "flip": views.flip, "cut_from": "the original"},
        "evaluation_view": evaluation_view(model, train_images, fit),
        "validation_images": len(held_out),
        "tested_epoch": "highest validation accuracy, the first of ties",
        "converged_probe": CONVERGED,
    }
    return LinearResult(accuracy, converged, max(curve), 1 + curve.index(max(curve)), tuple(curve), protocol)


def stratified_split(classes: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the training indices and the held-out indices, a fraction `share` stratified by class."""
    count = max(1, round(share * len(classes)))
    if count == len(classes):
        raise EvaluationError(f"holding out {share:g} of {len(classes)} training images leaves none to train on")
    order = torch.randperm(len(classes), generator=generator)
    by_class = order[classes[order].argsort(stable=True)]
    # Evenly spaced among the images ordered by class.
    places = (2 * torch.arange(count) + 1) * len(classes) // (2 * count)
    held_out = torch.zeros(len(classes), dtype=torch.bool)
    held_out[by_class[places]] = True
    return (~held_out).nonzero().flatten(), held_out.nonzero().flatten()


def evaluate_linear(
    model: Model,
    train: ImageSet,
    test: ImageSet,
    config: LinearConfig = LinearConfig(),  # noqa: B008 - frozen
    *,
    progress: bool | None = None,
) -> Outcome:
    """Report `measure_linear`: accuracies, and the validation accuracy after each epoch."""
    result = measure_linear(model, train, test, config, progress=progress)
    tested = result.protocol["images"]["test"]
    how = "inputs computed once, without augmentation" if config.cached else "new views in each epoch"
    table = Table(
        "Top-1 accuracy of a linear layer on the frozen backbone.",
        ["split", "accuracy"],
        [
            ["test", result.accuracy],
            ["validation", result.validation_accuracy],
            ["test, converged probe", result.converged],
        ],
    )
    chart = Figure(
        f"Validation accuracy after each epoch; epoch {result.best_epoch} was tested.",
        draw_curve(result.curve, result.best_epoch),
    )
    return Outcome(
        "Linear evaluation",
        f"A linear layer classifies {tested:,} test images with an accuracy of {result.accuracy:.1%} "
        f"(epoch {result.best_epoch} of {config.epochs}, {how}), and with {result.converged:.1%} if it is trained to "
        "convergence on standardised features.",
        {
            "accuracy": result.accuracy,
            "converged_accuracy": result.converged,
            "validation_accuracy": result.validation_accuracy,
            "best_epoch": result.best_epoch,
            "curve": list(result.curve),
        },
        result.protocol,
        [Section("Accuracy", "The backbone is bit-identical before and after.", [table, chart])],
    )


@torch.no_grad()
def _accuracy(layer: nn.Linear, features: Tensor, classes: Tensor) -> float:
    scores: Tensor = layer(features)
    return (scores.argmax(1).cpu() == classes).double().mean().item()


class LARS(Optimizer):
    """LARS (You, Gitman, Ginsburg 2017): momentum SGD with a step size adapted to each layer.

    For weights w with gradient g, weight decay β and trust coefficient η:
    `λ = η·‖w‖ / (‖g‖ + β·‖w‖)`, then `v ← momentum·v + learning rate·λ·(g + β·w)` and `w ← w - v`.
    λ is also used with a weight decay of 0. Parameters of one dimension, such as biases, are neither adapted (λ = 1)
    nor decayed. If weights or gradients are all zero, λ = 1.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
    ) -> None:
        if lr < 0 or not 0 <= momentum < 1 or weight_decay < 0 or trust_coefficient <= 0:
            raise ValueError(
                "lr and weight_decay must be 0 or more, momentum from 0 to below 1, trust_coefficient above 0; "
                f"got {lr}, {weight_decay}, {momentum}, {trust_coefficient}"
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
        }
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Do one optimizer step. `closure`, if given, recomputes the loss and the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                velocity = self.state[weights].setdefault("velocity", torch.zeros_like(weights))
                gradient = weights.grad if weights.ndim <= 1 else _adapted(weights, weights.grad, group)
                velocity.mul_(group["momentum"]).add_(gradient, alpha=group["lr"])
                weights.sub_(velocity)
        return loss


def _adapted(weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    """Return λ·(g + β·w)."""
    decay: float = group["weight_decay"]
    length = weights.norm()
    trust: Tensor = group["trust_coefficient"] * length / (gradient.norm() + decay * length)
    # All-zero weights or gradients make this 0, infinite or NaN. A branch would synchronize with the GPU.
    trust = torch.where((trust > 0) & trust.isfinite(), trust, 1.0)
    return trust * (gradient + decay * weights)


def evaluate_knn(model: Model, train: ImageSet, test: ImageSet, *, k: int = 20, temperature: float = 0.07) -> Outcome:
    """Return the kNN accuracy of the backbone's activations and of the possession degrees."""
    if k < 1 or not temperature > 0:
        raise EvaluationError(f"k must be 1 or more and the temperature above 0, not {k} and {temperature}")
    check_labels(train, test, single_class=True)
    train_images, test_images = (images.resized(model.size, model.fit) for images in (train, test))
    train_classes, test_classes = class_labels(train_images, "training"), class_labels(test_images, "test")
    train_features, test_features = model.activations(train_images), model.activations(test_images)
    compared = {
        "backbone features": (train_features, test_features),
        "possession degrees": (
            model.encode_activations(train_features).degrees,
            model.encode_activations(test_features).degrees,
        ),
    }
    accuracies = {
        name: knn_accuracy(of_train, train_classes, of_test, test_classes, k=k, temperature=temperature)
        for name, (of_train, of_test) in compared.items()
    }
    used = min(k, len(train_images))
    table = Table(
        f"Accuracy of a vote of the {used} nearest neighbours by cosine, temperature {temperature:g}.",
        ["compared by", "accuracy"],
        [[name, accuracy] for name, accuracy in accuracies.items()],
    )
    return Outcome(
        "Nearest neighbours",
        f"{used} nearest neighbours classify {len(test_images):,} test images with an accuracy of "
        + " and ".join(f"{accuracy:.1%} by {name}" for name, accuracy in accuracies.items())
        + ".",
        {name.replace(" ", "_"): accuracy for name, accuracy in accuracies.items()},
        {
            "evaluation": "nearest neighbours",
            "model": model.id,
            "k": used,
            "temperature": temperature,
            "similarity": "cosine",
            "vote": "exp(cosine / temperature)",
            "images": {"training": len(train_images), "test": len(test_images)},
            "unreadable_images_left_out": {"training": len(train_images.broken), "test": len(test_images.broken)},
            "view": {"resized_to": model.size, "fit": model.fit},
        },
        [Section("Accuracy", content=[table])],
    )
