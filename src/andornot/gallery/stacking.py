"""Which pictures of a list nearly equal an earlier one: copies that were cropped or saved anew, and bursts."""

from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

# The cosine of what two pictures have beyond the average from which on they are one: docs/api.md, "Stacks".
NEARLY_EQUAL: Final = 0.9


def stacked_on(codes: Tensor, nearly_equal: float = NEARLY_EQUAL) -> list[int | None]:
    """For each row of `codes` `(n, d)` the place of the first earlier one that it nearly equals; else None.

    What is stacked has nothing stacked on it: a row of pictures that change little by little is not all one stack.

    >>> stacked_on(torch.tensor([[10, 0], [0, 10], [9, 1], [10, 1]]))
    [None, None, 0, 0]
    """
    directions = normalize(codes.float(), dim=-1)
    alike = directions @ directions.T >= nearly_equal
    places: list[int | None] = []
    lowest = torch.zeros(len(codes), dtype=torch.bool)
    for place in range(len(codes)):
        under = torch.nonzero(alike[place, :place] & lowest[:place])
        lowest[place] = not len(under)
        places.append(int(under[0]) if len(under) else None)
    return places
