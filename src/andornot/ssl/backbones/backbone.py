"""`Backbone`: any network, with what it expects of an image (channels, size, mean, deviation) written down."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import AndornotError
from .weights import BackboneError

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
CIFAR10_MEAN: Final = (0.4914, 0.4822, 0.4465)
CIFAR10_STD: Final = (0.2470, 0.2435, 0.2616)


class Pretrained(NamedTuple):
    """What a backbone was trained to be: the weights of its network, and the classifier that stood at its end."""

    weights: dict[str, Tensor]
    classifier: nn.Module


class Backbone(nn.Module):
    """Images in, pooled activations out: `(B, C, H, W)` with values from 0 to 1 -> `(B, width)`.

    It normalises images itself, and repeats grey ones for a network that wants colour. `size` is the side of the
    images that the network is meant for; most take others as well. `config` rebuilds it without its weights:
    `build_backbone(**config)`.

    It has two parts, `pool(maps(images))`: a window of the map, pooled, is that region of the images.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        name: str,
        width: int,
        size: int,
        channels: int = 3,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        trunk: Sequence[str] = (),
        tail: str | None = None,
        pretrained: Callable[[], Pretrained] | None = None,
    ) -> None:
        """`network` maps normalised images to `(B, width)`, or to a map `(B, width, h, w)` that is averaged here.

        `mean` and `std` have one number a channel; where the number of channels differs, their average is used. A
        network that pools by itself names the attributes that lead to its last map, one after another (`trunk`), and
        the one that pools that map (`tail`), if it is no average. `pretrained` looks up the weights that go with a
        classifier of ImageNet; it is called when somebody wants to classify.
        """
        super().__init__()
        self.network = network
        self._trunk, self._tail, self._pretrained = tuple(trunk), tail, pretrained
        self.name, self.width, self.size, self.channels = name, width, size, channels
        self.mean, self.std = _one_a_channel(mean, channels), _one_a_channel(std, channels)
        if min(self.std) <= 0:
            raise BackboneError(f"std must be above 0, got {self.std}")
        self.config: dict[str, Any] = {"name": name, "channels": channels, "pretrained": False}
        # (x - mean) / std as one multiplication and addition. Constants of the architecture, so not in the state dict.
        mean_row, std_row = (torch.tensor(row, dtype=torch.float64).view(1, -1, 1, 1) for row in (self.mean, self.std))
        self.register_buffer("_scale", (1 / std_row).float(), persistent=False)
        self.register_buffer("_shift", (-mean_row / std_row).float(), persistent=False)
        self._scale: Tensor
        self._shift: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Pooled activations `(B, width)` of images `(B, C, H, W)`, floats from 0 to 1."""
        return self.pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """Return the last feature map `(B, C, h, w)` of images; h and w are 1 for a network without (`has_maps`)."""
        made = self.normalise(images)
        for step in (getattr(self.network, name) for name in self._trunk or ("__call__",)):
            made = step(made)
        if made.ndim not in (2, 4):
            raise BackboneError(
                f"a backbone's network returns activations (B, width) or (B, width, h, w), got {tuple(made.shape)}"
            )
        return made if made.ndim == 4 else made[:, :, None, None]

    def pool(self, maps: Tensor) -> Tensor:
        """Return activations `(B, width)` of feature maps, or of a window `maps[:, :, top:bottom, left:right]`."""
        return self._end(maps)

    @cached_property
    def has_maps(self) -> bool:
        """Whether its feature maps have more than one place at its own size, so that windows of them are regions."""
        return dry_run(self).shape[2:].numel() > 1

    @property
    def classes(self) -> str | None:
        """ "imagenet-1k" where `classify` names the 1,000 classes of ImageNet, in their order; else None.

        None also for a backbone whose weights are not those that its classifier was trained with.
        """
        return None if self._classifier is None else "imagenet-1k"

    @torch.no_grad()
    def classify(self, maps: Tensor) -> Tensor:
        """Logits `(B, classes)` of feature maps or windows of them, as the original network ends."""
        if self._classifier is None:
            raise BackboneError(f"{self.name} has no classifier, or its weights are not those that it was trained with")
        logits: Tensor = self._classifier.to(maps.device)(self._end(maps))
        return logits

    def save_files(self, folder: Path) -> list[str]:  # noqa: ARG002 - most need none
        """Write what `rebuild_backbone` needs beside `config` and the weights into `folder`; return the file names."""
        return []

    def _end(self, maps: Tensor) -> Tensor:
        """Return the network's own pooling."""
        if self._tail is not None:
            return torch.as_tensor(getattr(self.network, self._tail)(maps))
        return maps.mean((2, 3)) if maps.shape[2:].numel() > 1 else maps.flatten(1)

    @cached_property
    def _classifier(self) -> nn.Module | None:
        """Cached past `nn.Module`, and so no part of the state: a model's weights and id do not know of it."""
        if self._pretrained is None:
            return None
        try:
            weights, classifier = self._pretrained()
        except (AndornotError, OSError):
            return None
        own = self.network.state_dict()
        same = all(torch.equal(own[name].cpu(), value) for name, value in weights.items() if name in own)
        return classifier.eval().requires_grad_(False) if same else None

    def normalise(self, images: Tensor) -> Tensor:
        """Return what the network sees: `(images - mean) / std`, with as many channels as it wants."""
        self._check(images)
        # One channel times a row for each of three repeats it.
        normalised = torch.addcmul(self._shift, images, self._scale)
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # for ONNX, which knows no memory formats
            return normalised
        # Convolutions on a CPU, and in half precision on a GPU, are faster with the channels innermost.
        return normalised.contiguous(memory_format=torch.channels_last)

    def _check(self, images: Tensor) -> None:
        if images.ndim != 4:
            raise BackboneError(f"images must have the shape (B, C, H, W), got {tuple(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"images must be floats from 0 to 1, got {images.dtype}; divide bytes by 255")
        given = images.shape[1]
        if given not in (1, self.channels):
            wanted = "1 channel" if self.channels == 1 else f"{self.channels} channels (or 1, which is repeated)"
            raise BackboneError(f"{self.name} takes images with {wanted}, got {given}")

    def extra_repr(self) -> str:
        """Return what `print(backbone)` says of it before its network."""
        return f"{self.name}, width={self.width}, size={self.size}, channels={self.channels}"


def wrap_backbone(
    module: nn.Module,
    width: int | None = None,
    size: int = 224,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Backbone:
    """Wrap any network that returns activations `(B, width)`, or a map `(B, width, h, w)` to average.

    `width=None` is found by running it once on an empty image. Without `mean` and `std` the network sees images
    from 0 to 1 as they are. It cannot be rebuilt from its `config`: its code is yours. A backbone stays what it is.

    >>> backbone = wrap_backbone(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), size=32)
    >>> backbone.name, backbone.width
    ('module:Sequential', 8)
    """
    if isinstance(module, Backbone):
        return module
    backbone = Backbone(
        module,
        name=f"module:{type(module).__name__}",
        width=0,
        size=size,
        channels=channels,
        mean=(0.0,) if mean is None else mean,
        std=(1.0,) if std is None else std,
    )
    backbone.width = found_width(backbone) if width is None else width
    return backbone


def found_width(backbone: Backbone) -> int:
    """Return the width of a backbone's activations."""
    return backbone.pool(dry_run(backbone)).shape[1]


@torch.no_grad()
def dry_run(backbone: Backbone) -> Tensor:
    """Return the feature map of an empty image, by a run that leaves no trace in the backbone."""
    modes = [(module, module.training) for module in backbone.modules()]
    example = next(backbone.parameters(), backbone._scale)
    try:
        return backbone.eval().maps(example.new_zeros(1, backbone.channels, backbone.size, backbone.size))
    finally:
        for module, mode in modes:
            module.training = mode


def _one_a_channel(values: Sequence[float], channels: int) -> tuple[float, ...]:
    if len(values) == channels:
        return tuple(values)
    return (sum(values) / len(values),) * channels
