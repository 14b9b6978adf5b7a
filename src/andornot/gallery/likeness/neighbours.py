"""Neighbours: a picture's own nearest pictures say what kind of thing it shows, better than it does alone."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .components import from_bytes
from .products import similarities

# At most so many, and at most one in so many pictures of a gallery: of a few dozen pictures the 20 nearest are all.
NEIGHBOURS: Final = 20
ONE_IN: Final = 50


def neighbours_in(pictures: int, most: int = NEIGHBOURS) -> int:
    """How many neighbours speak for a query in a gallery of that size.

    >>> neighbours_in(49), neighbours_in(500), neighbours_in(10**6)
    (0, 10, 20)
    """
    return min(most, pictures // ONE_IN)


def expand_among(codes: Tensor, queries: Tensor, left_out: Sequence[int] = ()) -> Tensor:
    """Queries `(Q, d)` with their neighbours among all pictures, in bytes `(n, d)`; some rows of these are none."""
    count = neighbours_in(len(codes))
    if not count:
        return queries
    alike = similarities(codes, queries)
    alike[:, list(left_out)] = -torch.inf
    nearest = alike.topk(count)
    return expand(queries, from_bytes(codes[nearest.indices]), nearest.values)


def expand(queries: Tensor, nearest: Tensor, alike: Tensor) -> Tensor:
    """Queries `(Q, d)`, each averaged with its nearest pictures `(Q, k, d)`, which count by their similarity `(Q, k)`.

    Pictures that point away from the query say nothing.
    """
    weights = alike.clamp(min=0).unsqueeze(-1)
    return normalize(queries + (weights * nearest).sum(1), dim=1)
