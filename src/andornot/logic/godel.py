"""Gödel logic on distributions: OR is the maximum, AND the minimum of two truth values.

Every function takes and returns probabilities over the M truth values 0, 1/(M-1), …, 1 as tensors
`(..., M)`; operands are independent, and leading dimensions broadcast. All sums have non-negative terms
and nothing is subtracted, so even a probability of 1e-12 has a small relative error.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import lukasiewicz, tails


def negation(a: Tensor) -> Tensor:
    """Compute P(1 - A): the distribution mirrored. Eqs. (p_neg), (not_operation)."""
    return a.flip(-1)


def disjunction(a: Tensor, b: Tensor) -> Tensor:
    """Return P(max(A, B)). Eqs. (p_or), (or_operation), in O(M) instead of O(M²).

    max(A, B) = i when A = i and B ≤ i, or when B = i and A < i.
    """
    return _one_or_the_other(a, tails.at_most(b), b, tails.below(a))


def conjunction(a: Tensor, b: Tensor) -> Tensor:
    """Return P(min(A, B)). Eqs. (p_land), (and_operation): A = i and B ≥ i, or B = i and A > i."""
    return _one_or_the_other(a, tails.at_least(b), b, tails.above(a))


def at_least(k: int, operands: Sequence[Tensor]) -> Tensor:
    """Return P(the k-th largest of the operands): "at least k of these". OR is k = 1, AND is k = n.

    Lower the threshold from "> i" to "≥ i" for one operand after the other. The k-th largest is i if this raises the
    number of operands over their threshold from below k to k. The operand where this happens equals i, and exactly k-1
    of the others are over their threshold (≥ i for those before it, > i for those after). One pass over the operands
    tracks the cases before that operand (`waiting`) and after it (`done`), with O(n·k) operations per truth value and
    2·k tensors in memory.
    """
    count = len(operands)
    if 2 * k > count + 1:
        return negation(at_least(count + 1 - k, [negation(p) for p in operands]))
    waiting, done = [torch.ones_like(operands[0])], list[Tensor]()
    for p in operands:
        here = [cases * p for cases in waiting]
        if done:
            moved = count_one_more(done, over=tails.above(p), under=tails.at_most(p), limit=k)
            here[: len(moved)] = [one + other for one, other in zip(here, moved, strict=False)]
        done = here
        waiting = count_one_more(waiting, over=tails.at_least(p), under=tails.below(p), limit=k)
    return done[k - 1]


def minus(a: Tensor, b: Tensor) -> Tensor:
    """Return P(max(0, A - B)): Łukasiewicz' difference, whose results are on the grid of truth values.

    Gödel's `A AND NOT B` is min(A, 1 - B), which only clips A at 1 - B: B = ½ halves A = 1 but does not change A ≤ ½.
    In retrieval, the difference was better on every data set (docs/results.md).
    """
    return lukasiewicz.minus(a, b)


def implication(a: Tensor, b: Tensor) -> Tensor:
    """Return P(A → B), where A → B is 1 if A ≤ B else B: Gödel's residuum of AND."""
    holds = (b * tails.at_most(a)).sum(-1, keepdim=True)
    falls_to_b = b[..., :-1] * tails.above(a)[..., :-1]
    return torch.cat([falls_to_b, holds], dim=-1)


def coimplication(a: Tensor, b: Tensor) -> Tensor:
    """Return P(A ⇸ B), where A ⇸ B is 0 if A ≥ B else B: the dual of the implication under 1 - x."""
    return negation(implication(negation(a), negation(b)))


def difference(a: Tensor, b: Tensor) -> Tensor:
    """Return P(A ∖ B), where A ∖ B is A if A > B else 0: the least X with A ≤ B ∨ X, the co-implication reversed."""
    return coimplication(b, a)


def strict_negation(a: Tensor) -> Tensor:
    """Return P(A → 0): Gödel's own negation, 1 if A = 0 else 0. Its result is crisp."""
    return torch.cat([a[..., 1:].sum(-1, keepdim=True), torch.zeros_like(a[..., 2:]), a[..., :1]], dim=-1)


def _one_or_the_other(a: Tensor, b_lets: Tensor, b: Tensor, a_lets: Tensor) -> Tensor:
    """Compute `a·b_lets + b·a_lets`, in place in the temporary tensor `b_lets`, which saves two passes over memory."""
    result = b_lets.mul_(a) if a.shape == b.shape else b_lets * a
    return result.addcmul_(b, a_lets)


def count_one_more(counts: list[Tensor], over: Tensor, under: Tensor, limit: int) -> list[Tensor]:
    """Add an operand to a Poisson-binomial distribution: P(exactly m are over the threshold), m < limit."""
    grown = [counts[0] * under]
    grown += [torch.addcmul(counts[m] * under, counts[m - 1], over) for m in range(1, len(counts))]
    if len(counts) < limit:
        grown.append(counts[-1] * over)
    return grown
