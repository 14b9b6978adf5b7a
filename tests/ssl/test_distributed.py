"""Several processes: batch norm, center, losses and weights are those of one process with the joined batch.

Two processes of gloo are started once, as this file with a rank, and do all of their jobs; the tests compare what they
saved with one process that has both halves of the data.
"""

import copy
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from steps import loss_of_views
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from andornot.ssl.backbones import build_backbone
from andornot.ssl.losses import SynthesisLoss
from andornot.ssl.network import Network
from andornot.ssl.runtime import SyncBatchNorm, mean_over_processes, num_processes, synchronise_batch_norms
from andornot.ssl.targets import Center, PriorCenter

PROCESSES = 2
B, N, M = 8, 3, 4  # of each process
STEPS = 3
CENTERS = {"dino": Center, "prior": PriorCenter}
TIMEOUT = 120


# What is computed, in one process or in two


def halves(tensor: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tensor.chunk(PROCESSES, dim)


NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "images": (lambda: nn.BatchNorm2d(3), (8, 3, 4, 5)),
    "features": (lambda: nn.BatchNorm1d(3), (8, 3)),
    "one a process": (lambda: nn.BatchNorm1d(3), (2, 3)),
    "no affine part": (lambda: nn.BatchNorm1d(3, affine=False), (8, 3)),
    "no running statistics": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (8, 3)),
    "average of all batches": (lambda: nn.BatchNorm1d(3, momentum=None, eps=0.1), (8, 3)),
    "far from zero": (lambda: nn.BatchNorm1d(3), (8, 3)),
}


def new_norm(case: str) -> nn.Module:
    norm = NORMS[case][0]()
    if norm.affine:
        nn.init.uniform_(norm.weight, 0.5, 2, generator=torch.Generator().manual_seed(1))
        nn.init.uniform_(norm.bias, -1, 1, generator=torch.Generator().manual_seed(2))
    return norm


def norm_inputs(case: str) -> tuple[Tensor, Tensor, Tensor]:
    """Two batches, and what arrives as the gradient of the second one's result."""
    first, second, gradient = torch.randn(3, *NORMS[case][1], generator=torch.Generator().manual_seed(0))
    offset = 1000 if case == "far from zero" else 2
    return first, second * 3 + offset, gradient


def run_norm(norm: nn.Module, first: Tensor, second: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    norm(first)
    second = second.clone().requires_grad_()
    made = norm(second)
    (made * gradient).sum().backward()
    result = {"made": made.detach(), "input gradient": second.grad}
    result |= {f"{name} gradient": parameter.grad for name, parameter in norm.named_parameters()}
    result |= {name: buffer.clone() for name, buffer in norm.named_buffers()}
    return {**result, "evaluated": norm.eval()(first).detach()}


def new_network() -> Network:
    """In float64: in float32 a change of the weights by 1e-7 is one of the losses by 1e-3 after three steps."""
    torch.manual_seed(0)
    return Network(build_backbone("conv5", channels=1, width=16), N, M, 16, 8).double()


def digits() -> Tensor:
    """`(STEPS, 2 views, images of both processes, 1, 28, 28)`, with a few blobs each."""
    coarse = torch.rand(STEPS * 2 * PROCESSES * B, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    images = nn.functional.interpolate(coarse.double(), (28, 28))
    return images.view(STEPS, 2, PROCESSES * B, 1, 28, 28)


def train(
    network: Network, step_on: nn.Module, center: str, views: Tensor, partners: Tensor | None
) -> dict[str, Tensor | dict[str, Tensor]]:
    """SGD by hand: torch's own takes seconds to import, in each process."""
    losses = []
    loss = SynthesisLoss(center=CENTERS[center]())
    for first, second in views:
        network.zero_grad()
        result = loss_of_views(step_on, loss, first, second, partners)
        result.total.backward()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
        losses.append(torch.stack([part.detach() for part in result.losses if part is not None]))
    return {"losses": torch.stack(losses), "state": copy.deepcopy({**network.state_dict(), **loss.state_dict()})}


# The two processes


def _job(rank: int) -> dict[str, Any]:
    results: dict[str, Any] = {"processes": num_processes()}
    results["mean"] = mean_over_processes(torch.tensor([1.0, 10.0 * rank]))
    for case in NORMS:
        container = synchronise_batch_norms(nn.Sequential(new_norm(case)))
        results[case] = run_norm(container[0], *(halves(tensor)[rank] for tensor in norm_inputs(case)))
    half = halves(norm_inputs("features")[1])[rank].bfloat16()
    results["half precision"] = half, SyncBatchNorm(3)(half).detach()
    for center in CENTERS:
        network = new_network()
        synchronise_batch_norms(network)
        wrapped = DistributedDataParallel(network, broadcast_buffers=False)
        results[center] = train(network, wrapped, center, halves(digits(), 2)[rank], None)
    results["frozen"] = _frozen_backbone(rank)
    return results


def _frozen_backbone(rank: int) -> bool:
    """DDP fails in its second step if a parameter that wants a gradient got none."""
    network = new_network()
    network.backbone.requires_grad_(False)
    synchronise_batch_norms(network)
    wrapped = DistributedDataParallel(network, broadcast_buffers=False)
    train(network, wrapped, "dino", halves(digits(), 2)[rank], None)
    return all(parameter.grad is None for parameter in network.backbone.parameters())


def _main(rank: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",  # a file, not a port: no port is ever taken already
        rank=rank,
        world_size=PROCESSES,
        timeout=timedelta(seconds=TIMEOUT / 2),
    )
    try:
        torch.save(_job(rank), folder / f"{rank}.pt")
    finally:
        distributed.destroy_process_group()


def _start_and_wait(folder: Path) -> None:
    folder.mkdir(parents=True)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    try:
        output = [process.communicate(timeout=TIMEOUT)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0, 0], "\n".join(output)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict[str, Any]]:
    """What each of the two processes saved. Workers of pytest-xdist share one run of them."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "two-processes"
    with FileLock(shared / "two-processes.lock"):
        if not folder.exists():
            _start_and_wait(folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(PROCESSES)]


# The laws


def test_two_processes_know_of_each_other_and_one_is_alone(two):
    assert [results["processes"] for results in two] == [2, 2]
    assert num_processes() == 1


def test_the_mean_over_processes_is_the_same_in_each(two):
    for results in two:
        assert results["mean"].tolist() == [1.0, 5.0]
    values = torch.tensor([1.0, 2.0])
    assert torch.equal(mean_over_processes(values), values)


@pytest.mark.parametrize("case", NORMS)
def test_a_batch_norm_over_two_processes_is_that_of_the_joined_batch(two, case):
    expected = run_norm(new_norm(case), *norm_inputs(case))
    tolerance = {"rtol": 1e-5, "atol": 1e-3 if case == "far from zero" else 2e-5}
    if not NORMS[case][0]().track_running_stats:
        expected.pop("evaluated")  # each process then normalises by its own batch
    for name, tensor in expected.items():
        parts = [results[case][name] for results in two]
        if name in ("made", "input gradient", "evaluated"):
            torch.testing.assert_close(torch.cat(parts), tensor, **tolerance)
        elif name.endswith("gradient"):
            torch.testing.assert_close(sum(parts), tensor, **tolerance)
        else:
            for part in parts:
                torch.testing.assert_close(part, tensor, **tolerance)


def test_half_precision_is_normalised_in_float32_and_stays_half(two):
    joined = torch.cat([results["half precision"][0] for results in two]).float()
    made = torch.cat([results["half precision"][1] for results in two])
    assert made.dtype == torch.bfloat16
    expected = nn.BatchNorm1d(3)(joined).detach()
    torch.testing.assert_close(made.float(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("center", CENTERS)
def test_two_processes_end_with_the_loss_center_and_weights_of_one(two, center):
    network = new_network()
    start = copy.deepcopy(network.state_dict())
    # Each half of the batch is mixed within itself, as its process does.
    partners = torch.cat([torch.arange(B).roll(1) + rank * B for rank in range(PROCESSES)])
    expected = train(network, network, center, digits(), partners)
    ours = [results[center] for results in two]
    mean = torch.stack([result["losses"] for result in ours]).mean(0)
    torch.testing.assert_close(mean, expected["losses"], rtol=1e-5, atol=1e-5)
    for result in ours:
        assert list(result["state"]) == list(expected["state"])
        for name, tensor in expected["state"].items():
            torch.testing.assert_close(result["state"][name], tensor, rtol=1e-5, atol=1e-5, msg=name)
    assert expected["state"]["center.center"].any()
    assert (expected["state"]["backbone.network.0.weight"] != start["backbone.network.0.weight"]).any()


def test_a_frozen_backbone_stays_frozen_with_two_processes(two):
    assert [results["frozen"] for results in two] == [True, True]


# In one process


@pytest.mark.parametrize("case", NORMS)
def test_in_one_process_it_is_torchs_batch_norm(case):
    norm = new_norm(case)
    synchronised = synchronise_batch_norms(nn.Sequential(copy.deepcopy(norm)))[0]
    assert isinstance(synchronised, SyncBatchNorm)
    expected, ours = (run_norm(module, *norm_inputs(case)) for module in (norm, synchronised))
    assert list(ours) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(ours[name], tensor), name


def test_a_batch_norm_needs_channels():
    with pytest.raises(ValueError, match=r"expected \(B, C, ...\), got \(3,\)"):
        SyncBatchNorm(3)(torch.zeros(3))


def test_on_a_gpu_it_is_torchs_own_with_the_same_tensors_and_names():
    network = new_network().eval()
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    norms = {name for name, module in network.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)}
    converted = synchronise_batch_norms(network, torch.device("cuda"))
    assert {name for name, module in converted.named_modules() if isinstance(module, nn.SyncBatchNorm)} == norms
    again = {**dict(converted.named_parameters()), **dict(converted.named_buffers())}
    assert again.keys() == tensors.keys()
    assert all(again[name] is tensor for name, tensor in tensors.items())
    assert not any(module.training for module in converted.modules())


def test_synchronising_keeps_names_state_modes_and_frozen_parameters():
    network = new_network()
    network.backbone.eval().requires_grad_(False)
    before = copy.deepcopy(network)
    assert synchronise_batch_norms(network) is network
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 5 + 3 + 1
    assert all(isinstance(module, SyncBatchNorm) for module in norms)
    expected, ours = before.state_dict(), network.state_dict()
    assert list(ours) == list(expected)
    assert all(torch.equal(ours[name], tensor) for name, tensor in expected.items())
    assert [m.training for m in network.modules()] == [m.training for m in before.modules()]
    wanted = {name: parameter.requires_grad for name, parameter in before.named_parameters()}
    assert {name: parameter.requires_grad for name, parameter in network.named_parameters()} == wanted
    again = synchronise_batch_norms(network)
    assert list(again.state_dict()) == list(expected)


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]))
