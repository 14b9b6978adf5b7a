"""What pictures have beyond the average one, in few dimensions of a byte each.

A vector of degrees loses its part along the gallery's mean direction: what is left says how a picture differs from the
others, and no picture is near to everything any more. Of that the principal components are kept.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

# A vector of length 1 has no component beyond 1: one scale serves all, and none has to be stored.
STEPS: Final = 127
# What is assumed of the average picture, that it has all features alike, counts as much as this many pictures.
_ASSUMED_PICTURES: Final = 20
# Directions with less of the pictures' differences than that, relative to the first, are rounding.
_NEGLIGIBLE: Final = 1e-9


@dataclass(frozen=True)
class Components:
    """The mean direction `(N,)` of a gallery, and the axes `(N, d)` along which its pictures differ most, best first.

    >>> pictures = torch.rand(50, 16, generator=torch.Generator().manual_seed(0))
    >>> components = fit_components(pictures, dimensions=8)
    >>> components.project(pictures).shape
    torch.Size([50, 8])
    """

    mean: Tensor
    axes: Tensor

    def project(self, degrees: Tensor, dimensions: int | None = None) -> Tensor:
        """Vectors `(..., N)` of any length to `(..., d)` of length 1; one that is the average picture's is all 0."""
        reduced = self.beyond_mean(degrees) @ self.axes[:, :dimensions]
        return normalize(reduced, dim=-1)

    def beyond_mean(self, degrees: Tensor) -> Tensor:
        """Directions `(..., N)` without their part along the mean."""
        return _without(normalize(degrees.float(), dim=-1), self.mean)


def fit_components(degrees: Tensor, dimensions: int) -> Components:
    """The components of a sample `(n, N)` of pictures; axes beyond what the sample spans are 0.

    With few pictures their mean is mostly themselves, and nothing would be left beyond it. So it is averaged with what
    is assumed, as the calibration does it.
    """
    directions = normalize(degrees.float(), dim=1)
    assumed = directions.new_ones(directions.shape[1]) / directions.shape[1] ** 0.5
    weight = len(directions) / (len(directions) + _ASSUMED_PICTURES)
    mean = normalize(torch.lerp(assumed, directions.mean(0), weight), dim=0)
    beyond = _without(directions, mean).double()
    strength, axes = _principal_axes(beyond)
    spanned = int((strength > strength[:1] * _NEGLIGIBLE).sum())
    axes = axes[:, : min(dimensions, spanned)]
    # The sign of an axis is arbitrary: the largest entry is positive, so that the same pictures make the same bytes.
    signs = axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    return Components(mean, pad((axes * signs).float(), (0, dimensions - axes.shape[1])))


def to_bytes(vectors: Tensor) -> Tensor:
    """Vectors of length 1 as int8, 127 steps for 1."""
    return (vectors * STEPS).round().to(torch.int8)


def from_bytes(codes: Tensor) -> Tensor:
    """What `to_bytes` made, as floats."""
    return codes.float() / STEPS


def _principal_axes(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The axes `(N, k)` of vectors `(n, N)`, strongest first, and how strong they are `(k,)`."""
    if len(vectors) < vectors.shape[1]:  # of few vectors by their own products, which are fewer
        strength, weights = torch.linalg.eigh(vectors @ vectors.T)
        return strength.flip(0), normalize(vectors.T @ weights.flip(1), dim=0)
    strength, axes = torch.linalg.eigh(vectors.T @ vectors)
    return strength.flip(0), axes.flip(1)


def _without(vectors: Tensor, direction: Tensor) -> Tensor:
    return vectors - (vectors @ direction).unsqueeze(-1) * direction
