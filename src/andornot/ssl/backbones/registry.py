"""`build_backbone`: build networks by name. To add one, write a builder and list it in `_BUILDERS` or `_FAMILIES`."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ...errors import did_you_mean, spelled_like
from .backbone import Backbone, BackboneError
from .convnets import build_conv5, build_resnet
from .joint import build_joint
from .zoo import build_efficientnet_lite, build_timm, build_torchvision

# A builder is called as `builder(name, channels=…, pretrained=…, **options)`.
_BUILDERS: Final[dict[str, Callable[..., Backbone]]] = {
    "conv5": build_conv5,
    "resnet18": build_resnet,
    "resnet50": build_resnet,
    "efficientnet-lite0": build_efficientnet_lite,
    "efficientnet-lite1": build_efficientnet_lite,
    "efficientnet-lite2": build_efficientnet_lite,
}
# Families: `timm:NAME` is built by the builder of `timm`.
_FAMILIES: Final[dict[str, Callable[..., Backbone]]] = {
    "timm": build_timm,
    "torchvision": build_torchvision,
    "transformers": build_joint,
}
# Options for the source of weights, which rebuilding an architecture does not need.
_NOT_ARCHITECTURE: Final = ("weights", "weights_backbone", "checkpoint_path", "cache_dir")
# Arguments of builders that are not options.
_OURS: Final = ("name", "channels", "pretrained", "files", "local")


def backbone_names() -> tuple[str, ...]:
    """Return all names that `build_backbone` accepts; `family:NAME` stands for any model of that package."""
    return (*_BUILDERS, *(f"{family}:NAME" for family in _FAMILIES))


def build_backbone(name: str, *, channels: int = 3, pretrained: bool | None = None, **options: Any) -> Backbone:
    """Build a backbone by name, for images with `channels` channels.

    `pretrained=None` uses pretrained weights if the backbone provides them: all but conv5 and ResNet do. Weights for a
    ResNet are given as `weights=PATH`. `options` depend on the backbone, such as `stem` of a ResNet, `width` of conv5.

    >>> backbone = build_backbone("conv5", channels=1)
    >>> backbone.width, backbone.size
    (512, 28)
    >>> build_backbone("resnet19")
    Traceback (most recent call last):
    andornot.ssl.backbones.backbone.BackboneError: unknown backbone "resnet19"; did you mean "resnet18", "resnet50"?
    """
    return _build(name, channels, pretrained, options)


def rebuild_backbone(config: Mapping[str, Any], files: Path, *, external_files: bool = False) -> Backbone:
    """Rebuild the backbone of a stored model from its `config`, without its weights.

    The model is untrusted, so nothing is downloaded, no code that comes with it is run, and only files in the folder
    `files` are read. `external_files=True` also allows files elsewhere that `config` names.
    """
    options = {key: value for key, value in config.items() if key not in (*_NOT_ARCHITECTURE, "pretrained")}
    name, channels = str(options.pop("name")), int(options.pop("channels", 3))
    family, _, model = name.partition(":")
    stored: dict[str, Any] = {"local": True} if family in _FAMILIES else {}
    if family == "transformers" and files.is_dir():
        stored["files"] = files
    elif (family == "transformers" or ":" in model) and not external_files:  # the second: timm:hf-hub:…
        raise BackboneError(_outside(name))
    return _build(name, channels, False, options, stored)


def _build(
    name: str, channels: int, pretrained: bool | None, options: dict[str, Any], stored: Mapping[str, Any] | None = None
) -> Backbone:
    builder = _builder(name)
    if channels < 1:
        raise BackboneError(f"channels must be at least 1, got {channels}")
    _check_options(name, builder, options)
    backbone = builder(name, channels=channels, pretrained=pretrained, **options, **(stored or {}))
    backbone.config |= {key: value for key, value in options.items() if key not in _NOT_ARCHITECTURE}
    return backbone


def _outside(name: str) -> str:
    return (
        f"the files of its backbone {name} are not in its folder: if you trust them, load it with external_files=True"
    )


def _builder(name: str) -> Callable[..., Backbone]:
    family, colon, model = name.partition(":")
    if name in _BUILDERS:
        return _BUILDERS[name]
    if family in _FAMILIES and model:
        return _FAMILIES[family]
    if family == "module" and colon:
        raise BackboneError(f'"{name}" is a network of your own: build it and pass it to wrap_backbone')
    families = (f"{family}:{model}" for family in _FAMILIES if model)
    nearest = spelled_like(name, [*_BUILDERS, *families], 3)
    hint = did_you_mean(nearest) if nearest else f"there are {', '.join(backbone_names())}"
    raise BackboneError(f'unknown backbone "{name}"; {hint}')


def _check_options(name: str, builder: Callable[..., Backbone], options: dict[str, Any]) -> None:
    parameters = inspect.signature(builder).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = [key for key in parameters if key not in (*_OURS, "options")]
    for key in options:
        if key in _OURS or not (takes_any or key in known):
            hint = did_you_mean(spelled_like(key, known, 1) or known) if known else "it has none"
            raise BackboneError(f'backbone {name} has no option "{key}"; {hint}')
