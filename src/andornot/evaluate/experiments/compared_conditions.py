"""Conditions beside the operators: each picture of the gallery has a truth, and the truest are the hits.

As galleries compute it, by whole pictures: a task has no regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ...gallery.centred import evenly
from ...gallery.likeness.components import fit_components, to_bytes
from ...gallery.likeness.neighbours import expand_among
from ...gallery.likeness.products import similarities
from ...gallery.likeness.truth import ENOUGH_PICTURES, scale_of
from ...logic import Formula
from ..metrics.operability import Query

TRUTH: Final = "truth"
"""In the place of a distance."""
# As in galleries.
_DIMENSIONS: Final = 128
_SAMPLE: Final = 4096


@dataclass(frozen=True)
class Condition:
    """One way to answer a query: a condition over the pictures a, b and ab. With `weights`, `{}` is one of them."""

    query: Query
    name: str
    text: str
    weights: tuple[float, ...] = ()

    @property
    def formulas(self) -> list[Formula]:
        """The condition with each of its weights; itself, if it has none."""
        return [Formula(self.text.format(weight)) for weight in self.weights or (1.0,)]


CONDITIONS: Final = (
    Condition("a|b", "a and b", "a and b"),
    Condition("ab&~b", "ab and not b", "ab and not b"),
    Condition("ab&~b", "ab and not w*b, w tuned", "ab and not {}*b", (0.25, 0.5, 1.0, 2.0)),
)


class Truths:
    """How true it is of each picture of a gallery, by its degrees `(n, N)`, that it shows what a query shows."""

    def __init__(self, degrees: Tensor) -> None:
        dimensions = max(2, min(_DIMENSIONS, degrees.shape[1]))
        self._components = fit_components(degrees[_evenly(len(degrees), _SAMPLE)], dimensions)
        self._codes = torch.cat([to_bytes(self._components.project(part)) for part in torch.split(degrees, _SAMPLE)])

    def of(self, degrees: Tensor, *, expanded: bool = False) -> Tensor:
        """Truths `(q, n)` of queries `(q, N)`; `expanded` by their neighbours, where several things are asked for."""
        queries = self._components.project(degrees)
        if expanded:
            queries = expand_among(self._codes, queries)
        alike = similarities(self._codes, queries)
        return scale_of(alike[:, _evenly(len(self._codes), ENOUGH_PICTURES)]).truth(alike).float()


def _evenly(count: int, most: int) -> np.ndarray:
    return evenly(np.arange(count), most)


def rates_of_truths(truths: Tensor, labels: Tensor, top: int) -> Tensor:
    """The part of the `top` truest pictures with each label: `(..., n)`, `(n, c)` -> `(..., c)`."""
    return labels.to(truths.dtype)[truths.topk(top, dim=-1, sorted=False).indices].mean(-2)


def condition_rates(formula: Formula, first: Tensor, second: Tensor, labels: Tensor, top: int) -> Tensor:
    """Mean rates `(c,)` over all combinations of the two terms' truths `(p, n)` and `(q, n)`."""
    # One picture of the first at a time: all combinations would be gigabytes.
    found = [rates_of_truths(formula.truth_of_terms([one, second]), labels, top).mean(0) for one in first]
    return torch.stack(found).mean(0)
