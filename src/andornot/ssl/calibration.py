"""Calibration: use the channels of a pretrained backbone as features, without any training.

The degree of a channel in an image is the rank of its activation among the images of a folder, raised to a power. So
few images have a high degree, whatever the scale of the channel. Calibration takes one pass over the images and stores
the quantiles of each channel.
"""

import torch
from torch import Tensor, nn

from .recipe import Calibration

# More images hardly change the quantiles.
CALIBRATION_IMAGES = 20_000
# The weight of the assumed distribution, as a number of images: dominant for one image, negligible for thousands.
_ASSUMED_IMAGES = 20


class CalibratedHead(nn.Module):
    """Map pooled activations `(B, C)` to probabilities `(B, N = C, M)`, by rank among the images of `fit`."""

    quantiles: Tensor

    def __init__(self, num_features: int, num_values: int, settings: Calibration) -> None:
        super().__init__()
        self.num_features, self.num_values, self.settings = num_features, num_values, settings
        self.register_buffer("quantiles", torch.zeros(num_features, settings.levels))

    @torch.no_grad()
    def fit(self, activations: Tensor) -> "CalibratedHead":
        """Fit the quantiles to activations `(n, C)` of n images; one image is enough.

        Ranks among few images are coarse and noisy. So the measured quantiles are averaged with those of an assumed
        distribution, with weights n : 20. It is exponential, which averages of rectified activations roughly are, or
        normal if some activations are negative. Its mean (and variance) is that of the channel, averaged with that of
        all channels with the same weights. See docs/calibration.md for measurements.
        """
        activations = activations.double()
        weight = len(activations) / (len(activations) + _ASSUMED_IMAGES)
        ranks = torch.linspace(0, 1, self.settings.levels, dtype=torch.float64, device=activations.device)
        inner = ranks.clamp(0.5 / self.settings.levels, 1 - 0.5 / self.settings.levels)
        mean = torch.lerp(activations.mean(), activations.mean(0), weight).unsqueeze(1)
        if bool((activations >= 0).all()):
            assumed = mean * -torch.log1p(-inner)
        else:
            own, common = activations.var(0, correction=0), activations.var(correction=0)
            assumed = mean + torch.lerp(common, own, weight).sqrt().unsqueeze(1) * torch.special.ndtri(inner)
        self.quantiles.copy_(torch.lerp(assumed, _quantiles(activations, ranks), weight))
        return self

    def ranks(self, activations: Tensor) -> Tensor:
        """Return the ranks `(B, C)` of activations among the fitted ones, from 0 (below all) to 1 (above all)."""
        values = activations.float().T.contiguous()
        low, high = self._counts(values)
        last = self.settings.levels - 1
        left = (low - 1).clamp(min=0)
        right = low.clamp(max=last)
        start, stop = self.quantiles.gather(1, left), self.quantiles.gather(1, right)
        inside = ((values - start) / (stop - start).clamp(min=torch.finfo(torch.float32).tiny)).clamp(0, 1)
        between = (left + inside * (right - left)) / last
        # Take the middle of equal quantiles: a channel that is mostly zero has many.
        tied = (low + high - 1) / (2 * last)
        return torch.where(high > low, tied.clamp(0, 1), between).T

    def degrees(self, activations: Tensor) -> Tensor:
        """Return the possession degrees `(B, N)`, without computing the distributions."""
        rank = self.ranks(activations)
        return torch.lerp(rank**self.settings.power, torch.full_like(rank, 0.5), self.settings.smoothing)

    def _counts(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many quantiles are below values `(C, B)`, and how many are at most equal."""
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # ONNX has no searchsorted
            levels = self.quantiles.unsqueeze(1)
            return (levels < values.unsqueeze(-1)).sum(-1), (levels <= values.unsqueeze(-1)).sum(-1)
        return torch.searchsorted(self.quantiles, values), torch.searchsorted(self.quantiles, values, right=True)

    def forward(self, activations: Tensor) -> Tensor:
        """Return probabilities `(B, N, M)`: `rank ** power`, interpolated between the two nearest truth values."""
        steps = self.num_values - 1
        place = self.ranks(activations) ** self.settings.power * steps
        values = torch.arange(self.num_values, device=activations.device)
        probs = (1 - (place.unsqueeze(-1) - values).abs()).clamp(min=0)
        return torch.lerp(probs, torch.full_like(probs, 1 / self.num_values), self.settings.smoothing)


def _quantiles(activations: Tensor, ranks: Tensor) -> Tensor:
    """Return linear quantiles `(C, levels)` of activations `(n, C)`; torch.quantile takes at most 16 million values."""
    ordered = activations.sort(dim=0).values
    place = ranks * (len(activations) - 1)
    below, above = ordered[place.floor().long()], ordered[place.ceil().long()]
    return torch.lerp(below, above, place.frac().unsqueeze(1)).T
