"""Mixed pictures, and what they should be predicted as: the synthesis of two targets, Mix(z_1, z_2)."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from ..logic import Representation
from .targets import Centre, Target

Synthesis = Callable[[Target, Target, float, Centre], Representation]
"""From the targets of two pictures, λ_mix and the centre to the target z_c of the mixed picture."""


def mix_pictures(first: Tensor, second: Tensor, mixing: float = 0.5) -> Tensor:
    """Mixup: `x_mix = λ·x_1 + (1 - λ)·x_2`, the same λ for the batch."""
    return torch.lerp(second, first, mixing)


def mean(first: Target, second: Target, mixing: float, centre: Centre) -> Representation:  # noqa: ARG001
    """`z_c = λ·z_1 + (1 - λ)·z_2`: the paper's reading of SDMP."""
    probs = torch.lerp(second.representation.probs, first.representation.probs, mixing)
    return Representation(probs, validate=False)


def maximum(first: Target, second: Target, mixing: float, centre: Centre) -> Representation:  # noqa: ARG001
    """`z_c = softmax((maximum(z̃_1, z̃_2) - c) / τ_t)`: the paper's reading of MixSiam."""
    target: Target = centre(torch.maximum(first.logits, second.logits))
    return target.representation


def logic(first: Target, second: Target, mixing: float, centre: Centre) -> Representation:  # noqa: ARG001
    """`z_c = z_1 ∨ z_2`, Eq. (or_operation): the paper's own."""
    return first.representation | second.representation


SYNTHESES: Final[dict[str, Synthesis | None]] = {
    "vanilla": None,  # no mixed pictures
    "mean": mean,
    "maximum": maximum,
    "logic": logic,
}


def default_beta(synthesis: str) -> float:
    """β as the paper has it: 0.6 "of the logic operation method"; the other methods minimise L alone."""
    return 0.6 if synthesis == "logic" else 0.0
