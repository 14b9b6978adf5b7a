"""`Backbone`: any network, with what it expects of a picture (channels, size, mean, deviation) written down."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from .errors import BackboneError

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
CIFAR10_MEAN: Final = (0.4914, 0.4822, 0.4465)
CIFAR10_STD: Final = (0.2470, 0.2435, 0.2616)


class Backbone(nn.Module):
    """Pictures in, pooled activations out: `(B, C, H, W)` with values from 0 to 1 -> `(B, width)`.

    It normalises pictures itself, and repeats grey ones for a network that wants colour. `size` is the side of the
    pictures that the network is meant for; most take others as well. `config` rebuilds it without its weights:
    `build_backbone(**config)`.
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
    ) -> None:
        """`network` maps normalised pictures to `(B, width)`, or to a map `(B, width, h, w)` that is averaged here.

        `mean` and `std` have one number a channel; where the number of channels differs, their average is used.
        """
        super().__init__()
        self.network = network
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

    def forward(self, pictures: Tensor) -> Tensor:
        """Pooled activations `(B, width)` of pictures `(B, C, H, W)`, floats from 0 to 1."""
        return _pooled(self.network(self.normalise(pictures)))

    def normalise(self, pictures: Tensor) -> Tensor:
        """What the network sees: `(pictures - mean) / std`, with as many channels as it wants."""
        self._check(pictures)
        # One channel times a row for each of three repeats it.
        normalised = torch.addcmul(self._shift, pictures, self._scale)
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # for ONNX, which knows no memory formats
            return normalised
        # Convolutions on a CPU, and in half precision on a GPU, are faster with the channels innermost.
        return normalised.contiguous(memory_format=torch.channels_last)

    def _check(self, pictures: Tensor) -> None:
        if pictures.ndim != 4:
            raise BackboneError(f"pictures must have the shape (B, C, H, W), got {tuple(pictures.shape)}")
        if not pictures.is_floating_point():
            raise TypeError(f"pictures must be floats from 0 to 1, got {pictures.dtype}; divide bytes by 255")
        given = pictures.shape[1]
        if given not in (1, self.channels):
            wanted = "1 channel" if self.channels == 1 else f"{self.channels} channels (or 1, which is repeated)"
            raise BackboneError(f"{self.name} takes pictures with {wanted}, got {given}")

    def extra_repr(self) -> str:
        """What `print(backbone)` says of it before its network."""
        return f"{self.name}, width={self.width}, size={self.size}, channels={self.channels}"


def wrap_backbone(
    module: nn.Module,
    width: int | None = None,
    size: int = 224,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Backbone:
    """Any network as a backbone: one that returns activations `(B, width)`, or a map `(B, width, h, w)` to average.

    `width=None` is found by running it once on an empty picture. Without `mean` and `std` the network sees pictures
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


@torch.no_grad()
def found_width(backbone: Backbone) -> int:
    """The width of a backbone's activations, by a dry run that leaves no trace in it."""
    modes = [(module, module.training) for module in backbone.modules()]
    example = next(backbone.parameters(), backbone._scale)
    try:
        activations: Tensor = backbone.eval()(example.new_zeros(1, backbone.channels, backbone.size, backbone.size))
        return activations.shape[1]
    finally:
        for module, mode in modes:
            module.training = mode


def _pooled(activations: Tensor) -> Tensor:
    if activations.ndim == 4:
        return activations.mean((2, 3))
    if activations.ndim != 2:
        raise BackboneError(
            f"a backbone's network returns activations (B, width) or (B, width, h, w), got {tuple(activations.shape)}"
        )
    return activations


def _one_a_channel(values: Sequence[float], channels: int) -> tuple[float, ...]:
    if len(values) == channels:
        return tuple(values)
    return (sum(values) / len(values),) * channels
