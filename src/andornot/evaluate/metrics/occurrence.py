"""Occurrence rates: how often a class is among what a search finds first."""

from typing import Final

import torch
from torch import Tensor

# Products are computed for this many queries at once: 120 MB against 60,000 pictures. A quarter faster than 128.
_BLOCK: Final = 512


def occurrence_rates(queries: Tensor, gallery: Tensor, labels: Tensor, top: int) -> Tensor:
    """The part of the `top` nearest pictures with each label: `(q, d)` x `(n, d)`, `(n, c)` -> `(q, c)`.

    Nearest is the largest inner product. One product a block of queries, its memory used again.
    """
    labels = labels.to(queries.dtype)
    products = queries.new_empty(min(_BLOCK, len(queries)), len(gallery))
    rates = []
    for block in torch.split(queries, _BLOCK):
        scores = torch.mm(block, gallery.T, out=products[: len(block)])
        nearest = scores.topk(top, dim=1, sorted=False).indices
        rates.append(labels[nearest].mean(1))
    return torch.cat(rates)
