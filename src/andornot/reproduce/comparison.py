"""Two methods compared run by run, because runs with the same seed have more in common than the method."""

from collections.abc import Sequence
from statistics import mean, stdev

from scipy.special import stdtrit  # type: ignore[import-untyped]

from ..evaluate.outcome import Interval


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Interval:
    """The mean of first - second, with the 95 % interval of Student's t for that many pairs.

    >>> paired_difference([(0.75, 0.5), (1.0, 0.5), (0.75, 0.0)])  # doctest: +ELLIPSIS
    Interval(value=0.5, low=-0.121..., high=1.121...)
    """
    differences = [first - second for first, second in pairs]
    count, centre = len(differences), mean(differences)
    reach = float(stdtrit(count - 1, 0.975)) * stdev(differences) / count**0.5
    return Interval(centre, centre - reach, centre + reach)
