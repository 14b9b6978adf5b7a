"""What several training processes share: means over all of them, and a batch norm over all of them."""

from typing import Any

import torch
import torch.distributed.nn.functional
from torch import Tensor, distributed, nn


def num_processes() -> int:
    """How many processes train together; 1 without torch.distributed."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def mean_over_processes(values: Tensor) -> Tensor:
    """The mean of `values` over all processes, the same in each of them. Not differentiable."""
    if num_processes() > 1:
        values = values.clone()
        distributed.all_reduce(values)
        values /= num_processes()
    return values


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm with the mean and variance of the batches of all processes, on any device.

    torch's own takes GPU tensors only. Batches must be equally large, as those of a training run are.
    """

    def _check_input_dim(self, values: Tensor) -> None:
        if values.ndim < 2:
            raise ValueError(f"expected (B, C, ...), got {tuple(values.shape)}")

    def forward(self, values: Tensor) -> Tensor:
        """`(B, C, ...)`, normalised over all but C."""
        if not self.training or num_processes() == 1:
            return super().forward(values)
        axes = [0, *range(2, values.ndim)]
        count = values.numel() // values.shape[1] * num_processes()
        sums = torch.stack([values.sum(axes), values.square().sum(axes)])
        mean, square = torch.distributed.nn.functional.all_reduce(sums) / count  # type: ignore[no-untyped-call]
        variance = square - mean.square()
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * count / (count - 1))
        shape = [1, -1, *[1] * (values.ndim - 2)]
        normal: Tensor = (values - mean.view(shape)) * (variance + self.eps).rsqrt().view(shape)
        if not self.affine:
            return normal
        return torch.addcmul(self.bias.view(shape), normal, self.weight.view(shape))

    def _track(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        step = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, step)
        self.running_var.lerp_(unbiased_variance, step)


def synchronise_batch_norms(module: nn.Module) -> nn.Module:
    """The module with each batch norm replaced by one over all processes, with the same parameters and names."""
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            affine: dict[str, Any] = {"affine": child.affine, "track_running_stats": child.track_running_stats}
            synchronised = SyncBatchNorm(child.num_features, child.eps, child.momentum, **affine)
            synchronised.load_state_dict(child.state_dict())
            setattr(module, name, synchronised.train(child.training))
        else:
            synchronise_batch_norms(child)
    return module
