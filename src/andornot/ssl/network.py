"""The network of the paper: backbone → projector → z̃ → predictor → p̃."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import check_memory
from ..logic import Representation
from .backbones import Backbone, build_backbone, wrap_backbone

if TYPE_CHECKING:
    from .recipe import Recipe


class Outputs(NamedTuple):
    """Pooled activations `(B, width)`, and the logits z̃ and p̃, `(B, N, M)` each."""

    activations: Tensor
    z: Tensor
    p: Tensor


class Network(nn.Module):
    """f_θ = projector ∘ backbone and g_φ = predictor ∘ f_θ, Eqs. (z_1), (p_1)."""

    def __init__(
        self,
        backbone: Backbone,
        num_features: int,
        num_values: int,
        projector_hidden: int | None = None,
        predictor_hidden: int = 512,
        projector_layers: int = 3,
    ) -> None:
        super().__init__()
        self.num_features, self.num_values = num_features, num_values
        self.backbone = backbone
        self.projector = Projector(backbone.width, projector_hidden, num_features * num_values, projector_layers)
        self.predictor = Predictor(num_features * num_values, predictor_hidden)

    @property
    def head_settings(self) -> dict[str, int]:
        """The settings that determine the shapes of the heads, as in `Recipe.head_settings`."""
        return {
            "num_features": self.num_features,
            "num_values": self.num_values,
            "projector_hidden": self.projector.hidden,
            "predictor_hidden": self.predictor.hidden,
            "projector_layers": self.projector.layers,
        }

    def forward(self, images: Tensor) -> Outputs:
        """Compute the outputs for images `(B, C, H, W)` from 0 to 1."""
        return self.project(self.backbone(images))

    def project(self, activations: Tensor) -> Outputs:
        """Compute the outputs from pooled activations `(B, width)`."""
        z = self.projector(activations)
        shape = (-1, self.num_features, self.num_values)
        return Outputs(activations, z.view(shape), self.predictor(z).view(shape))


class Projector(nn.Sequential):
    """Map pooled activations to logits z̃: linear layers without bias, each with a batch norm, and ReLU between them.

    There are three layers as in SimSiam; SimSiam uses two on CIFAR-10. The last batch norm is not affine, so each
    logit has mean 0 and variance 1 in a batch. `hidden=None` means the width of the activations, as in SimSiam.

    >>> import torch
    >>> Projector(512, None, 20 * 5)(torch.rand(4, 512)).shape
    torch.Size([4, 100])
    """

    def __init__(self, width_in: int, hidden: int | None, width_out: int, layers: int = 3) -> None:
        hidden = width_in if hidden is None else hidden
        _check_widths(width_in=width_in, hidden=hidden, width_out=width_out, layers=layers)
        parts: list[nn.Module] = []
        for width in [width_in, *[hidden] * (layers - 2)][: layers - 1]:
            parts += [nn.Linear(width, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True)]
        last = hidden if layers > 1 else width_in
        super().__init__(*parts, nn.Linear(last, width_out, bias=False), nn.BatchNorm1d(width_out, affine=False))
        self.hidden, self.layers = hidden, layers


class Predictor(nn.Sequential):
    """Map logits z̃ to p̃: linear without bias, batch norm, ReLU, linear with bias; a bottleneck in SimSiam.

    >>> import torch
    >>> Predictor(20 * 5)(torch.rand(4, 100)).shape
    torch.Size([4, 100])
    """

    def __init__(self, width: int, hidden: int = 512) -> None:
        _check_widths(width=width, hidden=hidden)
        super().__init__(
            nn.Linear(width, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width),
        )
        self.hidden = hidden


@torch.no_grad()
def fused(layers: Iterable[nn.Module]) -> nn.Sequential:
    """Return fused copies of linear layers, batch norms and ReLUs, with the same results in eval mode.

    Batch norms are folded into the linear layer before them, and consecutive linear layers (the last of the projector
    and the first of the predictor) are merged.
    """
    result: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.modules.batchnorm._BatchNorm):
            weight, bias = _as_affine(layer)
            if result and isinstance(result[-1], nn.Linear):
                before, offset = _as_affine(result.pop())
                weight, bias = weight @ before, weight @ offset + bias
            result.append(_linear(weight, bias))
        elif isinstance(layer, nn.ReLU):
            result.append(nn.ReLU())
        else:
            raise TypeError(f"cannot fuse a {type(layer).__name__}")
    return nn.Sequential(*result)


def _as_affine(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Return a layer in eval mode as `x ↦ weight·x + bias`, in float64 for fewer rounding errors."""
    if (
        isinstance(layer, nn.modules.batchnorm._BatchNorm)
        and layer.running_mean is not None
        and layer.running_var is not None
    ):
        scale = (layer.running_var.double() + layer.eps).rsqrt()
        scale = scale * layer.weight.double() if layer.affine else scale
        shift = -layer.running_mean.double() * scale
        return scale.diag(), shift + layer.bias.double() if layer.affine else shift
    if isinstance(layer, nn.Linear):
        weight = layer.weight.double()
        return weight, weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.double()
    raise TypeError(f"a {type(layer).__name__} is not affine")


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer.requires_grad_(False)


def _check_widths(**widths: int) -> None:
    for name, width in widths.items():
        if width < 1:
            raise ValueError(f"{name} must be at least 1, got {width}")


class PredictionHead(nn.Module):
    """Map activations `(B, width)` to probabilities `(B, N, M)`: projector, predictor, softmax, Eqs. (p_1), (p_2)."""

    def __init__(self, network: Network, temperature: float) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, activations: Tensor) -> Tensor:
        """Return probabilities `(B, N, M)`."""
        return Representation.from_logits(self.network.project(activations).p, self.temperature, validate=False).probs


class FusedHead(nn.Module):
    """A faster `PredictionHead` for inference, with the same probabilities."""

    def __init__(self, head: PredictionHead) -> None:
        super().__init__()
        self.layers = fused([*head.network.projector, *head.network.predictor])
        self.shape = -1, head.network.num_features, head.network.num_values
        self.temperature = head.temperature

    def forward(self, activations: Tensor) -> Tensor:
        """Return probabilities `(B, N, M)`."""
        return Representation.from_logits(
            self.layers(activations).view(self.shape), self.temperature, validate=False
        ).probs


def new_backbone(recipe: Recipe, channels: int, own: nn.Module | None = None) -> Backbone:
    """Build the backbone of the recipe, pretrained if it has weights; it is trainable only in the regime `scratch`.

    `own` is a custom network to wrap instead.
    """
    torch.manual_seed(recipe.seed)
    if own is not None:
        return wrap_backbone(own, size=recipe.size or 224, channels=channels).requires_grad_(recipe.regime == "scratch")
    # EfficientNet-Lite was trained on colour images, so the channel of grey ones is repeated.
    channels = 3 if recipe.backbone.startswith("efficientnet") else channels
    backbone = build_backbone(recipe.backbone, channels=channels, **recipe.backbone_options)
    return backbone.requires_grad_(recipe.regime == "scratch")


def new_network(recipe: Recipe, channels: int, own: nn.Module | None = None) -> Network:
    """Build the network of the recipe: its backbone, or the custom network `own`, with new heads."""
    return build_heads(new_backbone(recipe, channels, own), recipe)


def build_heads(backbone: Backbone, recipe: Recipe) -> Network:
    """Add new heads to a backbone; raise an error if they do not fit into memory."""
    heads = recipe.head_settings(backbone.width)
    outputs, hidden = recipe.num_features * recipe.num_values, heads["projector_hidden"]
    weights = hidden * (backbone.width + hidden + outputs) + 2 * recipe.predictor_hidden * outputs
    advice = "lower num_features, num_values, projector_hidden or predictor_hidden"
    check_memory(4 * weights, f"a network with {weights:,} weights in its heads", advice)
    return Network(backbone, **heads)
