"""The truth of a term in a picture: how far its similarity stands out among the similarities of the whole gallery.

`z` is the distance from the gallery's median similarity, in its standard deviations. The truth is
`1 / (1 + e^(1.25 - z))`: 0.22 for a middling picture, 0.5 at 1.25 deviations, near 1 for what stands out far. So it
depends on how alike pictures are, not on how many there are; a sample of them is enough to know the scale.
"""

import math
from statistics import NormalDist
from typing import Final, NamedTuple

import torch
from torch import Tensor

HALF_TRUE: Final = 1.25
# Of a gallery so many pictures are enough to know its scale.
ENOUGH_PICTURES: Final = 2000
# What is assumed counts as much as this many pictures, as in the calibration.
_ASSUMED_PICTURES: Final = 20
_ASSUMED_SPREAD: Final = 0.2
# Of the best of unrelated pictures: what one in twenty is above.
_USUAL: Final = 0.95
_REACHED: Final = 0.96


class Scale(NamedTuple):
    """The median `(Q, 1)` and the standard deviation `(Q, 1)` of each query's similarities in a gallery."""

    middle: Tensor
    spread: Tensor

    def deviations(self, similarities: Tensor) -> Tensor:
        """How far similarities `(Q, n)` are above the median, in standard deviations."""
        return (similarities - self.middle) / self.spread

    def truth(self, similarities: Tensor) -> Tensor:
        """Similarities `(Q, n)` to truths, from 0 to 1; more alike is never less true."""
        return truth_of(self.deviations(similarities))


def truth_of(deviations: Tensor) -> Tensor:
    """The truth of what stands out so far.

    In double precision: torch rounds the last numbers of a block in another way, and the same picture should have the
    same truth wherever it is.
    """
    return torch.sigmoid(deviations.double() - HALF_TRUE)


def scale_of(similarities: Tensor) -> Scale:
    """The scale of queries by their similarities `(Q, n)` to the pictures of a sample; n may be 0.

    A handful of pictures does not tell what is usual: there it is mostly what is assumed.
    """
    pictures = similarities.shape[1]
    weight = pictures / (pictures + _ASSUMED_PICTURES)
    middle = similarities.new_zeros(len(similarities), 1)
    spread = torch.full_like(middle, _ASSUMED_SPREAD)
    if pictures:
        middle = middle + weight * similarities.median(1, keepdim=True).values
        spread = torch.lerp(spread, similarities.std(1, correction=0, keepdim=True), weight)
    return Scale(middle, spread.clamp(min=torch.finfo(spread.dtype).eps))


def unrelated(pictures: int, terms: int) -> float:
    """The truth that the best of so many pictures reaches in each of so many terms it has nothing to do with.

    It does so for one query in twenty. The similarities of unrelated pictures are about normal: the best of n reaches
    the quantile `0.95^(1/n)` in one term, and in k terms at once a `1/sqrt(k)` of that in each. Queries with shuffled
    components reached 0.96 of that, on photographs and on drawn scenes (docs/gallery.md, *Weak matches*).

    >>> [round(unrelated(5000, terms) ** terms, 2) for terms in (1, 2, 3)]
    [0.94, 0.7, 0.43]
    """
    deviations = _REACHED * NormalDist().inv_cdf(_USUAL ** (1 / max(pictures, 1))) / math.sqrt(max(terms, 1))
    return 1 / (1 + math.exp(HALF_TRUE - deviations))
