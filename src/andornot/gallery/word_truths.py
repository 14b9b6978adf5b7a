"""How true a word is of pictures, which pictures show it best, and what pictures show, in words."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..words import Meaning, NamedClasses, Noun, Shown, half_of, truth_of
from ..words.describing import NUM_NOUNS, is_likely
from ..words.nouns import Synset, wordnet_nouns
from ..words.telling import telling_nouns
from .postings import Evidence, Postings
from .vectors import Sources
from .vocabulary import Vocabulary
from .word_index import NO_WORDS, WordCount, WordIndex

# Words whose support in all pictures is kept, once computed: 4 MB each in a gallery of a million.
_KEPT: Final = 16
_BLOCK: Final = 8192
# So much of the evidence speaks for a noun in its best pictures, on average, if it is surely there: 23 nouns on the
# photographs of VOC; on drawn scenes balloons and balls, and not the "hair slide" that is seen in whatever is curved.
_SURE: Final = 0.25
# The best are one picture in 50, and at most so many.
_MOST: Final = 20
_ONE_IN: Final = 50
# Words that tell most of a gallery, looked at for whether they are surely seen.
_TOLD: Final = 256


class _Supported(NamedTuple):
    """Of a word: its support in all rows, what is half the truth of it, and whether it is likely in any picture."""

    support: Tensor
    half: float
    may_be_seen: bool


class WordTruths:
    """The words of one state of a gallery. `rows` are rows of features, in any order."""

    def __init__(self, sources: Sources, vocabulary: Vocabulary, evidence: Evidence | None) -> None:
        """`evidence`: what is kept of the classes of pictures; None if nothing is."""
        self._sources, self._vocabulary, self._evidence = sources, vocabulary, evidence
        self._kept_supports: dict[Meaning, _Supported] = {}

    @cached_property
    def _used(self) -> np.ndarray:
        """The rows of pictures."""
        return np.flatnonzero(self._sources.snapshot.id_of_row)

    @cached_property
    def postings(self) -> Postings | None:
        """The pictures of each class; None if no classes are kept."""
        if self._evidence is None:
            return None
        state = self._sources.snapshot.state
        return Postings(self._sources.folder, state.first_file, state.rows, self._evidence)

    def truth(self, meaning: Meaning, rows: np.ndarray | None = None) -> Tensor:
        """How true a word is of some rows, or of all there are, `(n,)` from 0 to 1, compared with all pictures."""
        support, half, _ = self._supported(meaning)
        return truth_of(support if rows is None else support[torch.from_numpy(rows)], half)

    def best_rows(self, meaning: Meaning, count: int) -> np.ndarray:
        """The rows of the pictures that show a word best, the best first."""
        support = self._supported(meaning).support.numpy()[self._used]
        order = np.argsort(-support, kind="stable")[:count]
        return np.asarray(self._used[order])

    def support(self, meaning: Meaning, rows: np.ndarray) -> Tensor:
        """How far the evidence of some rows speaks for a word, `(n,)`."""
        return self._supported(meaning).support[torch.from_numpy(rows)]

    @cached_property
    def counts(self) -> dict[Synset, int]:
        """How many pictures show each noun."""
        counts = [0] * NUM_NOUNS if self.postings is None else self.postings.nouns(self._used).tolist()
        return dict(zip(wordnet_nouns().synsets, counts, strict=True))

    def may_be_seen(self, meaning: Meaning) -> bool:
        """Whether a word is likely in any picture at all; of a phrase that is not known."""
        return self._supported(meaning).may_be_seen

    def surely_seen(self, nouns: Sequence[Synset]) -> list[Synset]:
        """Those of some nouns that are plain to see in a few pictures, which classes of drawings seldom are."""
        if self.postings is None:
            return []
        return [noun for noun in nouns if _best_mean(self.postings.support(noun.classes)[self._used]) >= _SURE]

    def complete(self, beginning: str) -> dict[str, int]:
        """The words that begin so, and how many pictures show each, most first."""
        words = self._vocabulary.ready
        meanings = {word: words.meaning(word) for word in words.complete(beginning)}
        found = {word: self.counts[noun.synset] for word, noun in meanings.items() if isinstance(noun, Noun)}
        return dict(sorted(found.items(), key=lambda word: -word[1]))

    @cached_property
    def index(self) -> WordIndex:
        """All words with counts, and which of them tell most."""
        if not self._vocabulary.is_ready:
            return NO_WORDS
        telling = [] if self._vocabulary.takes_any_phrase else telling_nouns(self.counts)[:_TOLD]
        seen = self.surely_seen(telling)
        return WordIndex(self.complete(""), [WordCount(noun.word, self.counts[noun]) for noun in seen])

    def kept(self, row: int) -> Tensor | None:
        """What is kept of the classes of a row `(1000,)`; None if nothing is."""
        rows = np.array([row])
        if self._evidence is None or not self._evidence.has(rows).all():
            return None
        return self._evidence.read(rows).evidence()[0]

    def describe(self, rows: np.ndarray) -> list[list[Shown]]:
        """What some rows show; nothing where nothing is known."""
        words = self._vocabulary.of_model if self._evidence is not None and len(rows) else None
        if self._evidence is None or not isinstance(words, NamedClasses):
            return [[]] * len(rows)
        has = self._evidence.has(rows)
        shown = words.describe_all(self._evidence.read(rows).evidence())
        return [one if there else [] for one, there in zip(shown, has.tolist(), strict=True)]

    def describe_together(self, rows: np.ndarray) -> list[Shown]:
        """What some rows show, taken as one picture."""
        words = self._vocabulary.of_model if self._evidence is not None and len(rows) else None
        if self._evidence is None or not isinstance(words, NamedClasses):
            return []
        return words.describe(self._evidence.read(rows).evidence().mean(0))

    def _supported(self, meaning: Meaning) -> _Supported:
        """As `_support`, kept. Not by `lru_cache`, which would keep files open until Python looks for garbage."""
        supported = self._kept_supports.get(meaning)
        if supported is None:
            supported = self._support(meaning)
            if len(self._kept_supports) >= _KEPT:
                self._kept_supports.clear()
            self._kept_supports[meaning] = supported
        return supported

    def _support(self, meaning: Meaning) -> _Supported:
        may_be_seen = True
        if isinstance(meaning, Noun):
            postings = self.postings
            assert postings is not None, "a noun has a meaning only where classes are kept"
            support = torch.from_numpy(postings.support(meaning.classes))
            may_be_seen = self._is_likely_in_its_best(meaning, support.numpy())
        else:
            words = self._vocabulary.of_model
            rows = np.arange(self._sources.snapshot.state.rows)
            parts = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
            support = torch.cat([torch.empty(0), *(words.support(meaning, self._directions(part)) for part in parts)])
        return _Supported(support, half_of(support[torch.from_numpy(self._used)]), may_be_seen)

    def _is_likely_in_its_best(self, noun: Noun, support: np.ndarray) -> bool:
        """Whether a noun is likely in any picture. Only its best are looked at: counting all nouns may take long."""
        assert self._evidence is not None, "a noun has a meaning only where classes are kept"
        best = self._used[_best(support[self._used], _MOST)]
        return bool(is_likely(self._evidence.read(np.sort(best)).evidence().numpy(), noun.synset).any())

    def _directions(self, rows: np.ndarray) -> Tensor:
        return normalize(torch.from_numpy(self._sources.features.read(rows)).float(), dim=-1)


def nouns_in(shown: Sequence[Shown]) -> tuple[str, ...]:
    """The words alone of what a picture shows."""
    return tuple(noun.word for noun in shown)


def _best_mean(support: np.ndarray) -> float:
    best = support[_best(support, min(_MOST, 1 + len(support) // _ONE_IN))]
    return float(best.mean()) if len(best) else 0.0


def _best(support: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest. Not sorted: of a million pictures only these few are looked for."""
    count = min(count, len(support))
    return np.argpartition(support, -count)[-count:] if count else np.empty(0, np.int64)
