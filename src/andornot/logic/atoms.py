"""The atoms of formulas: a picture, a crop of one, a word, or a name that somebody defined; how they are written."""

import re
import unicodedata
from decimal import Decimal
from typing import Final, NamedTuple

KINDS: Final = ("word", "picture")
RESERVED: Final = ("and", "or", "not", "at_least", "like")

# No exponents: a written number then never grows longer than what was typed.
_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


class Crop(NamedTuple):
    """A part of a picture: its edges as fractions of the picture from 0 to 1, or all as whole pixels.

    >>> Crop(0.1, 0, 0.5, 1).in_pixels, Crop(0, 0, 300, 200).in_pixels
    (False, True)
    """

    left: float
    top: float
    right: float
    bottom: float

    @property
    def in_pixels(self) -> bool:
        """Whether an edge is beyond 1: then all four are pixels, a 0 and a 1 as well."""
        return max(self) > 1

    def __str__(self) -> str:
        return f"[{', '.join(map(write_number, self))}]"


class Atom(NamedTuple):
    """What a formula is made of: `kind` is "word" or "picture" where the formula insists on one, else empty."""

    name: str
    kind: str = ""
    crop: Crop | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a name and nothing else."""
        return not self.kind and self.crop is None

    def __str__(self) -> str:
        """As it stands in a formula; two atoms never have the same text.

        >>> str(Atom("polar bear", "word")), str(Atom("a.jpg", crop=Crop(0, 0, 0.5, 1)))
        ('word:"polar bear"', 'a.jpg[0, 0, 0.5, 1]')
        """
        kind = f"{self.kind}:" if self.kind else ""
        return f"{kind}{write_name(self.name)}{self.crop or ''}"


def write_name(name: str) -> str:
    """A name as it stands in a formula: in quotes if it needs them."""
    if is_bare(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_bare(name: str) -> bool:
    """Whether a name can stand in a formula without quotes."""
    return (
        bool(name)
        and is_name_character(name[0])
        and end_of_bare_name(name, 0) == len(name)
        and name.lower() not in RESERVED
    )


def is_name_character(character: str) -> bool:
    """Whether a name without quotes may have it anywhere."""
    # Combining marks belong to letters: file names on some systems have é as e and an accent.
    return character.isalnum() or character in "_./" or unicodedata.category(character).startswith("M")


def end_of_bare_name(text: str, start: int) -> int:
    """A bare name goes on over name characters, and over `-` that has name characters on both sides."""
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
    """The number of such digits as 2, 0.5 or .5; None for anything else."""
    return float(text) if _NUMBER.fullmatch(text) else None


def write_number(number: float) -> str:
    """The shortest decimal digits that are read as the same number.

    >>> write_number(2.0), write_number(0.00001)
    ('2', '0.00001')
    """
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
