"""Named formulas that are stored in a gallery.

A stored formula refers to an image by `image:ID`, which stays valid when the file is moved; to a word by `word:NAME`,
which no later definition can change; and to another definition by its bare name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from ..concepts.nouns import normalized
from ..errors import printable
from ..logic import Atom, Formula, FormulaError
from ..logic.atoms import RESERVED, write_name
from ..logic.parser import MAX_CHARACTERS, MAX_NESTING
from .errors import GalleryError

_LONGEST: Final = 100


class Definitions:
    """The definitions of one version of a gallery. Names ignore case, spaces, hyphens and underscores."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self.kept = kept

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def called(self, name: str) -> str | None:
        """Return the stored spelling of a definition; None if there is no such definition."""
        return self._by_key.get(normalized(name)) if self.kept else None

    @cached_property
    def _by_key(self) -> dict[str, str]:
        return {normalized(name): name for name in self.kept}

    def formula(self, name: str) -> Formula:
        """Return the stored formula of a definition."""
        return Formula(self.kept[name])

    def used_by(self, name: str) -> list[str]:
        """Return the definitions that a definition uses directly."""
        return used_in(self.formula(name))

    def users_of(self, name: str) -> list[str]:
        """Return the definitions that use this one."""
        return [other for other in self if name in self.used_by(other)]

    def circle(self, name: str, formula: Formula) -> list[str]:
        """Return the cycle that a new definition would create, from its name to its name; empty if there is none.

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
            if one not in came_from and one in self.kept:
                came_from[one] = user
                waiting += [(used, one) for used in self.used_by(one)]
        return []

    def with_one(self, name: str, formula: str) -> Definitions:
        """Return a copy with one definition added or replaced."""
        return Definitions({**self.without(name).kept, name: formula})

    def without(self, name: str) -> Definitions:
        """Return a copy without one definition."""
        return Definitions({other: formula for other, formula in self.kept.items() if other != name})

    def renamed(self, name: str, new: str) -> Definitions:
        """Return a copy with one definition renamed, also where others use it."""
        kept = {}
        for one, text in self.kept.items():
            kept[new if one == name else one] = replaced(Formula(text), {Atom(name): write_name(new)}, f'"{one}"')
        return Definitions(kept)

    def check_users(self, name: str) -> None:
        """Raise a GalleryError if a definition, or one that uses it, cannot be expanded."""
        affected = [name]
        for one in affected:
            affected += [user for user in self.users_of(one) if user not in affected]
        for one in affected:
            try:
                Formula(f"({self.expanded(one).text})")  # as it appears inside another formula
            except FormulaError as error:
                raise GalleryError(f'"{one}" could not be written out: {error.message}') from None

    def expanded(self, name: str) -> Formula:
        """Return the formula of a definition, with nested definitions expanded in parentheses."""
        return Formula(self._expanded(name, {}, ()))

    def _expanded(self, name: str, known: dict[str, str], trail: tuple[str, ...]) -> str:
        if name not in self.kept:
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
    """Return the definitions that a stored formula uses."""
    return [atom.name for atom in formula.atoms if atom.is_plain]


def replaced(formula: Formula, texts: Mapping[Atom, str], who: str = "the formula") -> str:
    """Return the text of a formula with some of its atoms replaced."""
    text, end = [], 0
    for mention in formula.mentions:
        if mention.atom in texts:
            text += [formula.text[end : mention.start], texts[mention.atom]]
            end = mention.end
    whole = "".join([*text, formula.text[end:]])
    if len(whole) > MAX_CHARACTERS:
        raise GalleryError(f"with its definitions written out, {who} has more than {MAX_CHARACTERS:,} characters")
    return whole


def checked_name(name: str) -> str:
    """Return the normalized name of a definition; raise a GalleryError if the name is not allowed."""
    chosen = " ".join(unicodedata.normalize("NFC", name).split())
    if not normalized(chosen) or chosen != printable(chosen):
        raise GalleryError("a definition needs a name of letters that can be seen")
    shown = chosen if len(chosen) <= _LONGEST else f"{chosen[:_LONGEST]}…"
    if len(chosen) > _LONGEST:
        raise GalleryError(f'"{shown}" is too long for a name: at most {_LONGEST} letters')
    if chosen.isdigit():
        raise GalleryError(f'"{shown}" is the number of an image, or may be one later: a name has a letter in it')
    if chosen.lower() in RESERVED:
        raise GalleryError(f'"{shown}" is a word of the language of formulas: choose another name')
    return chosen


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(f'"{name}"' for name in names)


class Defined(NamedTuple):
    """The result of `define`: the name, its readable formula, and what the name now hides, if anything."""

    name: str
    formula: str
    hides: str = ""
