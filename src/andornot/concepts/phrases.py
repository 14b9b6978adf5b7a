"""Words for a backbone with a text tower: any phrase is a direction in the space of image embeddings."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..ssl.backbones import JointBackbone, TextTower
from .vocabulary import Meaning, UnknownWordError, WordError

# The towers were trained on captions of this kind.
_PROMPT: Final = "a photo of {}"
# Captions that fit any image; for a tower without a bias, phrases are compared with these.
_NEUTRAL: Final = ("a photo", "a picture", "an image", "a photo of something")


@dataclass(frozen=True, eq=False)
class Phrase(Meaning):
    """A phrase as a logit: `scale` times the cosine to `direction` `(width,)`, plus `bias`."""

    direction: Tensor
    scale: float
    bias: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Phrase):
            return NotImplemented
        same = (self.word, self.name, self.scale, self.bias) == (other.word, other.name, other.scale, other.bias)
        return same and self.direction.equal(other.direction)

    def __hash__(self) -> int:
        return hash((self.word, self.name, self.scale, self.bias))


class PhraseVocabulary:
    """The words of a backbone with a text tower. Evidence `(B, width)` is the image's unit embedding."""

    def __init__(self, backbone: JointBackbone) -> None:
        tower = backbone.text_tower
        if tower is None:
            raise WordError(
                f"{backbone.name} has no words: its weights are not those that its text tower was trained with"
            )
        self._backbone, self._tower = backbone, tower
        self._neutral = _neutral(tower)

    def meaning(self, word: str) -> Phrase:
        """Return the phrase, which may be anything but empty."""
        phrase = " ".join(word.split())
        if not phrase:
            raise UnknownWordError("the word is empty")
        direction = self._tower.encode([_PROMPT.format(phrase)])[0] - self._neutral
        return Phrase(word, phrase, _PROMPT.format(phrase), direction, self._tower.scale, self._tower.bias or 0.0)

    def evidence(self, maps: Tensor) -> Tensor:
        """Return unit embeddings `(B, width)` of images."""
        return normalize(self._backbone.pool(maps), dim=-1)

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """Return the probability that the phrase belongs to the image: the sigmoid of its logit."""
        if not isinstance(meaning, Phrase):
            raise TypeError(f"expected a Phrase, got {type(meaning).__name__}")
        return torch.sigmoid(meaning.scale * (evidence @ meaning.direction.to(evidence)) + meaning.bias)

    def complete(self, _prefix: str) -> list[str]:
        """Return an empty list, because any phrase is a word."""
        return []


def _neutral(tower: TextTower) -> Tensor:
    """Return the direction that phrases are compared with: zero if the tower has a bias, else the mean neutral caption.

    The sigmoid of the difference of two logits is the softmax over both.
    """
    directions = tower.encode(_NEUTRAL)
    return directions.mean(0) if tower.bias is None else torch.zeros_like(directions[0])
