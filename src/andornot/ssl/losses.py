"""The losses of the paper, one small function each, for predictions p and targets z as representations `(B, N, M)`.

Targets carry no gradient: the stop-gradient is the business of `targets`. Every loss is the mean over the batch.
"""

from typing import NamedTuple

from torch import Tensor

from ..logic import Representation, cross_entropy, expected_bce


class Pair(NamedTuple):
    """A prediction and what it should be."""

    prediction: Representation
    target: Representation


def divergence(pair: Pair) -> Tensor:
    """𝒟(p, z) = -1/N Σ z·log p, Eq. (cross-entropy)."""
    return cross_entropy(pair.target, pair.prediction, paired=True).mean()


def normal_loss(one: Pair, other: Pair) -> Tensor:
    """L_normal = ½𝒟(p, z') + ½𝒟(p', z), Eq. (normal_loss): each view predicts the other."""
    return (divergence(one) + divergence(other)) / 2


def mix_loss(mixed: Pair) -> Tensor:
    """L_mix = 𝒟(p_mix, z_c), Eq. (loss_mix)."""
    return divergence(mixed)


def expected_normal_loss(one: Pair, other: Pair) -> Tensor:
    """L_1: the binary cross-entropy of the degrees, for the two views."""
    return (expected_bce(*one).mean() + expected_bce(*other).mean()) / 2


def expected_mix_loss(mixed: Pair) -> Tensor:
    """L_2: the same for the mixed picture."""
    return expected_bce(*mixed).mean()


class Losses(NamedTuple):
    """All of them, for the log; `total` is what is minimised. Without mixed pictures, L_mix and L_2 are None."""

    total: Tensor
    normal: Tensor
    mix: Tensor | None
    expected_normal: Tensor | None
    expected_mix: Tensor | None


def proposed_loss(one: Pair, other: Pair, mixed: Pair | None, alpha: float = 0.5, beta: float = 0.6) -> Losses:
    """L_prop = β·L_exp + (1 - β)·L, Eq. (exp_loss); L = α·L_normal + (1 - α)·L_mix, Eq. (loss), and L_exp likewise.

    Without mixed pictures (vanilla) L is L_normal and L_exp is L_1; with β = 0 the expected-value losses are not
    computed.
    """
    normal = normal_loss(one, other)
    mix = mix_loss(mixed) if mixed else None
    plain = normal if mix is None else alpha * normal + (1 - alpha) * mix
    if beta == 0:
        return Losses(plain, normal, mix, None, None)
    expected_normal = expected_normal_loss(one, other)
    expected_mix = expected_mix_loss(mixed) if mixed else None
    expected = expected_normal if expected_mix is None else alpha * expected_normal + (1 - alpha) * expected_mix
    return Losses(beta * expected + (1 - beta) * plain, normal, mix, expected_normal, expected_mix)
