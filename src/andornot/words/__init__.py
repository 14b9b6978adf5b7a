"""Words that a model can find in images: WordNet nouns over ImageNet classes, or any phrase with a text tower.

>>> noun = wordnet_nouns().look_up("Seashores")
>>> print(noun)
seashore.n.01: the shore of a sea or ocean
"""

from ..model import Model
from ..ssl.backbones import JointBackbone
from .descriptions import ShownNoun, describe
from .imagenet import ImageNetVocabulary, QuantizedClasses, describe_images
from .nouns import Noun, wordnet_nouns
from .phrases import Phrase, PhraseVocabulary
from .vocabulary import (
    Meaning,
    ModelVocabulary,
    NamedFeature,
    UnknownWordError,
    WordError,
    half_point,
    truth_of,
)

__all__ = [
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
    "describe",
    "describe_images",
    "half_point",
    "truth_of",
    "vocabulary_for",
    "wordnet_nouns",
]


def vocabulary_for(model: Model) -> ImageNetVocabulary | PhraseVocabulary:
    """Return the words of a model, or raise a `WordError` that says why it has none."""
    if isinstance(model.backbone, JointBackbone):
        return PhraseVocabulary(model.backbone)
    return ImageNetVocabulary(model.backbone)
