"""Targets z: centered, sharpened, and optionally steered to a prior over the truth values.

A target is a distribution `softmax((z̃ - c) / τ_t)`, Eq. (z_2). The center c, `(N, M)`, is meant to keep features from
always having the same truth value. The two centers in this module differ in how c is updated.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..logic import Representation
from .runtime import mean_over_processes


class Target(NamedTuple):
    """The targets of a batch: raw logits z̃ `(B, N, M)` and their distribution z, without gradient."""

    logits: Tensor
    representation: Representation


class Center(nn.Module):
    """DINO's center: the running mean of the raw logits, `c ← m·c + (1 - m)·mean(z̃)`, over all processes.

    SimSiam's projector ends in a batch norm that is not affine, so the mean of each logit over a batch is 0: the center
    then stays at zero and `momentum` has no effect. It has an effect with other projectors.

    The center starts at zero and gets its shape `(N, M)` from the first update. It is a buffer and so part of
    checkpoints.
    """

    center: Tensor

    def __init__(self, temperature: float = 0.04, momentum: float = 0.9) -> None:
        super().__init__()
        self.temperature = temperature
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(1, 1))

    def forward(self, logits: Tensor) -> Target:
        """Return the targets of raw logits `(B, N, M)`. Eq. (z_2), with the stop-gradient."""
        logits = logits.detach().float()
        return Target(logits, Representation.from_logits(logits - self.center, self.temperature, validate=False))

    @torch.no_grad()
    def update(self, *targets: Target) -> None:
        """Update the center from the targets of both views of one step."""
        mean = mean_over_processes(torch.cat([target.logits for target in targets]).mean(0))
        self.center = torch.add(self.center * self.momentum, mean, alpha=1 - self.momentum)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if (saved := state_dict.get(f"{prefix}center")) is not None:
            self.center = self.center.new_zeros(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


class PriorCenter(Center):
    """A center that steers each feature's average over images to P(k) ∝ exp(-s·k), so that few images have a feature.

    `c ← c + (1 - m)·(average target - prior)`: a truth value that is too frequent becomes less likely. With s = 0 all
    truth values become equally frequent.
    """

    def __init__(self, temperature: float = 0.04, momentum: float = 0.9, sparsity: float = 0.3) -> None:
        super().__init__(temperature, momentum)
        self.sparsity = sparsity

    def prior(self, num_values: int) -> Tensor:
        """Return the distribution P(k) over the truth values."""
        values = torch.arange(num_values, dtype=torch.float32, device=self.center.device)
        return torch.softmax(-self.sparsity * values, 0)

    @torch.no_grad()
    def update(self, *targets: Target) -> None:
        """Update the center by the difference between the average target of one step and the prior."""
        average = mean_over_processes(torch.cat([target.representation.probs for target in targets]).mean(0))
        self.center = torch.add(self.center, average - self.prior(average.shape[-1]), alpha=1 - self.momentum)
