"""Targets z: sharpened, centred, and on request steered to a prior over the truth values.

A target is a distribution `softmax((z̃ - c) / τ_t)`, Eq. (z_2). The centre c, `(N, M)`, keeps features from always
giving the same answer. How it moves is the difference between the two centres here.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..logic import Representation
from .distributed import mean_over_processes


class Target(NamedTuple):
    """What a picture should be predicted as: raw logits z̃ `(B, N, M)`, and their distribution z. No gradient."""

    logits: Tensor
    representation: Representation


class Centre(nn.Module):
    """DINO's centre: the running mean of the raw logits, `c ← m·c + (1 - m)·mean(z̃)`, over all processes.

    It starts at zero, moves after the loss (`update`), and is a buffer, so that checkpoints have it.
    """

    centre: Tensor

    def __init__(self, num_features: int, num_values: int, temperature: float = 0.04, momentum: float = 0.9) -> None:
        super().__init__()
        self.temperature = temperature
        self.momentum = momentum
        self.register_buffer("centre", torch.zeros(num_features, num_values))

    def forward(self, logits: Tensor) -> Target:
        """The targets of raw logits `(B, N, M)`. Eq. (z_2), with the stop-gradient."""
        logits = logits.detach().float()
        return Target(logits, Representation.from_logits(logits - self.centre, self.temperature, validate=False))

    @torch.no_grad()
    def update(self, *targets: Target) -> None:
        """Moves the centre by the targets of one step, those of both views."""
        mean = mean_over_processes(torch.cat([target.logits for target in targets]).mean(0))
        self.centre.mul_(self.momentum).add_(mean, alpha=1 - self.momentum)


class PriorCentre(Centre):
    """A centre that steers each feature's average over pictures to P(k) ∝ exp(-s·k): few pictures have a feature.

    `c ← c + (1 - m)·(average target - prior)`: a truth value that is given too often is made less likely. With
    s = 0 every truth value is to be equally frequent.
    """

    prior: Tensor

    def __init__(
        self,
        num_features: int,
        num_values: int,
        temperature: float = 0.04,
        momentum: float = 0.9,
        sparsity: float = 0.3,
    ) -> None:
        super().__init__(num_features, num_values, temperature, momentum)
        prior = torch.softmax(-sparsity * torch.arange(num_values, dtype=torch.float32), 0)
        self.register_buffer("prior", prior, persistent=False)

    @torch.no_grad()
    def update(self, *targets: Target) -> None:
        """Moves the centre by how far the average target of one step is from the prior."""
        average = torch.cat([target.representation.probs for target in targets]).mean(0)
        self.centre.add_(mean_over_processes(average) - self.prior, alpha=1 - self.momentum)
