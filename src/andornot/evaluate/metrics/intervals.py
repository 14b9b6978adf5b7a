"""Uncertainty of metrics: standard deviations over runs, and 95 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

import torch
from torch import Tensor

_NUM_RESAMPLES: Final = 2000


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation of a metric over several runs."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanStd:
        """Return mean and sample standard deviation of values; 0 for a single value.

        >>> MeanStd.of([1.0, 3.0]), MeanStd.of([2.0])
        (MeanStd(mean=2.0, std=1.4142135623730951), MeanStd(mean=2.0, std=0.0))
        """
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Return the mean of first - second with its 95 % interval by Student's t.

    >>> paired_difference([(0.75, 0.5), (1.0, 0.5), (0.75, 0.0)])  # doctest: +ELLIPSIS
    Interval(value=0.5, low=-0.121..., high=1.121...)
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # slow to load, rarely needed

    differences = [first - second for first, second in pairs]
    count, center = len(differences), mean(differences)
    reach = float(stdtrit(count - 1, 0.975)) * stdev(differences) / count**0.5
    return Interval(center, center - reach, center + reach)


def wilson(rate: float, count: int) -> Interval:
    """Return the Wilson 95 % interval of a rate over `count` observations.

    >>> wilson(0.5, 4)  # doctest: +ELLIPSIS
    Interval(value=0.5, low=0.150..., high=0.849...)
    """
    z = 1.959964
    center = (rate + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count))
    # Keep the rate within the interval despite rounding, at rates of 0 and 1.
    return Interval(rate, max(min(center - reach, rate), 0.0), min(max(center + reach, rate), 1.0))


ClassPairs = Sequence[tuple[int, int]]
"""The pair of classes of each row of a measurement."""


def bootstrap(values: Tensor, seed: int = 0, *, pairs: ClassPairs | None = None) -> Interval:
    """Return the mean of `(rows, …)` and its 95 % interval from 2,000 bootstrap resamples of the rows.

    If rows are `pairs` of classes, classes are resampled instead, because pairs that share a class are not independent.
    The weight of a pair is the product of the numbers of times its classes were drawn.
    """
    means = _row_means(values)
    weights = _weights(len(means), seed, pairs)
    return _interval(float(means.mean()), weights @ means)


def bootstrap_ratio(
    values: Tensor, bases: Tensor, seed: int = 0, *, pairs: ClassPairs | None = None
) -> Interval | None:
    """Return the ratio of the means of `(rows, …)` and its interval; None if the mean of `bases` may be 0 or less."""
    means, below = _row_means(values), _row_means(bases)
    weights = _weights(len(means), seed, pairs)
    resampled = weights @ below
    if float(torch.quantile(resampled, 0.025)) <= 0:
        return None
    ratios = (weights @ means) / resampled.clamp(min=1e-12)
    return _interval(float(means.mean() / below.mean()), ratios)


def _row_means(values: Tensor) -> Tensor:
    return values.double().flatten(1).mean(1)


def _weights(rows: int, seed: int, pairs: ClassPairs | None) -> Tensor:
    """Return the weight of each row in each resample, `(resamples, rows)`; they sum to 1 over rows."""
    numbers = torch.arange(rows) if pairs is None else torch.unique(torch.tensor(pairs))
    drawn = torch.randint(len(numbers), (_NUM_RESAMPLES, len(numbers)), generator=torch.Generator().manual_seed(seed))
    counts = torch.zeros(drawn.shape, dtype=torch.float64).scatter_add_(1, drawn, torch.ones_like(drawn).double())
    if pairs is not None:
        places = torch.searchsorted(numbers, torch.tensor(pairs))
        counts = counts[:, places[:, 0]] * counts[:, places[:, 1]]
    sums = counts.sum(1, keepdim=True)
    # Drop resamples that contain no pair.
    return (counts / sums)[sums[:, 0] > 0]


def _interval(value: float, resampled: Tensor) -> Interval:
    low, high = torch.quantile(resampled, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(value, low, high)
