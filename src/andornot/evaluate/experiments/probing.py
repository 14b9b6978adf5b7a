"""What linear and multilabel evaluation share: one linear layer, trained on the features of a frozen backbone."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR

from ...data import ImageSet, Pictures
from ...data.originals import Originals, with_margin
from ...data.resizing import Fit
from ...model import Model
from ...progress import track
from ...ssl.views import GREY_WEIGHTS
from ..errors import EvaluationError
from ..metrics.knn import single_classes
from .settings import Settings

_BATCH: Final = 128  # pictures that go through the backbone at once where nothing is trained

Augment = Callable[[Tensor, torch.Generator, Tensor | None], Tensor]
"""Views `(B, C, size, size)` from 0 to 1 of pictures `(B, C, H, W)` of bytes, with the shapes of their originals."""

Reads = Literal["backbone", "degrees"]
"""What the layer reads: the backbone's pooled features, as in the paper, or the possession degrees."""
READS: Final[tuple[Reads, ...]] = get_args(Reads)

Inputs = Callable[[Tensor, torch.Generator], Tensor]
"""Features `(B, width)` to train on, of the pictures with these numbers `(B,)`."""


Epochs = Annotated[int, Field(ge=1, description="epochs must be 1 or more")]
BatchSize = Annotated[int, Field(ge=1, description="batch_size must be 1 or more")]
LearningRate = Annotated[float, Field(gt=0, description="learning_rate must be above 0")]


class LayerSettings(Settings):
    """How a linear layer is trained.

    `cached` computes the features once: quick on a CPU. The paper's layer `reads` the backbone; it may read the
    possession degrees instead.
    """

    epochs: Epochs
    batch_size: BatchSize
    learning_rate: LearningRate
    momentum: Annotated[float, Field(ge=0, lt=1, description="momentum must be from 0 to below 1")] = 0.9
    weight_decay: Annotated[float, Field(ge=0, description="weight_decay must be 0 or more")] = 0.0
    cached: bool = False
    reads: Annotated[Reads, Field(description=f"a linear layer reads {' or '.join(READS)}")] = "backbone"
    seed: int = 0


def check_sets(train: ImageSet, test: ImageSet, *, one_class_each: bool = False) -> None:
    """An EvaluationError for sets without labels, or with different classes; before any picture is read."""
    for name, images in (("training", train), ("test", test)):
        if images.labels is None:
            raise EvaluationError(
                f"the {name} pictures have no labels: take a source that has some, as digits or imagefolder:PATH"
            )
    if train.class_names != test.class_names:
        raise EvaluationError(
            f"the training pictures are of {_some(train.class_names)}, and the test pictures of "
            f"{_some(test.class_names)}: both need the same classes in the same order"
        )
    if one_class_each:
        classes_of(train, "training")
        classes_of(test, "test")


def classes_of(pictures: ImageSet | Pictures, name: str) -> Tensor:
    """The class `(n,)` of each picture, or an EvaluationError where one has none or several."""
    classes = single_classes(pictures.labels)
    if classes is None:
        raise EvaluationError(
            f"some {name} pictures have no class or several, and this needs one each; multilabel evaluation does not"
        )
    return classes


@contextmanager
def frozen(model: Model) -> Iterator[str]:
    """Puts the backbone in eval mode and gives its digest; an EvaluationError if any of its bits differs afterwards."""
    before = digest(model.backbone.eval())
    yield before
    if digest(model.backbone) != before:
        raise EvaluationError(
            "the backbone changed while it was evaluated: a parameter or a buffer of it is not what it was, "
            "so the result would be of another model"
        )


def digest(module: nn.Module) -> str:
    """A hash of all parameters and buffers, those included that are not saved."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    known = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        known.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        known.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return known.hexdigest()


def sight_of(model: Model) -> tuple[str, int, str]:
    """What decides which activations a model has of pictures. Those with the same differ in their heads alone."""
    return digest(model.backbone), model.size, model.recipe.fit


def evaluation_pictures(model: Model, images: ImageSet, fit: Fit, progress: bool | None) -> Pictures:
    """The pictures, 8/7 of the model's size unless that is small: 256 for 224."""
    return images.pictures(with_margin(model.size), fit, progress=progress is not False)


class Reader:
    """A model, and what a linear layer reads of it: `width` numbers of each picture, on the model's device."""

    def __init__(self, model: Model, reads: Reads = "backbone") -> None:
        self.model, self.reads = model, reads
        self.width = model.backbone.width if reads == "backbone" else model.num_features

    def __call__(self, views: Tensor) -> Tensor:
        """`(B, width)` of views `(B, C, size, size)` from 0 to 1."""
        return self.of_features(self._pooled(views))

    def of_features(self, pooled: Tensor) -> Tensor:
        """`(B, width)` of pooled features of the backbone."""
        if self.reads == "backbone":
            return pooled
        return torch.cat([self.model.represent(part).degrees for part in torch.split(pooled, _BATCH)])

    def of_centres(self, pictures: Pictures, numbers: Tensor, progress: bool | None) -> Tensor:
        """`(n, width)` of the centres of the pictures with these numbers `(n,)`, without augmentation."""
        return self.of_features(self.pooled_centres(pictures, numbers, progress))

    def pooled_centres(self, pictures: Pictures, numbers: Tensor, progress: bool | None) -> Tensor:
        """The backbone's features of the centres of the pictures with these numbers, whatever the layer reads."""
        margin = (pictures.size - self.model.size) // 2
        inside = slice(margin, margin + self.model.size)
        return _collect(
            numbers, lambda part: self._pooled(take(self.model, pictures, part)[..., inside, inside] / 255), progress
        )

    def _pooled(self, views: Tensor) -> Tensor:
        return self.model.backbone.pool(self.model.maps(views.to(self.model.device)))


def fresh_inputs(reader: Reader, originals: Originals, augment: Augment) -> Inputs:
    """Features of a new view each time."""
    pictures, shapes = originals

    def features(numbers: Tensor, generator: torch.Generator) -> Tensor:
        of_batch = None if shapes is None else shapes[numbers]
        return reader(augment(take(reader.model, pictures, numbers), generator, of_batch))

    return features


def cached_inputs(features: Tensor) -> Inputs:
    """Of features `(V, n, width)` those of one of the V views of each picture, drawn at random."""
    return lambda numbers, generator: features[
        torch.randint(len(features), numbers.shape, generator=generator), numbers
    ]


def cache_views(
    reader: Reader, pictures: Pictures, augment: Augment, count: int, generator: torch.Generator, progress: bool | None
) -> Inputs:
    """Computes the features of `count` views of each picture once, to draw from them."""
    fresh, numbers = fresh_inputs(reader, Originals(pictures), augment), torch.arange(len(pictures))
    return cached_inputs(
        torch.stack([_collect(numbers, lambda part: fresh(part, generator), progress) for _ in range(count)])
    )


def take(model: Model, pictures: Pictures, numbers: Tensor) -> Tensor:
    """Pictures `(B, C, H, W)` of bytes on the model's device; in grey for a model of grey ones, as `encode` does it."""
    batch = pictures[numbers].to(model.device)
    if batch.shape[1] <= model.channels:
        return batch
    weights = batch.new_tensor(GREY_WEIGHTS, dtype=torch.float32).view(1, 3, 1, 1)
    return (batch * weights).sum(1, keepdim=True).round().to(torch.uint8)


def new_layer(reader: Reader, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer on what it reads: weights from N(0, 0.01), the deviation being 0.01, and a bias of 0."""
    # Made without values, so that torch's own generator is left alone.
    layer = nn.Linear(reader.width, outputs, device="meta").to_empty(device="cpu")
    nn.init.normal_(layer.weight, std=0.01, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer.to(reader.model.device)


def train_layer(
    layer: nn.Linear,
    optimiser: Optimizer,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Inputs,
    targets: Tensor,
    numbers: Tensor,
    settings: LayerSettings,
    generator: torch.Generator,
    *,
    after_epoch: Callable[[int], None] | None = None,
    progress: bool | None = None,
) -> None:
    """Trains on the pictures with these numbers; the learning rate follows half a cosine from epoch to epoch.

    An epoch is in batches of about the same size, none above that of the settings. `after_epoch` gets the number of
    epochs done.
    """
    epochs = settings.epochs
    schedule = CosineAnnealingLR(optimiser, epochs)
    device = layer.weight.device
    steps = -(-len(numbers) // settings.batch_size)
    with track("linear layer", epochs * steps, "steps", shown=progress, delay=2) as bar:
        for epoch in range(1, epochs + 1):
            order = numbers[torch.randperm(len(numbers), generator=generator)]
            for batch in order.tensor_split(steps):
                optimiser.zero_grad()
                torch.autograd.backward(loss(layer(inputs(batch, generator)), targets[batch].to(device)))
                optimiser.step()
                bar.update(1)
            schedule.step()
            if after_epoch is not None:
                after_epoch(epoch)


def common_protocol(
    reader: Reader, settings: LayerSettings, backbone_digest: str, train: Pictures, test: Pictures
) -> dict[str, Any]:
    """The part of a protocol that both evaluations have, as plain data."""
    model = reader.model
    features = {
        "backbone": f"pooled output of the backbone ({model.backbone.name}, {model.backbone.width}), before any head",
        "degrees": f"possession degrees ({model.num_features}) on {model.backbone.name}; the paper's probe reads the "
        "backbone",
    }
    return {
        "model": model.id,
        "reads": reader.reads,
        "features": features[reader.reads],
        "standardised_features": False,
        "backbone": {"frozen": True, "mode": "eval", "bit_identical_afterwards": True, "sha256": backbone_digest},
        "schedule": "cosine decay, from epoch to epoch",
        "settings": settings.model_dump(),
        "layer": {"kind": "linear", "weights": "normal, deviation 0.01", "bias": 0},
        "pictures": {"training": len(train), "test": len(test)},
        "unreadable_pictures_left_out": {"training": len(train.broken), "test": len(test.broken)},
    }


def evaluation_view(model: Model, pictures: Pictures, fit: Fit) -> dict[str, Any]:
    """How a picture is seen when it is not augmented, as plain data."""
    return {"resized_to": pictures.size, "fit": fit, "centre_crop": model.size}


def _collect(numbers: Tensor, compute: Callable[[Tensor], Tensor], progress: bool | None) -> Tensor:
    parts = []
    with track("features", len(numbers), shown=progress, delay=2) as bar:
        for part in torch.split(numbers, _BATCH):
            parts.append(compute(part))
            bar.update(len(part))
    return torch.cat(parts)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} classes ({shown})"
