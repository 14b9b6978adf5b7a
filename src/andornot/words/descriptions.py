"""Descriptions of images in nouns: few, likely, in common use, and no more specific than the classes allow."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import torch

from .common_nouns import basic_noun, is_general
from .nouns import NUM_CLASSES, Synset, wordnet_nouns

# The size of the table, for whoever needs it before the table is read.
NUM_NOUNS: Final = 1860

# A noun is likely if its probability exceeds that of a uniform guess by this: dog needs 0.25 + 118 / 1,000.
_LIKELY: Final = 0.25
# A kind with this share of a noun's probability replaces it.
_MOST: Final = 0.75


class ShownNoun(NamedTuple):
    """A word, and the probability that the image shows it; a noun of WordNet has its synset."""

    word: str
    probability: float
    synset: Synset | None = None


def describe(probabilities: Mapping[int, float]) -> list[ShownNoun]:
    """Return nouns for classes with these probabilities, the likeliest first; none if none is likely.

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
    """Return which nouns are likely for images with these class weights `(n, 1000)`, `(n, nouns)` bool.

    Weights are probabilities at temperature 2, which are proportional to square roots of probabilities.
    """
    return _shares(weights * weights) >= _thresholds()


def is_likely(weights: np.ndarray, synset: Synset) -> np.ndarray:
    """Return for which images one noun is likely, `(n,)` bool: its column of `which_are_likely`."""
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
    """Return the share of each noun in the probability of all classes, `(n, nouns)`; 0 where there is none."""
    whole = probabilities.sum(1, keepdims=True)
    probabilities = np.divide(probabilities, whole, out=np.zeros_like(probabilities), where=whole > 0)
    shares = torch.sparse.mm(_members(torch.from_numpy(probabilities).dtype), torch.from_numpy(probabilities.T))
    return np.asarray(shares.T.contiguous())


@cache
def _members(kind: torch.dtype) -> torch.Tensor:
    """Return which classes belong to each noun, `(nouns, 1000)`: sparse, a class belongs to about a dozen of 1,860."""
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
    """Return the synset, or the most specific kind of it that has most of its probability."""
    numbers = _numbers()
    for child in synset.children:
        if shares[numbers[child]] >= _MOST * shares[numbers[synset]]:
            return _narrowed(child, shares)
    return synset


def _common(synset: Synset) -> Synset | None:
    """Return the common noun for a synset; None if that is too general.

    People do not use nouns such as *hoofed mammal*: the nearest noun above that is a class or in the corpus is taken.
    """
    level: Iterable[Synset] = (synset,)
    while level := [above for above in level if not is_general(above)]:
        for above in level:
            if above.count or above.own_class is not None:
                return basic_noun(above)
        level = [parent for above in level for parent in above.parents]
    return None
