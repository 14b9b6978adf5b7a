"""Łukasiewicz logic on distributions: AND is max(0, A + B - 1), OR is min(1, A + B).

Same conventions as `godel`. Sums of truth values stay on their grid, so the results are exact.
"""

from collections.abc import Sequence
from functools import reduce

from torch import Tensor


def at_least(k: int, operands: Sequence[Tensor]) -> Tensor:
    """Return P(min(1, max(0, A_1 + … + A_n - (k - 1)))): OR is k = 1, AND is k = n."""
    steps = operands[0].shape[-1] - 1
    total = reduce(_sum, operands)
    start = (k - 1) * steps
    result = total[..., start : start + steps + 1].clone()
    result[..., 0] += total[..., :start].sum(-1)
    result[..., -1] += total[..., start + steps + 1 :].sum(-1)
    return result


def disjunction(a: Tensor, b: Tensor) -> Tensor:
    """Return P(min(1, A + B))."""
    return at_least(1, [a, b])


def conjunction(a: Tensor, b: Tensor) -> Tensor:
    """Return P(max(0, A + B - 1))."""
    return at_least(2, [a, b])


def minus(a: Tensor, b: Tensor) -> Tensor:
    """Return P(max(0, A - B)), which is A AND NOT B."""
    return conjunction(a, b.flip(-1))


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """Return the distribution of A + B: a convolution, one shifted copy of b for each truth value of A."""
    size, width = a.shape[-1], b.shape[-1]
    first = a[..., :1] * b
    result = first.new_zeros(*first.shape[:-1], size + width - 1)
    result[..., :width] = first
    for i in range(1, size):
        result[..., i : i + width].addcmul_(a[..., i : i + 1], b)
    return result
