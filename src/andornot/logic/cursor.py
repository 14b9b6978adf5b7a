"""Completion: find what may be typed at a cursor in a formula, and the part of the text that it replaces."""

import re
from typing import Final, Literal, NamedTuple

from .atoms import KINDS, RESERVED
from .tokens import FormulaError, Token, tokens

_LISTS: Final = ("like", "at_least")
_ENDS_OPERAND: Final = ("name", ")", "]")


class Spot(NamedTuple):
    """A part of a text from `start` to `end` that a completion replaces; the cursor is in it or right after it.

    `beginning` is the name up to the cursor, without quotes. `expects` says what may be typed there (after an operand,
    only an operator). `kind` is "word" or "image" after `word:` and `image:`. `in_list` is true within the brackets of
    `like` and `at_least`.
    """

    start: int
    end: int
    beginning: str
    expects: Literal["operand", "operator"]
    kind: str = ""
    in_list: bool = False


def spots(text: str, cursor: int) -> list[Spot]:
    """Return the spots at a cursor, longest first: `polar b` may be the beginning of one name or of two.

    >>> [spot.beginning for spot in spots("dog and polar b", 15)]
    ['polar b', 'b']
    >>> spots('dog and word:"pol', 17)
    [Spot(start=13, end=17, beginning='pol', expects='operand', kind='word', in_list=False)]
    >>> spots("a.jpg[0, 0", 10)
    []
    """
    pieces = _pieces(text)
    here = next((piece for piece in pieces if _is_typed(piece, cursor)), None)
    if here is None and any(piece.is_quoted and piece.end == cursor for piece in pieces):
        return []
    start, end = (here.start, min(here.end, len(text))) if here is not None else (cursor, cursor)
    before = [piece for piece in pieces if piece.end <= start]
    brackets = _open_brackets(before)
    if "[" in brackets:
        return []
    kind = ""
    if len(before) > 1 and before[-1].kind == ":" and before[-2].name in KINDS:
        kind, before = before[-2].name, before[:-2]
    last = before[-1].kind if before else ""
    if last == "(" and brackets[-1] == "at_least":
        return []  # a number is expected
    in_list = bool(brackets) and brackets[-1] in _LISTS
    spot = Spot(
        start, end, _beginning(text, here, cursor), "operator" if last in _ENDS_OPERAND else "operand", kind, in_list
    )
    found = [spot]
    # A space ends a name; a `-` right after it may be part of it.
    goes_on = not here.is_quoted if here is not None else bool(before) and before[-1].kind == "-"
    if goes_on and not kind:
        longer = _start_of_names(before, start)
        if longer < start:
            found.insert(0, Spot(longer, end, text[longer:cursor], "operand", "", in_list))
    return found


def _is_typed(piece: Token, cursor: int) -> bool:
    """Return whether the cursor is in a name or right after it."""
    is_name = piece.kind == "name" or piece.kind in RESERVED
    return is_name and piece.start < cursor and (cursor < piece.end if piece.is_quoted else cursor <= piece.end)


def _beginning(text: str, here: Token | None, cursor: int) -> str:
    if here is None:
        return ""
    if text[here.start] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[here.start + 1 : cursor])
    return text[here.start : cursor]


def _start_of_names(before: list[Token], start: int) -> int:
    """Return the start of the preceding names that are separated by spaces or by a `-` without spaces."""
    for place in range(len(before) - 1, -1, -1):
        piece = before[place]
        is_glued = piece.kind == "-" and piece.end == start and place and before[place - 1].end == piece.start
        if not is_glued and (piece.kind != "name" or piece.is_quoted):
            break
        start = piece.start
    return start


def _open_brackets(before: list[Token]) -> list[str]:
    """Return for each open bracket the function before it (`like` or `at_least`), or the bracket itself."""
    brackets: list[str] = []
    for place, piece in enumerate(before):
        if piece.kind in ("(", "["):
            owner = before[place - 1].kind if place else ""
            brackets.append(owner if piece.kind == "(" and owner in _LISTS else piece.kind)
        elif piece.kind in (")", "]") and brackets:
            brackets.pop()
    return brackets


def _pieces(text: str) -> list[Token]:
    """Tokenize a text that may be invalid: skip invalid characters; an unclosed quote extends to the end."""
    pieces: list[Token] = []
    position = 0
    while position < len(text):
        try:
            for token in tokens(text[position:]):
                pieces.append(token._replace(start=token.start + position, end=token.end + position))
        except FormulaError:
            rest = pieces[-1].end if pieces and pieces[-1].end > position else position
            while text[rest].isspace():
                rest += 1
            if text[rest] in "\"'" and text[rest : rest + 2] != 2 * text[rest]:
                # End the token after the text, so that a cursor at the end is still in it.
                pieces.append(Token("name", rest, len(text) + 1, is_quoted=True))
                break
            position = rest + 1
        else:
            break
    return [piece for piece in pieces if piece.kind != "end"]
