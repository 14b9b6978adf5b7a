"""How sure a figure is: spread over runs, and intervals of 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

import torch
from torch import Tensor

_RESAMPLES: Final = 2000


@dataclass(frozen=True)
class Spread:
    """A figure that was measured several times: mean and standard deviation."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """That of some values; a single one has no deviation.

        >>> Spread.of([1.0, 3.0]), Spread.of([2.0])
        (Spread(mean=2.0, deviation=1.4142135623730951), Spread(mean=2.0, deviation=0.0))
        """
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True)
class Interval:
    """A figure with the interval that it lies in with 95 % confidence."""

    value: float
    low: float
    high: float


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Interval:
    """The mean of first - second, with the 95 % interval of Student's t for that many pairs.

    >>> paired_difference([(0.75, 0.5), (1.0, 0.5), (0.75, 0.0)])  # doctest: +ELLIPSIS
    Interval(value=0.5, low=-0.121..., high=1.121...)
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # slow to load, and few need it

    differences = [first - second for first, second in pairs]
    count, centre = len(differences), mean(differences)
    reach = float(stdtrit(count - 1, 0.975)) * stdev(differences) / count**0.5
    return Interval(centre, centre - reach, centre + reach)


def wilson(rate: float, count: int) -> Interval:
    """The 95 % interval of Wilson for a rate that was observed `count` times.

    >>> wilson(0.5, 4)  # doctest: +ELLIPSIS
    Interval(value=0.5, low=0.150..., high=0.849...)
    """
    z = 1.959964
    centre = (rate + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count))
    # At rates of 0 and 1 an end is the rate itself, but for rounding.
    return Interval(rate, max(min(centre - reach, rate), 0.0), min(max(centre + reach, rate), 1.0))


def bootstrap(values: Tensor, seed: int = 0) -> Interval:
    """The mean of `(pairs, …)` and its 95 % interval: pairs drawn again, with replacement, 2,000 times."""
    means = _pair_means(values)
    return _interval(float(means.mean()), means[_drawn(len(means), seed)].mean(1))


def bootstrap_ratio(values: Tensor, bases: Tensor, seed: int = 0) -> Interval | None:
    """The mean of `(pairs, …)` over that of `bases`, and its interval; None unless the bases are above 0 for sure."""
    means, below = _pair_means(values), _pair_means(bases)
    drawn = _drawn(len(means), seed)
    resampled = below[drawn].mean(1)
    if float(torch.quantile(resampled, 0.025)) <= 0:
        return None
    ratios = means[drawn].mean(1) / resampled.clamp(min=1e-12)
    return _interval(float(means.mean() / below.mean()), ratios)


def _pair_means(values: Tensor) -> Tensor:
    return values.double().flatten(1).mean(1)


def _drawn(count: int, seed: int) -> Tensor:
    return torch.randint(count, (_RESAMPLES, count), generator=torch.Generator().manual_seed(seed))


def _interval(value: float, resampled: Tensor) -> Interval:
    low, high = torch.quantile(resampled, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(value, low, high)
