"""`timm:NAME` and `torchvision:NAME`: the field's model zoos, where they are installed."""

from typing import Any

from torch import nn

from .backbone import IMAGENET_MEAN, IMAGENET_STD, Backbone, found_width
from .errors import BackboneError
from .packages import import_package


def build_timm(name: str, *, channels: int, pretrained: bool | None, **options: Any) -> Backbone:
    """`timm:NAME`, pretrained unless `pretrained=False`; `options` go to `timm.create_model`."""
    timm = import_package("timm", backbone=name, install="timm")
    model = name.partition(":")[2]
    network = _made(
        name, timm.create_model, model, pretrained=pretrained is not False, in_chans=channels, num_classes=0, **options
    )
    wanted = timm.data.resolve_model_data_config(network)
    return _measured(network, name, wanted["input_size"][-1], channels, wanted["mean"], wanted["std"])


def build_torchvision(name: str, *, channels: int, pretrained: bool | None, **options: Any) -> Backbone:
    """`torchvision:NAME` without its last linear layer, pretrained unless `pretrained=False`."""
    models = import_package("torchvision", backbone=name, install="torchvision").models
    model = name.partition(":")[2]
    if channels != 3:
        raise BackboneError(f"{name} has 3 channels, not {channels}; grey pictures are repeated for it")
    weights = _made(name, models.get_model_weights, model).DEFAULT
    network = _made(name, models.get_model, model, weights=None if pretrained is False else weights, **options)
    _drop_classifier(network, name)
    wanted = weights.transforms()
    size = getattr(wanted, "crop_size", [224])[0]
    mean, std = getattr(wanted, "mean", IMAGENET_MEAN), getattr(wanted, "std", IMAGENET_STD)
    return _measured(network, name, size, channels, mean, std)


def _made(name: str, make: Any, *args: Any, **options: Any) -> Any:
    """What `make` returns, or a ValueError that begins with the backbone's name."""
    try:
        return make(*args, **options)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BackboneError(f"backbone {name} cannot be built: {reason}") from error


def _measured(network: nn.Module, name: str, size: int, channels: int, mean: Any, std: Any) -> Backbone:
    backbone = Backbone(network, name=name, width=0, size=size, channels=channels, mean=mean, std=std)
    backbone.width = found_width(backbone)
    return backbone


def _drop_classifier(network: nn.Module, name: str) -> None:
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise BackboneError(f"backbone {name} has no linear layer at its end to take off; use wrap_backbone")
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())
