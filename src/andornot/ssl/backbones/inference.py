"""A copy of a backbone that computes the same activations faster, for encoding images."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .backbone import Backbone

_TOLERANCE: Final = 1e-4


def optimise_for_inference(backbone: Backbone) -> Backbone:
    """Return a copy in eval mode, without gradients, with batch norms folded into the layers before them.

    The activations are the same to 1e-4 (relative). The names of the weights are not: save the original.

    >>> from andornot.ssl.backbones import build_backbone
    >>> backbone = build_backbone("conv5", channels=1).eval()
    >>> digits = torch.rand(4, 1, 28, 28)
    >>> torch.allclose(optimise_for_inference(backbone)(digits), backbone(digits), rtol=1e-4, atol=1e-5)
    True
    """
    plain = copy.deepcopy(backbone).eval().requires_grad_(False)
    fast = copy.deepcopy(plain)
    example = plain._scale.new_empty(2, plain.channels, plain.size, plain.size)
    example.uniform_(generator=torch.Generator(example.device).manual_seed(0))
    with torch.no_grad():
        for first, norm in _foldable(fast, example):
            layer, batch_norm = fast.get_submodule(first), fast.get_submodule(norm)
            fold: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
            fast.set_submodule(first, fold(layer, batch_norm))
            fast.set_submodule(norm, nn.Identity())
        # A network of someone's own may read a layer twice, which no hook can see: then nothing is folded.
        same = agree(fast.maps(example), plain.maps(example))
    return _with_channels_last(fast if same else plain)


def agree(computed: Tensor, wanted: Tensor) -> bool:
    """Return whether two ways to compute something give the same numbers, to 1e-4 of the largest."""
    return bool((computed - wanted).abs().max() <= _TOLERANCE * wanted.abs().max())


def _with_channels_last(backbone: Backbone) -> Backbone:
    for parameter in backbone.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return backbone


def _foldable(backbone: Backbone, example: Tensor) -> list[tuple[str, str]]:
    """Pairs of names (layer, batch norm), where the norm reads just what the layer wrote; each runs once."""
    written: dict[int, tuple[Tensor, int, str]] = {}
    pairs: list[tuple[str, str]] = []
    calls: dict[str, int] = {}
    hooks = []

    def note_output(name: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Tensor) -> None:
            calls[name] = calls.get(name, 0) + 1
            # The tensor is kept, so that its id stays its own; its version tells whether it was changed in place.
            written[id(output)] = (output, output._version, name)

        return hook

    def note_input(name: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
            calls[name] = calls.get(name, 0) + 1
            tensor, version, layer = written.get(id(args[0]), (None, 0, ""))
            if tensor is not None and tensor._version == version:
                pairs.append((layer, name))

        return hook

    for name, module in backbone.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            hooks.append(module.register_forward_hook(note_output(name)))
        elif type(module) in (nn.BatchNorm2d, nn.BatchNorm1d):
            hooks.append(module.register_forward_pre_hook(note_input(name)))
    try:
        backbone(example)
    finally:
        for handle in hooks:
            handle.remove()
    return [pair for pair in pairs if all(calls[name] == 1 for name in pair)]


# The first activations of that many pixels are about 25 MB. An allocator gives larger ones back to the system, and the
# network then waits for fresh memory: an EfficientNet-Lite0 is half as fast with 128 images at 224 as with 16.
_PIXELS_AT_ONCE: Final = 16 * 224 * 224


def in_parts(images: Tensor) -> Sequence[Tensor]:
    """Return images `(B, C, H, W)` as a network is quickest with them: on a CPU a few at a time."""
    if images.device.type != "cpu":
        return (images,)
    return torch.split(images, max(1, _PIXELS_AT_ONCE // images.shape[-2:].numel()))


def compute_in_parts(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Return what `network(images)` gives for images `(B, C, H, W)`, each by itself; on a CPU a few at a time."""
    return torch.cat([network(part) for part in in_parts(images)])


# In each direction. Twice as many found nothing more; without overlap a thing is cut by the edges.
WINDOWS_A_SIDE: Final = 3


class Window(NamedTuple):
    """A part of a map `(h, w)`: rows from `top` to `bottom`, columns from `left` to `right`, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int

    def box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Left, top, right, bottom, as fractions of what the backbone saw."""
        return self.left / width, self.top / height, self.right / width, self.bottom / height


def windows_of(height: int, width: int) -> list[Window]:
    """Return the windows of a map, row by row from the top left; of a map too small for them the map itself.

    >>> [(window.top, window.bottom) for window in windows_of(7, 7)[::3]]
    [(0, 3), (2, 5), (4, 7)]
    """
    return [Window(*rows, *columns) for rows in _spans(height) for columns in _spans(width)]


def cut_windows(maps: Tensor) -> Tensor:
    """Return the R windows of feature maps `(B, C, h, w)`, those of an image one after the other: `(B R, C, h', w')`.

    >>> cut_windows(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([18, 8, 3, 3])
    """
    # With the channels innermost a window is whole lines of memory, and so is what pools it.
    maps = maps.contiguous(memory_format=torch.channels_last)
    windows = windows_of(*maps.shape[2:])
    if len(windows) == 1:
        return maps
    parts = [maps[:, :, window.top : window.bottom, window.left : window.right] for window in windows]
    return torch.stack([part.permute(0, 2, 3, 1) for part in parts], 1).flatten(0, 1).permute(0, 3, 1, 2)


def _spans(length: int) -> list[tuple[int, int]]:
    """Spans of nearly half the length, evenly placed, the first and the last at the ends."""
    if length < WINDOWS_A_SIDE:
        return [(0, length)]
    long = max(1, round(length * 3 / 7))
    return [
        (start, start + long)
        for start in (round(number * (length - long) / (WINDOWS_A_SIDE - 1)) for number in range(WINDOWS_A_SIDE))
    ]
