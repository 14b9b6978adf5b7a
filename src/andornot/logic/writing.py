"""From programs back to text, the one usual way to write them: it is read as the same program."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from . import program as p
from .atoms import write_number
from .program import Node, Program

_OR, _AND, _NOT, _TERM_OR, _TERM_AND, _TERM_NOT, _ATOM = range(1, 8)
_SIGNS: Final = {p.OR: "|", p.AND: "&", p.MINUS: "-"}
# What needs no space after it, and before it.
_CLOSING: Final = ")\"']"
_OPENING: Final = "(\"'~"


class _Piece(NamedTuple):
    text: str
    level: int

    def at(self, level: int) -> str:
        """Return the text, in brackets if it binds less tightly."""
        return self.text if self.level >= level else f"({self.text})"


def write(condition: Program, terms: Sequence[Program], *, roomy: bool) -> str:
    """Return the text of a formula; without `roomy` as short as possible."""
    if len(condition) == 1:
        return _term(terms[0], roomy).text

    def apply(_: int, node: Node, operands: list[_Piece]) -> _Piece:
        if node.op == p.TERM:
            text, level = _term(terms[int(node.value)], roomy)
            # `not a | b` is `not (a | b)`: people need not know.
            return _Piece(f"({text})", _ATOM) if roomy and level < _TERM_NOT else _Piece(text, level)
        if node.op == p.WEIGHT:
            return _Piece(f"{_number(float(node.value), roomy)}*{operands[0].at(_TERM_NOT)}", _TERM_OR)
        if node.op == p.NOT:
            return _Piece(_spaced("not", operands[0].at(_NOT), roomy), _NOT)
        level = _OR if node.op == p.OR else _AND
        left = _spaced(operands[0].at(level), node.op, roomy)
        return _Piece(_spaced(left, operands[1].at(level + 1), roomy), level)

    return p.run(condition, apply).text


def write_term(program: Program) -> str:
    """Return the text of a term."""
    return _term(program, roomy=True).text


def _term(program: Program, roomy: bool) -> _Piece:
    space = " " if roomy else ""

    def apply(_: int, node: Node, operands: list[_Piece]) -> _Piece:
        if node.op == p.NAME:
            return _Piece(str(node.value) if roomy else _tight(str(node.value)), _ATOM)
        if node.op == p.NOT:
            return _Piece("~" + operands[0].at(_TERM_NOT), _TERM_NOT)
        if node.op in (p.AT_LEAST, p.LIKE):
            count = [str(node.value)] if node.op == p.AT_LEAST else []
            return _Piece(f"{node.op}({f',{space}'.join([*count, *(text for text, _ in operands)])})", _ATOM)
        level = _TERM_OR if node.op == p.OR else _TERM_AND
        left, right = operands[0].at(level), operands[1].at(level + 1)
        sign = space + _SIGNS[node.op] + space
        if node.op == p.MINUS and not roomy and left[-1] not in _CLOSING and right[0] not in _OPENING:
            sign = " -"
        return _Piece(left + sign + right, level)

    return p.run(program, apply)


def _spaced(left: str, right: str, roomy: bool) -> str:
    """Join two texts, with a space if needed."""
    glued = not roomy and (left[-1] in _CLOSING or right[0] in _OPENING)
    return left + ("" if glued else " ") + right


def _number(number: float, roomy: bool) -> str:
    text = write_number(number)
    return text if roomy else text.removeprefix("0")


def _tight(atom: str) -> str:
    """Return an atom without needless spaces or digits in its crop, and with the fewest escapes in its name."""
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
