"""`exact` semantics for Gödel logic: every mention of a name is the same random variable.

For a threshold i of 1 … M-1 the event `f ≥ i` is a Boolean formula over the events `A ≥ i` and `A ≥ M-i` (NOT turns one
into the other). So a name has three states that matter: below both thresholds (0), between them (½), and at or
above both (1), which add up like truth values of Kleene's three-valued logic. A name that occurs more than once is
replaced by each of its states in turn, and the results are weighted with the states' probabilities: `expansion` plans
it. All else is independent, and its probabilities multiply.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from . import expansion, godel, tails
from . import program as p
from .program import Node, Program


class Tails(NamedTuple):
    """P(f ≥ i) and P(f < i) for i = 1 … M-1, `(..., M-1)` each: both kept, so that neither is a difference."""

    reach: Tensor
    miss: Tensor


def evaluate(plan: Program, probs: Mapping[str, Tensor]) -> Tensor:
    """Return the distribution `(..., N, M)` of the formula that was planned, from those of its names."""
    evaluation = _Evaluation(probs)
    return _distribution(p.run(plan, evaluation.apply))


def passes(node: Node) -> int:
    """About how many operations on tensors `(..., N, M-1)` a node of a plan takes."""
    if node.op == p.AT_LEAST:
        k = int(node.value)
        return sum(2 * min(count, k) for count in range(1, len(node.args) + 1)) + k
    return {p.NAME: 0, p.CONSTANT: 0, p.NOT: 2, expansion.EXPAND: 6}.get(node.op, 3)


class _Evaluation:
    def __init__(self, probs: Mapping[str, Tensor]) -> None:
        self._names = {name: _tails_of(values) for name, values in probs.items()}
        any_name = next(iter(self._names.values())).reach
        index = torch.arange(1, any_name.shape[-1] + 1, device=any_name.device)
        # The threshold i is the lower of i and M-i, and is reached between the two, for the first half of them.
        self._lower_half = 2 * index <= any_name.shape[-1] + 1
        self._constants = [
            Tails(reach.to(any_name.dtype), (~reach).to(any_name.dtype))
            for reach in (torch.zeros_like(index).bool(), self._lower_half, torch.ones_like(index).bool())
        ]
        self._states: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    def apply(self, _: int, node: Node, operands: list[Tails]) -> Tails:
        """Return the tails of a node, from those of its operands, which are independent."""
        if node.op == p.NAME:
            return self._names[str(node.value)]
        if node.op == p.CONSTANT:
            return self._constants[int(node.value)]
        if node.op == p.NOT:
            return Tails(operands[0].miss.flip(-1), operands[0].reach.flip(-1))
        if node.op == p.AT_LEAST:
            return _poisson_binomial(int(node.value), operands)
        if node.op == expansion.EXPAND:
            return self._weighted(str(node.value), operands)
        (reach, miss), (other_reach, other_miss) = operands
        if node.op == p.AND:
            return Tails(reach * other_reach, torch.addcmul(miss, reach, other_miss))
        return Tails(torch.addcmul(reach, miss, other_reach), miss * other_miss)

    def _weighted(self, name: str, cases: Sequence[Tails]) -> Tails:
        if name not in self._states:
            self._states[name] = self._state_probs(self._names[name])
        below, between, above = self._states[name]
        return Tails(
            *(
                torch.addcmul(torch.addcmul(below * first, between, second), above, third)
                for first, second, third in zip(*cases, strict=True)
            )
        )

    def _state_probs(self, name: Tails) -> tuple[Tensor, Tensor, Tensor]:
        """Return P(below both thresholds), P(between them), P(at or above both), for each i."""
        reach, miss = name
        below = torch.where(self._lower_half, miss, miss.flip(-1))
        above = torch.where(self._lower_half, reach.flip(-1), reach)
        more = torch.where(self._lower_half, miss.flip(-1), miss)
        between = more - below
        # The only difference here: where it is but the rounding of both, it is nothing, and stays nothing.
        return below, between * (between > 4 * torch.finfo(more.dtype).eps * more), above


def _tails_of(probs: Tensor) -> Tails:
    return Tails(tails.at_least(probs)[..., 1:], tails.below(probs)[..., 1:])


def _poisson_binomial(k: int, operands: Sequence[Tails]) -> Tails:
    """Return P(at least k of the operands reach i) and P(fewer do)."""
    exactly = [torch.ones_like(operands[0].reach)]
    enough = torch.zeros_like(operands[0].reach)
    for reach, miss in operands:
        if len(exactly) == k:
            enough = torch.addcmul(enough, exactly[-1], reach)
        exactly = godel.count_one_more(exactly, over=reach, under=miss, limit=k)
    return Tails(enough, reduce(torch.add, exactly))


def _distribution(result: Tails) -> Tensor:
    """Return probabilities as steps of the tail; of the two tails the smaller one, whose steps are rounded less."""
    pad = torch.nn.functional.pad
    reach, miss = (
        pad(pad(result.reach, (1, 0), value=1.0), (0, 1)),
        pad(pad(result.miss, (1, 0)), (0, 1), value=1.0),
    )
    steps = torch.where(reach[..., :-1] < miss[..., 1:], -reach.diff(dim=-1), miss.diff(dim=-1)).clamp(min=0)
    return steps / steps.sum(-1, keepdim=True)
