"""Sums of probabilities up to and beyond each truth value: `(..., M)` to `(..., M)`.

Sums of non-negative terms, never `1 -` another sum: a small one is as accurate, relative to itself, as a large one.
"""

import torch
from torch import Tensor


def at_most(probs: Tensor) -> Tensor:
    """Return P(A ≤ i) for each truth value i."""
    return probs @ _ones(probs).triu() if _products_are_exact(probs) else probs.cumsum(-1)


def below(probs: Tensor) -> Tensor:
    """Return P(A < i) for each truth value i."""
    if _products_are_exact(probs):
        return probs @ _ones(probs).triu(1)
    return torch.nn.functional.pad(probs[..., :-1].cumsum(-1), (1, 0))


def at_least(probs: Tensor) -> Tensor:
    """Return P(A ≥ i) for each truth value i."""
    return probs @ _ones(probs).tril() if _products_are_exact(probs) else at_most(probs.flip(-1)).flip(-1)


def above(probs: Tensor) -> Tensor:
    """Return P(A > i) for each truth value i."""
    return probs @ _ones(probs).tril(-1) if _products_are_exact(probs) else below(probs.flip(-1)).flip(-1)


def _ones(probs: Tensor) -> Tensor:
    m = probs.shape[-1]
    return torch.ones(m, m, dtype=probs.dtype)


def _products_are_exact(probs: Tensor) -> bool:
    """Return whether a product with a triangle of ones, on a CPU half the time of a cumulative sum, gives the same.

    Not where float32 products are rounded to bfloat16 or TF32 by a setting, as they may be on a GPU.
    """
    if probs.device.type != "cpu":
        return False
    setting = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]  # made at run time
    return probs.dtype == torch.float64 or setting in ("none", "ieee")
