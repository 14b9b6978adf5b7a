"""`conv5`: the paper's network for MNIST, "3 convolution layers and 2 fully-connected layers"."""

from typing import Final

from torch import nn

from .backbone import CIFAR10_MEAN, CIFAR10_STD, Backbone
from .weights import BackboneError

MNIST_MEAN: Final = (0.1307,)
MNIST_STD: Final = (0.3081,)

# The paper gives no sizes; these are our choice, quick enough for a CPU: strides instead of pooling cost a third.
_CHANNELS: Final = (32, 64, 128)
_SIDE: Final = 4
_WIDTH: Final = 512
_MAX_WIDTH: Final = 65_536


class Conv5(nn.Sequential):
    """Three 3×3 convolutions with stride 2, then two fully connected layers; batch norm and ReLU after each.

    Images of 28×28 and of 32×32 come out of the convolutions as 4×4; others are averaged to that.
    """

    def __init__(self, channels: int, width: int = _WIDTH) -> None:
        layers: list[nn.Module] = []
        for before, after in zip((channels, *_CHANNELS), _CHANNELS, strict=False):
            convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        layers += [nn.AdaptiveAvgPool2d(_SIDE), nn.Flatten()]
        for before in (_CHANNELS[-1] * _SIDE**2, width):
            layers += [nn.Linear(before, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True)]
        super().__init__(*layers)


def build_conv5(name: str, *, channels: int, pretrained: bool | None, width: int = _WIDTH) -> Backbone:
    """`conv5`, for digits (`channels=1`) or small colour images; `width` of both fully connected layers."""
    if pretrained:
        raise BackboneError(f"{name} has no pretrained weights: it is trained from scratch")
    if not isinstance(width, int) or not 1 <= width <= _MAX_WIDTH:
        raise BackboneError(f"the width of {name} goes from 1 to {_MAX_WIDTH:,}, got {width!r}")
    mean, std = (MNIST_MEAN, MNIST_STD) if channels == 1 else (CIFAR10_MEAN, CIFAR10_STD)
    return Backbone(Conv5(channels, width), name=name, width=width, size=28, channels=channels, mean=mean, std=std)
