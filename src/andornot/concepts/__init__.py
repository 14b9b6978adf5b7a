"""The meaning of words for a model: named features, WordNet nouns over ImageNet's classes, or any phrase.

>>> noun = wordnet_nouns().look_up("Seashores")
>>> print(noun)
seashore.n.01: the shore of a sea or ocean
"""

from ..ssl.backbones import Backbone, JointBackbone
from .descriptions import ShownNoun, describe
from .heads import ConceptHeads, find_box, heads_for, load_heads, write_heads
from .imagenet import ImageNetVocabulary, QuantizedClasses, describe_images
from .nouns import Noun, wordnet_nouns
from .people_words import OTHER_WORDS, find_name
from .phrases import Phrase, PhraseVocabulary
from .text_space import Approximation
from .vocabulary import (
    ConceptError,
    Meaning,
    ModelVocabulary,
    NamedFeature,
    UnknownWordError,
    WordError,
    WordNote,
    half_point,
    truth_of,
)

__all__ = [
    "OTHER_WORDS",
    "Approximation",
    "ConceptError",
    "ConceptHeads",
    "ImageNetVocabulary",
    "Meaning",
    "ModelVocabulary",
    "NamedFeature",
    "Noun",
    "Phrase",
    "PhraseVocabulary",
    "QuantizedClasses",
    "ShownNoun",
    "UnknownWordError",
    "WordError",
    "WordNote",
    "describe",
    "describe_images",
    "find_box",
    "find_name",
    "find_vocabulary",
    "half_point",
    "heads_for",
    "load_heads",
    "truth_of",
    "vocabulary_for",
    "wordnet_nouns",
    "write_heads",
]


def vocabulary_for(backbone: Backbone) -> ImageNetVocabulary | PhraseVocabulary:
    """Return the vocabulary of a model's backbone, or raise a `WordError` that explains why it has none."""
    if isinstance(backbone, JointBackbone):
        return PhraseVocabulary(backbone)
    return ImageNetVocabulary(backbone)


def find_vocabulary(backbone: Backbone) -> ImageNetVocabulary | PhraseVocabulary | None:
    """Return the vocabulary of a model's backbone, or None if it has none."""
    try:
        return vocabulary_for(backbone)
    except WordError:
        return None
