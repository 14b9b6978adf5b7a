"""WordNet nouns over ImageNet's classes: a noun includes all classes below it. Also plurals and articles."""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from ..errors import did_you_mean, spelled_like
from .vocabulary import Meaning, UnknownWordError, shortened

NUM_CLASSES: Final = 1000
# The logit of a noun's truth is that of its support + offset - factor * log(classes). Fitted on the 54 kinds of COCO
# that are nouns, on images of val2017 with an even id.
_OFFSET, _PER_LOG_CLASS = 2.79, 0.673
_LOADING: Final = threading.Lock()
_MAX_SUGGESTIONS: Final = 3
_MAX_LENGTH: Final = 60  # no noun is longer, and comparing a longer word with all of them would be slow
_SENSE: Final = re.compile(r"(.+)\.n\.(\d{1,3})")
# Plural endings and their singulars (WordNet's rules of detachment); the first that gives a known noun is used.
_PLURALS: Final = (
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)
# Words that take "an", by their sound: an hourglass, but a unicycle and a utensil.
_TAKES_AN: Final = re.compile(r"(?:hour|(?!eu|uni|ute|u-)[aeiou])", re.IGNORECASE)
# Probably a plural or a mass noun: glasses, clothing, but not a bus, glass or mantis.
_NO_ARTICLE: Final = re.compile(
    r"(?:[^isu]s|clothing|bedding|furniture|equipment|ware|wear|food|bread)$", re.IGNORECASE
)


@dataclass(frozen=True, eq=False)
class Synset:
    """A WordNet synset: its nouns with their sense numbers, its definition, and the classes below it.

    `own_class` is the ImageNet class of the synset itself, if any. `kinds` is the number of synsets below it, including
    itself, and `counts` the number of occurrences of each of its nouns, in this sense, in WordNet's corpus.
    """

    offset: str
    nouns: tuple[tuple[str, int], ...]
    gloss: str
    own_class: int | None
    kinds: int
    counts: tuple[int, ...]
    parents: list[Synset] = field(default_factory=list, repr=False)
    children: list[Synset] = field(default_factory=list, repr=False)

    def __reduce__(self) -> tuple[Callable[[str], Synset], tuple[str]]:
        # Unpickle as a reference into the receiving process's table, not as a copy with all relatives.
        return _synset_at, (self.offset,)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The numbers of its classes: its own and those of its descendants."""
        found = {number for child in self.children for number in child.classes}
        return tuple(sorted(found | ({self.own_class} if self.own_class is not None else set())))

    @cached_property
    def ancestors(self) -> frozenset[Synset]:
        """All synsets above it."""
        return frozenset(self.parents).union(*(parent.ancestors for parent in self.parents))

    @property
    def word(self) -> str:
        """Its preferred noun: WordNet's first, unless another is much more frequent."""
        most = max(self.counts)
        # Ignore small differences: the corpus is from the 1960s and has more iceboxes than refrigerators.
        chosen = self.counts.index(most) if most > 2 * self.counts[0] + 2 else 0
        return self.nouns[chosen][0]

    @property
    def count(self) -> int:
        """The number of its occurrences in WordNet's corpus."""
        return sum(self.counts)


@dataclass(frozen=True)
class Noun(Meaning):
    """A word as a WordNet noun. `passed_over` is the number of more frequent senses without classes."""

    synset: Synset
    passed_over: int

    @property
    def classes(self) -> tuple[int, ...]:
        """The numbers of its ImageNet classes."""
        return self.synset.classes

    @property
    def half(self) -> float:
        """The support at which its truth is 0.5: higher for a noun with many classes."""
        return 1 / (1 + math.exp(_OFFSET - _PER_LOG_CLASS * math.log(len(self.classes))))

    def __str__(self) -> str:
        taken = f"{self.name}: {self.gloss}"
        return f"{taken} (a rarer sense: the more frequent ones have no class)" if self.passed_over else taken


class Nouns:
    """All nouns that have classes, with lookup by spelling."""

    def __init__(self, synsets: Sequence[Synset], irregular: dict[str, tuple[str, ...]], near: dict[str, str]) -> None:
        self.synsets = synsets
        self._irregular, self._near = irregular, near
        self._senses: dict[str, list[tuple[int, Synset]]] = defaultdict(list)
        for synset in synsets:
            for noun, sense in synset.nouns:
                self._senses[normalized(noun)].append((sense, synset))
        for senses in self._senses.values():
            senses.sort(key=lambda known: known[0])
        self._joined = {_without_spaces(word): word for word in self._senses}

    def __len__(self) -> int:
        return len(self._senses)

    def __iter__(self) -> Iterator[str]:
        return iter(self._senses)

    def __contains__(self, word: str) -> bool:
        return self._known_form(normalized(word)) is not None

    def look_up(self, word: str) -> Noun:
        """Return the most frequent sense of a word that has classes. `crane.n.05` selects a sense.

        >>> nouns = wordnet_nouns()
        >>> print(nouns.look_up("Mice"))
        mouse.n.04: a hand-operated electronic device that controls the coordinates of a … (a rarer sense: the more
        frequent ones have no class)
        >>> nouns.look_up("crane.n.05").gloss
        'large long-necked wading bird of marshes and plains in many parts of …'
        >>> nouns.look_up("beach")
        Traceback (most recent call last):
        andornot.concepts.vocabulary.UnknownWordError: no class shows "beach"; near it are "shore",
        "geological formation"
        """
        asked, sense = normalized(word), None
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

    def forms(self, word: str) -> Iterator[str]:
        """Yield the normalized word and its possible singulars."""
        return base_forms(normalized(word), self._irregular)

    def is_noun(self, word: str) -> bool:
        """Return whether a word is a WordNet noun with classes, or near such a noun."""
        return word in self or any(form in self._near for form in self.forms(word))

    def complete(self, prefix: str) -> list[str]:
        """Return the nouns with this prefix, sorted.

        >>> wordnet_nouns().complete("seash")
        ['seashore']
        """
        start = normalized(prefix)
        return sorted(word for word in self._senses if word.startswith(start))

    def _known_form(self, word: str) -> str | None:
        for form in base_forms(word, self._irregular):
            if form in self._senses:
                return form
        for form in base_forms(_without_spaces(word), self._irregular):
            if form in self._joined:
                return self._joined[form]
        return None

    def _unknown(self, word: str, asked: str) -> UnknownWordError:
        if not asked:
            return UnknownWordError("the word is empty")
        shown = shortened(word)
        for form in base_forms(asked, self._irregular):
            if form in self._near:
                near = tuple(noun.replace("_", " ") for noun in self._near[form].split())
                listed = ", ".join(f'"{noun}"' for noun in near)
                hint = f"; near it are {listed}" if len(near) > 1 else f"; near it is {listed}" if near else ""
                return UnknownWordError(f'no class shows "{shown}"{hint}', near)
        # The last word of a phrase is its head: a red car is a car.
        last = asked.rpartition(" ")[2]
        if last != asked and self._known_form(last):
            return UnknownWordError(f'no class shows "{shown}", but one shows "{last}"', (last,))
        near = tuple(spelled_like(asked, self._senses, _MAX_SUGGESTIONS)) if len(asked) <= _MAX_LENGTH else ()
        hint = did_you_mean(near) if near else "words are nouns of WordNet that have classes of ImageNet below them"
        return UnknownWordError(f'unknown word "{shown}"; {hint}', near)


def _sense_name(form: str, sense: int) -> str:
    return f"{form.replace(' ', '_')}.n.{sense:02d}"


def wordnet_nouns() -> Nouns:
    """Return the nouns of WordNet 3.0 above the 1,000 classes of ImageNet; always the same object.

    >>> nouns = wordnet_nouns()
    >>> len(nouns.synsets), len(nouns.look_up("dogs").classes)
    (1860, 118)
    """
    with _LOADING:  # synsets are compared by identity: two threads must not load two tables
        return _load_nouns()


@cache
def _load_nouns() -> Nouns:
    rows = list(_rows("nouns.tsv"))
    synsets = {offset: _synset(offset, number, kinds, nouns, gloss) for offset, number, _, kinds, nouns, gloss in rows}
    for offset, _, parents, *_ in rows:
        for parent in parents.split():
            synsets[offset].parents.append(synsets[parent])
            synsets[parent].children.append(synsets[offset])
    irregular = {normalized(form): tuple(map(normalized, bases.split())) for form, bases in _rows("irregular.tsv")}
    return Nouns(list(synsets.values()), irregular, {normalized(noun): near for noun, near in _rows("near.tsv")})


@cache
def _synsets() -> dict[str, Synset]:
    return {synset.offset: synset for synset in wordnet_nouns().synsets}


def _synset_at(offset: str) -> Synset:
    return _synsets()[offset]


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


def normalized(word: str) -> str:
    """Return the word in lower case, with single spaces for spaces, hyphens and underscores.

    >>> normalized("  Polar-Bear "), normalized("dining_table"), normalized("Café")
    ('polar bear', 'dining table', 'café')
    """
    return re.sub(r"[\s_\-‐‑–]+", " ", unicodedata.normalize("NFKC", word)).strip().casefold()


def base_forms(word: str, irregular: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield possible base forms of a normalized word, starting with the word; in a phrase, the last word is inflected.

    >>> list(base_forms("mice", {"mice": ("mouse",)}))
    ['mice', 'mouse']
    >>> list(base_forms("polar bears", {}))
    ['polar bears', 'polar bear']
    """
    yield word
    before, space, last = word.rpartition(" ")
    for whole, start in ((word, ""), (last, before + space)):
        for base in irregular.get(whole, ()):
            yield start + base
        if not space:
            break
    for ending, singular in _PLURALS:
        if last.endswith(ending) and len(last) > len(ending):
            yield before + space + last.removesuffix(ending) + singular


def with_article(noun: str) -> str:
    """Return the noun with *a* or *an*; plurals and mass nouns take none. `sentence.js` has the same rule.

    >>> [with_article(noun) for noun in ("dog", "airplane", "uniform", "hourglass", "sunglasses", "chest of drawers")]
    ['a dog', 'an airplane', 'a uniform', 'an hourglass', 'sunglasses', 'a chest of drawers']
    """
    if _NO_ARTICLE.search(noun.partition(" of ")[0]):
        return noun
    return f"{'an' if _TAKES_AN.match(noun) else 'a'} {noun}"


def _without_spaces(word: str) -> str:
    return word.replace(" ", "")
