"""Words for a backbone with a text tower: any phrase is a direction, as true of a picture as the two are alike."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..ssl.backbones import JointBackbone, TextTower
from .errors import UnknownWordError, WordError
from .meaning import Meaning

# How people write under pictures; the towers were trained on such texts.
_PROMPT: Final = "a photo of {}"
# What can be said of any picture: a tower without a bias compares a phrase with these.
_NEUTRAL: Final = ("a photo", "a picture", "an image", "a photo of something")


@dataclass(frozen=True, eq=False)
class Phrase(Meaning):
    """A phrase as a line in the space of pictures: `scale` times the cosine to `direction` `(width,)`, plus `bias`."""

    direction: Tensor
    scale: float
    bias: float


class Phrases:
    """The words of a backbone with a text tower. Evidence `(B, width)` is the picture's own direction."""

    def __init__(self, backbone: JointBackbone) -> None:
        tower = backbone.text_tower
        if tower is None:
            raise WordError(
                f"{backbone.name}: its weights are not those that its text tower was trained with: no words"
            )
        self._backbone, self._tower = backbone, tower
        self._neutral = _neutral(tower)

    def meaning(self, word: str) -> Phrase:
        """The phrase, which may be anything but empty."""
        phrase = " ".join(word.split())
        if not phrase:
            raise UnknownWordError("an empty word means nothing")
        direction = self._tower.encode([_PROMPT.format(phrase)])[0] - self._neutral
        return Phrase(word, phrase, _PROMPT.format(phrase), direction, self._tower.scale, self._tower.bias or 0.0)

    def evidence(self, maps: Tensor) -> Tensor:
        """Pictures as directions of unit length `(B, width)`."""
        return normalize(self._backbone.pool(maps), dim=-1)

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """The probability that the phrase belongs to the picture: its logit through a sigmoid."""
        if not isinstance(meaning, Phrase):
            raise TypeError(f"a text tower has phrases as meanings, got {type(meaning).__name__}")
        return torch.sigmoid(meaning.scale * (evidence @ meaning.direction.to(evidence)) + meaning.bias)

    def complete(self, _beginning: str) -> list[str]:
        """Nothing: any phrase is a word."""
        return []


def _neutral(tower: TextTower) -> Tensor:
    """What phrases are compared with: nothing where a bias does that, else the mean of what fits all pictures.

    A sigmoid of the difference of two logits is the softmax over both.
    """
    directions = tower.encode(_NEUTRAL)
    return directions.mean(0) if tower.bias is None else torch.zeros_like(directions[0])
