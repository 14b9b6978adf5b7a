"""Runtime of training: several processes (means, batch norm), denormal numbers, random state, and signals."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn


def num_processes() -> int:
    """Return the number of training processes; 1 without torch.distributed."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def is_first_process() -> bool:
    """Return whether this is the process that writes files and messages."""
    return os.environ.get("RANK", "0") == "0"


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of `values` over all processes, the same in each of them. Not differentiable."""
    if num_processes() > 1:
        values = values.clone()
        distributed.all_reduce(values)
        values /= num_processes()
    return values


class _Sum(torch.autograd.Function):
    """Differentiable sum over all processes. The one in torch is deprecated without a replacement."""

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
    """Synchronised batch norm for the CPU; `torch.nn.SyncBatchNorm` supports GPUs only.

    All processes must have batches of the same size.
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
        # E[x²] - E[x]² would suffer from cancellation, and could even be negative, if the mean is large.
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
    """Replace each batch norm of a module by a synchronised one with the same parameters and names.

    `device` is the device of the training (default: the CPU).
    """
    if device is not None and device.type == "cuda":
        # Faster than ours (one kernel, one exchange), but fails on a CPU with gloo.
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return converted
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            affine: dict[str, Any] = {"affine": child.affine, "track_running_stats": child.track_running_stats}
            synchronised = SyncBatchNorm(child.num_features, child.eps, child.momentum, **affine)
            # Share the tensors instead of copying: frozen ones stay frozen, and an existing optimiser stays valid.
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
    """Flush denormal numbers to zero within the context.

    Sharp targets contain many of them, and they slow a CPU down tenfold.
    """
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def restored_generators() -> Iterator[None]:
    """Restore the state of the random generators of torch, Python and numpy on exit."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


class Stop:
    """A flag that is set when training should stop."""

    asked = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a flag that the loop checks after each step. A second Ctrl-C stops immediately."""
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
