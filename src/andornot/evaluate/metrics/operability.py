"""Operability: the difference between a query computed by an operator and the plain query it should behave like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor

from .intervals import ClassPairs, Interval, MeanStd, bootstrap, bootstrap_ratio

Query = Literal["a|b", "ab&a", "ab&~b", "ab&~b|a"]
"""Queries of the retrieval task; the last is the paper's relative negation, which keeps features that a and b share."""

# The plain query that each query should behave like.
REFERENCES: Final[dict[Query, str]] = {"a|b": "ab", "ab&a": "a", "ab&~b": "a", "ab&~b|a": "a"}

Closeness = Literal["close", "apart", "unclear"]

# A rate is close to its reference if they differ by at most this fraction of (reference - chance).
CLOSE: Final = 0.2


def closeness(shift: Interval, above_chance: float | None) -> Closeness:
    """Return whether a rate is close to its reference, by the interval of their difference.

    `above_chance` is reference - chance, or None if the reference may not be above chance: then it is "unclear".

    >>> closeness(Interval(-0.1, -0.11, -0.09), above_chance=0.8), closeness(Interval(-0.1, -0.11, -0.09), 0.4)
    ('close', 'apart')
    """
    if above_chance is None:
        return "unclear"
    reach = CLOSE * above_chance
    if -reach <= shift.low and shift.high <= reach:
        return "close"
    return "apart" if shift.low > reach or shift.high < -reach else "unclear"


class Key(NamedTuple):
    """A search method: query, name of the operator ("" for a plain image), and distance."""

    query: str
    operator: str
    distance: str


@dataclass(frozen=True)
class Rates:
    """Occurrence rates `(pairs, 2, 3)` of one search method: of class a, class b, and both in one image.

    The middle dimension is the order of the pair: (a, b), then (b, a). `weights` has the tuned weight of each pair.
    """

    values: Tensor
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Rates of one model per search method, the fraction `(pairs, 2)` of class a in the gallery, and the classes."""

    rates: dict[Key, Rates]
    chance: Tensor
    pairs: ClassPairs

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rates = [[*key, found.values.tolist(), found.weights] for key, found in self.rates.items()]
        return {"rates": rates, "chance": self.chance.tolist(), "pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Measurement:
        """Restore a measurement from the result of `to_data`."""
        rates = {Key(*key): Rates(torch.tensor(values), tuple(weights)) for *key, values, weights in data["rates"]}
        return cls(rates, torch.tensor(data["chance"]), [(a, b) for a, b in data["pairs"]])


class Run(NamedTuple):
    """Means of one run (training seed)."""

    a: float
    b: float
    difference: float


@dataclass(frozen=True)
class RetrievalRow:
    """Metrics of one search method, over all ordered pairs of classes and all runs.

    `shift` is the mean of (rate of a - reference) over pairs, `difference` the mean of its absolute value, `by_pair`
    that of each unordered pair of classes, in the order of the task, for paired comparisons of models. `relative`
    is `difference` / (reference - chance), because a model that finds nothing has a small difference as well; None if
    the reference may not be above chance.
    """

    query: str
    operator: str
    distance: str
    a: Interval
    b: Interval
    both: float
    reference: float
    chance: float
    shift: Interval
    difference: Interval
    relative: Interval | None
    runs: tuple[Run, ...]
    by_pair: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    weights: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        """Return the search method."""
        return Key(self.query, self.operator, self.distance)

    @property
    def closeness(self) -> Closeness:
        """Return whether the rate of class a is close to that of the reference."""
        return closeness(self.shift, None if self.relative is None else self.reference - self.chance)

    def over_runs(self, metric: str) -> MeanStd:
        """Return mean and standard deviation of a field of `Run` over runs."""
        return MeanStd.of([getattr(run, metric) for run in self.runs])


def summarize_runs(runs: Sequence[Measurement], *, seed: int = 0) -> list[RetrievalRow]:
    """Return means over all ordered pairs and runs, with intervals from a bootstrap over classes.

    The interval shows the variation over classes, `RetrievalRow.runs` the variation over training runs.
    """
    chance, pairs = runs[0].chance, runs[0].pairs
    rows = []
    for key in runs[0].rates:
        values = torch.stack([run.rates[key].values for run in runs])  # (runs, pairs, 2, 3)
        plain = Key(REFERENCES.get(key.query, key.query), "", key.distance)  # type: ignore[call-overload]
        reference = torch.stack([run.rates[plain].values[..., 0] for run in runs])
        a, b, both = values.unbind(-1)
        difference = (a - reference).abs()
        rows.append(
            RetrievalRow(
                *key,
                a=bootstrap(a.mean(0), seed, pairs=pairs),
                b=bootstrap(b.mean(0), seed, pairs=pairs),
                both=float(both.mean()),
                reference=float(reference.mean()),
                chance=float(chance.mean()),
                shift=bootstrap((a - reference).mean(0), seed, pairs=pairs),
                difference=bootstrap(difference.mean(0), seed, pairs=pairs),
                relative=bootstrap_ratio(difference.mean(0), reference.mean(0) - chance, seed, pairs=pairs),
                runs=tuple(Run(*(float(of[run].mean()) for of in (a, b, difference))) for run in range(len(runs))),
                by_pair=tuple(difference.mean((0, 2)).tolist()),
                pairs=tuple(pairs),
                weights=tuple(weight for run in runs for weight in run.rates[key].weights),
            )
        )
    return rows


def compare_rows(row: RetrievalRow, other: RetrievalRow, *, seed: int = 0) -> Interval | None:
    """Return `relative` of a row minus that of another, paired by pairs of classes; None if either is missing."""
    if row.relative is None or other.relative is None:
        return None
    one, two = (torch.tensor(found.by_pair).double() / (found.reference - found.chance) for found in (row, other))
    return bootstrap((one - two).unsqueeze(1), seed, pairs=row.pairs)
