"""`conv5`, the paper's network for MNIST, and `resnet18` and `resnet50` with torchvision's parameter names."""

import os
from typing import Final

from torch import Tensor, nn

from ...errors import unknown
from .backbone import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD, Backbone, BackboneError, load_weights

MNIST_MEAN: Final = (0.1307,)
MNIST_STD: Final = (0.3081,)

# The paper gives no sizes. These are fast enough for a CPU; strides cost a third of what pooling would.
_CONV5_CHANNELS: Final = (32, 64, 128)
_CONV5_SIDE: Final = 4
_CONV5_WIDTH: Final = 512
_MAX_WIDTH: Final = 65_536


class Conv5(nn.Sequential):
    """Three 3×3 convolutions with stride 2, then two fully connected layers; batch norm and ReLU after each.

    The convolutions reduce 28×28 and 32×32 images to 4×4; feature maps of other sizes are average-pooled to 4×4.
    """

    def __init__(self, channels: int, width: int = _CONV5_WIDTH) -> None:
        layers: list[nn.Module] = []
        for before, after in zip((channels, *_CONV5_CHANNELS), _CONV5_CHANNELS, strict=False):
            convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        layers += [nn.AdaptiveAvgPool2d(_CONV5_SIDE), nn.Flatten()]
        for before in (_CONV5_CHANNELS[-1] * _CONV5_SIDE**2, width):
            layers += [nn.Linear(before, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True)]
        super().__init__(*layers)


def build_conv5(name: str, *, channels: int, pretrained: bool | None, width: int = _CONV5_WIDTH) -> Backbone:
    """Build `conv5`, for digits (`channels=1`) or small colour images; both linear layers have `width` outputs."""
    if pretrained:
        raise BackboneError(f"{name} has no pretrained weights: it is trained from scratch")
    if not isinstance(width, int) or not 1 <= width <= _MAX_WIDTH:
        raise BackboneError(f"the width of {name} goes from 1 to {_MAX_WIDTH:,}, got {width!r}")
    mean, std = (MNIST_MEAN, MNIST_STD) if channels == 1 else (CIFAR10_MEAN, CIFAR10_STD)
    return Backbone(Conv5(channels, width), name=name, width=width, size=28, channels=channels, mean=mean, std=std)


STEMS: Final = ("imagenet", "cifar")


class BasicBlock(nn.Module):
    """The residual block of ResNet-18: two 3×3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(before, inner, 3, stride)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = _convolution(inner, inner, 3)
        self.bn2 = nn.BatchNorm2d(inner)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(before, inner, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, before, h, w)` to `(B, inner, h/stride, w/stride)`."""
        y: Tensor = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y = y + self.downsample(x)
        return nn.functional.relu(y, inplace=True)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The batch norm just before the addition."""
        return self.bn2


class Bottleneck(nn.Module):
    """The residual block of ResNet-50: 1×1, 3×3 (with the stride) and 1×1 convolutions with a shortcut."""

    expansion = 4

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        after = inner * self.expansion
        self.conv1 = _convolution(before, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = _convolution(inner, inner, 3, stride)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = _convolution(inner, after, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, before, h, w)` to `(B, 4·inner, h/stride, w/stride)`."""
        y: Tensor = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y = y + self.downsample(x)
        return nn.functional.relu(y, inplace=True)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The batch norm just before the addition."""
        return self.bn3


class ResNet(nn.Module):
    """A ResNet without average pooling and classifier: four stages of residual blocks."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        *,
        channels: int = 3,
        stem: str = "imagenet",
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.width = 512 * block.expansion
        if stem == "cifar":  # no downsampling in the stem, for small images
            self.conv1 = _convolution(channels, 64, 3)
            self.maxpool: nn.Module = nn.Identity()
        else:
            self.conv1 = _convolution(channels, 64, 7, stride=2)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _stage(block, 64, 64, depths[0], stride=1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, depths[1], stride=2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, depths[2], stride=2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, depths[3], stride=2)
        self._initialise(zero_init_residual)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to `(B, width, H/32, W/32)`, or `(B, width, H/8, W/8)` with `stem="cifar"`."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        y: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return y

    def _initialise(self, zero_init_residual: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, BasicBlock | Bottleneck):
                nn.init.zeros_(module.last_norm.weight)


def build_resnet(
    name: str,
    *,
    channels: int,
    pretrained: bool | None,
    stem: str = "imagenet",
    weights: str | os.PathLike[str] | None = None,
    zero_init_residual: bool = False,
) -> Backbone:
    """Build `resnet18` or `resnet50`; `stem="cifar"` is 3×3 with stride 1 and no max-pool, for 32×32 images.

    `weights` is a file of torchvision weights (.safetensors or .pth); the classifier in it is ignored.
    `zero_init_residual` initialises each block as the identity, as SimSiam's code does.
    """
    if stem not in STEMS:
        raise BackboneError(unknown("stem", stem, STEMS))
    if pretrained and weights is None:
        raise BackboneError(f"{name} comes without weights: give a file of torchvision's as weights=PATH")
    block, depths = _ARCHITECTURES[name]
    network = ResNet(block, depths, channels=channels, stem=stem, zero_init_residual=zero_init_residual)
    if weights is not None:
        load_weights(network, weights, ignore=("fc.",))
    small = stem == "cifar"
    return Backbone(
        network,
        name=name,
        width=network.width,
        size=32 if small else 224,
        channels=channels,
        mean=CIFAR10_MEAN if small else IMAGENET_MEAN,
        std=CIFAR10_STD if small else IMAGENET_STD,
    )


_ARCHITECTURES: Final[dict[str, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, int, int, int]]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}


def _stage(
    block: type[BasicBlock] | type[Bottleneck], before: int, inner: int, depth: int, stride: int
) -> nn.Sequential:
    rest = [block(inner * block.expansion, inner, 1) for _ in range(depth - 1)]
    return nn.Sequential(block(before, inner, stride), *rest)


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    """Return the shortcut of a block: the identity, or a 1×1 convolution if the shape changes."""
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(_convolution(before, after, 1, stride), nn.BatchNorm2d(after))


def _convolution(before: int, after: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
