"""Cumulative probabilities from below and from above: `(..., M)` to `(..., M)`.

They are sums of non-negative terms, never `1 -` another sum, so that small ones have a small relative error as well.
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
    """Return whether a product with a triangular matrix is as exact as a cumulative sum; on a CPU it is twice as fast.

    It is not if a setting rounds the operands of float32 products to bfloat16 or TF32.
    """
    if probs.device.type != "cpu":
        return False
    setting = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]  # attribute created at run time
    return probs.dtype == torch.float64 or setting in ("none", "ieee")
