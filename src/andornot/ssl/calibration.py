"""Calibration: a pretrained backbone's channels as features, without any training.

A channel's degree in a picture is the rank of its activation among the pictures of a folder, to a power. Few
pictures then have much of a feature, whatever the scale of the channel is. One pass over the pictures; the quantiles of
each channel are kept.
"""

import torch
from torch import Tensor, nn

from .backbones import Backbone
from .recipe import Calibration

# A folder of this many pictures and an assumed distribution count equally; of many more, the folder alone counts.
_ASSUMED_PICTURES = 20


class CalibratedHead(nn.Module):
    """Pooled features `(B, C)` to probabilities `(B, N = C, M)`, by ranks among the pictures it was fitted on."""

    quantiles: Tensor

    def __init__(self, num_features: int, num_values: int, settings: Calibration) -> None:
        super().__init__()
        self.num_features, self.num_values, self.settings = num_features, num_values, settings
        self.register_buffer("quantiles", torch.zeros(num_features, settings.levels))

    @torch.no_grad()
    def fit(self, features: Tensor) -> "CalibratedHead":
        """Takes the quantiles of features `(n, C)` of n pictures; a few pictures are enough to begin with.

        With few, ranks are coarse: of five pictures each channel has its first, its second, … So the folder's quantiles
        are averaged with those of an assumed distribution that has the folder's mean in each channel: exponential,
        as averages of rectified activations roughly are; normal, with the folder's deviation, where some are negative.
        """
        features = features.double()
        count = len(features)
        ranks = torch.linspace(0, 1, self.settings.levels, dtype=torch.float64, device=features.device)
        observed = _quantiles(features, ranks)
        mean = features.mean(0, keepdim=True).T
        inner = ranks.clamp(0.5 / self.settings.levels, 1 - 0.5 / self.settings.levels)
        if bool((features >= 0).all()):
            assumed = mean * -torch.log1p(-inner)
        else:
            assumed = mean + features.std(0, unbiased=False, keepdim=True).T * torch.special.ndtri(inner)
        weight = count / (count + _ASSUMED_PICTURES)
        self.quantiles.copy_(torch.lerp(assumed, observed, weight))
        return self

    def ranks(self, features: Tensor) -> Tensor:
        """Where activations stand among those it was fitted on, `(B, C)`: from 0, below all, to 1, above all."""
        values = features.float().T.contiguous()
        low, high = self._counts(values)
        last = self.settings.levels - 1
        left = (low - 1).clamp(min=0)
        right = low.clamp(max=last)
        start, stop = self.quantiles.gather(1, left), self.quantiles.gather(1, right)
        inside = ((values - start) / (stop - start).clamp(min=torch.finfo(torch.float32).tiny)).clamp(0, 1)
        between = (left + inside * (right - left)) / last
        # Among equal quantiles, of which a channel that is mostly silent has many, the middle.
        tied = (low + high - 1) / (2 * last)
        return torch.where(high > low, tied.clamp(0, 1), between).T

    def _counts(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """How many quantiles are below values `(C, B)`, and how many are not above them."""
        if torch.onnx.is_in_onnx_export():  # which knows no searchsorted
            levels = self.quantiles.unsqueeze(1)
            return (levels < values.unsqueeze(-1)).sum(-1), (levels <= values.unsqueeze(-1)).sum(-1)
        return torch.searchsorted(self.quantiles, values), torch.searchsorted(self.quantiles, values, right=True)

    def forward(self, features: Tensor) -> Tensor:
        """Probabilities `(B, N, M)`: the degree `rank ** power`, between two truth values shared out by nearness."""
        steps = self.num_values - 1
        place = self.ranks(features) ** self.settings.power * steps
        values = torch.arange(self.num_values, device=features.device)
        probs = (1 - (place.unsqueeze(-1) - values).abs()).clamp(min=0)
        return torch.lerp(probs, torch.full_like(probs, 1 / self.num_values), self.settings.doubt)


class CalibratedEncoder(nn.Module):
    """A backbone and its calibrated head: pictures `(B, C, H, W)` from 0 to 1 to probabilities `(B, N, M)`."""

    def __init__(self, backbone: Backbone, head: CalibratedHead) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, pictures: Tensor) -> Tensor:
        """Probabilities `(B, N, M)`."""
        probs: Tensor = self.head(self.backbone(pictures))
        return probs


def _quantiles(features: Tensor, ranks: Tensor) -> Tensor:
    """Linear quantiles `(C, levels)` of features `(n, C)`. torch's own refuses more than 16 million numbers."""
    ordered = features.sort(dim=0).values
    place = ranks * (len(features) - 1)
    below, above = ordered[place.floor().long()], ordered[place.ceil().long()]
    return torch.lerp(below, above, place.frac().unsqueeze(1)).T
