"""Probes: the accuracy of nearest-neighbour and linear classifiers on features of images."""

from typing import Final

import torch
from torch import Tensor, nn

# The L2 penalty of the linear layer's weights, for standardised features.
DECAY: Final = 1e-3
_ITERATIONS: Final = 500

# Test images compared at once.
_KNN_BLOCK: Final = 1024


def knn_accuracy(
    train_features: Tensor,
    train_classes: Tensor,
    test_features: Tensor,
    test_classes: Tensor,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Return the accuracy of a weighted vote of the k nearest training images by cosine.

    Features are `(n, d)`, classes `(n,)`; a vote has weight `exp(cosine / temperature)`. k and temperature change the
    result by percents, so report both with it.

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> knn_accuracy(x, torch.tensor([0, 0, 1]), x, torch.tensor([0, 0, 0]), k=1)
    0.6666666666666666
    """
    k = min(k, len(train_features))
    train = torch.nn.functional.normalize(train_features.float(), dim=1)
    num_classes = int(max(train_classes.max(), test_classes.max())) + 1
    correct = 0.0
    for start in range(0, len(test_features), _KNN_BLOCK):
        test = torch.nn.functional.normalize(test_features[start : start + _KNN_BLOCK].float(), dim=1)
        cosines, nearest = (test @ train.T).topk(k, dim=1)
        votes = torch.zeros(len(test), num_classes)
        votes.scatter_add_(1, train_classes[nearest], (cosines / temperature).exp())
        correct += float((votes.argmax(1) == test_classes[start : start + _KNN_BLOCK]).sum())
    return correct / len(test_features)


def fit_linear(features: Tensor, targets: Tensor, *, outputs: int | None = None, decay: float = DECAY) -> nn.Linear:
    """Fit a linear layer on features `(n, d)` by logistic regression, trained to convergence.

    `targets` are classes `(n,)`, or multi-labels `(n, outputs)`. L-BFGS minimises the mean cross-entropy plus `decay /
    2 · ‖weights‖²` on standardised features, so the result depends on neither the scale of the features nor a learning
    rate. The returned layer takes the original features.

    >>> x = torch.tensor([[0.0], [0.1], [0.9], [1.0]])
    >>> fit_linear(x, torch.tensor([0, 0, 1, 1]))(x).argmax(1)
    tensor([0, 0, 1, 1])
    """
    single = targets.ndim == 1
    outputs = outputs or (int(targets.max()) + 1 if single else targets.shape[1])
    features = features.detach().float()
    targets = targets.to(features.device) if single else targets.to(features)
    loss = nn.functional.cross_entropy if single else nn.functional.binary_cross_entropy_with_logits
    mean, std = features.mean(0), features.std(0, correction=0)
    std = torch.where(std > 0, std, 1.0)
    standard = (features - mean) / std
    weight, bias = (features.new_zeros(shape, requires_grad=True) for shape in ((outputs, features.shape[1]), outputs))
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=_ITERATIONS, tolerance_grad=1e-6, tolerance_change=1e-9, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        value = loss(nn.functional.linear(standard, weight, bias), targets) + decay / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        optimizer.step(objective)  # type: ignore[no-untyped-call]
    layer = nn.Linear(features.shape[1], outputs, device="meta").to_empty(device=features.device).requires_grad_(False)
    layer.weight.copy_(weight.detach() / std)
    layer.bias.copy_(bias.detach() - layer.weight @ mean)
    return layer


def linear_accuracy(
    train_features: Tensor, train_classes: Tensor, test_features: Tensor, test_classes: Tensor
) -> float:
    """Return the test accuracy of the layer of `fit_linear`."""
    outputs = int(max(train_classes.max(), test_classes.max())) + 1
    scores: Tensor = fit_linear(train_features, train_classes, outputs=outputs)(test_features.float())
    return float((scores.argmax(1) == test_classes).double().mean())
