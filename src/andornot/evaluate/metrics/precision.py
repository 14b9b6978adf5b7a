"""How many of the first hits are right."""

from torch import Tensor

from ..errors import EvaluationError


def precision_at(top: int, scores: Tensor, truth: Tensor) -> float:
    """The share of what is true `(n,)` among the `top` highest scores `(n,)`; of equal scores the first are taken.

    >>> import torch
    >>> precision_at(2, torch.tensor([0.1, 0.9, 0.5]), torch.tensor([True, True, False]))
    0.5
    """
    if top < 1 or not len(scores):
        raise EvaluationError(f"a precision needs one hit at least, not the {top} best of {len(scores)}")
    best = scores.sort(descending=True, stable=True).indices[:top]
    return truth[best].double().mean().item()
