"""Accuracy of a weighted k-nearest-neighbour vote: how well distances agree with labels, without training anything."""

from typing import Final

import torch
from torch import Tensor

# Test pictures that are compared at once.
_BLOCK: Final = 1024


def knn_accuracy(
    train_features: Tensor,
    train_classes: Tensor,
    test_features: Tensor,
    test_classes: Tensor,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """The part of test pictures whose class wins the vote of their k nearest training pictures by cosine.

    Features are `(n, d)`, classes `(n,)`; a vote weighs `exp(cosine / temperature)`. k and temperature move the
    result by percents: say both beside it.

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> knn_accuracy(x, torch.tensor([0, 0, 1]), x, torch.tensor([0, 0, 0]), k=1)
    0.6666666666666666
    """
    k = min(k, len(train_features))
    train = torch.nn.functional.normalize(train_features.float(), dim=1)
    num_classes = int(max(train_classes.max(), test_classes.max())) + 1
    correct = 0.0
    for start in range(0, len(test_features), _BLOCK):
        test = torch.nn.functional.normalize(test_features[start : start + _BLOCK].float(), dim=1)
        cosines, nearest = (test @ train.T).topk(k, dim=1)
        votes = torch.zeros(len(test), num_classes)
        votes.scatter_add_(1, train_classes[nearest], (cosines / temperature).exp())
        correct += float((votes.argmax(1) == test_classes[start : start + _BLOCK]).sum())
    return correct / len(test_features)


def single_classes(labels: Tensor | None) -> Tensor | None:
    """The class `(n,)` of each row of multi-hot labels, or None where pictures have none or several."""
    if labels is None or not bool((labels.sum(1) == 1).all()):
        return None
    return labels.to(torch.uint8).argmax(1)
