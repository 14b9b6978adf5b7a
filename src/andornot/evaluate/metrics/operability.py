"""Operability: the difference between a query made by an operator and the plain query it should behave like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor

from .intervals import Interval, MeanStd, bootstrap, bootstrap_ratio

Query = Literal["a|b", "ab&a", "ab&~b", "ab&~b|a"]
"""Queries of the retrieval task; the last is the paper's relative negation, which keeps what a and b share."""

# The plain query that each query should behave like.
REFERENCES: Final[dict[Query, str]] = {"a|b": "ab", "ab&a": "a", "ab&~b": "a", "ab&~b|a": "a"}

Closeness = Literal["close", "apart", "unclear"]

# A rate is close to its reference if they differ by at most this share of (reference - chance).
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
    """A way to search: query, name of the operator ("" for a plain image), and distance."""

    query: str
    operator: str
    distance: str


@dataclass(frozen=True)
class Rates:
    """Occurrence rates `(pairs, 2, 3)` of one way to search: of class a, class b, and both in one image.

    The middle dimension is the order of the pair: (a, b), then (b, a). `weights` has the tuned weight of each pair.
    """

    values: Tensor
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Rates of one model for each way to search, and the share `(pairs, 2)` of class a in the gallery."""

    rates: dict[Key, Rates]
    chance: Tensor

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rates = [[*key, found.values.tolist(), found.weights] for key, found in self.rates.items()]
        return {"rates": rates, "chance": self.chance.tolist()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Measurement:
        """Return the measurement that `to_data` made the data from."""
        rates = {Key(*key): Rates(torch.tensor(values), tuple(weights)) for *key, values, weights in data["rates"]}
        return cls(rates, torch.tensor(data["chance"]))


class Run(NamedTuple):
    """Means of one run (training seed)."""

    a: float
    b: float
    difference: float


@dataclass(frozen=True)
class RetrievalRow:
    """Metrics of one way to search, over all ordered pairs of classes and all runs.

    `shift` is the mean of (rate of a - reference) over pairs, `difference` the mean of its absolute value. `relative`
    is `difference` / (reference - chance), because a model that finds nothing has a small difference, too; None if
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
    weights: tuple[float, ...] = ()

    @property
    def key(self) -> Key:
        """Return the way to search."""
        return Key(self.query, self.operator, self.distance)

    @property
    def closeness(self) -> Closeness:
        """Return whether it finds as much of class a as its reference."""
        return closeness(self.shift, None if self.relative is None else self.reference - self.chance)

    def over_runs(self, metric: str) -> MeanStd:
        """Return mean and standard deviation of a field of `Run` over runs."""
        return MeanStd.of([getattr(run, metric) for run in self.runs])


def summarize_runs(runs: Sequence[Measurement], *, seed: int = 0) -> list[RetrievalRow]:
    """Return means over all ordered pairs and runs, with intervals from a bootstrap over pairs of classes.

    The interval shows the variation over classes, `RetrievalRow.runs` the variation over trainings.
    """
    chance = runs[0].chance
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
                a=bootstrap(a.mean(0), seed),
                b=bootstrap(b.mean(0), seed),
                both=float(both.mean()),
                reference=float(reference.mean()),
                chance=float(chance.mean()),
                shift=bootstrap((a - reference).mean(0), seed),
                difference=bootstrap(difference.mean(0), seed),
                relative=bootstrap_ratio(difference.mean(0), reference.mean(0) - chance, seed),
                runs=tuple(Run(*(float(of[run].mean()) for of in (a, b, difference))) for run in range(len(runs))),
                weights=tuple(weight for run in runs for weight in run.rates[key].weights),
            )
        )
    return rows
