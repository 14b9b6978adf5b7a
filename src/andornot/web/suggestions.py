"""Suggestions: completions of formulas, groups of words, and example queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, combinations, islice
from typing import Final, Literal, NamedTuple

from ..concepts import WordError
from ..concepts.nouns import normalized, with_article, wordnet_nouns
from ..errors import AndornotError
from ..gallery import Gallery
from ..gallery.hits import Hits
from ..gallery.options import Filter
from ..gallery.words import WordCount, WordIndex
from ..logic import Atom
from ..logic.atoms import write_name
from ..logic.cursor import Spot, spots
from ..similarity import evenly
from .browsing import Browser

# --- completions ------------------------------------------------------------------------------------------------------

_JOINING: Final = ("and", "or", "and not")
_OPENING: Final = ("not", "like(")
# Each kind of completion gets at least one in this many places of the list.
_SHARE: Final = 4


class Completion(NamedTuple):
    """A completion: the `text` to insert. A word has its number of images, an image its position."""

    text: str
    kind: Literal["word", "image", "definition", "operator"]
    label: str
    images: int | None = None
    position: int | None = None


class Completions(NamedTuple):
    """Completions, and the part of the text that each of them replaces."""

    start: int
    end: int
    found: list[Completion]


class Completer:
    """Completes formulas in one version of a gallery."""

    def __init__(self, browser: Browser, words: WordIndex, definitions: Collection[str]) -> None:
        self._browser, self._words, self._definitions = browser, words, definitions

    def complete(self, text: str, cursor: int, limit: int) -> Completions:
        """Return completions at the cursor."""
        for spot in spots(text, cursor):
            if found := self._at(spot, limit):
                return Completions(spot.start, spot.end, found)
        return Completions(cursor, cursor, [])

    def _at(self, spot: Spot, limit: int) -> list[Completion]:
        if spot.expects == "operator":
            return [] if spot.in_list else list(_operators(_JOINING, spot.beginning))[:limit]
        least = max(1, limit // _SHARE)
        words = [] if spot.kind == "image" else self._words_at(spot)
        seen = [word for word in words if word.images]
        definitions = [] if spot.kind else list(islice(self._definitions_at(spot), limit))
        files = list(self._files_at(spot, limit)) if spot.kind != "word" else []
        room = limit - min(least, len(files))
        several = [self._word(word, spot) for word in seen[: room - min(least, len(definitions))]]
        several += definitions[: room - len(several)]
        several += files[: limit - len(several)]
        # Words that no image shows are offered only if nothing else matches.
        unseen = [] if several else [self._word(word, spot) for word in words]
        operators = _operators(_OPENING, spot.beginning) if spot.beginning and not (spot.kind or spot.in_list) else ()
        return list(islice(chain(several, unseen, operators), limit))

    def _words_at(self, spot: Spot) -> list[WordCount]:
        return self._words.beginning(spot.beginning) if spot.beginning else list(self._words.telling)

    def _word(self, word: WordCount, spot: Spot) -> Completion:
        hidden = not spot.kind and self._is_something_else(word.word)
        text = str(Atom(word.word, "word")) if hidden else write_name(word.word)
        return Completion(text, "word", word.word, word.images)

    def _is_something_else(self, word: str) -> bool:
        """Return whether a word is also the name of an image or a definition, which take precedence."""
        return word in map(normalized, self._definitions) or self._browser.has_name(word)

    def _definitions_at(self, spot: Spot) -> Iterator[Completion]:
        start = normalized(spot.beginning)
        chosen = (name for name in self._definitions if normalized(name).startswith(start))
        return (Completion(write_name(name), "definition", name) for name in chosen)

    def _files_at(self, spot: Spot, limit: int) -> Iterator[Completion]:
        positions = self._browser.complete_name(spot.beginning, limit) if spot.beginning or spot.kind else []
        return (Completion(self._browser.term(p), "image", self._browser.name(p), position=p) for p in positions)


def _operators(known: Iterable[str], beginning: str) -> Iterator[Completion]:
    start = beginning.lower()
    return (Completion(one, "operator", one) for one in known if one.startswith(start) and one != start)


# --- examples, and groups of words ------------------------------------------------------------------------------------

_HITS: Final = 4
# The number of words that are combined in examples, and of the best images of each.
_WORDS: Final = 16
_BEST: Final = 48
_TRIED: Final = 6
_IMAGES: Final = 8
_LOOKED_AT: Final = 10_000


# Groups of words on the start page: words of captions, and WordNet synsets whose descendants belong to a group.
WordGroup = Literal["people", "animals", "things", "places"]
_WORDS_OF_GROUPS: Final[dict[WordGroup, str]] = {
    "people": "person, man, woman, child, people, sitting, standing, riding, playing, sleeping, surfing, skiing",
    "animals": "cow, giraffe, herd, flying",
    "places": "beach, ocean, water, snow, street, city, building, tower, field, grass, sky, kitchen, bathroom, room, "
    "living room, station, wave, traffic, tennis court, railroad tracks",
}
_SYNSETS_OF_GROUPS: Final[dict[str, WordGroup]] = {
    "00007846": "people",  # person
    "00015388": "animals",  # animal
    "09287968": "places",  # geological formation
    "02913152": "places",  # building
}


def group_of(word: str) -> WordGroup:
    """Return the group of a word.

    >>> group_of("woman"), group_of("zebra"), group_of("mountain"), group_of("cup")
    ('people', 'animals', 'places', 'things')
    """
    for group, words in _WORDS_OF_GROUPS.items():
        if word in words.split(", "):
            return group
    try:
        synset = wordnet_nouns().look_up(word).synset
    except WordError:
        return "things"
    offsets = {one.offset for one in (synset, *synset.ancestors)}
    return next((group for offset, group in _SYNSETS_OF_GROUPS.items() if offset in offsets), "things")


class Example(NamedTuple):
    """A query, its description as a sentence, and its best hits."""

    formula: str
    sentence: str
    hits: Hits


def examples_of(gallery: Gallery) -> list[Example]:
    """Return up to five queries whose best hits are not weak, with words if there are any, and with images."""
    if not len(gallery):
        return []
    words = [word for word, _ in gallery.planner.words.index.telling[:_WORDS]]
    seen = {word: frozenset(hit.id for hit in _found(gallery, write_name(word), _BEST)) for word in words}
    several = [
        _first(gallery, ((write_name(word), f"shows {with_article(word)}") for word in words)),
        _first(gallery, _together(seen)),
        _first(gallery, _without(seen)),
        *_by_images(gallery),
    ]
    return [example for example in several if example is not None]


def _together(seen: dict[str, frozenset[int]]) -> Iterator[tuple[str, str]]:
    """Yield pairs of words that occur in the same images, the most frequent pairs first."""
    for one, other in sorted(combinations(seen, 2), key=lambda pair: -len(seen[pair[0]] & seen[pair[1]])):
        if seen[one] & seen[other] and not _are_kin(one, other):
            yield f"{write_name(one)} and {write_name(other)}", f"shows {with_article(one)} and {with_article(other)}"


def _without(seen: dict[str, frozenset[int]]) -> Iterator[tuple[str, str]]:
    """Yield a word, and another word that only some of its images show."""
    pairs = [(one, other) for pair in combinations(seen, 2) for one, other in (pair, pair[::-1])]
    for one, other in sorted(pairs, key=lambda pair: -min(len(seen[pair[0]] & seen[pair[1]]), _HITS)):
        if seen[one] - seen[other] and not _are_kin(one, other):
            yield f"{write_name(one)} and not {write_name(other)}", f"shows {with_article(one)}, but no {other}"


def _are_kin(one: str, other: str) -> bool:
    """Return whether one word is a kind of the other, or both are kinds of the same thing."""
    try:
        first, second = (wordnet_nouns().look_up(word).synset for word in (one, other))
    except WordError:  # a named feature that WordNet has no classes for
        return False
    return bool(
        {first, *first.parents} & {second, *second.parents} or {first} & second.ancestors or {second} & first.ancestors
    )


def _by_images(gallery: Gallery) -> Iterator[Example | None]:
    """Yield a search by one image, and one by this image and its best hit."""
    browser = Browser(gallery.planner)
    positions = _spread(browser)
    found = {position: _found(gallery, str(browser.id(position))) for position in positions}
    best = max(found, key=lambda position: sum(hit.truth for hit in found[position]), default=None)
    if best is None or not found[best]:
        return
    yield Example(browser.term(best), f"looks like {browser.name(best)}", found[best])
    other = browser.position_of_id(found[best][0].id)
    if other is not None:
        formula = f"like({browser.term(best)}, {browser.term(other)})"
        yield _first(gallery, [(formula, "shows the same thing as these two photos")])


def _spread(browser: Browser) -> list[int]:
    """Return the positions of a few images, spread over the gallery, or over the start of a large one."""
    listed = browser.positions(Filter())[: min(len(browser), _LOOKED_AT)]
    return [int(place) for place in evenly(listed, _IMAGES)]


def _first(gallery: Gallery, asked: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Example | None:
    """Return the first of some queries that has hits."""
    for (formula, sentence), _ in zip(asked, range(_TRIED), strict=False):
        if hits := _found(gallery, formula):
            return Example(formula, sentence, hits)
    return None


def _found(gallery: Gallery, formula: str, top: int = _HITS) -> Hits:
    """Return the best hits that are not weak."""
    try:
        return Hits(hit for hit in gallery.search(formula, top=top, images={}) if not hit.is_weak)
    except AndornotError:
        return Hits()
