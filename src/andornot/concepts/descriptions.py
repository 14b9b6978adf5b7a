"""Descriptions of images by a few nouns: likely, in common use, and no more specific than the classes allow.

For example, a whippet is described as a dog, and a studio couch as a sofa.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import torch

from .nouns import NUM_CLASSES, Synset, normalized, wordnet_nouns

# The size of the table of nouns, a constant so that the table need not be loaded for it.
NUM_NOUNS: Final = 1860

# A noun is likely if its probability exceeds that of a uniform guess by this: dog needs 0.25 + 118 / 1,000.
_LIKELY: Final = 0.25
# A kind with this share of a noun's probability replaces it.
_MOST: Final = 0.75
# A noun with more classes is too general: dog has 118, device 130.
_GENERAL: Final = 120
# An artefact with more kinds is named after its purpose: machines and vehicles have no common look. Dogs and birds do.
_MAX_KINDS: Final = 80
# A noun with this count in WordNet's corpus is in common use, however many kinds it has.
_FREQUENT: Final = 25
# Senses after the second are rarely used: grouse for game, or cap for a lens cap.
_MAX_SENSE: Final = 2
# The score of a noun is (count + smoothing) / kinds ** exponent, so that general nouns need more occurrences. Both were
# chosen by looking at the resulting names of the 1,000 classes.
_SMOOTHING, _EXPONENT = 0.1, 0.65
# A noun is redundant if one of its kinds is shown by this share of its images.
_REDUNDANT: Final = 0.8


class ShownNoun(NamedTuple):
    """A word, the probability that the image shows it, and its synset if it is a WordNet noun."""

    word: str
    probability: float
    synset: Synset | None = None


def describe(probabilities: Mapping[int, float]) -> list[ShownNoun]:
    """Return nouns for class probabilities, most likely first; empty if none is likely.

    Classes may be missing, and the probabilities need not sum to 1.

    >>> breeds = {151: 0.2, 160: 0.15, 200: 0.15, 207: 0.15, 230: 0.1, 250: 0.1, 831: 0.3}
    >>> [noun.word for noun in describe(breeds)]
    ['dog', 'sofa']
    """
    row = np.zeros((1, NUM_CLASSES))
    for number, probability in probabilities.items():
        row[0, number] = probability
    return describe_all(row)[0]


def describe_all(probabilities: np.ndarray) -> list[list[ShownNoun]]:
    """Describe many images at once, `(n, 1000)`."""
    return [_described(row) for row in _shares(probabilities)]


def which_are_likely(weights: np.ndarray) -> np.ndarray:
    """Return a mask `(n, nouns)` of the nouns that are likely for images with class weights `(n, 1000)`.

    Weights are probabilities at temperature 2, which are proportional to square roots of probabilities.
    """
    return _shares(weights * weights) >= _thresholds()


def is_likely(weights: np.ndarray, synset: Synset) -> np.ndarray:
    """Return a mask `(n,)` of the images for which one noun is likely: its column of `which_are_likely`."""
    squares = weights * weights
    own, whole = squares[:, list(synset.classes)].sum(1), squares.sum(1)
    return np.asarray((own >= _threshold(synset) * whole) & (whole > 0))


def _described(shares: np.ndarray) -> list[ShownNoun]:
    """Describe one image by the share of each noun."""
    if not shares.any():
        return []
    synsets, numbers = wordnet_nouns().synsets, _numbers()
    is_likely = shares >= _thresholds()
    named = {_common(_narrowed(synsets[place], shares)) for place in _broadest() if shares[place] >= _LIKELY}
    found = {synset for synset in named if synset is not None and is_likely[numbers[synset]]}
    shown = [
        ShownNoun(synset.word, float(shares[numbers[synset]]), synset)
        for synset in found
        if not any(synset in other.ancestors for other in found)
    ]
    return sorted(shown, key=lambda noun: (-noun.probability, noun.word))


def _shares(probabilities: np.ndarray) -> np.ndarray:
    """Return the share of each noun in the total probability, `(n, nouns)`; 0 if the total is 0."""
    whole = probabilities.sum(1, keepdims=True)
    probabilities = np.divide(probabilities, whole, out=np.zeros_like(probabilities), where=whole > 0)
    shares = torch.sparse.mm(_members(torch.from_numpy(probabilities).dtype), torch.from_numpy(probabilities.T))
    return np.asarray(shares.T.contiguous())


@cache
def _members(kind: torch.dtype) -> torch.Tensor:
    """Return a sparse matrix `(nouns, 1000)` of the classes of each noun; a class belongs to about a dozen nouns."""
    pairs = [(place, number) for place, synset in enumerate(wordnet_nouns().synsets) for number in synset.classes]
    shape = len(wordnet_nouns().synsets), NUM_CLASSES
    ones = torch.ones(len(pairs), dtype=kind)
    return torch.sparse_coo_tensor(torch.tensor(pairs).T, ones, shape, check_invariants=True).coalesce()


@cache
def _numbers() -> dict[Synset, int]:
    return {synset: place for place, synset in enumerate(wordnet_nouns().synsets)}


@cache
def _thresholds() -> np.ndarray:
    """Return the share above which each noun is likely."""
    return np.array([_threshold(synset) for synset in wordnet_nouns().synsets], np.float32)


def _threshold(synset: Synset) -> float:
    return _LIKELY + len(synset.classes) / NUM_CLASSES


@cache
def _broadest() -> Sequence[int]:
    """Return the broadest nouns that are not too general."""
    return [
        place
        for place, synset in enumerate(wordnet_nouns().synsets)
        if not is_general(synset) and any(map(is_general, synset.parents))
    ]


def _narrowed(synset: Synset, shares: np.ndarray) -> Synset:
    """Return the most specific kind of a synset that still has most of its probability."""
    numbers = _numbers()
    for child in synset.children:
        if shares[numbers[child]] >= _MOST * shares[numbers[synset]]:
            return _narrowed(child, shares)
    return synset


@cache
def _common(synset: Synset) -> Synset | None:
    """Return the common noun for a synset; None if it is too general.

    Uncommon nouns such as *hoofed mammal* are replaced by the nearest ancestor that is a class or in the corpus.
    """
    level: Iterable[Synset] = (synset,)
    while level := [above for above in level if not is_general(above)]:
        for above in level:
            if above.count or above.own_class is not None:
                return basic_noun(above)
        level = [parent for above in level for parent in above.parents]
    return None


def is_general(synset: Synset) -> bool:
    """Return whether a noun has too many classes to be informative."""
    return len(synset.classes) > _GENERAL


@cache
def basic_noun(synset: Synset) -> Synset:
    """Return the synset or the ancestor that people would name: frequent in texts for its number of kinds.

    >>> look_up = wordnet_nouns().look_up
    >>> [basic_noun(look_up(word).synset).word for word in ("sorrel", "whippet", "studio couch", "minivan", "goose")]
    ['horse', 'dog', 'sofa', 'car', 'goose']
    """
    above = (other for other in synset.ancestors if _can_name_its_kinds(other))
    return max((synset, *above), key=lambda noun: (_score(noun), len(noun.ancestors), noun.offset))


def distinctive_nouns(counts: Mapping[Synset, int]) -> list[Synset]:
    """Return the most informative nouns first, given how many images show each.

    A noun is worth log2(1000 / its classes) bits for each image that shows it. Nouns that are not in common use are
    left out, as are nouns whose images nearly all show one kind of it.

    >>> look_up = wordnet_nouns().look_up
    >>> shown = {"dog": 90, "canine": 92, "sofa": 60, "animal": 95, "shore": 20, "coast": 19}
    >>> counts = {look_up(word).synset: count for word, count in shown.items()}
    >>> [noun.word for noun in distinctive_nouns(counts)]
    ['sofa', 'dog', 'coast']
    """
    bits = {noun: counts[noun] * _bits(noun) for noun in usual_nouns() if counts.get(noun, 0)}
    by_bits = sorted(bits, key=lambda noun: (-bits[noun], noun.word))
    largest_kind: dict[Synset, int] = {}
    for noun in bits:
        for above in noun.ancestors & bits.keys():
            largest_kind[above] = max(largest_kind.get(above, 0), counts[noun])
    return [noun for noun in by_bits if largest_kind.get(noun, 0) < _REDUNDANT * counts[noun]]


def is_everyday(word: str, synset: Synset) -> bool:
    """Return whether a word is everyday language: no Latin name, rare synonym or abstract noun.

    >>> nouns = wordnet_nouns()
    >>> words = ("dog", "canis familiaris", "causal agency", "commodity", "cairn", "carpet", "building")
    >>> [word for word in words if is_everyday(word, nouns.look_up(word).synset)]
    ['dog', 'cairn', 'carpet', 'building']
    """
    used = {normalized(noun) for (noun, _), count in zip(synset.nouns, synset.counts, strict=True) if count}
    is_thing = synset.own_class is not None or _can_name_its_kinds(synset) or synset.count >= _FREQUENT
    return is_thing and normalized(word) in used | {normalized(synset.word)}


def _score(synset: Synset) -> float:
    return float((synset.count + _SMOOTHING) / synset.kinds**_EXPONENT)


def _can_name_its_kinds(synset: Synset) -> bool:
    if is_general(synset) or dict(synset.nouns)[synset.word] > _MAX_SENSE:
        return False
    return synset.kinds <= _MAX_KINDS or wordnet_nouns().look_up("organism").synset in synset.ancestors


def _bits(noun: Synset) -> float:
    return math.log2(NUM_CLASSES / len(noun.classes))


@cache
def usual_nouns() -> tuple[Synset, ...]:
    """Return the basic nouns of the classes, except words with another usual meaning: plane, the tool."""
    nouns = wordnet_nouns()
    basic = dict.fromkeys(basic_noun(synset) for synset in nouns.synsets if synset.own_class is not None)
    return tuple(noun for noun in basic if not is_general(noun) and nouns.look_up(noun.word).synset is noun)
