"""The words of a gallery: lookup, truth in images, and descriptions of images."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..concepts import (
    Approximation,
    ImageNetVocabulary,
    Meaning,
    NamedFeature,
    Noun,
    PhraseVocabulary,
    QuantizedClasses,
    ShownNoun,
    WordError,
    half_point,
    vocabulary_for,
)
from ..concepts.descriptions import NUM_NOUNS, distinctive_nouns, is_everyday, is_likely, which_are_likely
from ..concepts.heads import Box
from ..concepts.nouns import NUM_CLASSES, Synset, normalized, wordnet_nouns
from ..concepts.vocabulary import LIKELY
from ..model import Model
from ..similarity import SCALE_SAMPLE, evenly
from .blocks import TopClasses
from .plan import merge_nearest
from .rows import CLASSES, NAMED
from .shard import Shards
from .table import ImageTable

# Sample size for word counts; in a larger gallery they are estimates.
_SAMPLE: Final = 20_000
_ROWS_AT_ONCE: Final = 4096
# Number of approximations whose scale is cached.
_KEPT: Final = 256
# A noun is clearly visible if its mean support in its best images is at least this: true for 23 nouns on the photos of
# VOC; on drawn scenes for balloons and balls, but not for the "hair slide" that is detected in curved shapes.
_SURE: Final = 0.25
# The best images are one in 50, at most 20.
_MOST: Final = 20
_ONE_IN: Final = 50
# Number of distinctive words to check for being clearly visible.
_DISTINCTIVE: Final = 256


class Vocabulary:
    """The words that can be searched. Data is loaded on first use."""

    def __init__(self, model: Model, has_classes: bool) -> None:
        """Initialize. `has_classes`: the gallery stores the classes of images, which nouns need."""
        self._model, self._has_classes = model, has_classes

    @cached_property
    def _words(self) -> ImageNetVocabulary | PhraseVocabulary | WordError:
        try:
            return vocabulary_for(self._model.backbone)
        except WordError as error:
            return error

    @property
    def of_model(self) -> ImageNetVocabulary | PhraseVocabulary:
        """The vocabulary of the model; raises a WordError if it has none."""
        if isinstance(self._words, WordError):
            raise self._words
        return self._words

    @property
    def takes_any_phrase(self) -> bool:
        """Whether the model has a text tower, so that any phrase is a word."""
        return isinstance(self._words, PhraseVocabulary)

    @property
    def is_ready(self) -> bool:
        """Whether words can be searched."""
        return self.takes_any_phrase or (self._has_classes and isinstance(self._words, ImageNetVocabulary))

    def meaning(self, word: str) -> Meaning:
        """Return the meaning of a known word, or raise a WordError."""
        return self.of_model.meaning(word)

    def find(self, word: str) -> Meaning | None:
        """Return the meaning of a word; None if it is unknown."""
        with suppress(WordError):
            return self.meaning(word)
        return None

    def phrase(self, text: str) -> Meaning:
        """Return the meaning of any phrase: a known word, possibly translated or respelled, or an approximation.

        Raise a WordError if there are no words, or for text without letters.
        """
        words = self.of_model
        known = self.find(text)
        return known or (words.meaning(text) if isinstance(words, PhraseVocabulary) else words.phrase(text))

    def about(self, word: str) -> str:
        """Return a message about an unknown name."""
        try:
            self.phrase(word)
        except WordError as error:
            return str(error)
        return ""


class WordCount(NamedTuple):
    """A word, and the number of images that show it."""

    word: str
    images: int


class WordIndex:
    """Words with counts, for completion. `is_ready`: words can be searched, even if they cannot be listed."""

    def __init__(self, counts: Mapping[str, int], telling: Sequence[WordCount] = (), is_ready: bool = True) -> None:
        self._counts = {word: _two_digits(count) for word, count in counts.items()}
        self.telling = [WordCount(word, _two_digits(count)) for word, count in telling]
        self.is_ready = is_ready

    def beginning(self, text: str) -> list[WordCount]:
        """Return the words that start with a prefix, followed by phrases with a word that does.

        In both groups, distinctive words come first, named features before nouns; then the most frequent. Counts are
        estimates, rounded to two digits.

        >>> index = WordIndex({"polar bear": 3, "bear": 5, "beard": 0, "dog": 9})
        >>> [word for word, _ in index.beginning("Bear")]
        ['bear', 'beard', 'polar bear']
        """
        start = normalized(text)
        found = dict.fromkeys([*self._from(self._starts, start), *self._from(self._inner, start)])
        return list(found)

    def _from(self, sorted_words: Sequence[tuple[str, str]], start: str) -> list[WordCount]:
        first = bisect_left(sorted_words, (start, ""))
        found = []
        for beginning, word in sorted_words[first:]:
            if not beginning.startswith(start):
                break
            found.append(WordCount(word, self._counts[word]))
        last = len(self._places)
        return sorted(found, key=lambda one: (self._places.get(one.word, last), -one.images, one.word))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, (word, _) in enumerate(self.telling)}

    @cached_property
    def _starts(self) -> list[tuple[str, str]]:
        return sorted((word, word) for word in self._counts)

    @cached_property
    def _inner(self) -> list[tuple[str, str]]:
        """The words of several parts, each by its text from an inner part on."""
        return sorted(
            (" ".join(parts[at:]), word)
            for word in self._counts
            for parts in [word.split()]
            for at in range(1, len(parts))
        )


NO_WORDS: Final = WordIndex({}, is_ready=False)


class GalleryWords:
    """The words of one version of a gallery."""

    def __init__(self, table: ImageTable, vocabulary: Vocabulary, shards: Shards) -> None:
        self._table, self.vocabulary, self._shards = table, vocabulary, shards
        self._halves: dict[Meaning, float] = {}
        self._may_be_seen: dict[Meaning, bool] = {}
        self._scaled: dict[Approximation, Approximation] = {}

    @cached_property
    def _sample_ids(self) -> np.ndarray:
        return evenly(self._table.ids, _SAMPLE)

    @property
    def has_classes(self) -> bool:
        """Whether the classes of images are stored."""
        return CLASSES in self._table.columns

    def half(self, meaning: Meaning) -> float:
        """Return the support at which a word has truth 0.5, estimated on a sample of the gallery."""
        if meaning.half is not None:
            return meaning.half
        if meaning not in self._halves:
            self._halves[meaning] = half_point(torch.from_numpy(self.support(meaning, self._sample_ids)))
        return self._halves[meaning]

    def scaled(self, meaning: Meaning) -> Meaning:
        """Return an approximation scaled to the gallery; other meanings are returned unchanged."""
        if not isinstance(meaning, Approximation):
            return meaning
        if meaning not in self._scaled:
            if len(self._scaled) >= _KEPT:
                self._scaled.clear()
            self._scaled[meaning] = meaning.scaled_to(meaning.scores(self._scale_sample))
        return self._scaled[meaning]

    @cached_property
    def _scale_sample(self) -> Tensor:
        """The evidence of a sample of images with stored classes, for the scale of scores."""
        evidence = self._evidence(evenly(self._table.ids, SCALE_SAMPLE))
        return evidence[evidence[:, :NUM_CLASSES].any(1)]

    def support(self, meaning: Meaning, ids: np.ndarray) -> np.ndarray:
        """Return the support `(n,)` of existing images for a word, in the order of `ids`."""
        parts = self._shards.map("support", meaning, ids)
        found = np.concatenate([part[0] for part in parts])
        support = np.concatenate([part[1] for part in parts])
        order = np.argsort(found, kind="stable")
        return np.asarray(support[order][np.searchsorted(found[order], ids)])

    def best(self, meaning: Meaning, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of the images that support a word most, best first, and their support."""
        found = merge_nearest(self._shards.map("best_by_word", self.scaled(meaning), count), count)
        return found.ids[0], found.scores[0]

    def may_be_seen(self, meaning: Meaning) -> bool:
        """Return whether a word is likely in at least one image; always True for a phrase."""
        if isinstance(meaning, NamedFeature):
            return bool((self.best(meaning, 1)[1] >= meaning.half).any())
        if not isinstance(meaning, Noun):
            return True
        if meaning not in self._may_be_seen:
            evidence = self._class_evidence(np.sort(self.best(meaning, _MOST)[0]))
            self._may_be_seen[meaning] = bool(is_likely(evidence.numpy(), meaning.synset).any())
        return self._may_be_seen[meaning]

    # --- lists of words ---------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[Synset, int]:
        """The number of images that show each noun; an estimate in a large gallery."""
        counts = [0] * NUM_NOUNS
        if self.has_classes:
            counts = self._estimate(lambda ids: which_are_likely(self._class_evidence(ids).numpy()), NUM_NOUNS)
        return dict(zip(wordnet_nouns().synsets, counts, strict=True))

    def _estimate(self, shows: Callable[[np.ndarray], np.ndarray], num_words: int) -> list[int]:
        """Estimate how many images show each word from a sample, for which `shows` returns a mask `(n, words)`."""
        counts = np.zeros(num_words)
        for start in range(0, len(self._sample_ids), _ROWS_AT_ONCE):
            counts += shows(self._sample_ids[start : start + _ROWS_AT_ONCE]).sum(0)
        scale = len(self._table) / max(1, len(self._sample_ids))
        return [int(count) for count in np.round(counts * scale)]

    @cached_property
    def named_counts(self) -> dict[str, int]:
        """The number of images that show each named feature, things first; an estimate in a large gallery."""
        words = self.vocabulary.of_model
        if not isinstance(words, ImageNetVocabulary) or words.heads is None or NAMED not in self._table.columns:
            return {}
        names = words.heads.names
        counts = self._estimate(lambda ids: self._table.named(ids) >= LIKELY, len(names))
        found = dict(zip(names, counts, strict=True))
        things = {name for name, group in zip(names, words.heads.groups, strict=True) if group == "coco"}
        return dict(sorted(found.items(), key=lambda word: (word[0] not in things, -word[1])))

    def complete(self, beginning: str) -> dict[str, int]:
        """Return the words with a prefix and the number of images that show each, most frequent first."""
        words, start = self.vocabulary.of_model, normalized(beginning)
        meanings = {word: words.meaning(word) for word in words.complete(beginning)}
        found = {word: count for word, count in self.named_counts.items() if word.startswith(start)}
        for word, meaning in meanings.items():
            if isinstance(meaning, NamedFeature):
                found[word] = self.named_counts.get(meaning.name, 0)
            elif isinstance(meaning, Noun):
                found[word] = self.counts[meaning.synset]
        return dict(sorted(found.items(), key=lambda word: -word[1]))

    @cached_property
    def index(self) -> WordIndex:
        """All words with counts, and which of them are distinctive."""
        if not self.vocabulary.is_ready:
            return NO_WORDS
        distinctive = [] if self.vocabulary.takes_any_phrase else distinctive_nouns(self.counts)[:_DISTINCTIVE]
        named = [WordCount(word, count) for word, count in self.named_counts.items() if count]
        nouns = [WordCount(noun.word, self.counts[noun]) for noun in self._surely_seen(distinctive)]
        others = [noun for noun in nouns if isinstance(self.vocabulary.find(noun.word), Noun)]
        offered = {word: count for word, count in self.complete("").items() if self._is_offered(word)}
        return WordIndex(offered, [*named, *others])

    def _is_offered(self, word: str) -> bool:
        """Return whether a word is offered as a completion; other words can still be typed."""
        meaning = self.vocabulary.find(word)
        return is_everyday(word, meaning.synset) if isinstance(meaning, Noun) else meaning is not None

    def _surely_seen(self, nouns: Sequence[Synset]) -> list[Synset]:
        """Return the nouns that are clearly visible in some images; for drawings, classes are often unreliable."""
        if not nouns or not self.has_classes:
            return []
        classes = TopClasses(*self._table.classes(self._sample_ids))
        return [noun for noun in nouns if _mean_of_best(classes.support(noun.classes)) >= _SURE]

    # --- images in words --------------------------------------------------------------------------------------------

    def _evidence(self, ids: np.ndarray) -> Tensor:
        """Return the stored evidence of images, `(n, E)`: classes and named features."""
        if NAMED not in self._table.columns:
            return self._class_evidence(ids)
        kept, valid, named = self._table.classes_and_named(ids)
        return torch.cat([_evidence_of(kept, valid), torch.from_numpy(named)], 1)

    def _class_evidence(self, ids: np.ndarray) -> Tensor:
        """Return the stored evidence of the classes of images, `(n, 1000)`."""
        return _evidence_of(*self._table.classes(ids))

    def describe(self, ids: np.ndarray) -> list[list[ShownNoun]]:
        """Return the words of each image; empty if its classes are not stored."""
        words = self.vocabulary.of_model if self.has_classes and len(ids) else None
        if not isinstance(words, ImageNetVocabulary):
            return [[]] * len(ids)
        return words.describe_all(self._evidence(ids))

    def boxes(self, meanings: Mapping[str, Meaning], ids: np.ndarray) -> list[dict[str, Box]]:
        """Return the boxes of words in each image, as fractions of the backbone's input; only likely named features."""
        columns = {text: word.column for text, word in meanings.items() if isinstance(word, NamedFeature)}
        if not columns or not len(ids):
            return [{}] * len(ids)
        stored = self._table.word_boxes(ids)
        return [
            {text: tuple(boxes[words == column][0].tolist()) for text, column in columns.items() if column in words}
            for words, boxes in zip(stored.words, stored.boxes, strict=True)
        ]

    def describe_together(self, ids: np.ndarray) -> list[ShownNoun]:
        """Return the words for several images together."""
        words = self.vocabulary.of_model if self.has_classes and len(ids) else None
        return words.describe(self._evidence(ids).mean(0)) if isinstance(words, ImageNetVocabulary) else []


def _two_digits(count: int) -> int:
    """Round an estimate to two digits: 2,341 to 2,300."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return step * round(count / step)


def words_in(shown: Sequence[ShownNoun]) -> dict[str, float]:
    """Return the words of an image with their probabilities."""
    return {noun.word: noun.probability for noun in shown}


def _evidence_of(kept: QuantizedClasses, valid: np.ndarray) -> Tensor:
    """Return the evidence `(n, 1000)` of stored classes, 0 for images without any."""
    evidence = kept.evidence()
    evidence[torch.from_numpy(~valid)] = 0
    return evidence


def _mean_of_best(support: np.ndarray) -> float:
    count = min(len(support), min(_MOST, 1 + len(support) // _ONE_IN))
    return float(np.partition(support, -count)[-count:].mean()) if count else 0.0
