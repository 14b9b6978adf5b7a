"""Checkpoints: whole or not there, the same after reading, and a clear word about anything else."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from andornot.files import write_atomically
from andornot.ssl.checkpoint import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    optimiser_tensors,
    restore_optimiser,
    save_checkpoint,
    write_tensors,
)


def some_checkpoint(step: int = 3) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    model = {"weight": torch.randn(4, 3, generator=generator), "seen": torch.tensor(step)}
    return Checkpoint(step, model, {"0.momentum_buffer": torch.randn(4, 3, generator=generator)}, {"a": [1, None, "ä"]})


def trained(steps: int, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    for step in range(steps):
        optimiser.zero_grad()
        network(torch.full((2, 3), 0.1 * step)).square().sum().backward()
        optimiser.step()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- the same after reading -----------------------------------------------------------------------------------------


def test_a_checkpoint_comes_back_bit_by_bit(tmp_path):
    checkpoint = some_checkpoint()
    save_checkpoint(tmp_path / "c.safetensors", checkpoint)
    again = load_checkpoint(tmp_path / "c.safetensors")
    assert (again.step, again.settings) == (checkpoint.step, checkpoint.settings)
    for mine, theirs in ((checkpoint.model, again.model), (checkpoint.optimiser, again.optimiser)):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[key], theirs[key]) and mine[key].dtype == theirs[key].dtype for key in mine)


def test_an_optimiser_goes_on_as_if_nothing_had_been(tmp_path):
    torch.manual_seed(0)
    networks = [nn.Linear(3, 4), nn.Linear(3, 4)]
    networks[1].load_state_dict(networks[0].state_dict())
    one, other = (torch.optim.SGD(n.parameters(), 0.1, momentum=0.9, weight_decay=1e-4) for n in networks)
    trained(3, networks[0], one)
    networks[1].load_state_dict(networks[0].state_dict())
    save_checkpoint(tmp_path / "c", Checkpoint(3, {}, optimiser_tensors(one), {}))
    restore_optimiser(other, load_checkpoint(tmp_path / "c").optimiser)
    for network, optimiser in zip(networks, (one, other), strict=True):
        trained(3, network, optimiser)
    assert all(torch.equal(a, b) for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True))


def test_the_scale_of_gradients_comes_back(tmp_path):
    one, other = (torch.amp.GradScaler("cpu", init_scale=scale) for scale in (1024.0, 7.0))
    save_checkpoint(tmp_path / "c", Checkpoint(3, {}, {}, {}, one.state_dict()))
    other.load_state_dict(load_checkpoint(tmp_path / "c").scaler)
    assert other.state_dict() == one.state_dict()


def test_an_optimiser_without_a_state_yet_has_no_tensors():
    network = nn.Linear(3, 4)
    optimiser = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    assert optimiser_tensors(optimiser) == {}
    restore_optimiser(optimiser, {})
    assert optimiser_tensors(optimiser) == {}


def test_tensors_that_are_views_are_written_as_what_they_show(tmp_path):
    numbers = torch.arange(12.0).view(3, 4)
    save_checkpoint(tmp_path / "c", Checkpoint(0, {"turned": numbers.T}, {}, {}))
    assert torch.equal(load_checkpoint(tmp_path / "c").model["turned"], numbers.T)


# --- whole, or not there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), RuntimeError("what")])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(error, tmp_path):
    (tmp_path / "file").write_text("old")

    def write(partial: Path) -> None:
        partial.write_text("half of the ne")
        raise error

    with pytest.raises(type(error)):
        write_atomically(tmp_path / "file", write)
    assert (tmp_path / "file").read_text() == "old"
    assert names_in(tmp_path) == ["file"]


def test_a_process_killed_between_write_and_rename_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_text("old")
    code = (
        "import os, signal, sys, pathlib; from andornot.files import write_atomically\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(pathlib.Path(sys.argv[1]), lambda partial: partial.write_text('new'))"
    )
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "file"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_text() == "old"
    write_atomically(tmp_path / "file", lambda partial: partial.write_text("newer"))
    assert (tmp_path / "file").read_text() == "newer"
    assert names_in(tmp_path) == ["file"], "what the killed process left is gone"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_names_the_file_and_keeps_the_last_checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, some_checkpoint(3))
    before = path.read_bytes()
    (tmp_path / "c.safetensors.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as error:
        save_checkpoint(path, some_checkpoint(4))
    assert error.value.filename == str(path)
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["c.safetensors"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        save_checkpoint(tmp_path / "none" / "c", some_checkpoint())
    assert error.value.filename == str(tmp_path / "none" / "c")


def test_a_file_is_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    write_tensors(tmp_path / "tensors", {"a": torch.zeros(1)})
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "tensors")]
    assert modes[0] == modes[1]


# --- anything else --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0, 1, 7, 100, -1])
def test_a_truncated_checkpoint_is_said_to_be_damaged(part, tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, some_checkpoint())
    path.write_bytes(path.read_bytes()[:part])
    with pytest.raises(CheckpointError, match=r"c is damaged \(.*\); start over with --overwrite"):
        load_checkpoint(path)


def test_no_changed_byte_gives_another_checkpoint(tmp_path):
    path, checkpoint = tmp_path / "c", some_checkpoint()
    save_checkpoint(path, checkpoint)
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            again = load_checkpoint(path)
        except CheckpointError:
            refused += 1
        else:  # a byte that says nothing, such as one of the word "checksum"
            assert (again.step, again.settings) == (checkpoint.step, checkpoint.settings)
            assert all(torch.equal(again.model[name], tensor) for name, tensor in checkpoint.model.items())
            assert all(torch.equal(again.optimiser[name], tensor) for name, tensor in checkpoint.optimiser.items())
    assert refused > 0.9 * len(content)


def test_a_checkpoint_without_a_checksum_is_damaged(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "c", metadata={"step": "3", "settings": "{}", "scaler": "{}"})
    with pytest.raises(CheckpointError, match="its checksum is wrong"):
        load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("content", [b"hello", b"\x00" * 100, b"\xff" * 100, json.dumps({"step": 1}).encode()])
def test_another_file_is_said_to_be_damaged(content, tmp_path):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CheckpointError, match="start over with --overwrite"):
        load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize(
    "metadata", [None, {}, {"step": "3"}, {"step": "x", "settings": "{}"}, {"step": "3", "settings": "{"}]
)
def test_tensors_of_someone_else_are_no_checkpoint(metadata, tmp_path):
    save_file({"a": torch.zeros(2)}, tmp_path / "c", metadata=metadata)
    with pytest.raises(CheckpointError, match="c is not a checkpoint of andornot; start over with --overwrite"):
        load_checkpoint(tmp_path / "c")
