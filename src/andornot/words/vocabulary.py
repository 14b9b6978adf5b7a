"""What the words of a model have in common: errors, meanings, and the step from support to truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import torch
from torch import Tensor

from ..errors import AndornotError

# Longer words are cut in error messages.
_MAX_SHOWN: Final = 40
# Support that one image in twenty reaches has truth 0.5. Chosen on VOC2007: see docs/words.md.
_QUANTILE: Final = 0.95
# Less support is noise, even for a rare word; more is enough, even for a common one.
_MIN_HALF, _MAX_HALF = 0.01, 0.3
# The quantile is computed on at most this many images.
_SAMPLE_SIZE: Final = 100_000


class WordError(AndornotError):
    """Raised for a word that cannot be searched, or for a model without words."""


class UnknownWordError(WordError):
    """Raised for a word that means nothing to the model; `nearest` are known words near it."""

    def __init__(self, message: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class Meaning:
    """What a word was taken for: the word as it was typed, the name of its meaning, and a short definition."""

    # The support at which it is half true, if that is known; otherwise `half_point` of all images.
    half: ClassVar[float | None] = None

    word: str
    name: str
    gloss: str


@dataclass(frozen=True)
class NamedFeature(Meaning):
    """A word with a head of its own: its support is a calibrated probability. `column`: that of the head."""

    half = 0.5

    column: int


class ModelVocabulary(Protocol):
    """The words of a model.

    The evidence of an image is a row of numbers that is enough to score any word. It is computed once, from the
    image's feature map; support and truth are computed from the evidence alone.
    """

    def meaning(self, word: str) -> Meaning:
        """Return what the word means, or raise an `UnknownWordError` that names the nearest known words."""

    def evidence(self, maps: Tensor) -> Tensor:
        """Return the evidence `(B, E)` of feature maps `(B, C, h, w)`, as `Model.iter_feature_maps` yields them."""

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """Return how strongly evidence `(n, E)` supports a meaning: `(n,)`, from 0 to 1, comparable between images."""

    def complete(self, prefix: str) -> Sequence[str]:
        """Return the known words with this prefix, sorted; none where any phrase is a word."""


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
    `half_point` of all images that are compared, by default those given.
    """
    half = half_point(support) if half is None else half
    in_favour, against = support * (1 - half), half * (1 - support)
    return in_favour / (in_favour + against)


def shortened(word: str) -> str:
    """Return the word as an error message shows it.

    >>> shortened("dog"), len(shortened("x" * 10_000))
    ('dog', 41)
    """
    return word if len(word) <= _MAX_SHOWN else f"{word[:_MAX_SHOWN]}…"
