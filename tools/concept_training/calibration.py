"""Calibrated logits: `slope * logit + offset`, so that of what is said at 70 % about 70 % is there."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from .data import Labels

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Calibration:
    """One line for all words: offsets of their own gain nothing on images that they were not fitted on."""

    slope: float
    offset: float


def calibrate(logits: Floats, shown: Labels, kept: Labels | None = None) -> Calibration:
    """Fit on held-out images; `kept` marks what is known, (images, words)."""
    known = np.ones_like(shown) if kept is None else kept
    inputs, wanted = torch.from_numpy(logits[known]), torch.from_numpy(shown[known].astype(np.float32))
    slope, offset = torch.ones(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([slope, offset], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = binary_cross_entropy_with_logits(slope * inputs + offset, wanted)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Calibration(slope.item(), offset.item())
