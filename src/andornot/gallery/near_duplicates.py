"""Which images of a list nearly equal an earlier one: copies that were cropped or saved anew, and bursts."""

from collections.abc import Callable
from typing import Final

import numpy as np
from torch import Tensor
from torch.nn.functional import normalize

# The cosine of the degrees of two images from which on they are one: docs/api.md, "Stacks".
NEARLY_EQUAL: Final = 0.92
# That of their codes, below which degrees are not looked at.
PERHAPS_EQUAL: Final = 0.85


def stacked_on(codes: Tensor, degrees_of: Callable[[np.ndarray], Tensor]) -> list[int | None]:
    """Return for each row of `codes` `(n, d)` the index of the first earlier near duplicate; else None.

    Codes say who may be a copy, and `degrees_of` the places of these, `(k, N)`, who is one. What is stacked has nothing
    stacked on it: a row of images that change little by little is not all one stack.

    >>> stacked_on(Tensor([[10, 0], [0, 10], [9, 1], [10, 1]]), lambda places: Tensor([[9, 1], [1, 9], [9, 2]]))
    [None, None, None, 0]
    """
    alike = _cosines(codes) >= PERHAPS_EQUAL
    np.fill_diagonal(alike, val=False)
    places: list[int | None] = [None] * len(codes)
    # Few have any: the others are not looked at one by one.
    doubtful = np.flatnonzero(alike.any(1))
    if not len(doubtful):
        return places
    alike[np.ix_(doubtful, doubtful)] &= _cosines(degrees_of(doubtful)) >= NEARLY_EQUAL
    for place in doubtful.tolist():
        under = (earlier for earlier in np.flatnonzero(alike[place, :place]).tolist() if places[earlier] is None)
        places[place] = next(under, None)
    return places


def _cosines(rows: Tensor) -> np.ndarray:
    directions = normalize(rows.float(), dim=-1)
    return (directions @ directions.T).numpy()
