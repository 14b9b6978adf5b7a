"""What could stand where somebody types a formula: words, names that were defined, file names."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

from ..gallery.words import WordCount, WordIndex
from ..logic import Atom
from ..logic.atoms import write_name
from ..logic.cursor import Spot, spots
from ..words.nouns import normalized
from .browsing import Browser

_JOINING: Final = ("and", "or", "and not")
_OPENING: Final = ("not", "like(")
# Whatever there is of the first kinds, so much of the list is left for each of the others.
_SHARE: Final = 4


class Completion(NamedTuple):
    """What could stand at a spot: `text` goes there. A word has a number of images, an image its position."""

    text: str
    kind: Literal["word", "image", "definition", "operator"]
    label: str
    images: int | None = None
    position: int | None = None


class Completions(NamedTuple):
    """The part of a text that each of them would replace, and what these are."""

    start: int
    end: int
    found: list[Completion]


class Completer:
    """Completes formulas in one state of a gallery."""

    def __init__(self, browser: Browser, words: WordIndex, definitions: Collection[str]) -> None:
        self._browser, self._words, self._definitions = browser, words, definitions

    def complete(self, text: str, cursor: int, limit: int) -> Completions:
        """Return what could stand at the cursor."""
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
        # What no image shows is told only where nothing else begins so.
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
        """Whether an image or a definition is called so, which comes first."""
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
