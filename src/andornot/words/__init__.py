"""What a word means to a model: nouns over named classes (WordNet), or any phrase by a text tower.

>>> noun = wordnet_nouns().look_up("Seashores")
>>> print(noun)
seashore.n.01: the shore of a sea or ocean
"""

from ..model import Model
from ..ssl.backbones import JointBackbone
from .classes import KeptClasses, NamedClasses
from .describing import Shown, describe
from .errors import UnknownWordError, WordError
from .looking import describe_pictures
from .meaning import Meaning, Words
from .nouns import Noun, wordnet_nouns
from .phrases import Phrase, Phrases
from .truth import half_of, truth_of

__all__ = [
    "KeptClasses",
    "Meaning",
    "NamedClasses",
    "Noun",
    "Phrase",
    "Phrases",
    "Shown",
    "UnknownWordError",
    "WordError",
    "Words",
    "describe",
    "describe_pictures",
    "half_of",
    "truth_of",
    "wordnet_nouns",
    "words_of",
]


def words_of(model: Model) -> NamedClasses | Phrases:
    """The words of a model, or a `WordError` that says why it has none."""
    if isinstance(model.backbone, JointBackbone):
        return Phrases(model.backbone)
    return NamedClasses(model.backbone)
