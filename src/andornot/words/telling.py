"""Which words say most about pictures: those that people say, that many pictures show, and each once."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

from .basic import basic_noun, is_general
from .nouns import NUM_CLASSES, Synset, wordnet_nouns

# A kind that so much of a noun's pictures show says the same of them as the noun.
_SAME: Final = 0.8


def telling_nouns(counts: Mapping[Synset, int]) -> list[Synset]:
    """The nouns that tell most, the most telling first, by how many pictures show each.

    A noun tells as many bits as its classes are few, of each picture that shows it. What some picture shows is in the
    list, but for nouns that nobody says, and for a noun that is shown by nearly the same pictures as a kind of it.

    >>> look_up = wordnet_nouns().look_up
    >>> shown = {"dog": 90, "canine": 92, "sofa": 60, "animal": 95, "shore": 20, "coast": 19}
    >>> counts = {look_up(word).synset: count for word, count in shown.items()}
    >>> [noun.word for noun in telling_nouns(counts)]
    ['sofa', 'dog', 'coast']
    """
    bits = {noun: counts[noun] * _bits(noun) for noun in _said() if counts.get(noun, 0)}
    by_bits = sorted(bits, key=lambda noun: (-bits[noun], noun.word))
    kinds: dict[Synset, int] = {}
    for noun in bits:
        for above in noun.ancestors & bits.keys():
            kinds[above] = max(kinds.get(above, 0), counts[noun])
    return [noun for noun in by_bits if kinds.get(noun, 0) < _SAME * counts[noun]]


def _bits(noun: Synset) -> float:
    return math.log2(NUM_CLASSES / len(noun.classes))


@cache
def _said() -> tuple[Synset, ...]:
    """What people say for the classes, where the word means that: a plane is no carpenter's."""
    nouns = wordnet_nouns()
    basic = dict.fromkeys(basic_noun(synset) for synset in nouns.synsets if synset.own_class is not None)
    return tuple(noun for noun in basic if not is_general(noun) and nouns.look_up(noun.word).synset is noun)
