"""The nouns that people use: a whippet is called a dog, and a studio couch a sofa."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

from .nouns import NUM_CLASSES, Synset, wordnet_nouns

# A noun of more classes says nothing: dog has 118, device 130.
_GENERAL: Final = 120
# An artefact with more kinds is named after its purpose: machines and vehicles have no common look. Dogs and birds do.
_MAX_KINDS: Final = 80
# People rarely use a noun in a rarer sense than its second: grouse for game, or cap for a lens cap.
_MAX_SENSE: Final = 2
# The score is (count + smoothing) / kinds ** exponent: rare is not never, and a noun of many kinds is counted for each.
# Both were chosen by looking at the resulting names of the 1,000 classes.
_SMOOTHING, _EXPONENT = 0.1, 0.65
# A noun is redundant if one of its kinds is shown by this share of its images.
_REDUNDANT: Final = 0.8


def is_general(synset: Synset) -> bool:
    """Return whether a noun has so many classes that it says nothing about an image."""
    return len(synset.classes) > _GENERAL


@cache
def basic_noun(synset: Synset) -> Synset:
    """Return the synset or that ancestor of it which people name instead: frequent in texts for its number of kinds.

    >>> look_up = wordnet_nouns().look_up
    >>> [basic_noun(look_up(word).synset).word for word in ("sorrel", "whippet", "studio couch", "minivan", "goose")]
    ['horse', 'dog', 'sofa', 'car', 'goose']
    """
    above = (other for other in synset.ancestors if _can_name_its_kinds(other))
    return max((synset, *above), key=lambda noun: (_score(noun), len(noun.ancestors), noun.offset))


def distinctive_nouns(counts: Mapping[Synset, int]) -> list[Synset]:
    """Return the nouns that say most about images, given how many images show each, the most informative first.

    A noun is worth log2(1000 / its classes) bits for each image that shows it. Left out are nouns that people do not
    use, and nouns whose images nearly all show one kind of it.

    >>> look_up = wordnet_nouns().look_up
    >>> shown = {"dog": 90, "canine": 92, "sofa": 60, "animal": 95, "shore": 20, "coast": 19}
    >>> counts = {look_up(word).synset: count for word, count in shown.items()}
    >>> [noun.word for noun in distinctive_nouns(counts)]
    ['sofa', 'dog', 'coast']
    """
    bits = {noun: counts[noun] * _bits(noun) for noun in _usual_nouns() if counts.get(noun, 0)}
    by_bits = sorted(bits, key=lambda noun: (-bits[noun], noun.word))
    largest_kind: dict[Synset, int] = {}
    for noun in bits:
        for above in noun.ancestors & bits.keys():
            largest_kind[above] = max(largest_kind.get(above, 0), counts[noun])
    return [noun for noun in by_bits if largest_kind.get(noun, 0) < _REDUNDANT * counts[noun]]


def _score(synset: Synset) -> float:
    return float((synset.count + _SMOOTHING) / synset.kinds**_EXPONENT)


def _can_name_its_kinds(synset: Synset) -> bool:
    if is_general(synset) or dict(synset.nouns)[synset.word] > _MAX_SENSE:
        return False
    return synset.kinds <= _MAX_KINDS or wordnet_nouns().look_up("organism").synset in synset.ancestors


def _bits(noun: Synset) -> float:
    return math.log2(NUM_CLASSES / len(noun.classes))


@cache
def _usual_nouns() -> tuple[Synset, ...]:
    """Return the basic nouns of the classes whose word means just that: a carpenter's plane is left out."""
    nouns = wordnet_nouns()
    basic = dict.fromkeys(basic_noun(synset) for synset in nouns.synsets if synset.own_class is not None)
    return tuple(noun for noun in basic if not is_general(noun) and nouns.look_up(noun.word).synset is noun)
