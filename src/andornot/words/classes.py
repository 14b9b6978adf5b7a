"""Words for a backbone with a classifier: a word is as true of a picture as the classes of its noun are probable."""

from typing import Final, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ..ssl.backbones import Backbone, cut_windows
from .describing import Shown, describe_all
from .errors import WordError
from .meaning import Meaning
from .nouns import NUM_CLASSES, Noun, Nouns, wordnet_nouns

# Classifiers are surer of one class than is right for a picture of several things. See docs/words.md for the numbers.
TEMPERATURE: Final = 2.0
# A byte has -16 log2 of a weight: from 1 down to 2^-16 in steps of 4 %.
_STEPS: Final = 16
_WEIGHT_OF: Final = np.exp2(np.arange(256, dtype=np.float32) / -_STEPS)
KEPT: Final = 96


class NamedClasses:
    """The words of a backbone with ImageNet's classes. Evidence `(B, 1000)` is a weight for each class.

    The weight is √(whole · best): the class's probability in the whole picture, and in the window where it is highest.
    """

    def __init__(self, backbone: Backbone) -> None:
        if backbone.classes != "imagenet-1k":
            raise WordError(f"{backbone.name} has no named classes as it is, and so no words")
        self._backbone = backbone
        self.nouns: Nouns = wordnet_nouns()

    def meaning(self, word: str) -> Noun:
        """The noun that the word is, in its most frequent sense that has classes."""
        return self.nouns.look_up(word)

    def evidence(self, maps: Tensor, cut: Tensor | None = None) -> Tensor:
        """Weights `(B, 1000)` of the classes; `cut` is what `cut_windows` made of the maps, for who has it already."""
        whole = self._backbone.classify(maps)
        windows = self._backbone.classify(cut_windows(maps) if cut is None else cut)
        return class_weights(whole, windows.view(len(maps), -1, windows.shape[-1]))

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """The summed weight of the noun's classes, at most 1."""
        if not isinstance(meaning, Noun):
            raise TypeError(f"named classes have nouns as meanings, got {type(meaning).__name__}")
        return evidence[..., list(meaning.classes)].sum(-1).clamp(max=1)

    def complete(self, beginning: str) -> list[str]:
        """Known nouns that begin so."""
        return self.nouns.complete(beginning)

    def describe(self, evidence: Tensor) -> list[Shown]:
        """What a picture with this evidence `(1000,)` shows."""
        return self.describe_all(evidence[None])[0]

    def describe_all(self, evidence: Tensor) -> list[list[Shown]]:
        """What pictures with this evidence `(n, 1000)` show."""
        # What a picture shows most is to be said, so the temperature, which gives the rest a chance, is taken back.
        return describe_all((evidence**TEMPERATURE).numpy())


def class_weights(whole: Tensor, windows: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Weights `(B, K)` of classes by their logits in whole pictures `(B, K)` and in windows of them `(B, R, K)`."""
    overall = (whole / temperature).softmax(-1)
    best = (windows / temperature).softmax(-1).amax(1)
    return (overall * best).sqrt()


def weights_of_bytes(steps: np.ndarray) -> np.ndarray:
    """The weights, float32, that bytes of `KeptClasses.weights` stand for."""
    return np.asarray(_WEIGHT_OF[steps])


class KeptClasses(NamedTuple):
    """The heaviest classes of pictures, three bytes each, heaviest first.

    `classes` `(n, k)` are uint16, `weights` `(n, k)` are uint8: b stands for 2^(-b / 16).
    """

    classes: Tensor
    weights: Tensor

    @classmethod
    def of(cls, evidence: Tensor, keep: int = KEPT) -> Self:
        """What to keep of the evidence `(n, 1000)` of pictures."""
        weights, classes = evidence.topk(min(keep, evidence.shape[-1]), -1)
        steps = (-_STEPS * weights.clamp(min=2.0**-_STEPS).log2()).round().clamp(0, 255)
        return cls(classes.to(torch.uint16), steps.to(torch.uint8))

    def evidence(self) -> Tensor:
        """Evidence `(n, 1000)` with what was kept, and 0 elsewhere."""
        weights = torch.exp2(self.weights.float() / -_STEPS)
        empty = torch.zeros(*weights.shape[:-1], NUM_CLASSES)
        return empty.scatter_(-1, self.classes.long(), weights)
