"""Atoms of formulas (an image, a crop, a word or a defined name) and their notation."""

import re
import unicodedata
from decimal import Decimal
from typing import Final, NamedTuple

KINDS: Final = ("word", "image")
RESERVED: Final = ("and", "or", "not", "at_least", "like")

# Without exponents, so that the canonical notation of a number is never longer than what was typed.
_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


class Crop(NamedTuple):
    """A crop of an image: its edges as fractions of the image from 0 to 1, or all as whole pixels.

    >>> Crop(0.1, 0, 0.5, 1).in_pixels, Crop(0, 0, 300, 200).in_pixels
    (False, True)
    """

    left: float
    top: float
    right: float
    bottom: float

    @property
    def in_pixels(self) -> bool:
        """Whether the edges are in pixels: true if any edge is greater than 1."""
        return max(self) > 1

    def __str__(self) -> str:
        return f"[{', '.join(map(write_number, self))}]"


class Atom(NamedTuple):
    """An operand of a formula; `kind` is "word" or "image" if the formula specifies it, else empty."""

    name: str
    kind: str = ""
    crop: Crop | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the atom is just a name, without kind and crop."""
        return not self.kind and self.crop is None

    def __str__(self) -> str:
        """Return the atom as written in a formula; different atoms have different texts.

        >>> str(Atom("polar bear", "word")), str(Atom("a.jpg", crop=Crop(0, 0, 0.5, 1)))
        ('word:"polar bear"', 'a.jpg[0, 0, 0.5, 1]')
        """
        kind = f"{self.kind}:" if self.kind else ""
        return f"{kind}{write_name(self.name)}{self.crop or ''}"


def write_name(name: str) -> str:
    """Return a name as written in a formula: quoted if needed."""
    if is_bare(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_bare(name: str) -> bool:
    """Return whether a name needs no quotes in a formula."""
    return (
        bool(name)
        and is_name_character(name[0])
        and end_of_bare_name(name, 0) == len(name)
        and name.lower() not in RESERVED
    )


def is_name_character(character: str) -> bool:
    """Return whether an unquoted name may contain the character anywhere."""
    # Combining marks belong to letters: some systems store é in file names as e and an accent.
    return character.isalnum() or character in "_./" or unicodedata.category(character).startswith("M")


def end_of_bare_name(text: str, start: int) -> int:
    """Return the end of an unquoted name: name characters, and `-` between two of them."""
    end = start
    while end < len(text):
        after = end
        while after < len(text) and text[after] == "-":
            after += 1
        if after == len(text) or not is_name_character(text[after]):
            break
        end = after + 1
    return end


def read_number(text: str) -> float | None:
    """Parse a number such as 2, 0.5 or .5; None for anything else."""
    return float(text) if _NUMBER.fullmatch(text) else None


def write_number(number: float) -> str:
    """Return the shortest decimal notation that parses to the same number.

    >>> write_number(2.0), write_number(0.00001)
    ('2', '0.00001')
    """
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
