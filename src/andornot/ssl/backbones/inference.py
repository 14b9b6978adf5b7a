"""Faster inference: folded batch norms, small batches on a CPU, and windows of feature maps."""

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

    The activations are equal to 1e-4 (relative). The names of the weights change, so save the original.

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
        # A custom network may use the output of a layer twice, which hooks cannot detect: then fold nothing.
        same = agree(fast.maps(example), plain.maps(example))
    return _with_channels_last(fast if same else plain)


def agree(computed: Tensor, wanted: Tensor) -> bool:
    """Return whether two results are equal up to 1e-4 of the largest value."""
    return bool((computed - wanted).abs().max() <= _TOLERANCE * wanted.abs().max())


def _with_channels_last(backbone: Backbone) -> Backbone:
    for parameter in backbone.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return backbone


def _foldable(backbone: Backbone, example: Tensor) -> list[tuple[str, str]]:
    """Return pairs of names (layer, batch norm) where the norm's input is the layer's output and each runs once."""
    written: dict[int, tuple[Tensor, int, str]] = {}
    pairs: list[tuple[str, str]] = []
    calls: dict[str, int] = {}
    hooks = []

    def note_output(name: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Tensor) -> None:
            calls[name] = calls.get(name, 0) + 1
            # Keep the tensor so that its id is not reused; its version shows whether it was changed in place.
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


# The first activations of this many pixels take about 25 MB. Allocators return larger blocks to the system, and getting
# fresh memory is slow: EfficientNet-Lite0 at size 224 is half as fast with batches of 128 images as with 16.
_PIXELS_AT_ONCE: Final = 16 * 224 * 224


def in_parts(images: Tensor) -> Sequence[Tensor]:
    """Split images `(B, C, H, W)` into the batches that are fastest: small ones on a CPU, else a single one."""
    if images.device.type != "cpu":
        return (images,)
    return torch.split(images, max(1, _PIXELS_AT_ONCE // images.shape[-2:].numel()))


def compute_in_parts(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Return `network(images)` for images `(B, C, H, W)`, computed in small batches on a CPU."""
    return torch.cat([network(part) for part in in_parts(images)])


# In each direction. Twice as many did not improve search; windows without overlap would cut objects at their edges.
WINDOWS_A_SIDE: Final = 3


class Window(NamedTuple):
    """A window of a feature map `(h, w)`: rows `top:bottom` and columns `left:right`."""

    top: int
    bottom: int
    left: int
    right: int

    def box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom as fractions of the backbone's input."""
        return self.left / width, self.top / height, self.right / width, self.bottom / height


def windows_of(height: int, width: int) -> list[Window]:
    """Return the windows of a feature map, row by row from the top left; a map that is too small is one window.

    >>> [(window.top, window.bottom) for window in windows_of(7, 7)[::3]]
    [(0, 3), (2, 5), (4, 7)]
    """
    return [Window(*rows, *columns) for rows in _spans(height) for columns in _spans(width)]


def cut_windows(maps: Tensor) -> Tensor:
    """Return the R windows of each feature map `(B, C, h, w)` as `(B R, C, h', w')`, grouped by image.

    >>> cut_windows(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([18, 8, 3, 3])
    """
    # With channels last, a window is made of contiguous rows of memory, which also makes pooling faster.
    maps = maps.contiguous(memory_format=torch.channels_last)
    windows = windows_of(*maps.shape[2:])
    if len(windows) == 1:
        return maps
    parts = [maps[:, :, window.top : window.bottom, window.left : window.right] for window in windows]
    return torch.stack([part.permute(0, 2, 3, 1) for part in parts], 1).flatten(0, 1).permute(0, 3, 1, 2)


def _spans(length: int) -> list[tuple[int, int]]:
    """Return evenly spaced spans of nearly half the length; the first and the last touch the ends."""
    if length < WINDOWS_A_SIDE:
        return [(0, length)]
    long = max(1, round(length * 3 / 7))
    return [
        (start, start + long)
        for start in (round(number * (length - long) / (WINDOWS_A_SIDE - 1)) for number in range(WINDOWS_A_SIDE))
    ]
