"""Watches a training for collapse: all pictures getting the same representation."""

import math
from typing import Final, NamedTuple

from torch import Tensor

from ..logic import Representation

# A degree that differs less than this between pictures tells nothing about them.
DEAD_SPREAD: Final = 0.01
# The first steps of a healthy run are flat too.
PATIENCE: Final = 100


class Health(NamedTuple):
    """Figures of one batch of targets."""

    spread: float  # standard deviation of the degrees over pictures, mean over features
    entropy: float  # of a picture's distributions: 0 crisp, 1 even
    usage: float  # entropy of a feature's average distribution: 0 always the same truth value, 1 all alike
    dead: float  # part of the features whose degree hardly differs between pictures


def measure_health(targets: Representation) -> Health:
    """The figures of targets `(B, N, M)`."""
    spread = targets.degrees.std(0, unbiased=False)
    return Health(
        spread.mean().item(),
        _entropy(targets.probs).mean().item(),
        _entropy(targets.probs.mean(0)).mean().item(),
        (spread < DEAD_SPREAD).float().mean().item(),
    )


def collapse_warning(health: Health, step: int) -> str | None:
    """What to say, if the run looks collapsed after its first steps, with advice."""
    if step < PATIENCE:
        return None
    advice = "try a lower learning_rate, a lower centre_momentum, a larger batch_size, or crops that keep more (views)"
    if health.spread < 2 * DEAD_SPREAD:
        return f"collapsed: pictures get the same degrees (spread {health.spread:.3f}); {advice}"
    if health.dead > 0.5:
        return f"collapsing: {health.dead:.0%} of the features do not tell pictures apart; {advice}"
    return None


def _entropy(probs: Tensor) -> Tensor:
    """Entropy over the last dimension, from 0 to 1."""
    return -(probs * probs.clamp(min=1e-12).log()).sum(-1) / math.log(probs.shape[-1])
