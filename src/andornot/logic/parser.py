"""From the text of a query to a program, with errors that point at the spot. Nothing is ever evaluated as code.

    formula  = term { ("|" | "or") term }
    term     = factor { ("&" | "and" | "-") factor }
    factor   = ("~" | "!" | "not") factor | "(" formula ")" | "at_least" "(" k { "," formula } ")" | name

Operator stacks instead of recursive descent, which would end in a RecursionError on deep nesting.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..errors import AndornotError
from . import program as p
from .program import Builder, Program

MAX_CHARACTERS: Final = 10_000
MAX_NESTING: Final = 200

_WORDS: Final = {"and": "&", "or": "|", "not": "~"}
_BINARY: Final = {"|": (1, p.OR), "&": (2, p.AND), "-": (2, p.MINUS)}
_SHOWN_CHARACTERS: Final = 70


class FormulaError(AndornotError):
    """A formula that cannot be read or evaluated: `message`, and the `position` in `text` it speaks of."""

    def __init__(self, message: str, text: str, position: int) -> None:
        self.message = message
        self.text = text
        self.position = position
        # With the formula below, and a mark: the one error of more than a line.
        ValueError.__init__(self, f"{message}\n{_pointed_at(text, position)}")

    def __reduce__(self) -> tuple[type["FormulaError"], tuple[str, str, int]]:
        return type(self), (self.message, self.text, self.position)

    @property
    def length(self) -> int:
        """How many characters the piece of the text at that position has; 0 at the end."""
        try:
            return next((token.end - token.start for token in tokens(self.text) if token.start == self.position), 1)
        except FormulaError:  # a text that is no row of pieces
            return 1


class Token(NamedTuple):
    """A piece of the text: `kind` is one of `| & - ~ ( ) ,`, "name", "at_least" or "end"."""

    kind: str
    start: int
    end: int
    name: str = ""


class Mention(NamedTuple):
    """A name in a formula, from the character `start` up to `end`, which is the first one behind it."""

    name: str
    start: int
    end: int


class Parsed(NamedTuple):
    """The program, every mention of a name in the order of the text, and where each operation stands first."""

    program: Program
    mentions: tuple[Mention, ...]
    positions: dict[int, int]


def parse(text: str) -> Parsed:
    """Reads a formula, or raises a FormulaError."""
    if len(text) > MAX_CHARACTERS:
        message = f"the formula has {len(text):,} characters, more than {MAX_CHARACTERS:,}"
        raise FormulaError(message, text, MAX_CHARACTERS)
    return _Parser(text).parse()


def is_bare(name: str) -> bool:
    """Whether a name can stand in a formula without quotes."""
    return (
        bool(name)
        and _is_name_character(name[0])
        and _end_of_bare_name(name, 0) == len(name)
        and name.lower() not in (*_WORDS, p.AT_LEAST)
    )


def _is_name_character(character: str) -> bool:
    # Combining marks belong to letters: file names on some systems have é as e and an accent.
    return character.isalnum() or character in "_./" or unicodedata.category(character).startswith("M")


def _end_of_bare_name(text: str, start: int) -> int:
    """A bare name goes on over name characters, and over `-` that has name characters on both sides."""
    end = start
    while end < len(text):
        after = end
        while after < len(text) and text[after] == "-":
            after += 1
        if after == len(text) or not _is_name_character(text[after]):
            break
        end = after + 1
    return end


def tokens(text: str) -> Iterator[Token]:
    """The pieces of a text, in its order."""
    position = 0
    while position < len(text):
        character = text[position]
        if character.isspace():
            position += 1
        elif character in "|&-~!(),":
            yield Token("~" if character == "!" else character, position, position + 1)
            position += 1
        elif character in "\"'":
            token = _quoted(text, position)
            yield token
            position = token.end
        elif _is_name_character(character):
            end = _end_of_bare_name(text, position)
            word = text[position:end]
            if word.lower() == p.AT_LEAST and text[end:].lstrip().startswith("("):
                yield Token(p.AT_LEAST, position, end)
            else:
                yield Token(_WORDS.get(word.lower(), "name"), position, end, word)
            position = end
        else:
            message = f'unexpected {_quote(character)}; a name with such a character goes in quotes: "…"'
            raise FormulaError(message, text, position)
    yield Token("end", len(text), len(text))


def _quoted(text: str, start: int) -> Token:
    name: list[str] = []
    position = start + 1
    while position < len(text):
        character = text[position]
        if character == text[start]:
            if not name:
                raise FormulaError("a name cannot be empty", text, start)
            return Token("name", start, position + 1, "".join(name))
        if character == "\\":
            position += 1
            if position == len(text) or text[position] not in "\\\"'":
                raise FormulaError(
                    "in quotes \\ stands only before \", ' or \\; write \\\\ for one", text, position - 1
                )
        name.append(text[position])
        position += 1
    raise FormulaError("this quote is never closed", text, start)


class _Pending(NamedTuple):
    """An operator or bracket that waits for its operands; `operands` is how many were there before it."""

    kind: str
    position: int
    operands: int
    k: int = 0


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._next = 0
        self._builder = Builder()
        self._operands: list[int] = []
        self._pending: list[_Pending] = []
        self._nesting = 0
        self._mentions: list[Mention] = []
        self._positions: dict[int, int] = {}

    def parse(self) -> Parsed:
        while True:
            self._read_operand()
            if self._read_operator().kind == "end":
                return Parsed(self._builder.program(self._operands[0]), tuple(self._mentions), self._positions)

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _read_operand(self) -> None:
        """Reads up to and including one name, with the NOTs and opening brackets before it."""
        while True:
            token = self._take()
            if token.kind == "name":
                self._mentions.append(Mention(token.name, token.start, token.end))
                self._operands.append(self._add(token.start, p.NAME, (), token.name))
                return
            if token.kind in ("~", "("):
                self._push(token)
            elif token.kind == p.AT_LEAST:
                self._take()
                self._push(token, self._read_count())
            else:
                self._refuse_operand(token)

    def _read_operator(self) -> Token:
        """Reads the closing brackets after an operand, and the operator or comma or end that follows."""
        while True:
            token = self._take()
            if token.kind in _BINARY:
                self._apply_pending(_BINARY[token.kind][0])
                self._pending.append(_Pending(token.kind, token.start, len(self._operands)))
                return token
            if token.kind not in (")", ",", "end"):
                self._refuse_operator(token)
            self._apply_pending(0)
            bracket = self._pending[-1] if self._pending else None
            if token.kind == "end":
                if bracket:
                    raise FormulaError('this "(" is never closed', self._text, self._opening(bracket))
                return token
            if token.kind == ",":
                if not bracket or bracket.kind != p.AT_LEAST:
                    raise FormulaError('"," stands only between the operands of at_least', self._text, token.start)
                return token
            if not bracket:
                raise FormulaError('this ")" closes nothing', self._text, token.start)
            self._close(bracket)

    def _push(self, token: Token, k: int = 0) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise FormulaError(f"nested deeper than {MAX_NESTING} levels", self._text, token.start)
        self._pending.append(_Pending(token.kind, token.start, len(self._operands), k))

    def _apply_pending(self, precedence: int) -> None:
        """Applies the operators that bind at least as strongly as what comes next, back to a bracket."""
        while self._pending and self._pending[-1].kind not in ("(", p.AT_LEAST):
            kind, position, *_ = self._pending[-1]
            if kind == "~":
                self._nesting -= 1
                self._operands.append(self._add(position, p.NOT, (self._operands.pop(),)))
            elif _BINARY[kind][0] >= precedence:
                right, left = self._operands.pop(), self._operands.pop()
                self._operands.append(self._add(position, _BINARY[kind][1], (left, right)))
            else:
                return
            self._pending.pop()

    def _close(self, bracket: _Pending) -> None:
        self._pending.pop()
        self._nesting -= 1
        if bracket.kind == p.AT_LEAST:
            args = self._operands[bracket.operands :]
            if bracket.k > len(args):
                message = f"at_least({bracket.k}, …) needs {bracket.k} operands or more, and has {len(args)}"
                raise FormulaError(message, self._text, bracket.position)
            del self._operands[bracket.operands :]
            self._operands.append(self._add(bracket.position, p.AT_LEAST, args, bracket.k))

    def _add(self, position: int, op: str, args: tuple[int, ...] | list[int], value: str | int = 0) -> int:
        index = self._builder.add(op, args, value)
        self._positions.setdefault(index, position)
        return index

    def _read_count(self) -> int:
        token = self._take()
        if not (token.name.isascii() and token.name.isdigit() and 1 <= int(token.name[:9]) <= MAX_CHARACTERS):
            message = "at_least takes a whole number from 1 first: at_least(2, a, b, c)"
            raise FormulaError(message, self._text, token.start)
        comma = self._take()
        if comma.kind != ",":
            message = f'expected ", " and the operands: at_least({token.name}, a, b, c)'
            raise FormulaError(message, self._text, comma.start)
        return int(token.name)

    def _opening(self, bracket: _Pending) -> int:
        return self._text.index("(", bracket.position)

    def _refuse_operand(self, token: Token) -> None:
        before = self._tokens[self._next - 2] if self._next > 1 else None
        if len(self._tokens) == 1:
            message = "the formula is empty; a name of a picture is one"
        elif before and before.kind == token.kind and token.kind in "&|" and before.end == token.start:
            message = f'write "{token.kind}" once'
        else:
            message = f'expected a name, "~" or "(", found {self._describe(token)}'
            if token.kind == "-":
                message += ', which stands between two operands (NOT is "~")'
        raise FormulaError(message, self._text, token.start)

    def _refuse_operator(self, token: Token) -> None:
        message = f'expected "&", "|" or "-" before {self._describe(token)}'
        before = self._tokens[self._next - 2]
        if before.kind == token.kind == "name":
            message += f"; if {_quote(self._text[before.start : token.end])} is one name, put it in quotes"
        raise FormulaError(message, self._text, token.start)

    def _describe(self, token: Token) -> str:
        return "the end" if token.kind == "end" else _quote(self._text[token.start : token.end])


def _quote(text: str) -> str:
    return f'"{_printable(text)}"'


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _pointed_at(text: str, position: int) -> str:
    """The text around the position on one line, and a caret under it on the next."""
    start = max(0, min(position - _SHOWN_CHARACTERS // 2, len(text) - _SHOWN_CHARACTERS))
    end = start + _SHOWN_CHARACTERS
    before, after = _printable(text[start:position]), _printable(text[position:end])
    dots = "…" if start > 0 else ""
    return f"  {dots}{before}{after}{'…' if end < len(text) else ''}\n  {' ' * _columns(dots + before)}^"


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
