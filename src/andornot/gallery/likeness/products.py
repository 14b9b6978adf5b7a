"""Inner products of many vectors of bytes with a few queries, in integers: no vector becomes floats."""

from typing import Final

import torch
from torch import Tensor

from .components import STEPS

# Vectors at once: their products stay in the cache until the best of each picture's regions is chosen.
_AT_ONCE: Final = 2**17


def similarities(codes: Tensor, queries: Tensor) -> Tensor:
    """`(Q, n)` of pictures `(n, d)` in bytes and queries `(Q, d)`."""
    return best_region(codes.unsqueeze(1), queries)


def best_region(codes: Tensor, queries: Tensor) -> Tensor:
    """`(Q, n)`, for each picture that of its best region, of regions `(n, R, d)` in bytes and queries `(Q, d)`.

    A query is rounded to bytes as well, as finely as its largest number allows. That turns it by about a degree; all
    pictures are compared with the same rounded query. d is at least 2: torch's product reads past vectors of one byte.
    """
    pictures, regions, dimensions = codes.shape
    step = queries.abs().amax(1, keepdim=True).clamp(min=torch.finfo(queries.dtype).tiny) / STEPS
    asked = (queries / step).round().to(torch.int8)
    found = torch.empty(len(queries), pictures)
    # Even parts: a small one at the end would take nearly as long as the others.
    parts = -(-pictures * regions // _AT_ONCE)
    at_once = -(-pictures // max(1, parts))
    for start in range(0, pictures, max(1, at_once)):
        part = codes[start : start + at_once]
        products = torch._int_mm(asked, part.reshape(-1, dimensions).T)
        if regions > 1:
            products = products.view(len(asked), len(part), regions).amax(2)
        found[:, start : start + at_once] = products
    return found.mul_(step / STEPS)


def where_best(codes: Tensor, queries: Tensor) -> Tensor:
    """The number `(Q, n)` of each picture's best region; for a few pictures, the hits."""
    return torch.einsum("nrd,qd->qnr", codes.float(), queries).argmax(-1)
