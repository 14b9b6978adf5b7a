"""The plan of `exact` semantics: how a formula is made of independent parts, found before any tensor is computed.

A name that operands share is replaced by each of its three states in turn, and the formula simplified by the laws of
the lattice (a Shannon expansion); operands that share no name are independent. All formulas are nodes of one table,
which has each of them once: what comes up twice is planned once, and evaluated once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final

from . import program as p
from .program import Builder, Node, Program, Value

FALSE: Final = 0
BETWEEN: Final = 1
TRUE: Final = 2
# An operation of plans: `args` are the three cases, and `value` is the name whose states have their probabilities.
EXPAND: Final = "expand"

# Told of every node that a plan gets (None: one that was only looked at), and of the share of all cases done before.
Spend = Callable[[Node | None, float], None]


def expand(program: Program, spend: Spend) -> Program:
    """Return the plan of a formula: operands share no name, except in EXPAND. `spend` may raise to stop it."""
    return _Expansion(program, spend).plan()


class _Expansion:
    def __init__(self, program: Program, spend: Spend) -> None:
        self._spend, self._done = spend, 0.0
        self._table = Builder()
        names = dict.fromkeys(str(node.value) for node in program if node.op == p.NAME)
        self._bits = {name: 1 << number for number, name in enumerate(names)}
        # Of each node its names, as bits, and how often it mentions them.
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
        """Return the node that computes a formula, which is a `share` of all there is to plan."""
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
        """Return what has to be planned for a formula, operands first; and those of it whose operands share a name."""
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
        # One after the other: a case is planned, and later evaluated, before the next one is begun.
        cases = [self._plan(self._restrict(index, name, state), share / 3) for state in (FALSE, BETWEEN, TRUE)]
        return self._planned_node(EXPAND, cases, name)

    def _planned_node(self, op: str, args: Sequence[int], value: Value) -> int:
        self._spend(Node(op, tuple(args), value), self._done)
        return self._add(op, args, value)

    def _restrict(self, root: int, name: str, state: int) -> int:
        """Return the formula with a state in a name's place, simplified."""
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
    """Return the bits that are in more than one of them."""
    seen = twice = 0
    for mask in masks:
        twice |= seen & mask
        seen |= mask
    return twice
