"""Operability in numbers: how far a query made by an operator is from the plain query that it should behave like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor

from .intervals import Interval, Spread, bootstrap, bootstrap_ratio

Query = Literal["a|b", "ab&a", "ab&~b", "ab&~b|a"]
"""What is asked for; the last is the paper's relative negation, which keeps what a and b share."""

# A query, and the plain query that it should behave like.
REFERENCES: Final[dict[Query, str]] = {"a|b": "ab", "ab&a": "a", "ab&~b": "a", "ab&~b|a": "a"}

Closeness = Literal["close", "apart", "unclear"]

# A rate is close to its reference within this part of what that is above chance.
CLOSE: Final = 0.2


def closeness(shift: Interval, above_chance: float | None) -> Closeness:
    """Whether a rate is close to its reference, by the whole interval of their difference.

    `above_chance` is what the reference is above chance; None where that is not sure, and there is nothing to judge by.

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
    """A way to search: the query, the operator's name ("" for a picture as it is), and the distance."""

    query: str
    operator: str
    distance: str


@dataclass(frozen=True)
class Rates:
    """Occurrence rates of one way to search: of class a, of class b, and of both in one picture, `(pairs, 2, 3)`.

    The middle dimension is the order of the pair: (a, b), then (b, a). `weights` are those chosen, a pair each.
    """

    values: Tensor
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """What one model found: rates for each way to search, and the share `(pairs, 2)` of class a in the gallery."""

    rates: dict[Key, Rates]
    chance: Tensor

    def to_data(self) -> dict[str, Any]:
        """As JSON has it."""
        rates = [[*key, found.values.tolist(), found.weights] for key, found in self.rates.items()]
        return {"rates": rates, "chance": self.chance.tolist()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Measurement:
        """What `to_data` and JSON made of a measurement, back again."""
        rates = {Key(*key): Rates(torch.tensor(values), tuple(weights)) for *key, values, weights in data["rates"]}
        return cls(rates, torch.tensor(data["chance"]))


class Run(NamedTuple):
    """The means of one training, of several with different seeds."""

    a: float
    b: float
    difference: float


@dataclass(frozen=True)
class Row:
    """One way to search, over all ordered pairs of classes and all runs.

    `shift` is the mean of rate of a - reference, `difference` that of its absolute value, pair by pair. `relative` is
    the difference as a part of what the reference is above chance: a model that finds nothing has no difference, and
    no reference either. It is None unless the reference is above chance.
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
        """Which way to search it is."""
        return Key(self.query, self.operator, self.distance)

    @property
    def closeness(self) -> Closeness:
        """Whether it finds as much of class a as its reference."""
        return closeness(self.shift, None if self.relative is None else self.reference - self.chance)

    def spread(self, figure: str) -> Spread:
        """Mean and deviation of a figure over runs."""
        return Spread.of([getattr(run, figure) for run in self.runs])


def summarise(runs: Sequence[Measurement], *, seed: int = 0) -> list[Row]:
    """Means over all ordered pairs and runs, with intervals from a bootstrap over pairs of classes.

    A pair's figure is its mean over the runs: the interval says what other classes would change, and `Row.runs` what
    another training would.
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
            Row(
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
