"""The network of the paper: backbone → projector → z̃ → predictor → p̃."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .backbones import Backbone


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
    ) -> None:
        super().__init__()
        self.num_features, self.num_values = num_features, num_values
        self.backbone = backbone
        self.projector = Projector(backbone.width, projector_hidden, num_features * num_values)
        self.predictor = Predictor(num_features * num_values, predictor_hidden)

    def forward(self, images: Tensor) -> Outputs:
        """Compute the outputs for images `(B, C, H, W)` from 0 to 1."""
        return self.project(self.backbone(images))

    def project(self, activations: Tensor) -> Outputs:
        """Compute the outputs from pooled activations `(B, width)`, by the heads alone."""
        z = self.projector(activations)
        shape = (-1, self.num_features, self.num_values)
        return Outputs(activations, z.view(shape), self.predictor(z).view(shape))


class Projector(nn.Sequential):
    """Makes the logits z from pooled activations: three linear layers without bias, each with a batch norm.

    ReLU after the first two. The last batch norm has no affine part, so that each logit has mean 0 and variance 1 in
    a batch. `hidden=None` is the width of the activations, as in SimSiam.

    >>> import torch
    >>> Projector(512, None, 20 * 5)(torch.rand(4, 512)).shape
    torch.Size([4, 100])
    """

    def __init__(self, width_in: int, hidden: int | None, width_out: int) -> None:
        hidden = width_in if hidden is None else hidden
        _check_widths(width_in=width_in, hidden=hidden, width_out=width_out)
        super().__init__(
            nn.Linear(width_in, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width_out, bias=False),
            nn.BatchNorm1d(width_out, affine=False),
        )


class Predictor(nn.Sequential):
    """Makes the logits p from z: linear without bias, batch norm, ReLU, linear with bias; a bottleneck in SimSiam.

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


@torch.no_grad()
def fused(layers: Iterable[nn.Module]) -> nn.Sequential:
    """Return copies of linear layers, batch norms and ReLUs, fused: the same results in eval mode, faster.

    Batch norms become part of the linear layer before them, and linear layers with nothing between them one: the last
    of the projector and the first of the predictor.
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
