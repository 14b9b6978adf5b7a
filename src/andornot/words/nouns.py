"""The nouns that the classes of ImageNet give a meaning: a noun of WordNet stands for all classes below it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from ..errors import did_you_mean, spelled_like
from .errors import UnknownWordError, shortened
from .meaning import Meaning
from .spelling import base_forms, joined, plain

NUM_CLASSES: Final = 1000
_NEAREST: Final = 3
_LONGEST: Final = 60  # no noun is longer; to compare such a word with all of them would take long
_SENSE: Final = re.compile(r"(.+)\.n\.(\d{1,3})")


@dataclass(frozen=True, eq=False)
class Synset:
    """A meaning in WordNet: its nouns, each with the number of the sense, what it is, and the classes below it.

    `own_class` is the class that it is itself, if it is one. `kinds` says how many meanings of WordNet it comprises,
    with its own, and `counts` how often WordNet's texts have each of its nouns in this sense.
    """

    offset: str
    nouns: tuple[tuple[str, int], ...]
    gloss: str
    own_class: int | None
    kinds: int
    counts: tuple[int, ...]
    parents: list[Synset] = field(default_factory=list, repr=False)
    children: list[Synset] = field(default_factory=list, repr=False)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The numbers of its classes: its own, and those of all kinds of it."""
        found = {number for child in self.children for number in child.classes}
        return tuple(sorted(found | ({self.own_class} if self.own_class is not None else set())))

    @cached_property
    def ancestors(self) -> frozenset[Synset]:
        """Everything that it is a kind of."""
        return frozenset(self.parents).union(*(parent.ancestors for parent in self.parents))

    @property
    def word(self) -> str:
        """The noun that it is called by: WordNet's first, unless another is met much more often."""
        most = max(self.counts)
        # A few more are chance, and texts of the 1960s: frogs are no toads, and refrigerators no iceboxes.
        chosen = self.counts.index(most) if most > 2 * self.counts[0] + 2 else 0
        return self.nouns[chosen][0]

    @property
    def count(self) -> int:
        """How often WordNet's texts speak of it."""
        return sum(self.counts)


@dataclass(frozen=True)
class Noun(Meaning):
    """A word as a noun of WordNet. `passed_over` senses of it are more frequent, but have no classes."""

    synset: Synset
    passed_over: int

    @property
    def classes(self) -> tuple[int, ...]:
        """The numbers of the ImageNet classes that it stands for."""
        return self.synset.classes

    def __str__(self) -> str:
        taken = f"{self.name}: {self.gloss}"
        return f"{taken} (a rarer sense: no class shows a more frequent one)" if self.passed_over else taken


class Nouns:
    """All nouns that have classes, with the ways to spell them."""

    def __init__(self, synsets: Sequence[Synset], irregular: dict[str, tuple[str, ...]], near: dict[str, str]) -> None:
        self.synsets = synsets
        self._irregular, self._near = irregular, near
        self._senses: dict[str, list[tuple[int, Synset]]] = defaultdict(list)
        for synset in synsets:
            for noun, sense in synset.nouns:
                self._senses[plain(noun)].append((sense, synset))
        for senses in self._senses.values():
            senses.sort(key=lambda known: known[0])
        self._joined = {joined(word): word for word in self._senses}

    def __len__(self) -> int:
        return len(self._senses)

    def __iter__(self) -> Iterator[str]:
        return iter(self._senses)

    def __contains__(self, word: str) -> bool:
        return self._known_form(plain(word)) is not None

    def look_up(self, word: str) -> Noun:
        """What a word means: its most frequent sense that has classes. `crane.n.05` insists on a sense.

        >>> nouns = wordnet_nouns()
        >>> print(nouns.look_up("Mice"))
        mouse.n.04: a hand-operated electronic device that controls the coordinates of a … (a rarer sense: no class
        shows a more frequent one)
        >>> nouns.look_up("crane.n.05").gloss
        'large long-necked wading bird of marshes and plains in many parts of …'
        >>> nouns.look_up("beach")
        Traceback (most recent call last):
        andornot.words.errors.UnknownWordError: no class shows "beach"; near it are "shore", "geological formation"
        """
        asked, sense = plain(word), None
        if insisted := _SENSE.fullmatch(asked):
            asked, sense = insisted[1], int(insisted[2])
        form = self._known_form(asked)
        if form is None:
            raise self._unknown(word, asked)
        senses = self._senses[form]
        chosen = [known for known in senses if sense in (None, known[0])]
        if not chosen:
            there_are = ", ".join(f"{_sense_name(form, number)} ({synset.gloss})" for number, synset in senses)
            raise UnknownWordError(f"no class shows {_sense_name(form, sense or 0)}; there is {there_are}")
        number, synset = chosen[0]
        passed_over = 0 if sense is not None else number - 1
        return Noun(word, _sense_name(form, number), synset.gloss, synset, passed_over)

    def complete(self, beginning: str) -> list[str]:
        """The nouns that begin so, in the order of the alphabet.

        >>> wordnet_nouns().complete("seash")
        ['seashore']
        """
        start = plain(beginning)
        return sorted(word for word in self._senses if word.startswith(start))

    def _known_form(self, word: str) -> str | None:
        for form in base_forms(word, self._irregular):
            if form in self._senses:
                return form
        for form in base_forms(joined(word), self._irregular):
            if form in self._joined:
                return self._joined[form]
        return None

    def _unknown(self, word: str, asked: str) -> UnknownWordError:
        if not asked:
            return UnknownWordError("an empty word means nothing")
        shown = shortened(word)
        for form in base_forms(asked, self._irregular):
            if form in self._near:
                near = tuple(noun.replace("_", " ") for noun in self._near[form].split())
                listed = ", ".join(f'"{noun}"' for noun in near)
                hint = f"; near it are {listed}" if len(near) > 1 else f"; near it is {listed}" if near else ""
                return UnknownWordError(f'no class shows "{shown}"{hint}', near)
        # The last word of several says what it is: a red car is a car.
        last = asked.rpartition(" ")[2]
        if last != asked and self._known_form(last):
            return UnknownWordError(f'no class shows "{shown}", but one shows "{last}"', (last,))
        near = tuple(spelled_like(asked, self._senses, _NEAREST)) if len(asked) <= _LONGEST else ()
        hint = did_you_mean(near) if near else "words are nouns of WordNet that have classes of ImageNet below them"
        return UnknownWordError(f'unknown word "{shown}"; {hint}', near)


def _sense_name(form: str, sense: int) -> str:
    return f"{form.replace(' ', '_')}.n.{sense:02d}"


@cache
def wordnet_nouns() -> Nouns:
    """The table of the package: WordNet 3.0 above the 1,000 classes of ImageNet.

    >>> nouns = wordnet_nouns()
    >>> len(nouns.synsets), len(nouns.look_up("dogs").classes)
    (1860, 118)
    """
    rows = list(_rows("nouns.tsv"))
    synsets = {offset: _synset(offset, number, kinds, nouns, gloss) for offset, number, _, kinds, nouns, gloss in rows}
    for offset, _, parents, *_ in rows:
        for parent in parents.split():
            synsets[offset].parents.append(synsets[parent])
            synsets[parent].children.append(synsets[offset])
    irregular = {plain(form): tuple(map(plain, bases.split())) for form, bases in _rows("irregular.tsv")}
    return Nouns(list(synsets.values()), irregular, {plain(noun): near for noun, near in _rows("near.tsv")})


def _synset(offset: str, number: str, kinds: str, nouns: str, gloss: str) -> Synset:
    counted = [noun.partition("*") for noun in nouns.split()]
    listed = [noun.rpartition(".") for noun, _, _ in counted]
    return Synset(
        offset,
        tuple((noun.replace("_", " "), int(sense)) for noun, _, sense in listed),
        gloss,
        int(number) if number else None,
        int(kinds),
        tuple(int(count or 0) for _, _, count in counted),
    )


def _rows(name: str) -> Iterator[list[str]]:
    text = (files(__package__) / "wordnet" / name).read_text(encoding="utf-8")
    return (line.split("\t") for line in text.splitlines())
