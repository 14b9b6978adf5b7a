"""Linear probing, shared by linear and multilabel evaluation: train one linear layer on a frozen backbone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR

from ...data import ImageSet, ResizedImages
from ...data.converting import Fit
from ...data.resized import UncroppedImages, with_margin
from ...errors import EvaluationError
from ...model import Model
from ...probes import DECAY
from ...progress import track
from ...ssl.backbones import hash_tensors
from ...ssl.views import GREY_WEIGHTS
from .config import ExperimentConfig

_BATCH: Final = 128  # images encoded at once

Augment = Callable[[Tensor, torch.Generator, Tensor | None], Tensor]
"""Maps uint8 images `(B, C, H, W)` and the shapes of their originals to views `(B, C, size, size)` from 0 to 1."""

ProbeInput = Literal["backbone", "degrees"]
"""Input of the linear layer: the backbone's pooled activations, as in the paper, or the possession degrees."""
CONVERGED: Final = (
    f"logistic regression on standardised features without augmentation, L2 {DECAY:g}, L-BFGS until convergence"
)
PROBE_INPUTS: Final[tuple[ProbeInput, ...]] = get_args(ProbeInput)

Inputs = Callable[[Tensor, torch.Generator], Tensor]
"""Maps image indices `(B,)` to training inputs `(B, width)`."""

Epochs = Annotated[int, Field(ge=1, description="epochs must be 1 or more")]
BatchSize = Annotated[int, Field(ge=1, description="batch_size must be 1 or more")]
LearningRate = Annotated[float, Field(gt=0, description="learning_rate must be above 0")]


class ProbeConfig(ExperimentConfig):
    """Training settings of a linear layer. `cached` computes its inputs once instead of every epoch: fast on a CPU."""

    epochs: Epochs
    batch_size: BatchSize
    learning_rate: LearningRate
    momentum: Annotated[float, Field(ge=0, lt=1, description="momentum must be from 0 to below 1")] = 0.9
    weight_decay: Annotated[float, Field(ge=0, description="weight_decay must be 0 or more")] = 0.0
    cached: bool = False
    probe_input: Annotated[ProbeInput, Field(description=f"probe_input is {' or '.join(PROBE_INPUTS)}")] = "backbone"
    seed: int = 0


@contextmanager
def frozen(model: Model) -> Iterator[str]:
    """Set the backbone to eval mode and yield its hash; raise an EvaluationError if it has changed afterwards."""
    before = hash_weights(model.backbone.eval())
    yield before
    if hash_weights(model.backbone) != before:
        raise EvaluationError(
            "the backbone changed during its evaluation: a parameter or buffer differs, so the result is not valid"
        )


def hash_weights(module: nn.Module) -> str:
    """Return a hash of all parameters and buffers, including those that are not saved."""
    return hash_tensors({**dict(module.named_parameters()), **dict(module.named_buffers())})


def backbone_key(model: Model) -> tuple[str, int, str]:
    """Return a key that is equal for models with the same activations, i.e. those that differ in their heads only."""
    return hash_weights(model.backbone), model.size, model.fit


def evaluation_images(model: Model, images: ImageSet, fit: Fit, progress: bool | None) -> ResizedImages:
    """Return the images resized for a center crop: 8/7 of the model's size (256 for 224), unless that is small."""
    return images.resized(with_margin(model.size), fit, progress=progress is not False)


class ProbeFeatures:
    """Inputs `(n, width)` of a linear layer, computed by a frozen model on its device."""

    def __init__(self, model: Model, probe_input: ProbeInput = "backbone") -> None:
        self.model, self.probe_input = model, probe_input
        self.width = model.backbone.width if probe_input == "backbone" else model.num_features

    def __call__(self, views: Tensor) -> Tensor:
        """Return `(B, width)` for views `(B, C, size, size)` from 0 to 1."""
        return self.from_activations(self._pooled(views))

    def from_activations(self, pooled: Tensor) -> Tensor:
        """Return `(B, width)` for pooled activations of the backbone."""
        if self.probe_input == "backbone":
            return pooled
        return torch.cat([self.model.encode_activations(part).degrees for part in torch.split(pooled, _BATCH)])

    def of_center_crops(self, images: ResizedImages, numbers: Tensor, progress: bool | None) -> Tensor:
        """Return `(n, width)` for the center crops of the images with these indices, without augmentation."""
        return self.from_activations(self.center_activations(images, numbers, progress))

    def center_activations(self, images: ResizedImages, numbers: Tensor, progress: bool | None) -> Tensor:
        """Return the backbone's pooled activations of the center crops of the images with these indices."""
        margin = (images.size - self.model.size) // 2
        inside = slice(margin, margin + self.model.size)
        return _collect(
            numbers,
            lambda part: self._pooled(take_images(self.model, images, part)[..., inside, inside] / 255),
            progress,
        )

    def _pooled(self, views: Tensor) -> Tensor:
        return self.model.backbone.pool(self.model.maps(views.to(self.model.device)))


def augmented_inputs(features: ProbeFeatures, originals: UncroppedImages, augment: Augment) -> Inputs:
    """Return inputs from a new random view each time."""
    images, shapes = originals

    def compute(numbers: Tensor, generator: torch.Generator) -> Tensor:
        batch_shapes = None if shapes is None else shapes[numbers]
        return features(augment(take_images(features.model, images, numbers), generator, batch_shapes))

    return compute


def cached_inputs(features: Tensor) -> Inputs:
    """Return inputs from precomputed features `(V, n, width)`, with a random one of the V views of each image."""
    return lambda numbers, generator: features[
        torch.randint(len(features), numbers.shape, generator=generator), numbers
    ]


def cache_views(
    features: ProbeFeatures,
    images: ResizedImages,
    augment: Augment,
    count: int,
    generator: torch.Generator,
    progress: bool | None,
) -> Inputs:
    """Compute the features of `count` random views of each image once, and return inputs drawn from them."""
    augmented, numbers = augmented_inputs(features, UncroppedImages(images), augment), torch.arange(len(images))
    return cached_inputs(
        torch.stack([_collect(numbers, lambda part: augmented(part, generator), progress) for _ in range(count)])
    )


def take_images(model: Model, images: ResizedImages, numbers: Tensor) -> Tensor:
    """Return uint8 images `(B, C, H, W)` on the model's device; in greyscale for a greyscale model, as in `encode`."""
    batch = images[numbers].to(model.device)
    if batch.shape[1] <= model.channels:
        return batch
    weights = batch.new_tensor(GREY_WEIGHTS, dtype=torch.float32).view(1, 3, 1, 1)
    return (batch * weights).sum(1, keepdim=True).round().to(torch.uint8)


def new_layer(features: ProbeFeatures, outputs: int, generator: torch.Generator) -> nn.Linear:
    """Return a new linear layer: weights normal with standard deviation 0.01, bias 0."""
    # Skip torch's initialization, which would use the global generator.
    layer = nn.Linear(features.width, outputs, device="meta").to_empty(device="cpu")
    nn.init.normal_(layer.weight, std=0.01, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer.to(features.model.device)


def train_layer(
    layer: nn.Linear,
    optimizer: Optimizer,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Inputs,
    targets: Tensor,
    numbers: Tensor,
    config: ProbeConfig,
    generator: torch.Generator,
    *,
    after_epoch: Callable[[int], None] | None = None,
    progress: bool | None = None,
) -> None:
    """Train on the images with these indices, with a cosine schedule per epoch and batches of nearly equal size.

    `after_epoch` is called with the number of finished epochs.
    """
    epochs = config.epochs
    schedule = CosineAnnealingLR(optimizer, epochs)
    device = layer.weight.device
    steps = -(-len(numbers) // config.batch_size)
    with track("linear layer", epochs * steps, "steps", shown=progress, delay=2) as bar:
        for epoch in range(1, epochs + 1):
            order = numbers[torch.randperm(len(numbers), generator=generator)]
            for batch in order.tensor_split(steps):
                optimizer.zero_grad()
                torch.autograd.backward(loss(layer(inputs(batch, generator)), targets[batch].to(device)))
                optimizer.step()
                bar.update(1)
            schedule.step()
            if after_epoch is not None:
                after_epoch(epoch)


def common_protocol(
    features: ProbeFeatures, config: ProbeConfig, backbone_hash: str, train: ResizedImages, test: ResizedImages
) -> dict[str, Any]:
    """Return the part of the protocol that linear and multilabel evaluation share, as plain data."""
    model = features.model
    inputs = {
        "backbone": f"pooled activations of the backbone ({model.backbone.name}, {model.backbone.width}), no head",
        "degrees": f"possession degrees ({model.num_features}) on {model.backbone.name}; the paper's probe reads the "
        "backbone",
    }
    return {
        "model": model.id,
        "probe_input": features.probe_input,
        "features": inputs[features.probe_input],
        "standardised_features": False,
        "backbone": {"frozen": True, "mode": "eval", "bit_identical_afterwards": True, "sha256": backbone_hash},
        "schedule": "cosine decay, per epoch",
        "settings": config.model_dump(),
        "layer": {"kind": "linear", "weights": "normal, std 0.01", "bias": 0},
        "images": {"training": len(train), "test": len(test)},
        "unreadable_images_left_out": {"training": len(train.broken), "test": len(test.broken)},
    }


def evaluation_view(model: Model, images: ResizedImages, fit: Fit) -> dict[str, Any]:
    """Return how an image is preprocessed without augmentation, as plain data."""
    return {"resized_to": images.size, "fit": fit, "center_crop": model.size}


def _collect(numbers: Tensor, compute: Callable[[Tensor], Tensor], progress: bool | None) -> Tensor:
    parts = []
    with track("features", len(numbers), shown=progress, delay=2) as bar:
        for part in torch.split(numbers, _BATCH):
            parts.append(compute(part))
            bar.update(len(part))
    return torch.cat(parts)
