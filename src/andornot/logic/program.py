"""A formula as a program: its nodes in the order of evaluation, equal subformulas once, the root last.

A flat list needs no recursion, however long or deep the formula is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

# Of terms and of conditions.
NOT: Final = "not"
AND: Final = "and"
OR: Final = "or"
# Of terms.
NAME: Final = "name"
MINUS: Final = "minus"
AT_LEAST: Final = "at_least"
LIKE: Final = "like"
CONSTANT: Final = "constant"
# Of conditions.
TERM: Final = "term"
WEIGHT: Final = "weight"
POWER: Final = "power"


Value = str | int | float


class Node(NamedTuple):
    """One operation; `args` are the positions of its operands in the program.

    `value` is the text of the atom of a NAME, the k of an AT_LEAST, the state of a CONSTANT; in conditions the number
    of a TERM, from 0, the factor of a WEIGHT, the exponent of a POWER.
    """

    op: str
    args: tuple[int, ...] = ()
    value: Value = 0


Program = tuple[Node, ...]
Result = TypeVar("Result")


class Builder:
    """Collects nodes; a node that is there already is used again."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._position: dict[Node, int] = {}

    def add(self, op: str, args: Iterable[int] = (), value: Value = 0) -> int:
        """Return the index of that node, added if it is new."""
        node = Node(op, tuple(args), value)
        if node not in self._position:
            self._position[node] = len(self.nodes)
            self.nodes.append(node)
        return self._position[node]

    def program(self, root: int) -> Program:
        """Return the nodes that `root` needs, root last."""
        return part(self.nodes, sorted(needed(self.nodes, root)))


def needed(nodes: Sequence[Node], root: int) -> list[int]:
    """Return the indices of the nodes that `root` needs, operands first, root last, in a canonical order."""
    found: dict[int, None] = {}
    waiting = [(root, False)]
    while waiting:
        position, has_operands = waiting.pop()
        if has_operands:
            found[position] = None
        elif position not in found:
            waiting.append((position, True))
            waiting.extend((arg, False) for arg in reversed(nodes[position].args))
    return list(found)


def part(nodes: Sequence[Node], kept: Sequence[int]) -> Program:
    """Return a program of these nodes alone, which need no others."""
    moved = {old: new for new, old in enumerate(kept)}
    return tuple(node._replace(args=tuple(moved[a] for a in node.args)) for node in (nodes[old] for old in kept))


def mentions(program: Program) -> dict[str, int]:
    """Return how often the expanded formula mentions each name."""
    counts = [0] * len(program)
    counts[-1] = 1
    for position in range(len(program) - 1, -1, -1):
        for arg in program[position].args:
            counts[arg] += counts[position]
    return {str(n.value): count for n, count in zip(program, counts, strict=True) if n.op == NAME}


def run(program: Program, apply: Callable[[int, Node, list[Result]], Result]) -> Result:
    """Run a program node by node, and return the result of the root; results are freed after their last use."""
    last_uses = _last_uses(program)
    results: dict[int, Result] = {}
    for position, node in enumerate(program):
        results[position] = apply(position, node, [results[a] for a in node.args])
        for arg in last_uses[position]:
            del results[arg]
    return results[len(program) - 1]


def most_at_once(program: Program) -> int:
    """Return how many results `run` holds in memory at once."""
    last_uses = _last_uses(program)
    now = most = 0
    for position in range(len(program)):
        now += 1
        most = max(most, now)
        now -= len(last_uses[position])
    return most


def _last_uses(program: Program) -> list[list[int]]:
    """Return for each node the operands that are not needed after it."""
    last = {arg: position for position, node in enumerate(program) for arg in node.args}
    uses: list[list[int]] = [[] for _ in program]
    for arg, position in last.items():
        uses[position].append(arg)
    return uses
