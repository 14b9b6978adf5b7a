"""Words for a backbone with ImageNet's classifier: the truth of a noun comes from the probabilities of its classes."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ..concepts import ConceptHeads, find_name, load_heads
from ..model import Model
from ..ssl.backbones import Backbone, cut_windows
from .descriptions import ShownNoun, describe_all
from .nouns import NUM_CLASSES, Noun, Nouns, wordnet_nouns
from .vocabulary import Meaning, ModelVocabulary, NamedFeature, UnknownWordError, WordError

# Classifiers are overconfident about an image of several things. See docs/words.md for the numbers.
TEMPERATURE: Final = 2.0
# A byte is -16 log2 of a weight: from 1 down to 2^-16 in steps of 4 %.
_STEPS: Final = 16
_WEIGHT_OF_BYTE: Final = np.exp2(np.arange(256, dtype=np.float32) / -_STEPS)
CLASSES_KEPT: Final = 96
# An image is described by at most so many named features.
_MOST_NAMED: Final = 6


class ImageNetVocabulary:
    """The words of a backbone with ImageNet's classes. Evidence `(B, E)` is a weight for each of 1,000
    classes, and for the default backbone the probability of each named feature.

    The weight is √(whole · best): the class's probability in the whole image, and in the window where it is highest.
    """

    def __init__(self, backbone: Backbone) -> None:
        if backbone.classes != "imagenet-1k":
            raise WordError(f"{backbone.name} has no words: it has no ImageNet classifier")
        self._backbone = backbone
        self.nouns: Nouns = wordnet_nouns()
        self.heads: ConceptHeads | None = load_heads() if load_heads().backbone == backbone.name else None

    def meaning(self, word: str) -> Noun | NamedFeature:
        """Return the named feature of a word, or else the noun in its most frequent sense that has classes."""
        return self._named_feature(word) or self.nouns.look_up(word)

    def _named_feature(self, word: str) -> NamedFeature | None:
        if self.heads is None:
            return None
        for form in self.nouns.forms(word):
            name = find_name(form, self.heads.names)
            if name is not None and (form == name or not self._is_narrower(form, name)):
                return NamedFeature(word, name, "a named feature", self.heads.index(name))
        return None

    def _is_narrower(self, word: str, name: str) -> bool:
        """Return whether a word has classes of its own below a named feature, as *polar bear* below *bear*."""
        try:
            own, named = (set(self.nouns.look_up(one).classes) for one in (word, name))
        except UnknownWordError:
            return False
        return own < named

    def evidence(self, maps: Tensor, windows: Tensor | None = None) -> Tensor:
        """Return weights `(B, 1000)` of the classes, followed by the probabilities `(B, K)` of named features, if any.

        `windows` is `cut_windows(maps)`, if it is known already.
        """
        whole = self._backbone.classify(maps)
        in_windows = self._backbone.classify(cut_windows(maps) if windows is None else windows)
        weights = class_weights(whole, in_windows.view(len(maps), -1, in_windows.shape[-1]))
        if self.heads is None:
            return weights
        named = torch.from_numpy(self.heads.probabilities(maps.float().cpu().numpy()))
        return torch.cat([weights, named.to(weights)], 1)

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """Return the probability of a named feature, or the summed weight of the noun's classes, at most 1."""
        if isinstance(meaning, NamedFeature):
            return evidence[..., NUM_CLASSES + meaning.column]
        if not isinstance(meaning, Noun):
            raise TypeError(f"expected a Noun, got {type(meaning).__name__}")
        return evidence[..., list(meaning.classes)].sum(-1).clamp(max=1)

    def complete(self, prefix: str) -> list[str]:
        """Return the known nouns with this prefix."""
        return self.nouns.complete(prefix)

    def _with_named(self, probabilities: np.ndarray, nouns: Sequence[ShownNoun]) -> list[ShownNoun]:
        """Return the likely named features of an image, by their probabilities `(K,)`, and nouns that add to them."""
        assert self.heads is not None, "a backbone with named features"
        order = np.argsort(-probabilities, kind="stable")[:_MOST_NAMED].tolist()
        named = [
            ShownNoun(self.heads.names[column], float(probabilities[column]))
            for column in order
            if probabilities[column] >= NamedFeature.half
        ]
        return [*named, *(noun for noun in nouns if isinstance(self.meaning(noun.word), Noun))]

    def describe(self, evidence: Tensor) -> list[ShownNoun]:
        """Return what an image with this evidence `(E,)` shows."""
        return self.describe_all(evidence[None])[0]

    def describe_all(self, evidence: Tensor) -> list[list[ShownNoun]]:
        """Return what each image with this evidence shows."""
        # Undo the temperature: only what an image shows most is named.
        nouns = describe_all((evidence[:, :NUM_CLASSES] ** TEMPERATURE).numpy())
        if self.heads is None or evidence.shape[1] == NUM_CLASSES:
            return nouns
        named = evidence[:, NUM_CLASSES:].numpy()
        return [self._with_named(row, shown) for row, shown in zip(named, nouns, strict=True)]


def describe_images(model: Model, vocabulary: ModelVocabulary, images: Sequence[Any]) -> list[list[ShownNoun]]:
    """Return what images show; they are files or anything else that a model takes."""
    nouns = noun_vocabulary(model, vocabulary)
    evidence = (nouns.evidence(maps).cpu() for maps in model.iter_feature_maps(images, progress=False))
    return [shown for batch in evidence for shown in nouns.describe_all(batch)]


def noun_vocabulary(model: Model, vocabulary: ModelVocabulary) -> ImageNetVocabulary:
    """Return the vocabulary if it can list the words of an image, or raise a WordError."""
    if not isinstance(vocabulary, ImageNetVocabulary):
        raise WordError(f"{model.backbone.name} takes any phrase, so it has no list of words to describe images with")
    return vocabulary


def class_weights(whole: Tensor, windows: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return weights `(B, K)` of classes by their logits in whole images `(B, K)` and in their windows `(B, R, K)`."""
    overall = (whole / temperature).softmax(-1)
    best = (windows / temperature).softmax(-1).amax(1)
    return (overall * best).sqrt()


def weights_of_bytes(steps: np.ndarray) -> np.ndarray:
    """Return the weights, float32, of the bytes in `QuantizedClasses.weights`."""
    return np.asarray(_WEIGHT_OF_BYTE[steps])


class QuantizedClasses(NamedTuple):
    """The classes of images with the largest weights, three bytes each, sorted by weight.

    `classes` `(n, k)` are uint16, `weights` `(n, k)` are uint8: b stands for 2^(-b / 16).
    """

    classes: Tensor
    weights: Tensor

    @classmethod
    def of(cls, evidence: Tensor, keep: int = CLASSES_KEPT) -> Self:
        """Quantize the `keep` largest weights of the classes in each image's evidence."""
        evidence = evidence[..., :NUM_CLASSES]
        weights, classes = evidence.topk(min(keep, evidence.shape[-1]), -1)
        steps = (-_STEPS * weights.clamp(min=2.0**-_STEPS).log2()).round().clamp(0, 255)
        return cls(classes.to(torch.uint16), steps.to(torch.uint8))

    def evidence(self) -> Tensor:
        """Return evidence `(n, 1000)`, with 0 for classes that were not kept."""
        weights = torch.exp2(self.weights.float() / -_STEPS)
        empty = torch.zeros(*weights.shape[:-1], NUM_CLASSES)
        return empty.scatter_(-1, self.classes.long(), weights)
