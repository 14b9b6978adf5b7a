"""What a picture shows, in nouns: few, likely, and no more special than its classes allow."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .nouns import NUM_CLASSES, Synset, wordnet_nouns

# A noun with so much more of the probability than an even guess has is said: dog needs 0.25 and its 118 of 1,000.
_LIKELY: Final = 0.25
# A kind with so much of a noun's probability is said in its place.
_MOST: Final = 0.75
# A noun of more classes says nothing: dog has 118, device 130.
_GENERAL: Final = 120


class Shown(NamedTuple):
    """A noun, and how probable it is that the picture shows it."""

    word: str
    probability: float
    synset: Synset


def describe(probabilities: Mapping[int, float]) -> list[Shown]:
    """What classes with these probabilities are called, the likeliest first; nothing if nothing is likely.

    The probabilities may be those of a few classes, and need not sum to 1.

    >>> breeds = {151: 0.2, 160: 0.15, 200: 0.15, 207: 0.15, 230: 0.1, 250: 0.1, 831: 0.3}
    >>> [noun.word for noun in describe(breeds)]
    ['dog', 'studio couch']
    """
    whole = sum(probabilities.values())
    if not whole > 0:
        return []
    mass = {
        synset: sum(probabilities.get(number, 0.0) for number in synset.classes) / whole
        for synset in wordnet_nouns().synsets
    }
    likely = {synset for synset, share in mass.items() if share >= _LIKELY + len(synset.classes) / NUM_CLASSES}
    broadest = [synset for synset in mass if not _is_general(synset) and any(map(_is_general, synset.parents))]
    named = {_common(_narrowed(synset, mass)) for synset in broadest if mass[synset] >= _LIKELY}
    found = likely.intersection(filter(None, named))
    shown = [
        Shown(synset.word, mass[synset], synset)
        for synset in found
        if not any(synset in other.ancestors for other in found)
    ]
    return sorted(shown, key=lambda noun: (-noun.probability, noun.word))


def _is_general(synset: Synset) -> bool:
    return len(synset.classes) > _GENERAL


def _narrowed(synset: Synset, mass: Mapping[Synset, float]) -> Synset:
    """The synset, or the kind of it that has most of its probability, and so says more."""
    for child in synset.children:
        if mass[child] >= _MOST * mass[synset]:
            return _narrowed(child, mass)
    return synset


def _common(synset: Synset) -> Synset | None:
    """The nearest noun that people say: a class itself, or what it is a kind of; None if that is general."""
    level: Iterable[Synset] = (synset,)
    while level := [above for above in level if not _is_general(above)]:
        for above in level:
            if above.common or above.own_class is not None:
                return above
        level = [parent for above in level for parent in above.parents]
    return None
