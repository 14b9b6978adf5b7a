"""A formula as a program: its nodes in the order of evaluation, without duplicates, root last.

A flat list needs no recursion, even for deeply nested formulas.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from .atoms import write_number

# Operations of terms and of conditions.
NOT: Final = "not"
AND: Final = "and"
OR: Final = "or"
# Operations of terms.
NAME: Final = "name"
MINUS: Final = "minus"
AT_LEAST: Final = "at_least"
LIKE: Final = "like"
CONSTANT: Final = "constant"
# Operations of conditions.
TERM: Final = "term"
WEIGHT: Final = "weight"
POWER: Final = "power"


Value = str | int | float


class Node(NamedTuple):
    """One operation; `args` are the positions of its operands in the program.

    `value` is the text of the atom of a NAME, the k of an AT_LEAST, or the state of a CONSTANT; in conditions, it is
    the index of a TERM, the factor of a WEIGHT, or the exponent of a POWER.
    """

    op: str
    args: tuple[int, ...] = ()
    value: Value = 0


Program = tuple[Node, ...]
Result = TypeVar("Result")


class Builder:
    """A table of nodes without duplicates."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._position: dict[Node, int] = {}

    def add(self, op: str, args: Iterable[int] = (), value: Value = 0) -> int:
        """Return the index of a node, which is added if it is new."""
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
    """Return a program of the given nodes, which must include their operands."""
    moved = {old: new for new, old in enumerate(kept)}
    return tuple(node._replace(args=tuple(moved[a] for a in node.args)) for node in (nodes[old] for old in kept))


def mentions(program: Program) -> dict[str, int]:
    """Return how often the formula, written out without sharing, mentions each name."""
    counts = [0] * len(program)
    counts[-1] = 1
    for position in range(len(program) - 1, -1, -1):
        for arg in program[position].args:
            counts[arg] += counts[position]
    return {str(n.value): count for n, count in zip(program, counts, strict=True) if n.op == NAME}


def run(program: Program, apply: Callable[[int, Node, list[Result]], Result]) -> Result:
    """Run a program and return the result of the root; intermediate results are freed after their last use."""
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
    """Return for each node the operands that are last used by it."""
    last = {arg: position for position, node in enumerate(program) for arg in node.args}
    uses: list[list[int]] = [[] for _ in program]
    for arg, position in last.items():
        uses[position].append(arg)
    return uses


# --- programs as text -------------------------------------------------------------------------------------------------

_OR, _AND, _NOT, _TERM_OR, _TERM_AND, _TERM_NOT, _ATOM = range(1, 8)
_SIGNS: Final = {OR: "|", AND: "&", MINUS: "-"}
# Characters that need no space after them, or before them.
_CLOSING: Final = ")\"']"
_OPENING: Final = "(\"'~"


class _WrittenPiece(NamedTuple):
    text: str
    level: int

    def at(self, level: int) -> str:
        """Return the text, in brackets if it binds less tightly."""
        return self.text if self.level >= level else f"({self.text})"


def write(condition: Program, terms: Sequence[Program], *, roomy: bool) -> str:
    """Return the text of a formula; without `roomy`, as short as possible."""
    if len(condition) == 1:
        return _term(terms[0], roomy).text

    def apply(_: int, node: Node, operands: list[_WrittenPiece]) -> _WrittenPiece:
        if node.op == TERM:
            text, level = _term(terms[int(node.value)], roomy)
            # Write `not a | b` as `not (a | b)`, which is clearer.
            return _WrittenPiece(f"({text})", _ATOM) if roomy and level < _TERM_NOT else _WrittenPiece(text, level)
        if node.op == WEIGHT:
            return _WrittenPiece(f"{_number(float(node.value), roomy)}*{operands[0].at(_TERM_NOT)}", _TERM_OR)
        if node.op == NOT:
            return _WrittenPiece(_spaced("not", operands[0].at(_NOT), roomy), _NOT)
        level = _OR if node.op == OR else _AND
        left = _spaced(operands[0].at(level), node.op, roomy)
        return _WrittenPiece(_spaced(left, operands[1].at(level + 1), roomy), level)

    return run(condition, apply).text


def write_term(program: Program) -> str:
    """Return the text of a term."""
    return _term(program, roomy=True).text


def _term(program: Program, roomy: bool) -> _WrittenPiece:
    space = " " if roomy else ""

    def apply(_: int, node: Node, operands: list[_WrittenPiece]) -> _WrittenPiece:
        if node.op == NAME:
            return _WrittenPiece(str(node.value) if roomy else _tight(str(node.value)), _ATOM)
        if node.op == NOT:
            return _WrittenPiece("~" + operands[0].at(_TERM_NOT), _TERM_NOT)
        if node.op in (AT_LEAST, LIKE):
            count = [str(node.value)] if node.op == AT_LEAST else []
            return _WrittenPiece(f"{node.op}({f',{space}'.join([*count, *(text for text, _ in operands)])})", _ATOM)
        level = _TERM_OR if node.op == OR else _TERM_AND
        left, right = operands[0].at(level), operands[1].at(level + 1)
        sign = space + _SIGNS[node.op] + space
        if node.op == MINUS and not roomy and left[-1] not in _CLOSING and right[0] not in _OPENING:
            sign = " -"
        return _WrittenPiece(left + sign + right, level)

    return run(program, apply)


def _spaced(left: str, right: str, roomy: bool) -> str:
    """Join two texts, with a space if needed."""
    glued = not roomy and (left[-1] in _CLOSING or right[0] in _OPENING)
    return left + ("" if glued else " ") + right


def _number(number: float, roomy: bool) -> str:
    text = write_number(number)
    return text if roomy else text.removeprefix("0")


def _tight(atom: str) -> str:
    """Return an atom in its shortest notation: no redundant spaces or digits in its crop, fewest escapes in names."""
    name, bracket, crop = atom.rpartition("[")
    if not crop.endswith("]"):
        return _fewest_escapes(atom)
    numbers = (number.removeprefix("0") if number != "0" else number for number in crop[:-1].split(", "))
    return f"{_fewest_escapes(name)}{bracket}{','.join(numbers)}]"


def _fewest_escapes(atom: str) -> str:
    """Return a name in double quotes, or in single quotes if that is shorter."""
    kind, quote, rest = atom.partition('"')
    if not quote:
        return atom
    single = rest[:-1].replace("'", "\\'").replace('\\"', '"')
    return min(atom, f"{kind}'{single}'", key=len)
