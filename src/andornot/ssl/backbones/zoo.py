"""`timm:NAME` and `torchvision:NAME`: the field's model zoos, where they are installed."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import torch
from torch import nn

from .backbone import IMAGENET_MEAN, IMAGENET_STD, Backbone, Pretrained, dry_run, found_width
from .weights import BackboneError, import_package, read_weights

_IMAGENET_CLASSES: Final = 1000


def build_timm(name: str, *, channels: int, pretrained: bool | None, local: bool = False, **options: Any) -> Backbone:
    """Build `timm:NAME`, pretrained unless `pretrained=False`; `options` go to `timm.create_model`.

    `local` looks the classifier up among downloaded files only.
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

    `local` looks the classifier up among downloaded files only.
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
    """Return the children before the pooling, in their order: as most networks there are built."""
    names = [name for name, _ in network.named_children()]
    return tuple(names[: names.index("avgpool")] if "avgpool" in names else names[:-1])


def _made(name: str, make: Any, *args: Any, **options: Any) -> Any:
    """Return what `make` returns, or a ValueError that begins with the backbone's name."""
    try:
        return make(*args, **options)
    except Exception as error:  # options are passed on, and a zoo does not check them
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BackboneError(f"backbone {name} cannot be built: {reason}") from error


def _measured(network: nn.Module, trunk: tuple[str, ...], *, tail: str | None = None, **described: Any) -> Backbone:
    """Return a backbone with the network's map, if what `trunk` and `tail` compute is what the network returns."""
    plain = Backbone(network, width=0, **described)
    plain.width = found_width(plain)
    if trunk:
        parted = Backbone(network, width=plain.width, trunk=trunk, tail=tail, **described)
        # Networks of a zoo are built in many ways. One that is built otherwise is used as a whole.
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
        # Where torch.hub keeps what it downloaded.
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
