"""The losses of the paper, one small function each, for predictions p and targets z as representations `(B, N, M)`.

Targets have no gradient (`targets` applies the stop-gradient). Every loss is the mean over the batch.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import AndornotError, unknown
from ..logic import Representation, cross_entropy, expected_bce
from .network import Outputs
from .targets import Center, Target


class TargetPair(NamedTuple):
    """A prediction and its target."""

    prediction: Representation
    target: Representation


def divergence(pair: TargetPair) -> Tensor:
    """Compute 𝒟(p, z) = -1/N Σ z·log p, Eq. (cross-entropy)."""
    return cross_entropy(pair.target, pair.prediction, paired=True).mean()


def normal_loss(one: TargetPair, other: TargetPair) -> Tensor:
    """Compute L_normal = ½𝒟(p, z') + ½𝒟(p', z), Eq. (normal_loss): each view predicts the other."""
    return (divergence(one) + divergence(other)) / 2


def mix_loss(mixed: TargetPair) -> Tensor:
    """Compute L_mix = 𝒟(p_mix, z_c), Eq. (loss_mix)."""
    return divergence(mixed)


def expected_normal_loss(one: TargetPair, other: TargetPair) -> Tensor:
    """Compute L_1: the binary cross-entropy of the degrees, for the two views."""
    return (expected_bce(*one).mean() + expected_bce(*other).mean()) / 2


def expected_mix_loss(mixed: TargetPair) -> Tensor:
    """Compute L_2: the same for the mixed image."""
    return expected_bce(*mixed).mean()


def decorrelation_loss(batch: Representation) -> Tensor:
    """Compute the mean squared correlation between features' degrees over a batch, a penalty on dimensional collapse.

    It is not in the paper. For B images and independent features it is about `1 / B`, not 0. Constant features count
    as uncorrelated.
    """
    degrees = batch.degrees
    count, features = degrees.shape
    centered = degrees - degrees.mean(0)
    standard = centered / (centered.square().mean(0) + _LEAST_VARIANCE).sqrt()
    squares = (standard.T @ standard / count).square()
    return (squares.sum() - squares.diagonal().sum()) / max(1, features * (features - 1))


class Losses(NamedTuple):
    """All losses, for the log; `total` is minimised. Losses that were not computed are None."""

    total: Tensor
    normal: Tensor
    mix: Tensor | None
    expected_normal: Tensor | None
    expected_mix: Tensor | None
    decorrelation: Tensor | None = None


def proposed_loss(
    one: TargetPair, other: TargetPair, mixed: TargetPair | None, alpha: float = 0.5, beta: float = 0.6
) -> Losses:
    """Compute L_prop = β·L_exp + (1 - β)·L, Eq. (exp_loss), with L = α·L_normal + (1 - α)·L_mix, Eq. (loss).

    Without mixed images (vanilla) L is L_normal and L_exp is L_1; with β = 0 the expected-value losses are not
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


Synthesis = Callable[[Target, Target, float, Center], Representation]
"""Maps the targets of two images, λ_mix and the center to the target z_c of the mixed image."""


_OWN: Final = "function:"
# Keeps the gradient of a constant feature finite.
_LEAST_VARIANCE: Final = 1e-8


def mixup(first: Tensor, second: Tensor, mixup_lambda: float = 0.5) -> Tensor:
    """Compute mixup: `x_mix = λ·x_1 + (1 - λ)·x_2`, with the same λ for the whole batch."""
    return torch.lerp(second, first, mixup_lambda)


def mean(first: Target, second: Target, mixup_lambda: float, center: Center) -> Representation:  # noqa: ARG001
    """Compute `z_c = λ·z_1 + (1 - λ)·z_2`: SDMP, as in the paper."""
    probs = torch.lerp(second.representation.probs, first.representation.probs, mixup_lambda)
    return Representation(probs, validate=False)


def maximum(first: Target, second: Target, mixup_lambda: float, center: Center) -> Representation:  # noqa: ARG001
    """Compute `z_c = softmax((maximum(z̃_1, z̃_2) - c) / τ_t)`: MixSiam, as in the paper."""
    target: Target = center(torch.maximum(first.logits, second.logits))
    return target.representation


def logic(first: Target, second: Target, mixup_lambda: float, center: Center) -> Representation:  # noqa: ARG001
    """Compute `z_c = z_1 ∨ z_2`, Eq. (or_operation): the method of the paper."""
    return first.representation | second.representation


SYNTHESES: Final[dict[str, Synthesis | None]] = {
    "vanilla": None,  # no mixed images
    "mean": mean,
    "maximum": maximum,
    "logic": logic,
}


def get_synthesis(synthesis: "str | Synthesis") -> Synthesis | None:
    """Return a synthesis by name; a function is returned as it is."""
    if not isinstance(synthesis, str):
        return synthesis
    if synthesis.startswith(_OWN):
        raise AndornotError(f'"{synthesis}" is a function of your own: pretrain(…, synthesis=…) needs it again')
    if synthesis not in SYNTHESES:
        raise AndornotError(unknown("synthesis", synthesis, SYNTHESES))
    return SYNTHESES[synthesis]


def function_name(function: Callable[..., Any]) -> str:
    """Return the name that a recipe stores for a custom synthesis or loss.

    >>> function_name(lambda first, second, mixup_lambda, center: first.representation)
    'function:<lambda>'
    """
    return _OWN + getattr(function, "__name__", type(function).__name__)


def check_name(name: str) -> None:
    """Raise an error unless `name` is that of a synthesis or of a custom function."""
    if not name.startswith(_OWN):
        get_synthesis(name)


# β of each method, as in the paper: 0.6 "of the logic operation method"; the other methods minimise L alone.
DEFAULT_BETA: Final = {"vanilla": 0.0, "mean": 0.0, "maximum": 0.0, "logic": 0.6}


class SynthesisOutput(NamedTuple):
    """The losses of a batch, the targets of both views, and the prediction of the first, detached."""

    losses: Losses
    targets: tuple[Target, Target]
    prediction: Representation

    @property
    def total(self) -> Tensor:
        """The loss to minimise: L_prop plus the weighted penalty on correlated features."""
        return self.losses.total


class SynthesisLoss(nn.Module):
    """The loss of the paper, with the center of its targets, which is updated with every batch in training mode.

    `synthesis` is a name in `SYNTHESES`, or a function that maps the targets of two images, λ_mix and the center to the
    target of the mixed image. `decorrelation` is the weight of `decorrelation_loss` on the predictions of the first
    view (0 in the paper). The center is updated once per `accumulate` batches, from all of them.
    """

    def __init__(
        self,
        synthesis: str | Synthesis = "logic",
        *,
        center: Center | None = None,
        temperature: float = 0.1,
        mixup_lambda: float = 0.5,
        alpha: float = 0.5,
        beta: float | None = None,
        decorrelation: float = 0.0,
        accumulate: int = 1,
    ) -> None:
        super().__init__()
        self.synthesis = get_synthesis(synthesis)
        self.center = Center() if center is None else center
        self.temperature, self.mixup_lambda, self.alpha = temperature, mixup_lambda, alpha
        self.beta = default_beta(synthesis) if beta is None else beta
        self.decorrelation, self.accumulate = decorrelation, accumulate
        self._pending: list[Target] = []

    def forward(
        self, first: Outputs, second: Outputs, mixed: Outputs | None = None, partner_z: Tensor | None = None
    ) -> SynthesisOutput:
        """Return the losses of the network's outputs for two views of a batch of images.

        `mixed` are the outputs for `mixup(view, view.roll(1, 0), mixup_lambda)` of the first views: each image is
        mixed with the previous one. For other partners, pass their logits z̃ as `partner_z`. "vanilla" does not mix.
        """
        targets = self.center(first.z), self.center(second.z)
        pairs = self._pair(first, targets[1].representation), self._pair(second, targets[0].representation)
        mixed_pair = None
        if self.synthesis is not None:
            if mixed is None:
                raise ValueError("this synthesis needs the outputs of mixed images: loss(first, second, mixed)")
            partner = self.center(first.z.roll(1, 0) if partner_z is None else partner_z)
            mixed_pair = self._pair(mixed, self.synthesis(targets[0], partner, self.mixup_lambda, self.center))
        losses = proposed_loss(*pairs, mixed_pair, self.alpha, self.beta)
        if self.decorrelation:
            penalty = decorrelation_loss(pairs[0].prediction)
            losses = losses._replace(total=losses.total + self.decorrelation * penalty, decorrelation=penalty)
        if self.training:
            self._pending += targets
            if len(self._pending) >= 2 * self.accumulate:
                self.center.update(*self._pending)
                self._pending.clear()
        prediction = Representation(pairs[0].prediction.probs.detach(), validate=False)
        return SynthesisOutput(losses, targets, prediction)

    def _pair(self, outputs: Outputs, target: Representation) -> TargetPair:
        return TargetPair(Representation.from_logits(outputs.p.float(), self.temperature, validate=False), target)


def default_beta(synthesis: str | Synthesis) -> float:
    """Return the default β of a synthesis; 0 for a custom function."""
    return DEFAULT_BETA.get(synthesis, 0.0) if isinstance(synthesis, str) else 0.0
