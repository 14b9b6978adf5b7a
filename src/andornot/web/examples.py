"""Queries that find something in this very gallery, to show what can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import AndornotError
from ..gallery.hits import Hits
from ..gallery.options import Filter
from ..logic.atoms import write_name
from ..similarity import evenly
from ..words import WordError
from ..words.nouns import with_article, wordnet_nouns
from .browsing import Browser

if TYPE_CHECKING:
    from ..gallery import Gallery

_HITS: Final = 4
# Words that are looked at for two that are seen together, and of each its best images.
_WORDS: Final = 16
_BEST: Final = 48
_TRIED: Final = 6
_IMAGES: Final = 8
_LOOKED_AT: Final = 10_000


class Example(NamedTuple):
    """A query, what it asks for as a sentence, and its best hits."""

    formula: str
    sentence: str
    hits: Hits


def examples_of(gallery: Gallery) -> list[Example]:
    """From none to five queries whose best hits are no weak ones: of words if there are any, and of images."""
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
    """Two words that the same images show, those with most of these first."""
    for one, other in sorted(combinations(seen, 2), key=lambda pair: -len(seen[pair[0]] & seen[pair[1]])):
        if seen[one] & seen[other] and not _are_kin(one, other):
            yield f"{write_name(one)} and {write_name(other)}", f"shows {with_article(one)} and {with_article(other)}"


def _without(seen: dict[str, frozenset[int]]) -> Iterator[tuple[str, str]]:
    """A word, and another that some of its images show and some do not."""
    pairs = [(one, other) for pair in combinations(seen, 2) for one, other in (pair, pair[::-1])]
    for one, other in sorted(pairs, key=lambda pair: -min(len(seen[pair[0]] & seen[pair[1]]), _HITS)):
        if seen[one] - seen[other] and not _are_kin(one, other):
            yield f"{write_name(one)} and not {write_name(other)}", f"shows {with_article(one)}, but no {other}"


def _are_kin(one: str, other: str) -> bool:
    """Whether one is a kind of the other, or both are kinds of one thing: then they name the same things."""
    try:
        first, second = (wordnet_nouns().look_up(word).synset for word in (one, other))
    except WordError:  # a named feature that WordNet has no classes for
        return False
    return bool(
        {first, *first.parents} & {second, *second.parents} or {first} & second.ancestors or {second} & first.ancestors
    )


def _by_images(gallery: Gallery) -> Iterator[Example | None]:
    """An image that others are like, and the same with one of these."""
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
    """A few images, spread over the gallery, or over its beginning where there may be any number."""
    listed = browser.positions(Filter())[: min(len(browser), _LOOKED_AT)]
    return [int(place) for place in evenly(listed, _IMAGES)]


def _first(gallery: Gallery, asked: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Example | None:
    """The first of some queries that finds something."""
    for (formula, sentence), _ in zip(asked, range(_TRIED), strict=False):
        if hits := _found(gallery, formula):
            return Example(formula, sentence, hits)
    return None


def _found(gallery: Gallery, formula: str, top: int = _HITS) -> Hits:
    """The best hits that are not weak."""
    try:
        return Hits(hit for hit in gallery.search(formula, top=top, images={}) if not hit.is_weak)
    except AndornotError:
        return Hits()
