"""The word that people say for a thing: a whippet is a dog, and a studio couch a sofa."""

from functools import cache
from typing import Final

from .nouns import Synset, wordnet_nouns

# A noun of more classes says nothing: dog has 118, device 130.
_GENERAL: Final = 120
# Of things, a noun with more kinds names a purpose: machines and vehicles look like nothing. Dogs and birds do.
_KINDS: Final = 80
# In a rarer sense a word is not what people say for a thing: grouse is game, and a lens cap a cap, only then.
_SENSES: Final = 2
# The score is (count + unmet) / kinds ** breadth: rare is not never, and what has many kinds is met for each of them.
# Both were chosen by looking at what the 1,000 classes are called then.
_UNMET, _BREADTH = 0.1, 0.65


def is_general(synset: Synset) -> bool:
    """Whether it has so many classes that it says nothing of a picture."""
    return len(synset.classes) > _GENERAL


@cache
def basic_noun(synset: Synset) -> Synset:
    """The synset itself, or that above it which people name instead: often met in texts, for all its kinds.

    >>> look_up = wordnet_nouns().look_up
    >>> [basic_noun(look_up(word).synset).word for word in ("sorrel", "whippet", "studio couch", "minivan", "goose")]
    ['horse', 'dog', 'sofa', 'car', 'goose']
    """
    above = (other for other in synset.ancestors if _may_stand_for_its_kinds(other))
    return max((synset, *above), key=lambda noun: (_score(noun), len(noun.ancestors), noun.offset))


def _score(synset: Synset) -> float:
    return float((synset.count + _UNMET) / synset.kinds**_BREADTH)


def _may_stand_for_its_kinds(synset: Synset) -> bool:
    if is_general(synset) or dict(synset.nouns)[synset.word] > _SENSES:
        return False
    return synset.kinds <= _KINDS or wordnet_nouns().look_up("organism").synset in synset.ancestors
