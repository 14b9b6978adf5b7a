"""Tokens of a formula, and `FormulaError`, which points at one of them."""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from ..errors import AndornotError, printable
from .atoms import KINDS, RESERVED, end_of_bare_name, is_name_character

_SIGNS: Final = "|&-~!(),[]*:"
_SHOWN_CHARACTERS: Final = 70


# Kinds of mistakes in a formula. Programs should check these codes; messages may change.
FormulaErrorCode = Literal[
    "ambiguous-name",  # several images have this name
    "bad-at-least-count",  # at_least needs an integer, and at least that many operands
    "bad-crop",  # not four numbers, outside of the image, or empty
    "bad-escape",  # in quotes, \\ is only allowed before ", ' or \\
    "bad-kind",  # something other than word: or image: before a name
    "bad-weight",  # not a number, out of range, or not before a term
    "broken-definition",  # a defined name that can no longer be expanded
    "condition-in-term",  # `and`, `or`, `not` or a weight inside `&`, `|`, `~`, like(…) or at_least(…)
    "crop-of-word",  # only images can be cropped
    "duplicate-operator",  # `&&` and `||`
    "empty-formula",
    "empty-name",
    "empty-query",  # nothing is left to search for, as in `a - a`
    "invalid-name",  # a name that is known, but cannot be used here
    "missing-operand",  # a name or "(" was expected
    "missing-operator",  # two names without an operator between them
    "missing-value",  # no representation or truth is given for a name or term
    "too-deep",
    "too-expensive",  # evaluation would take too long
    "too-long",
    "too-many-crops",
    "too-many-names",
    "unclosed-bracket",
    "unclosed-quote",
    "unexpected-character",
    "unexpected-comma",
    "unknown-name",
    "unknown-word",
    "unmatched-bracket",
    "unsupported",  # the chosen logic or semantics cannot evaluate this
]


class FormulaError(AndornotError):
    """Raised for a formula that cannot be parsed or evaluated.

    `code` is the kind of mistake, `message` a one-line description, `span` the wrong part of `text`, and `suggestions`
    are known names similar to an unknown one.
    """

    def __init__(
        self, message: str, text: str, position: int, suggestions: Sequence[str] = (), *, code: FormulaErrorCode
    ) -> None:
        self.code: FormulaErrorCode = code
        self.message = message = printable(message)
        self.text = text
        self.position = position
        self.suggestions = tuple(suggestions)
        # Show the formula and a caret on the lines below the message.
        ValueError.__init__(self, f"{message}\n{_pointed_at(text, position)}" if text.strip() else message)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), code=self.code), (self.message, self.text, self.position, self.suggestions)

    @property
    def span(self) -> tuple[int, int]:
        """The start and end of the wrong token in the text; empty at the end of the text.

        `word:` and `image:` belong to the token of their name.
        """
        start = self.position
        try:
            found = [token for token in tokens(self.text) if token.start >= start]
        except FormulaError:  # the text cannot be tokenized
            return start, start + 1
        if not found or found[0].start != start:
            return start, start + 1
        is_kind = not found[0].is_quoted and found[0].name.lower() in KINDS
        if is_kind and [token.kind for token in found[1:3]] == [":", "name"]:
            return start, found[2].end
        return start, found[0].end


class Token(NamedTuple):
    """A token: `kind` is a sign, a reserved word, "name" or "end"."""

    kind: str
    start: int
    end: int
    name: str = ""
    is_quoted: bool = False


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in order."""
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
            raise FormulaError(message, text, position, code="unexpected-character")
    yield Token("end", len(text), len(text))


def _quoted(text: str, start: int) -> Token:
    name: list[str] = []
    position = start + 1
    while position < len(text):
        character = text[position]
        if character == text[start]:
            if not name:
                raise FormulaError("a name cannot be empty", text, start, code="empty-name")
            return Token("name", start, position + 1, "".join(name), is_quoted=True)
        if character == "\\":
            position += 1
            if position == len(text) or text[position] not in "\\\"'":
                message = "in quotes \\ stands only before \", ' or \\; write \\\\ for one"
                raise FormulaError(message, text, position - 1, code="bad-escape")
        name.append(text[position])
        position += 1
    apostrophe = "; a name with ' in it goes in double quotes" if text[start] == "'" else ""
    raise FormulaError(f"this quote is never closed{apostrophe}", text, start, code="unclosed-quote")


def quote(text: str) -> str:
    """Return a piece of a formula in quotes, for a message."""
    mark = "'" if '"' in text else '"'
    return f"{mark}{_printable(text)}{mark}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _pointed_at(text: str, position: int) -> str:
    """Return the text around the position on one line, and a caret under it on the next."""
    start = max(0, min(position - _SHOWN_CHARACTERS // 2, len(text) - _SHOWN_CHARACTERS))
    end = start + _SHOWN_CHARACTERS
    before, after = _printable(text[start:position]), _printable(text[position:end])
    dots = "…" if start > 0 else ""
    return f"  {dots}{before}{after}{'…' if end < len(text) else ''}\n  {' ' * _columns(dots + before)}^"


def _columns(text: str) -> int:
    """Return the width of the text in a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
