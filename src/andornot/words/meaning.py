"""What a word means to a model, and what knows such words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Meaning:
    """What a word was taken for: the word as it was asked, the name of its meaning, and what that is, in short."""

    word: str
    name: str
    gloss: str


class Words(Protocol):
    """A word in, its truth in pictures out.

    What of a picture is needed for any word is its evidence, a row of numbers. It is made once, of the picture's
    feature map; support and truth are made of evidence alone.
    """

    def meaning(self, word: str) -> Meaning:
        """What the word means, or an `UnknownWordError` that names the nearest words that mean something."""

    def evidence(self, maps: Tensor) -> Tensor:
        """The evidence `(B, E)` of pictures with feature maps `(B, C, h, w)`, as `Model.look` gives them."""

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """How far evidence `(n, E)` speaks for a meaning: `(n,)`, from 0 to 1, comparable between pictures."""

    def complete(self, beginning: str) -> Sequence[str]:
        """Known words that begin so, in the order of the alphabet; none where any phrase is a word."""
