"""From support to truth: what a word's support in a picture is worth, compared with the rest of the pictures."""

from typing import Final

import torch
from torch import Tensor

# Support that one picture in twenty has is half the truth. Chosen on VOC2007: docs/words.md.
_QUANTILE: Final = 0.95
# Where a word is rare, less is noise; where it is everywhere, this is enough.
_LEAST, _MOST = 0.01, 0.3
# A quantile of more pictures is not worth its time.
_LOOKED_AT: Final = 100_000


def half_of(support: Tensor) -> float:
    """The support at which a word is half true, for pictures with support `(n,)`.

    >>> half_of(torch.zeros(10)), half_of(torch.ones(10))
    (0.01, 0.3)
    """
    if not len(support):
        return _LEAST
    step = max(1, len(support) // _LOOKED_AT)
    return min(max(float(torch.quantile(support[::step].float(), _QUANTILE)), _LEAST), _MOST)


def truth_of(support: Tensor, half: float | None = None) -> Tensor:
    """Truth `(n,)` from 0 to 1: the odds of the support, in terms of those of `half`, which are even.

    It keeps the order, may be multiplied, and is 1 for what is sure, however common. `half` comes from all pictures
    that are compared (`half_of`); by default those are the ones given.
    """
    half = half_of(support) if half is None else half
    speaks_for, speaks_against = support * (1 - half), half * (1 - support)
    return speaks_for / (speaks_for + speaks_against)
