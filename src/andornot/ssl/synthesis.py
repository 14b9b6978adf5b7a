"""Mixed pictures, and what they should be predicted as: the synthesis of two targets, Mix(z_1, z_2)."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from ..errors import AndornotError, unknown
from ..logic import Representation
from .targets import Centre, Target

Synthesis = Callable[[Target, Target, float, Centre], Representation]
"""From the targets of two pictures, λ_mix and the centre to the target z_c of the mixed picture."""


_OWN: Final = "function:"


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


def get_synthesis(synthesis: "str | Synthesis") -> Synthesis | None:
    """The synthesis of that name, or the function itself."""
    if not isinstance(synthesis, str):
        return synthesis
    if synthesis.startswith(_OWN):
        raise AndornotError(f'"{synthesis}" is a function of your own: pretrain(…, synthesis=…) needs it again')
    if synthesis not in SYNTHESES:
        raise AndornotError(unknown("synthesis", synthesis, SYNTHESES))
    return SYNTHESES[synthesis]


def synthesis_name(function: Synthesis) -> str:
    """What a recipe says of a function of the user's own, which it cannot keep.

    >>> synthesis_name(lambda first, second, mixing, centre: first.representation)
    'function:<lambda>'
    """
    return _OWN + getattr(function, "__name__", type(function).__name__)


def check_name(name: str) -> None:
    """An error for what is neither the name of a synthesis nor that of a function of the user's own."""
    if not name.startswith(_OWN):
        get_synthesis(name)


def default_beta(synthesis: "str | Synthesis") -> float:
    """β as the paper has it: 0.6 "of the logic operation method"; the other methods minimise L alone."""
    return 0.6 if synthesis == "logic" else 0.0
