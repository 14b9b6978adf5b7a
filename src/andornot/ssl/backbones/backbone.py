"""`Backbone`: a network with its preprocessing (channels, size, mean, standard deviation); loading of weights.

Weights are read without running pickled code.
"""

import hashlib
import importlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ...errors import AndornotError, MissingPackageError

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
CIFAR10_MEAN: Final = (0.4914, 0.4822, 0.4465)
CIFAR10_STD: Final = (0.2470, 0.2435, 0.2616)


class BackboneError(AndornotError):
    """Raised for an unknown backbone, or for options or inputs that it does not accept."""


class Pretrained(NamedTuple):
    """Pretrained weights of a network, and the classifier they were trained with."""

    weights: dict[str, Tensor]
    classifier: nn.Module


class Backbone(nn.Module):
    """Map images `(B, C, H, W)` with values from 0 to 1 to pooled activations `(B, width)`.

    The backbone normalises images, and repeats the channel of grey images for a colour network. `size` is the side
    length that the network was made for; most networks accept others. `build_backbone(**config)` rebuilds it without
    its weights.

    The forward pass is `pool(maps(images))`. Pooling a window of the feature map gives the activations of that region.
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
        stride: int | None = None,
    ) -> None:
        """Wrap `network`, which maps normalised images to `(B, width)`, or to `(B, width, h, w)` that is averaged here.

        `mean` and `std` have one value per channel; if the number of channels differs, their average is used. For a
        network with its own pooling, `trunk` names the attributes that compute its last feature map, in order, and
        `tail` the one that pools it, unless it is an average. `pretrained` returns the ImageNet classifier and the
        weights it was trained with; it is called on first use of the classifier. `stride` is that of the last feature
        map, for a network that accepts any image size that is a multiple of it.
        """
        super().__init__()
        self.network = network
        self._trunk, self._tail, self._pretrained = tuple(trunk), tail, pretrained
        self.name, self.width, self.size, self.channels = name, width, size, channels
        self.stride = stride
        self.mean, self.std = _one_a_channel(mean, channels), _one_a_channel(std, channels)
        if min(self.std) <= 0:
            raise BackboneError(f"std must be above 0, got {self.std}")
        self.config: dict[str, Any] = {"name": name, "channels": channels, "pretrained": False}
        # (x - mean) / std as one multiply-add. These are constants of the architecture, so not in the state dict.
        mean_row, std_row = (torch.tensor(row, dtype=torch.float64).view(1, -1, 1, 1) for row in (self.mean, self.std))
        self.register_buffer("_scale", (1 / std_row).float(), persistent=False)
        self.register_buffer("_shift", (-mean_row / std_row).float(), persistent=False)
        self._scale: Tensor
        self._shift: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled activations `(B, width)` of images `(B, C, H, W)`, floats from 0 to 1."""
        return self.pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """Return the last feature map `(B, C, h, w)` of images; h = w = 1 if the network has none (see `has_maps`)."""
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
        """Whether the feature map at the default size has more than one position and can be cut into windows."""
        return dry_run(self).shape[2:].numel() > 1

    @property
    def classes(self) -> str | None:
        """ "imagenet-1k" if `classify` returns the 1,000 classes of ImageNet in their usual order, else None.

        Also None if the weights are not those that the classifier was trained with.
        """
        return None if self._classifier is None else "imagenet-1k"

    @torch.no_grad()
    def classify(self, maps: Tensor) -> Tensor:
        """Return the original network's logits `(B, classes)` for feature maps or windows of them."""
        if self._classifier is None:
            raise BackboneError(f"{self.name} has no classifier, or its weights are not those that it was trained with")
        logits: Tensor = self._classifier.to(maps.device)(self._end(maps))
        return logits

    def save_files(self, folder: Path) -> list[str]:  # noqa: ARG002 - most need none
        """Write the files that `rebuild_backbone` needs besides `config` and the weights; return their names."""
        return []

    def _end(self, maps: Tensor) -> Tensor:
        """Apply the network's own pooling."""
        if self._tail is not None:
            return torch.as_tensor(getattr(self.network, self._tail)(maps))
        return maps.mean((2, 3)) if maps.shape[2:].numel() > 1 else maps.flatten(1)

    @cached_property
    def _classifier(self) -> nn.Module | None:
        """Return the classifier, cached outside of the module's state so that weights and model id do not change."""
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
        """Return `(images - mean) / std`, with the number of channels that the network expects."""
        self._check(images)
        # Broadcasting repeats the channel of a grey image.
        normalised = torch.addcmul(self._shift, images, self._scale)
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # ONNX has no memory formats
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
        """Return the summary that `print(backbone)` shows before the network."""
        return f"{self.name}, width={self.width}, size={self.size}, channels={self.channels}"


def wrap_backbone(
    module: nn.Module,
    width: int | None = None,
    size: int = 224,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Backbone:
    """Wrap any network that returns activations `(B, width)`, or a feature map `(B, width, h, w)` to average.

    `width=None` infers the width by running the network once on an empty image. Without `mean` and `std`, images are
    passed on with values from 0 to 1. The result cannot be rebuilt from its `config`, because its code is not part of
    it. A `Backbone` is returned unchanged.

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
    """Return the feature map of an empty image, without changing the state of the backbone."""
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


def import_package(package: str, *, backbone: str, install: str) -> Any:
    """Import a package, or raise an error with the `pip install` command that the backbone needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({error})") from error
        raise MissingPackageError(f"backbone {backbone} needs {package}: pip install {install}") from None
    except (ImportError, OSError, RuntimeError) as error:  # e.g. a wheel built for another version of torch
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({reason})") from error


def hash_tensors(tensors: Mapping[str, Tensor], header: str = "") -> str:
    """Return a SHA-256 of named tensors and a header; it covers names, types, shapes and all bits."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        content = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(content.dtype), list(content.shape)]).encode())
        digest.update(content.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_weights(network: nn.Module, path: str | os.PathLike[str], ignore: tuple[str, ...] = ()) -> None:
    """Load the state dict in `path` into `network`, except for names that begin with one of `ignore`.

    Raises a FileNotFoundError, or a ValueError that names the first weights that do not match.
    """
    weights = {name: value for name, value in read_weights(path).items() if not name.startswith(ignore or "\0")}
    own = network.state_dict()
    missing = [name for name in own if name not in weights and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in own]
    misshapen = [
        f"{name} is {tuple(value.shape)} instead of {tuple(own[name].shape)}"
        for name, value in weights.items()
        if name in own and value.shape != own[name].shape
    ]
    problems = [
        f"{what} {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for what, names in (("missing", missing), ("unexpected", unexpected), ("wrong shape:", misshapen))
        if names
    ]
    if problems:
        raise BackboneError(f"the weights in {path} do not fit: {'; '.join(problems)}")
    network.load_state_dict(weights, strict=False)


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the state dict in a file."""
    if not isinstance(path, str | os.PathLike):
        raise BackboneError(f"weights must be the path of a file, got {path!r}")
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of weights at {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds of errors for files that are not weights
        raise BackboneError(f"{path} cannot be read as a file of weights alone ({_first_line(error)})") from None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise BackboneError(f"{path} is not a state dict: it must map names to tensors")
    return content


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
