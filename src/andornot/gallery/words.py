"""The words of a gallery: which can be asked for, how true they are of images, and what images show."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from ..similarity import evenly
from ..words import (
    ImageNetVocabulary,
    Meaning,
    NamedFeature,
    Noun,
    PhraseVocabulary,
    ShownNoun,
    UnknownWordError,
    WordError,
    half_point,
    vocabulary_for,
)
from ..words.common_nouns import distinctive_nouns
from ..words.descriptions import NUM_NOUNS, is_likely, which_are_likely
from ..words.nouns import Synset, normalized, wordnet_nouns
from .blocks import TopClasses
from .definitions import listed
from .plan import merge_nearest
from .rows import CLASSES, NAMED
from .shard import Shards
from .table import ImageTable

# Images that tell how common words are; of a larger gallery numbers are estimates.
_SAMPLE: Final = 20_000
_ROWS_AT_ONCE: Final = 4096
# So much of the evidence speaks for a noun in its best images, on average, if it is surely there: 23 nouns on the
# photos of VOC; on drawn scenes balloons and balls, and not the "hair slide" that is seen in whatever is curved.
_SURE: Final = 0.25
# The best are one image in 50, and at most so many.
_MOST: Final = 20
_ONE_IN: Final = 50
# Distinctive words that are looked at for whether they are surely seen.
_DISTINCTIVE: Final = 256


class Vocabulary:
    """The words that can be asked for. Nothing is read before a word is asked for."""

    def __init__(self, model: Model, has_classes: bool) -> None:
        """`has_classes`: the classes of images are stored, which nouns need."""
        self._model, self._has_classes = model, has_classes

    @cached_property
    def _words(self) -> ImageNetVocabulary | PhraseVocabulary | WordError:
        try:
            return vocabulary_for(self._model)
        except WordError as error:
            return error

    @property
    def of_model(self) -> ImageNetVocabulary | PhraseVocabulary:
        """The words of the model, or the WordError that says why it has none."""
        if isinstance(self._words, WordError):
            raise self._words
        return self._words

    @property
    def takes_any_phrase(self) -> bool:
        """Whether a text tower makes a word of any phrase."""
        return isinstance(self._words, PhraseVocabulary)

    @property
    def is_ready(self) -> bool:
        """Whether words can be asked for."""
        return self.takes_any_phrase or (self._has_classes and isinstance(self._words, ImageNetVocabulary))

    def meaning(self, word: str) -> Meaning:
        """Return what a word means, or raise a WordError."""
        return self.of_model.meaning(word)

    def find(self, word: str) -> Meaning | None:
        """Return what a word means; None if it is no word."""
        with suppress(WordError):
            return self.meaning(word)
        return None

    def nearest(self, word: str) -> tuple[str, ...]:
        """Return the words near one that means nothing."""
        try:
            self.meaning(word)
        except UnknownWordError as error:
            return error.nearest
        except WordError:
            pass
        return ()

    def about(self, word: str) -> str:
        """Return what to say about a name that nothing has."""
        try:
            self.meaning(word)
        except UnknownWordError as error:
            near = error.nearest
            known = f"{'words' if len(near) > 1 else 'a word'} near it: {listed(near)}" if near else "words are nouns"
            return f"{known}; andornot define gives it a meaning of your own"
        except WordError as error:
            return str(error)
        return ""


class WordCount(NamedTuple):
    """A word, and how many images show it."""

    word: str
    images: int


class WordIndex:
    """Words with counts, for completion. `is_ready`: words can be asked for, whether there is a list of them or not."""

    def __init__(self, counts: Mapping[str, int], telling: Sequence[WordCount] = (), is_ready: bool = True) -> None:
        self._counts, self.telling, self.is_ready = counts, telling, is_ready

    def beginning(self, text: str) -> list[WordCount]:
        """Return the words that begin so, and after them those of several words one of which does.

        Of each, distinctive words come first, and then those that most images show.

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
        return sorted(found, key=lambda one: (one.word not in self._distinctive, -one.images))

    @cached_property
    def _distinctive(self) -> frozenset[str]:
        return frozenset(word for word, _ in self.telling)

    @cached_property
    def _starts(self) -> list[tuple[str, str]]:
        return sorted((word, word) for word in self._counts)

    @cached_property
    def _inner(self) -> list[tuple[str, str]]:
        """Each word by its text from the second part on."""
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

    @cached_property
    def _sample_ids(self) -> np.ndarray:
        return evenly(self._table.ids, _SAMPLE)

    @property
    def has_classes(self) -> bool:
        """Whether the classes of images are stored."""
        return CLASSES in self._table.columns

    def half(self, meaning: Meaning) -> float:
        """Return the support at which a word is half true, by a sample of the gallery."""
        if meaning.half is not None:
            return meaning.half
        if meaning not in self._halves:
            self._halves[meaning] = half_point(torch.from_numpy(self.support(meaning, self._sample_ids)))
        return self._halves[meaning]

    def support(self, meaning: Meaning, ids: np.ndarray) -> np.ndarray:
        """Return how far images support a word, `(n,)`, in the order of the ids given, which all are there."""
        parts = self._shards.map("support", meaning, ids)
        found = np.concatenate([part[0] for part in parts])
        support = np.concatenate([part[1] for part in parts])
        order = np.argsort(found, kind="stable")
        return np.asarray(support[order][np.searchsorted(found[order], ids)])

    def best(self, meaning: Meaning, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of the images that support a word most, the best first, and their support."""
        found = merge_nearest(self._shards.map("best_by_word", meaning, count), count)
        return found.ids[0], found.scores[0]

    def may_be_seen(self, meaning: Meaning) -> bool:
        """Return whether a word is likely in any image at all; always True for a phrase."""
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
        """How many images show each noun; in a large gallery an estimate."""
        counts = [0] * NUM_NOUNS
        if self.has_classes:
            counts = self._estimate(lambda ids: which_are_likely(self._class_evidence(ids).numpy()), NUM_NOUNS)
        return dict(zip(wordnet_nouns().synsets, counts, strict=True))

    def _estimate(self, shows: Callable[[np.ndarray], np.ndarray], num_words: int) -> list[int]:
        """Return how many images show each word, by a sample of which `shows` says that, `(n, words)`."""
        counts = np.zeros(num_words)
        for start in range(0, len(self._sample_ids), _ROWS_AT_ONCE):
            counts += shows(self._sample_ids[start : start + _ROWS_AT_ONCE]).sum(0)
        scale = len(self._table) / max(1, len(self._sample_ids))
        return [int(count) for count in np.round(counts * scale)]

    @cached_property
    def named_counts(self) -> dict[str, int]:
        """How many images show each named feature, things first; in a large gallery an estimate."""
        words = self.vocabulary.of_model
        if not isinstance(words, ImageNetVocabulary) or words.heads is None or NAMED not in self._table.columns:
            return {}
        names = words.heads.names
        counts = self._estimate(lambda ids: self._table.named(ids) >= NamedFeature.half, len(names))
        found = dict(zip(names, counts, strict=True))
        things = {name for name, group in zip(names, words.heads.groups, strict=True) if group == "coco"}
        return dict(sorted(found.items(), key=lambda word: (word[0] not in things, -word[1])))

    def complete(self, beginning: str) -> dict[str, int]:
        """Return the words that begin so, and how many images show each, most first."""
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
        return WordIndex(self.complete(""), [*named, *others])

    def _surely_seen(self, nouns: Sequence[Synset]) -> list[Synset]:
        """Return those of some nouns that are plain to see in a few images, which classes of drawings seldom are."""
        if not nouns or not self.has_classes:
            return []
        classes = TopClasses(*self._table.classes(self._sample_ids))
        return [noun for noun in nouns if _mean_of_best(classes.support(noun.classes)) >= _SURE]

    # --- images in words --------------------------------------------------------------------------------------------

    def _evidence(self, ids: np.ndarray) -> Tensor:
        """Return what is stored of the classes and named features of images, `(n, E)`."""
        evidence = self._class_evidence(ids)
        if NAMED not in self._table.columns:
            return evidence
        return torch.cat([evidence, torch.from_numpy(self._table.named(ids))], 1)

    def _class_evidence(self, ids: np.ndarray) -> Tensor:
        """Return what is stored of the classes of images, `(n, 1000)`."""
        kept, valid = self._table.classes(ids)
        evidence = kept.evidence()
        evidence[torch.from_numpy(~valid)] = 0
        return evidence

    def describe(self, ids: np.ndarray) -> list[list[ShownNoun]]:
        """Return what images show; nothing where nothing is known."""
        words = self.vocabulary.of_model if self.has_classes and len(ids) else None
        if not isinstance(words, ImageNetVocabulary):
            return [[]] * len(ids)
        return words.describe_all(self._evidence(ids))

    def describe_together(self, ids: np.ndarray) -> list[ShownNoun]:
        """Return what images show, taken as one."""
        words = self.vocabulary.of_model if self.has_classes and len(ids) else None
        return words.describe(self._evidence(ids).mean(0)) if isinstance(words, ImageNetVocabulary) else []


def words_in(shown: Sequence[ShownNoun]) -> tuple[str, ...]:
    """Return the words alone of what an image shows."""
    return tuple(noun.word for noun in shown)


def _mean_of_best(support: np.ndarray) -> float:
    count = min(len(support), min(_MOST, 1 + len(support) // _ONE_IN))
    return float(np.partition(support, -count)[-count:].mean()) if count else 0.0
