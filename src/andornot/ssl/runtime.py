"""Training in several processes (means, batch norm), denormal numbers, and signals."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed, nn


def num_processes() -> int:
    """Return how many processes train together; 1 without torch.distributed."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def is_first_process() -> bool:
    """Return whether this process writes files and messages for all that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of `values` over all processes, the same in each of them. Not differentiable."""
    if num_processes() > 1:
        values = values.clone()
        distributed.all_reduce(values)
        values /= num_processes()
    return values


class _Sum(torch.autograd.Function):
    """The sum over all processes, with a gradient to each of them. torch's own is deprecated without a successor."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        total = values.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        return _Sum.forward(_, *gradients)


def _sum_over_processes(values: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return total


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm with the mean and variance of the batches of all processes, for the CPU.

    torch's own takes GPU tensors only. Batches must be equally large, as those of a training run are.
    """

    def _check_input_dim(self, values: Tensor) -> None:
        if values.ndim < 2:
            raise ValueError(f"expected (B, C, ...), got {tuple(values.shape)}")

    def forward(self, values: Tensor) -> Tensor:
        """Normalise `(B, C, ...)` over all dimensions but C."""
        if not self.training or num_processes() == 1:
            return super().forward(values)
        axes, shape = [0, *range(2, values.ndim)], [1, -1, *[1] * (values.ndim - 2)]
        count = values.numel() // values.shape[1] * num_processes()
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        mean = _sum_over_processes(wide.sum(axes)) / count
        # Not the mean of squares minus the squared mean: it cancels, below zero even, where the mean is large.
        centered = wide - mean.view(shape)
        variance = _sum_over_processes(centered.square().sum(axes)) / count
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * count / (count - 1))
        normal = centered * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normal = torch.addcmul(self.bias.view(shape), normal, self.weight.view(shape))
        return normal.to(values.dtype)

    def _track(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        step = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, step)
        self.running_var.lerp_(unbiased_variance, step)


def synchronise_batch_norms(module: nn.Module, device: torch.device | None = None) -> nn.Module:
    """Replace each batch norm of a module by one over all processes, with the same parameters and names.

    `device` is where it will compute (default: the CPU).
    """
    if device is not None and device.type == "cuda":
        # One kernel and one exchange, where ours has several; but on a CPU, with gloo, it raises.
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return converted
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            affine: dict[str, Any] = {"affine": child.affine, "track_running_stats": child.track_running_stats}
            synchronised = SyncBatchNorm(child.num_features, child.eps, child.momentum, **affine)
            # The same tensors, not copies: frozen ones stay frozen, and an optimiser goes on with its own.
            for tensor_name, parameter in child.named_parameters(recurse=False):
                setattr(synchronised, tensor_name, parameter)
            for tensor_name, buffer in child.named_buffers(recurse=False):
                setattr(synchronised, tensor_name, buffer)
            setattr(module, name, synchronised.train(child.training))
        else:
            synchronise_batch_norms(child)
    return module


@contextmanager
def without_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero: sharp targets are full of them, and they slow a CPU down tenfold.

    Only for the training: the rest of the process keeps the numbers it had.
    """
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Stop:
    """Whether someone asked the training to stop."""

    asked = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a flag that the loop checks after each step. A second Ctrl-C stops at once."""
    stop = Stop()

    def ask(number: int, _: FrameType | None) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
