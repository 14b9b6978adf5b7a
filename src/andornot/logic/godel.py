"""Gödel logic on distributions: OR is the maximum, AND the minimum of two truth values.

Every function takes and returns probabilities over the M truth values 0, 1/(M-1), …, 1 as tensors
`(..., M)`; operands are independent, and leading dimensions broadcast. All sums are of non-negative
terms: nothing is ever subtracted, so a probability of 1e-12 is right to a few roundings of itself.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from . import lukasiewicz, tails


def negation(a: Tensor) -> Tensor:
    """P(1 - A): the distribution mirrored. Eqs. (p_neg), (not_operation)."""
    return a.flip(-1)


def disjunction(a: Tensor, b: Tensor) -> Tensor:
    """P(max(A, B)). Eqs. (p_or), (or_operation), in O(M) instead of O(M²).

    max(A, B) = i when A = i and B ≤ i, or when B = i and A < i.
    """
    return _one_or_the_other(a, tails.at_most(b), b, tails.below(a))


def conjunction(a: Tensor, b: Tensor) -> Tensor:
    """P(min(A, B)). Eqs. (p_land), (and_operation): A = i and B ≥ i, or B = i and A > i."""
    return _one_or_the_other(a, tails.at_least(b), b, tails.above(a))


def at_least(k: int, operands: Sequence[Tensor]) -> Tensor:
    """P(the k-th largest of the operands): "at least k of these". OR is k = 1, AND is k = n.

    The k-th largest is i when lowering the bar from "> i" to "≥ i", one operand after the other, brings the
    number of operands over it from below k up to k. The operand j that does it equals i; of the others exactly
    k-1 are over their bar (≥ i for those before j, > i for those after). So n Poisson-binomial
    probabilities, added: O(n·k) operations for each truth value.
    """
    count = len(operands)
    if 2 * k > count + 1:
        return negation(at_least(count + 1 - k, [negation(p) for p in operands]))
    after = [_nobody(operands[0])]
    for p in reversed(operands[1:]):
        after.append(count_one_more(after[-1], over=tails.above(p), under=tails.at_most(p), limit=k))
    before = _nobody(operands[0])
    terms = []
    for p, following in zip(operands, reversed(after), strict=True):
        pairs = [before[m] * following[k - 1 - m] for m in range(k) if m < len(before) and k - 1 - m < len(following)]
        if pairs:
            terms.append(p * reduce(torch.add, pairs))
        before = count_one_more(before, over=tails.at_least(p), under=tails.below(p), limit=k)
    return reduce(torch.add, terms)


def minus(a: Tensor, b: Tensor) -> Tensor:
    """P(max(0, A - B)): Łukasiewicz' difference, which stays on the truth values of Gödel's logic.

    Gödel's own `A AND NOT B` is min(A, 1 - B): it cuts off what A has in excess of 1 - B, so that B = ½ takes away half
    of the largest A and nothing of a smaller one. In retrieval the difference was better on every data set
    (docs/results.md).
    """
    return lukasiewicz.minus(a, b)


def implication(a: Tensor, b: Tensor) -> Tensor:
    """P(A → B), where A → B is 1 if A ≤ B else B: Gödel's residuum of AND."""
    holds = (b * tails.at_most(a)).sum(-1, keepdim=True)
    falls_to_b = b[..., :-1] * tails.above(a)[..., :-1]
    return torch.cat([falls_to_b, holds], dim=-1)


def coimplication(a: Tensor, b: Tensor) -> Tensor:
    """P(A ⇸ B), where A ⇸ B is 0 if A ≥ B else B: the dual of the implication under 1 - x."""
    return negation(implication(negation(a), negation(b)))


def difference(a: Tensor, b: Tensor) -> Tensor:
    """P(A ∖ B), where A ∖ B is A if A > B else 0: the least X with A ≤ B ∨ X, the co-implication reversed."""
    return coimplication(b, a)


def strict_negation(a: Tensor) -> Tensor:
    """P(A → 0): Gödel's own negation, 1 if A = 0 else 0. Its result is crisp."""
    return torch.cat([a[..., 1:].sum(-1, keepdim=True), torch.zeros_like(a[..., 2:]), a[..., :1]], dim=-1)


def _one_or_the_other(a: Tensor, b_lets: Tensor, b: Tensor, a_lets: Tensor) -> Tensor:
    """`a·b_lets + b·a_lets`. `b_lets` is a fresh tensor: writing into it spares two passes over memory."""
    result = b_lets.mul_(a) if a.shape == b.shape else b_lets * a
    return result.addcmul_(b, a_lets)


def _nobody(like: Tensor) -> list[Tensor]:
    return [torch.ones_like(like)]


def count_one_more(counts: list[Tensor], over: Tensor, under: Tensor, limit: int) -> list[Tensor]:
    """Poisson-binomial step: P(exactly m are over the bar), m < limit, with one more operand counted."""
    grown = [counts[0] * under]
    grown += [torch.addcmul(counts[m] * under, counts[m - 1], over) for m in range(1, len(counts))]
    if len(counts) < limit:
        grown.append(counts[-1] * over)
    return grown
