"""Names that somebody gave to formulas, as a gallery keeps them.

In the formula that is kept, a picture is `picture:ID`, so that it is the same one wherever its file goes; a word is
`word:NAME`, whatever is called so later; and a name alone is another definition.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import printable
from ..logic import Atom, Formula
from ..logic.atoms import RESERVED
from ..logic.parser import MAX_CHARACTERS, MAX_NESTING
from ..words.spelling import plain
from .errors import GalleryError

if TYPE_CHECKING:
    from .browsing import Browser

_LONGEST: Final = 100


class Definitions:
    """The definitions of one state of a gallery. Case, spaces, hyphens and underscores of a name do not matter."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept = kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def called(self, name: str) -> str | None:
        """The definition of that name, as it was spelled when it was made; None if there is none."""
        return self._by_key.get(plain(name)) if self._kept else None

    @cached_property
    def _by_key(self) -> dict[str, str]:
        return {plain(name): name for name in self._kept}

    def formula(self, name: str) -> Formula:
        """The formula of a definition, as it is kept."""
        return Formula(self._kept[name])

    def used_by(self, name: str) -> list[str]:
        """The definitions that a definition names itself."""
        return used_in(self.formula(name))

    def users_of(self, name: str) -> list[str]:
        """The definitions that name this one."""
        return [other for other in self if name in self.used_by(other)]

    def circle(self, name: str, formula: Formula) -> list[str]:
        """How a formula that is to be called so would name itself: from the name to the name; nothing if it does not.

        >>> Definitions({"a": "b", "b": "word:dog"}).circle("b", Formula("a & word:cat"))
        ['b', 'a', 'b']
        """
        came_from: dict[str, str] = {}
        waiting = [(used, name) for used in used_in(formula)]
        while waiting:
            one, user = waiting.pop()
            if one == name:
                way = [name, user]
                while way[-1] != name:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if one not in came_from and one in self._kept:
                came_from[one] = user
                waiting += [(used, one) for used in self.used_by(one)]
        return []

    def expanded(self, name: str) -> Formula:
        """The formula of a definition, with those of the definitions in it in brackets."""
        return Formula(self._expanded(name, {}, ()))

    def _expanded(self, name: str, known: dict[str, str], trail: tuple[str, ...]) -> str:
        if name not in self._kept:
            raise GalleryError(f'"{trail[-1]}" is defined by "{name}", which is defined no longer')
        if name in trail:
            raise GalleryError(f"these definitions go in a circle: {' → '.join((*trail, name))}")
        if len(trail) > MAX_NESTING:
            raise GalleryError(
                f'"{trail[0]}" is defined by definitions that are nested deeper than {MAX_NESTING} levels'
            )
        if name not in known:
            formula, inner = self.formula(name), (*trail, name)
            known[name] = replaced(
                formula,
                {Atom(used): f"({self._expanded(used, known, inner)})" for used in used_in(formula)},
                f'"{name}"',
            )
        return known[name]


def used_in(formula: Formula) -> list[str]:
    """The definitions that a formula names, which is as it is kept."""
    return [atom.name for atom in formula.atoms if atom.is_plain]


def replaced(formula: Formula, texts: Mapping[Atom, str], who: str = "the formula") -> str:
    """The text of a formula with other texts for some of its atoms."""
    text, end = [], 0
    for mention in formula.mentions:
        if mention.atom in texts:
            text += [formula.text[end : mention.start], texts[mention.atom]]
            end = mention.end
    whole = "".join([*text, formula.text[end:]])
    if len(whole) > MAX_CHARACTERS:
        raise GalleryError(f"with its definitions written out, {who} has more than {MAX_CHARACTERS:,} characters")
    return whole


def readable(formula: Formula, browser: Browser) -> str:
    """The formula of a definition as people read it: pictures by their file names, where these are clear."""
    return replaced(formula, {atom: _readable(atom, browser) for atom in formula.atoms})


def _readable(atom: Atom, browser: Browser) -> str:
    position = browser.position_of_id(int(atom.name)) if atom.kind == "picture" else None
    if atom.kind != "picture" or position is None:
        return str(atom)
    return f"{browser.term(position)}{atom.crop or ''}"


def checked_name(name: str) -> str:
    """A name that a definition may have, or a GalleryError."""
    chosen = " ".join(unicodedata.normalize("NFC", name).split())
    if not plain(chosen) or chosen != printable(chosen):
        raise GalleryError("a definition needs a name of letters that can be seen")
    shown = chosen if len(chosen) <= _LONGEST else f"{chosen[:_LONGEST]}…"
    if len(chosen) > _LONGEST:
        raise GalleryError(f'"{shown}" is too long for a name: at most {_LONGEST} letters')
    if chosen.isdigit():
        raise GalleryError(f'"{shown}" is the number of a picture, or may be one later: a name has a letter in it')
    if chosen.lower() in RESERVED:
        raise GalleryError(f'"{shown}" is a word of the language of formulas: choose another name')
    return chosen


def listed(names: Iterable[str]) -> str:
    """Some names, as a line has them."""
    return ", ".join(f'"{name}"' for name in names)


class Defined(NamedTuple):
    """What `define` did: the name, its formula as people read it, and what is found by that name no longer, if any."""

    name: str
    formula: str
    hides: str = ""
