"""Which pictures of a list nearly equal an earlier one: copies that were cropped or saved anew, and bursts."""

from typing import Final

import numpy as np
from torch import Tensor
from torch.nn.functional import normalize

# The cosine of what two pictures have beyond the average from which on they are one: docs/api.md, "Stacks".
NEARLY_EQUAL: Final = 0.9


def stacked_on(codes: Tensor, nearly_equal: float = NEARLY_EQUAL) -> list[int | None]:
    """For each row of `codes` `(n, d)` the place of the first earlier one that it nearly equals; else None.

    What is stacked has nothing stacked on it: a row of pictures that change little by little is not all one stack.

    >>> stacked_on(Tensor([[10, 0], [0, 10], [9, 1], [10, 1]]))
    [None, None, 0, 0]
    """
    directions = normalize(codes.float(), dim=-1)
    alike = (directions @ directions.T >= nearly_equal).numpy()
    places: list[int | None] = [None] * len(codes)
    # Few have any: the others are not looked at one by one.
    for place in np.flatnonzero(np.tril(alike, -1).any(1)).tolist():
        under = (earlier for earlier in np.flatnonzero(alike[place, :place]).tolist() if places[earlier] is None)
        places[place] = next(under, None)
    return places
