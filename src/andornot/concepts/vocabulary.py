"""Common parts of vocabularies: errors, meanings, and the conversion of support to truth."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from ..errors import AndornotError

# Longer words are cut in error messages.
_MAX_SHOWN: Final = 40
# Support that one image in twenty reaches has truth 0.5. Chosen on VOC2007: see docs/words.md.
_QUANTILE: Final = 0.95
# Limits of the support with truth 0.5: less is noise even for a rare word, more is enough even for a common one.
_MIN_HALF, _MAX_HALF = 0.01, 0.3
# The quantile is computed on at most this many images.
_SAMPLE_SIZE: Final = 100_000


# The probability from which an image counts as showing a named feature.
LIKELY: Final = 0.5


class ConceptError(AndornotError):
    """Raised for a file of named features that can't be read, or a feature map of the wrong shape."""


class WordError(AndornotError):
    """Raised for a word that cannot be searched, or for a model without words."""


class UnknownWordError(WordError):
    """Raised for a word that the model does not know; `nearest` are similar known words."""

    def __init__(self, message: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class Meaning:
    """The meaning of a word: the word as typed, the name of the meaning, and a short definition.

    `taken_for` is the known word that an unknown one was mapped to, such as *dog* for *Hund*, or the sense that was
    chosen for an ambiguous word.
    """

    # The truth below which a hit is weak.
    weak: ClassVar[float] = 0.5

    word: str
    name: str
    gloss: str
    taken_for: str = field(default="", kw_only=True)

    @property
    def half(self) -> float | None:
        """The support at which its truth is 0.5; None to use `half_point` of all images."""
        return None

    @property
    def note(self) -> "WordNote | None":
        """A note on how the word was interpreted; None for a known word."""
        return WordNote("taken-for", self.word, (self.taken_for,)) if self.taken_for else None


class WordNote(NamedTuple):
    """How an unknown word was interpreted: "taken-for" a known word, or "approximate", by known words.

    >>> print(WordNote("approximate", "picnic", ("sandwich", "park bench")))
    picnic: approximately, by sandwich, park bench
    >>> print(WordNote("taken-for", "Hund", ("dog",)))
    Hund: taken for dog
    """

    code: Literal["taken-for", "approximate"]
    word: str
    by: tuple[str, ...]

    def __str__(self) -> str:
        said = "taken for" if self.code == "taken-for" else "approximately, by"
        return f"{shortened(self.word)}: {said} {', '.join(self.by)}"


@dataclass(frozen=True)
class NamedFeature(Meaning):
    """A word with its own head, whose support is a calibrated probability; `column` is the head's column."""

    column: int

    @property
    def half(self) -> float:
        """The support at which its truth is 0.5: its support is a probability."""
        return LIKELY


class ModelVocabulary(Protocol):
    """The words of a model.

    The evidence of an image is a row of numbers that is enough to score any word. It is computed once, from the
    image's feature map; support and truth are computed from the evidence alone.
    """

    def meaning(self, word: str) -> Meaning:
        """Return the meaning of a word, or raise an `UnknownWordError` with the nearest known words."""

    def evidence(self, maps: Tensor) -> Tensor:
        """Return the evidence `(B, E)` of feature maps `(B, C, h, w)`, as `Model.iter_feature_maps` yields them."""

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """Return how strongly evidence `(n, E)` supports a meaning: `(n,)`, from 0 to 1, comparable between images."""

    def complete(self, prefix: str) -> Sequence[str]:
        """Return the known words with this prefix, sorted; empty if any phrase is a word."""


def half_point(support: Tensor) -> float:
    """Return the support at which a noun or phrase has truth 0.5, for images with support `(n,)`.

    >>> half_point(torch.zeros(10)), half_point(torch.ones(10))
    (0.01, 0.3)
    """
    if not len(support):
        return _MIN_HALF
    step = max(1, len(support) // _SAMPLE_SIZE)
    return min(max(float(torch.quantile(support[::step].float(), _QUANTILE)), _MIN_HALF), _MAX_HALF)


def truth_of(support: Tensor, half: float | None = None) -> Tensor:
    """Return truth `(n,)` from 0 to 1: the odds of the support relative to the odds of `half`.

    Truth is monotonic in the support, and 1 where the support is 1, however common the word is. `half` is the
    `half_point` of all images that are compared; by default, of the given ones.
    """
    half = half_point(support) if half is None else half
    in_favour, against = support * (1 - half), half * (1 - support)
    return in_favour / (in_favour + against)


def shortened(word: str) -> str:
    """Return the word shortened for an error message.

    >>> shortened("dog"), len(shortened("x" * 10_000))
    ('dog', 41)
    """
    return word if len(word) <= _MAX_SHOWN else f"{word[:_MAX_SHOWN]}…"
