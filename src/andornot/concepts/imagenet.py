"""Words for a backbone with an ImageNet classifier: the truth of a noun comes from its class probabilities."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ..ssl.backbones import Backbone, cut_windows
from .descriptions import ShownNoun, describe_all
from .heads import ConceptHeads, WordBoxes, heads_for
from .nouns import NUM_CLASSES, Noun, Nouns, wordnet_nouns
from .people_words import SENSES, find_name
from .text_space import Approximation, TextSpace
from .vocabulary import LIKELY, Meaning, ModelVocabulary, NamedFeature, UnknownWordError, WordError

# Classifiers are overconfident about an image of several things. See docs/words.md for the numbers.
TEMPERATURE: Final = 2.0
# A byte is -16 log2 of a weight: from 1 down to 2^-16 in steps of 4 %.
_STEPS: Final = 16
_WEIGHT_OF_BYTE: Final = np.exp2(np.arange(256, dtype=np.float32) / -_STEPS)
# The byte of the smallest weight, which is treated as 0.
NOTHING: Final = 255
CLASSES_KEPT: Final = 96
# The maximum number of named features in a description.
_MOST_NAMED: Final = 6


class ImageNetVocabulary:
    """The words of a backbone with ImageNet's classes.

    Evidence `(B, E)` is a weight for each of 1,000 classes, followed by the probability of each named feature if the
    backbone has any.

    The weight of a class is √(whole · best), from its probabilities in the whole image and in its best window.
    """

    def __init__(self, backbone: Backbone) -> None:
        if backbone.classes != "imagenet-1k":
            raise WordError(f"{backbone.name} has no words: it has no ImageNet classifier")
        self._backbone = backbone
        self.nouns: Nouns = wordnet_nouns()
        self.heads: ConceptHeads | None = heads_for(backbone.name)
        self._known_nouns: dict[str, bool] = {}

    def meaning(self, word: str) -> Noun | NamedFeature:
        """Return the named feature of a word, or else the noun in its most frequent sense with classes."""
        return self._named_feature(word) or self.nouns.look_up(word)

    def phrase(self, text: str) -> Noun | NamedFeature | Approximation:
        """Return the meaning of any phrase: a known word in another language or spelling, or an approximation.

        Raise an UnknownWordError only for text that is too long or has no letters.
        """
        known = self._text_space.find(text)
        if known is None:
            return self._text_space.approximate(text)
        return replace(self.meaning(known), word=text, taken_for=known)

    @cached_property
    def _text_space(self) -> TextSpace:
        return TextSpace(() if self.heads is None else self.heads.names)

    def _named_feature(self, word: str) -> NamedFeature | None:
        if self.heads is None:
            return None
        for form in self.nouns.forms(word):
            name = find_name(form, self.heads.names)
            if name is not None and (form == name or not self._is_narrower(form, name)):
                sense = SENSES.get(name, "") if form == name else ""
                return NamedFeature(word, name, "a named feature", self.heads.index(name), taken_for=sense)
        return None

    def _is_narrower(self, word: str, name: str) -> bool:
        """Return whether a word has its own classes below a named feature, like *polar bear* below *bear*."""
        try:
            own, named = (set(self.nouns.look_up(one).classes) for one in (word, name))
        except UnknownWordError:
            return False
        return own < named

    def evidence(self, maps: Tensor) -> Tensor:
        """Return weights `(B, 1000)` of the classes, then probabilities `(B, K)` of named features, if any."""
        return self.look(maps, cut_windows(maps))[0]

    def look(self, maps: Tensor, windows: Tensor) -> tuple[Tensor, WordBoxes | None]:
        """Return the evidence, and the boxes of likely named features, if any. `windows` is `cut_windows(maps)`."""
        whole = self._backbone.classify(maps)
        in_windows = self._backbone.classify(windows)
        weights = class_weights(whole, in_windows.view(len(maps), -1, in_windows.shape[-1]))
        if self.heads is None:
            return weights, None
        named, boxes = self.heads.find(maps.float().cpu().numpy())
        return torch.cat([weights, torch.from_numpy(named).to(weights)], 1), boxes

    def support(self, meaning: Meaning, evidence: Tensor) -> Tensor:
        """Return the probability of a named feature or phrase, or the sum of the weights of a noun's classes."""
        if isinstance(meaning, NamedFeature):
            return evidence[..., NUM_CLASSES + meaning.column]
        if isinstance(meaning, Approximation):
            return meaning.support_of(meaning.scores(evidence))
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
            if probabilities[column] >= LIKELY
        ]
        return [*named, *(noun for noun in nouns if self._is_noun(noun.word))]

    def _is_noun(self, word: str) -> bool:
        """Return whether a word is not a named feature; cached, because it is called for every hit."""
        if word not in self._known_nouns:
            self._known_nouns[word] = isinstance(self.meaning(word), Noun)
        return self._known_nouns[word]

    def describe(self, evidence: Tensor) -> list[ShownNoun]:
        """Return the words for an image with evidence `(E,)`."""
        return self.describe_all(evidence[None])[0]

    def describe_all(self, evidence: Tensor) -> list[list[ShownNoun]]:
        """Return the words for each image with evidence `(n, E)`."""
        # Undo the temperature, so that only the most prominent things are named.
        nouns = describe_all((evidence[:, :NUM_CLASSES] ** TEMPERATURE).numpy())
        if self.heads is None or evidence.shape[1] == NUM_CLASSES:
            return nouns
        named = evidence[:, NUM_CLASSES:].numpy()
        return [self._with_named(row, shown) for row, shown in zip(named, nouns, strict=True)]


def describe_images(vocabulary: ModelVocabulary, batches: Iterable[Tensor]) -> list[list[ShownNoun]]:
    """Return the words of images, from batches of their feature maps `(B, C, h, w)`."""
    nouns = noun_vocabulary(vocabulary)
    evidence = (nouns.evidence(maps).cpu() for maps in batches)
    return [shown for batch in evidence for shown in nouns.describe_all(batch)]


def noun_vocabulary(vocabulary: ModelVocabulary) -> ImageNetVocabulary:
    """Return the vocabulary if it can list the words of an image, or raise a WordError."""
    if not isinstance(vocabulary, ImageNetVocabulary):
        raise WordError("this model takes any phrase, so it has no list of words to describe images with")
    return vocabulary


def class_weights(whole: Tensor, windows: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return class weights `(B, K)` from logits of whole images `(B, K)` and of their windows `(B, R, K)`."""
    overall = (whole / temperature).softmax(-1)
    best = (windows / temperature).softmax(-1).amax(1)
    return (overall * best).sqrt()


def weights_of_bytes(steps: np.ndarray) -> np.ndarray:
    """Return the weights, float32, of the bytes in `QuantizedClasses.weights`."""
    return np.asarray(_WEIGHT_OF_BYTE[steps])


class QuantizedClasses(NamedTuple):
    """The classes of images with the largest weights, three bytes each, sorted by weight.

    `classes` `(n, k)` are uint16, `weights` `(n, k)` are uint8: b represents 2^(-b / 16).
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
        """Return evidence `(n, 1000)`; 0 for classes that were not kept and for the smallest weight."""
        weights = torch.exp2(self.weights.float() / -_STEPS) * (self.weights < NOTHING)
        empty = torch.zeros(*weights.shape[:-1], NUM_CLASSES)
        return empty.scatter_(-1, self.classes.long(), weights)
