"""`exact` semantics for Gödel logic: every mention of a name is the same random variable.

For a threshold i of 1 … M-1, the event `f ≥ i` is a Boolean formula over the events `A ≥ i` and `A ≥ M-i` (NOT turns
one into the other). So a name has three relevant states: below both thresholds (0), between them (½), and at or
above both (1), which combine like truth values of Kleene's three-valued logic. A name that occurs more than once is
replaced by each of its states in turn, and the results are weighted with the probabilities of the states. Everything
else is independent, so probabilities multiply.

The plan is made before any tensor is computed: a name that operands share is replaced by each of its three states, and
the formula is simplified by the laws of the lattice (a Shannon expansion); operands that share no name are independent.
All formulas are nodes of one table without duplicates, so common subformulas are planned and evaluated once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import torch
from torch import Tensor

from . import godel, tails
from . import program as p
from .program import Builder, Node, Program, Value


class Tails(NamedTuple):
    """P(f ≥ i) and P(f < i) for i = 1 … M-1, `(..., M-1)` each; storing both avoids cancellation in `1 - P`."""

    reach: Tensor
    miss: Tensor


def evaluate(plan: Program, probs: Mapping[str, Tensor]) -> Tensor:
    """Return the distribution `(..., N, M)` of a planned formula from those of its names."""
    evaluation = _Evaluation(probs)
    return _distribution(p.run(plan, evaluation.apply))


def passes(node: Node) -> int:
    """Estimate the number of operations on tensors `(..., N, M-1)` for a node of a plan."""
    if node.op == p.AT_LEAST:
        k = int(node.value)
        return sum(2 * min(count, k) for count in range(1, len(node.args) + 1)) + k
    return {p.NAME: 0, p.CONSTANT: 0, p.NOT: 2, EXPAND: 6}.get(node.op, 3)


class _Evaluation:
    def __init__(self, probs: Mapping[str, Tensor]) -> None:
        self._names = {name: _tails_of(values) for name, values in probs.items()}
        any_name = next(iter(self._names.values())).reach
        index = torch.arange(1, any_name.shape[-1] + 1, device=any_name.device)
        # In the first half, i is the lower of the thresholds i and M-i, so the state between them reaches it.
        self._lower_half = 2 * index <= any_name.shape[-1] + 1
        self._constants = [
            Tails(reach.to(any_name.dtype), (~reach).to(any_name.dtype))
            for reach in (torch.zeros_like(index).bool(), self._lower_half, torch.ones_like(index).bool())
        ]
        self._states: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    def apply(self, _: int, node: Node, operands: list[Tails]) -> Tails:
        """Return the tails of a node from those of its operands, which are independent."""
        if node.op == p.NAME:
            return self._names[str(node.value)]
        if node.op == p.CONSTANT:
            return self._constants[int(node.value)]
        if node.op == p.NOT:
            return Tails(operands[0].miss.flip(-1), operands[0].reach.flip(-1))
        if node.op == p.AT_LEAST:
            return _poisson_binomial(int(node.value), operands)
        if node.op == EXPAND:
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
        # The only subtraction in this module: results of the size of rounding errors are set to 0.
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
    """Return probabilities as differences of the smaller of the two tails, which has smaller rounding errors."""
    pad = torch.nn.functional.pad
    reach, miss = (
        pad(pad(result.reach, (1, 0), value=1.0), (0, 1)),
        pad(pad(result.miss, (1, 0)), (0, 1), value=1.0),
    )
    steps = torch.where(reach[..., :-1] < miss[..., 1:], -reach.diff(dim=-1), miss.diff(dim=-1)).clamp(min=0)
    return steps / steps.sum(-1, keepdim=True)


# --- plans ------------------------------------------------------------------------------------------------------------

FALSE: Final = 0
BETWEEN: Final = 1
TRUE: Final = 2
# An operation of plans: `args` are the three cases, weighted by the probabilities of the states of the name `value`.
EXPAND: Final = "expand"

# Called for every node of a plan (None: a node that was only visited), with the fraction of cases done so far.
Spend = Callable[[Node | None, float], None]


def expand(program: Program, spend: Spend) -> Program:
    """Return the plan of a formula, where only operands of EXPAND share names. `spend` may raise to stop planning."""
    return _Expansion(program, spend).plan()


class _Expansion:
    def __init__(self, program: Program, spend: Spend) -> None:
        self._spend, self._done = spend, 0.0
        self._table = Builder()
        names = dict.fromkeys(str(node.value) for node in program if node.op == p.NAME)
        self._bits = {name: 1 << number for number, name in enumerate(names)}
        # For each node, its names as a bit mask, and how often it mentions them.
        self._names: list[int] = []
        self._mentions: list[dict[str, int]] = []
        self._restricted: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self._planned: dict[int, int] = {}
        moved: list[int] = []
        for node in program:
            moved.append(self._simplified(node, [moved[a] for a in node.args]))
        self._root = moved[-1]

    def plan(self) -> Program:
        return self._table.program(self._plan(self._root, 1.0))

    def _plan(self, root: int, share: float) -> int:
        """Return the node that computes a formula; `share` is its fraction of all cases."""
        needed, shared = self._down_to_shared_names(root)
        for index in needed:
            if index in shared:
                self._planned[index] = self._expanded(index, share / len(shared))
            else:
                op, args, value = self._table.nodes[index]
                self._planned[index] = self._planned_node(op, [self._planned[a] for a in args], value)
        if not shared:
            self._done += share
        return self._planned[root]

    def _down_to_shared_names(self, root: int) -> tuple[list[int], set[int]]:
        """Return the nodes to plan for a formula, operands first, and those of them whose operands share a name."""
        needed, shared, waiting = set[int](), set[int](), [root]
        while waiting:
            index = waiting.pop()
            if index in self._planned or index in needed:
                continue
            needed.add(index)
            args = self._table.nodes[index].args
            if _overlap(self._names[a] for a in args):
                shared.add(index)
            else:
                waiting.extend(args)
        return sorted(needed), shared

    def _expanded(self, index: int, share: float) -> int:
        overlap = _overlap(self._names[a] for a in self._table.nodes[index].args)
        mentions = self._mentions[index]
        name = max((name for name in mentions if self._bits[name] & overlap), key=mentions.__getitem__)
        # Plan one case completely before the next one: cases are later evaluated in this order.
        cases = [self._plan(self._restrict(index, name, state), share / 3) for state in (FALSE, BETWEEN, TRUE)]
        return self._planned_node(EXPAND, cases, name)

    def _planned_node(self, op: str, args: Sequence[int], value: Value) -> int:
        self._spend(Node(op, tuple(args), value), self._done)
        return self._add(op, args, value)

    def _restrict(self, root: int, name: str, state: int) -> int:
        """Replace a name by a state and return the simplified formula."""
        moved = self._restricted[name, state]
        for index in self._that_mention(root, name, moved):
            self._spend(None, self._done)
            node = self._table.nodes[index]
            if node.op == p.NAME:
                moved[index] = self._add(p.CONSTANT, (), state)
            else:
                moved[index] = self._simplified(node, [moved.get(a, a) for a in node.args])
        return moved[root]

    def _that_mention(self, root: int, name: str, known: dict[int, int]) -> list[int]:
        found, waiting = set[int](), [root]
        while waiting:
            index = waiting.pop()
            if index not in found and index not in known and self._names[index] & self._bits[name]:
                found.add(index)
                waiting.extend(self._table.nodes[index].args)
        return sorted(found)

    def _add(self, op: str, args: Sequence[int] = (), value: Value = 0) -> int:
        index = self._table.add(op, args, value)
        if index == len(self._names):
            mentions = {str(value): 1} if op == p.NAME else {}
            names = self._bits[str(value)] if op == p.NAME else 0
            for arg in args:
                names |= self._names[arg]
                for name, count in self._mentions[arg].items():
                    mentions[name] = mentions.get(name, 0) + count
            self._names.append(names)
            self._mentions.append(mentions)
        return index

    # --- the laws of the lattice ------------------------------------------------------------------------------------

    def _simplified(self, node: Node, args: list[int]) -> int:
        if node.op == p.NOT:
            return self._not(args[0])
        if node.op in (p.AND, p.OR):
            return self._and_or(node.op, *args)
        if node.op == p.AT_LEAST:
            return self._at_least(int(node.value), args)
        return self._add(node.op, args, node.value)

    def _not(self, arg: int) -> int:
        op, args, value = self._table.nodes[arg]
        if op == p.CONSTANT:
            return self._add(p.CONSTANT, value=TRUE - int(value))
        return args[0] if op == p.NOT else self._add(p.NOT, (arg,))

    def _and_or(self, op: str, left: int, right: int) -> int:
        absorbing, neutral = (FALSE, TRUE) if op == p.AND else (TRUE, FALSE)
        if left == right:
            return left
        for arg, other in ((left, right), (right, left)):
            if (constant := self._constant(arg)) is not None:
                if constant == absorbing:
                    return arg
                if constant == neutral:
                    return other
        return self._add(op, (left, right))

    def _at_least(self, k: int, args: Sequence[int]) -> int:
        constants = [self._constant(arg) for arg in args]
        k -= constants.count(TRUE)
        open_args = [arg for arg, constant in zip(args, constants, strict=True) if constant not in (TRUE, FALSE)]
        if k <= 0 or k > len(open_args):
            return self._add(p.CONSTANT, value=TRUE if k <= 0 else FALSE)
        if k in (1, len(open_args)):
            op = p.OR if k == 1 else p.AND
            return reduce(lambda left, right: self._and_or(op, left, right), open_args)
        return self._add(p.AT_LEAST, open_args, k)

    def _constant(self, index: int) -> int | None:
        node = self._table.nodes[index]
        return int(node.value) if node.op == p.CONSTANT else None


def _overlap(masks: Iterable[int]) -> int:
    """Return the bits that are set in more than one mask."""
    seen = twice = 0
    for mask in masks:
        twice |= seen & mask
        seen |= mask
    return twice
