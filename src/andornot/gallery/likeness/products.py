"""Inner products of many vectors of bytes with a few queries, in integers: no vector becomes floats."""

from typing import Final

import torch
from torch import Tensor

from .components import STEPS

# Pictures at once: their products stay in the cache until the best of their regions are chosen.
_AT_ONCE: Final = 2048
# Integer products want columns in eights.
_COLUMNS: Final = 8


def similarities(codes: Tensor, queries: Tensor) -> Tensor:
    """`(Q, n)` of pictures `(n, d)` in bytes and queries `(Q, d)` of length 1."""
    return best_region(codes.unsqueeze(1), queries)


def best_region(codes: Tensor, queries: Tensor) -> Tensor:
    """`(Q, n)`, for each picture that of its best region, of regions `(n, R, d)` in bytes and queries `(Q, d)`."""
    coarse, fine = _in_two_bytes(queries)
    found = torch.empty(len(queries), len(codes))
    for start in range(0, len(codes), _AT_ONCE):
        part = codes[start : start + _AT_ONCE]
        products = torch._int_mm(part.reshape(-1, part.shape[-1]), torch.cat([coarse, fine], 1))
        of_queries = products.view(*part.shape[:2], -1).permute(2, 1, 0)
        high, low = of_queries[: len(queries)], of_queries[coarse.shape[1] : coarse.shape[1] + len(queries)]
        found[:, start : start + _AT_ONCE] = (high * STEPS + low).amax(1)
    return found / STEPS**3


def where_best(codes: Tensor, queries: Tensor) -> Tensor:
    """The number `(Q, n)` of each picture's best region; few pictures at a time, the hits."""
    return torch.einsum("nrd,qd->qnr", codes.float(), queries).argmax(-1)


def _in_two_bytes(queries: Tensor) -> tuple[Tensor, Tensor]:
    """Queries `(Q, d)` as columns `(d, Q')`: steps of 1/127, and what is left in steps of 1/127²."""
    padding = -len(queries) % _COLUMNS
    columns = torch.nn.functional.pad(queries.T * STEPS, (0, padding))
    coarse = columns.round()
    return coarse.to(torch.int8), ((columns - coarse) * STEPS).round().to(torch.int8)
