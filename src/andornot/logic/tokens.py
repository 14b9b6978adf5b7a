"""The pieces of a formula's text, and the error that points at one of them."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..errors import AndornotError, printable
from .atoms import RESERVED, end_of_bare_name, is_name_character

_SIGNS: Final = "|&-~!(),[]*:"
_SHOWN_CHARACTERS: Final = 70


class FormulaError(AndornotError):
    """A formula that cannot be read or evaluated: `message`, and the `position` in `text` it speaks of.

    `nearest` are names that may have been meant by one that stands for nothing.
    """

    def __init__(self, message: str, text: str, position: int, nearest: Sequence[str] = ()) -> None:
        self.message = message = printable(message)
        self.text = text
        self.position = position
        self.nearest = tuple(nearest)
        # With the formula below, and a mark: the one error of more than a line.
        ValueError.__init__(self, f"{message}\n{_pointed_at(text, position)}" if text.strip() else message)

    def __reduce__(self) -> tuple[type["FormulaError"], tuple[str, str, int, tuple[str, ...]]]:
        return type(self), (self.message, self.text, self.position, self.nearest)

    @property
    def length(self) -> int:
        """How many characters the piece of the text at that position has; 0 at the end."""
        try:
            return next((token.end - token.start for token in tokens(self.text) if token.start == self.position), 1)
        except FormulaError:  # a text that is no row of pieces
            return 1


class Token(NamedTuple):
    """A piece of the text: `kind` is a sign, one of the words that are no names, "name" or "end"."""

    kind: str
    start: int
    end: int
    name: str = ""
    is_quoted: bool = False


def tokens(text: str) -> Iterator[Token]:
    """The pieces of a text, in its order."""
    position = 0
    while position < len(text):
        character = text[position]
        if character.isspace():
            position += 1
        elif character in _SIGNS:
            yield Token("~" if character == "!" else character, position, position + 1)
            position += 1
        elif character in "\"'":
            token = _quoted(text, position)
            yield token
            position = token.end
        elif is_name_character(character):
            end = end_of_bare_name(text, position)
            word = text[position:end]
            yield Token(word.lower() if word.lower() in RESERVED else "name", position, end, word)
            position = end
        else:
            meant = ' write "and";' if character == "+" else ""
            message = f'unexpected {quote(character)};{meant} a name with such a character goes in quotes: "…"'
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
            return Token("name", start, position + 1, "".join(name), is_quoted=True)
        if character == "\\":
            position += 1
            if position == len(text) or text[position] not in "\\\"'":
                raise FormulaError(
                    "in quotes \\ stands only before \", ' or \\; write \\\\ for one", text, position - 1
                )
        name.append(text[position])
        position += 1
    apostrophe = "; a name with ' in it goes in double quotes" if text[start] == "'" else ""
    raise FormulaError(f"this quote is never closed{apostrophe}", text, start)


def quote(text: str) -> str:
    """A piece of a formula as it stands in a message, in the quotes that it does not have itself."""
    mark = "'" if '"' in text else '"'
    return f"{mark}{_printable(text)}{mark}"


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
