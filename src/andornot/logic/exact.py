"""`exact` semantics for Gödel logic: every mention of a name is the same random variable.

For a threshold i of 1 … M-1 the event `f ≥ i` is a Boolean formula over the events `A ≥ i` and `A ≥ M-i` (NOT turns one
into the other). So a name has three states that matter: below both thresholds (0), between them (½), and at or
above both (1), which add up like truth values of Kleene's three-valued logic. A name that occurs more than once is
replaced by each of its states in turn, the formula simplified, and the results weighted with the states'
probabilities (a Shannon expansion). What is left mentions each name once, and its probabilities multiply.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import torch
from torch import Tensor

from . import godel, tails
from . import program as p
from .program import Builder, Program

_FALSE: Final = 0
_BETWEEN: Final = 1
_TRUE: Final = 2


class Tails(NamedTuple):
    """P(f ≥ i) and P(f < i) for i = 1 … M-1, `(..., M-1)` each: both kept, so that neither is a difference."""

    reach: Tensor
    miss: Tensor


def evaluate(program: Program, probs: Mapping[str, Tensor]) -> Tensor:
    """The distribution of the formula, `(..., N, M)`, from those of its names."""
    return _distribution(_Expansion(probs).tails(restrict(program, {})))


def restrict(program: Program, states: Mapping[str, int]) -> Program:
    """The program with some names replaced by states, simplified by the laws of the lattice."""
    builder = Builder()
    moved: list[int] = []
    for node in program:
        args = [moved[a] for a in node.args]
        if node.op == p.NAME and node.value in states:
            moved.append(builder.add(p.CONSTANT, value=states[str(node.value)]))
        elif node.op == p.NOT:
            moved.append(_not(builder, args[0]))
        elif node.op in (p.AND, p.OR):
            moved.append(_and_or(builder, node.op, *args))
        elif node.op == p.AT_LEAST:
            moved.append(_at_least(builder, int(node.value), args))
        else:
            moved.append(builder.add(*node))
    return builder.program(moved[-1])


def _not(builder: Builder, arg: int) -> int:
    op, args, value = builder.nodes[arg]
    if op == p.CONSTANT:
        return builder.add(p.CONSTANT, value=_TRUE - int(value))
    return args[0] if op == p.NOT else builder.add(p.NOT, (arg,))


def _and_or(builder: Builder, op: str, left: int, right: int) -> int:
    absorbing, neutral = (_FALSE, _TRUE) if op == p.AND else (_TRUE, _FALSE)
    if left == right:
        return left
    for arg, other in ((left, right), (right, left)):
        if builder.nodes[arg].op == p.CONSTANT:
            if builder.nodes[arg].value == absorbing:
                return arg
            if builder.nodes[arg].value == neutral:
                return other
    return builder.add(op, (left, right))


def _at_least(builder: Builder, k: int, args: Sequence[int]) -> int:
    constants = [builder.nodes[a].value if builder.nodes[a].op == p.CONSTANT else None for a in args]
    k -= constants.count(_TRUE)
    open_args = [a for a, value in zip(args, constants, strict=True) if value not in (_TRUE, _FALSE)]
    if k <= 0 or k > len(open_args):
        return builder.add(p.CONSTANT, value=_TRUE if k <= 0 else _FALSE)
    if k in (1, len(open_args)):
        op = p.OR if k == 1 else p.AND
        return reduce(lambda left, right: _and_or(builder, op, left, right), open_args)
    return builder.add(p.AT_LEAST, open_args, k)


class _Expansion:
    """The Shannon expansion of one formula; simplified formulas that come up twice are evaluated once."""

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
        self._known: dict[Program, Tails] = {}

    def tails(self, program: Program) -> Tails:
        if program not in self._known:
            counts = p.mentions(program)
            repeated = [name for name, count in counts.items() if count > 1]
            if repeated:
                self._known[program] = self._expand(program, max(repeated, key=lambda name: counts[name]))
            else:
                self._known[program] = self._multiply(program)
        return self._known[program]

    def _expand(self, program: Program, name: str) -> Tails:
        cases = [self.tails(restrict(program, {name: state})) for state in (_FALSE, _BETWEEN, _TRUE)]
        weights = self._state_probs(self._names[name])
        weighted = [(weight * case.reach, weight * case.miss) for weight, case in zip(weights, cases, strict=True)]
        return Tails(*(reduce(torch.add, column) for column in zip(*weighted, strict=True)))

    def _state_probs(self, name: Tails) -> tuple[Tensor, Tensor, Tensor]:
        """P(below both thresholds), P(between them), P(at or above both), for each i."""
        reach, miss = name
        below = torch.where(self._lower_half, miss, miss.flip(-1))
        above = torch.where(self._lower_half, reach.flip(-1), reach)
        between = torch.where(self._lower_half, miss.flip(-1) - miss, miss - miss.flip(-1))
        return below, between.clamp(min=0), above

    def _multiply(self, program: Program) -> Tails:
        """A formula that mentions each name once: its operands are independent."""
        results: list[Tails] = []
        for node in program:
            operands = [results[a] for a in node.args]
            if node.op == p.NAME:
                result = self._names[str(node.value)]
            elif node.op == p.CONSTANT:
                result = self._constants[int(node.value)]
            elif node.op == p.NOT:
                result = _opposite(operands[0])
            elif node.op == p.AND:
                (reach, miss), (other_reach, other_miss) = operands
                result = Tails(reach * other_reach, miss + reach * other_miss)
            elif node.op == p.OR:
                (reach, miss), (other_reach, other_miss) = operands
                result = Tails(reach + miss * other_reach, miss * other_miss)
            else:
                result = _poisson_binomial(int(node.value), operands)
            results.append(result)
        return results[-1]


def _tails_of(probs: Tensor) -> Tails:
    return Tails(tails.at_least(probs)[..., 1:], tails.below(probs)[..., 1:])


def _opposite(operand: Tails) -> Tails:
    return Tails(operand.miss.flip(-1), operand.reach.flip(-1))


def _poisson_binomial(k: int, operands: Sequence[Tails]) -> Tails:
    """P(at least k of the operands reach i) and P(fewer do)."""
    exactly = [torch.ones_like(operands[0].reach)]
    enough = torch.zeros_like(operands[0].reach)
    for reach, miss in operands:
        if len(exactly) == k:
            enough = enough + exactly[-1] * reach
        exactly = godel.count_one_more(exactly, over=reach, under=miss, limit=k)
    return Tails(enough, reduce(torch.add, exactly))


def _distribution(result: Tails) -> Tensor:
    """Probabilities as steps of the tail; of the two tails the smaller one, whose steps are rounded less."""
    pad = torch.nn.functional.pad
    reach, miss = (
        pad(pad(result.reach, (1, 0), value=1.0), (0, 1)),
        pad(pad(result.miss, (1, 0)), (0, 1), value=1.0),
    )
    steps = torch.where(reach[..., :-1] < miss[..., 1:], -reach.diff(dim=-1), miss.diff(dim=-1)).clamp(min=0)
    return steps / steps.sum(-1, keepdim=True)
