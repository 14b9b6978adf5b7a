"""Product logic on distributions: AND is A·B, OR is A + B - A·B.

Same conventions as `godel`. The probability of a product between two truth values is split between them so that the
expectation is preserved. The degree of an AND is therefore the product of the degrees for any M.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from . import godel


def conjunction(a: Tensor, b: Tensor) -> Tensor:
    """Compute P(A·B), split between neighbouring truth values."""
    steps = a.shape[-1] - 1
    j = torch.arange(steps + 1, device=b.device)
    result = torch.zeros_like(a * b)
    for i in range(steps + 1):
        lower, rest = i * j // steps, i * j % steps
        upper = (lower + 1).clamp(max=steps)
        mass = a[..., i : i + 1] * b
        share = rest.to(mass.dtype) / steps
        result = result.index_add(-1, lower, mass * (1 - share)).index_add(-1, upper, mass * share)
    return result


def disjunction(a: Tensor, b: Tensor) -> Tensor:
    """Return P(A + B - A·B): the dual of AND."""
    return godel.negation(conjunction(godel.negation(a), godel.negation(b)))


def minus(a: Tensor, b: Tensor) -> Tensor:
    """Return P(A·(1 - B)), which is A AND NOT B."""
    return conjunction(a, godel.negation(b))


def at_least(k: int, operands: Sequence[Tensor]) -> Tensor:
    """Compute OR for k = 1 and AND for k = n; other k are not supported."""
    if k == 1:
        return reduce(disjunction, operands)
    if k == len(operands):
        return reduce(conjunction, operands)
    raise ValueError(
        f"at_least({k}, …) of {len(operands)} is not defined in product logic, only OR (1) and AND "
        f'({len(operands)}) are; use logic="godel" or logic="lukasiewicz"'
    )
