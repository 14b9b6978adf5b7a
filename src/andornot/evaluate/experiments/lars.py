"""LARS (You, Gitman, Ginsburg 2017): momentum SGD whose steps are as long as the weights of each layer allow."""

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT


class LARS(Optimizer):
    """For weights w with gradient g, weight decay β and trust coefficient η:

    `λ = η·‖w‖ / (‖g‖ + β·‖w‖)`, then `v ← momentum·v + learning rate·λ·(g + β·w)` and `w ← w - v`.

    λ scales the step with a weight decay of 0 as well. Parameters of one dimension, such as biases, are neither
    adapted (λ = 1) nor decayed. Weights or gradients of zero have no scale: λ = 1 for them too.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
    ) -> None:
        if lr < 0 or not 0 <= momentum < 1 or weight_decay < 0 or trust_coefficient <= 0:
            raise ValueError(
                "lr and weight_decay must be 0 or more, momentum from 0 to below 1, trust_coefficient above 0; "
                f"got {lr}, {weight_decay}, {momentum}, {trust_coefficient}"
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
        }
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step. `closure`, if given, computes the loss and the gradients anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is None:
                    continue
                velocity = self.state[weights].setdefault("velocity", torch.zeros_like(weights))
                gradient = weights.grad if weights.ndim <= 1 else _adapted(weights, weights.grad, group)
                velocity.mul_(group["momentum"]).add_(gradient, alpha=group["lr"])
                weights.sub_(velocity)
        return loss


def _adapted(weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    """λ·(g + β·w)."""
    decay: float = group["weight_decay"]
    length = weights.norm()
    trust: Tensor = group["trust_coefficient"] * length / (gradient.norm() + decay * length)
    # Without a branch: it would wait for a GPU. Weights or gradients of zero make this 0, infinite or NaN.
    trust = torch.where((trust > 0) & trust.isfinite(), trust, 1.0)
    return trust * (gradient + decay * weights)
