"""Conditions compared with operators: each gallery image gets a truth value, and the highest are the hits.

Computed as in a gallery without regions: from whole images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...logic import Formula
from ...similarity import SCALE_SAMPLE, evenly, expand_among, fit_components, from_bytes, int8_dot, scale_of, to_bytes
from ..metrics.operability import Query

TRUTH: Final = "truth"
"""Takes the place of a distance in reports."""
# As in galleries.
_DIMENSIONS: Final = 128
_FIT_SAMPLE: Final = 4096


@dataclass(frozen=True)
class Condition:
    """A condition on the images a, b and ab that answers a query; `{}` in `text` is replaced by each of `weights`."""

    query: Query
    name: str
    text: str
    weights: tuple[float, ...] = ()

    @property
    def formulas(self) -> list[Formula]:
        """Return the condition with each of its weights, or once if it has none."""
        return [Formula(self.text.format(weight)) for weight in self.weights or (1.0,)]


CONDITIONS: Final = (
    Condition("a|b", "a and b", "a and b"),
    Condition("ab&~b", "ab and not b", "ab and not b"),
    Condition("ab&~b", "ab and not w*b, w tuned", "ab and not {}*b", (0.25, 0.5, 1.0, 2.0)),
)


class GalleryTruths:
    """Truth values of queries in the images of a gallery, by their possession degrees `(n, N)`."""

    def __init__(self, degrees: Tensor) -> None:
        dimensions = max(2, min(_DIMENSIONS, degrees.shape[1]))
        self._components = fit_components(degrees[_evenly(len(degrees), _FIT_SAMPLE)], dimensions)
        blocks = torch.split(degrees, _FIT_SAMPLE)
        self._codes = torch.cat([to_bytes(self._components.project(block)) for block in blocks])

    def of_queries(self, degrees: Tensor, *, expanded: bool = False) -> Tensor:
        """Return truths `(q, n)` of query images with degrees `(q, N)`; `expanded` applies query expansion."""
        return self._truths(self._components.project(degrees), (), expanded)

    def of_examples(self, rows: Sequence[int], *, expanded: bool = False) -> Tensor:
        """Return truths `(n,)` of `like(…)` of some images of the gallery; `expanded` applies query expansion."""
        query = normalize(from_bytes(self._codes[list(rows)]).mean(0), dim=0)[None]
        return self._truths(query, rows, expanded)[0]

    def _truths(self, queries: Tensor, rows: Sequence[int], expanded: bool) -> Tensor:
        if expanded:
            queries = expand_among(self._codes, queries, rows)
        similarity = int8_dot(self._codes, queries)
        scale = scale_of(similarity[:, _evenly(len(self._codes), SCALE_SAMPLE)])
        return scale.truth(similarity).float()


def _evenly(count: int, most: int) -> np.ndarray:
    return evenly(np.arange(count), most)


def truth_rates(truths: Tensor, labels: Tensor, top: int) -> Tensor:
    """Return the share of each label in the `top` images of highest truth: `(..., n)`, `(n, c)` -> `(..., c)`."""
    return labels.to(truths.dtype)[truths.topk(top, dim=-1, sorted=False).indices].mean(-2)


def condition_rates(formula: Formula, first: Tensor, second: Tensor, labels: Tensor, top: int) -> Tensor:
    """Return mean rates `(c,)` over all combinations of the truths `(p, n)` and `(q, n)` of two terms."""
    # One row of the first at a time: all combinations would be gigabytes.
    rates = [truth_rates(formula.truth_of_terms([row, second]), labels, top).mean(0) for row in first]
    return torch.stack(rates).mean(0)
