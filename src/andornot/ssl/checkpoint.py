"""Checkpoints: one file with all that a run needs to go on; a crash at any moment leaves a whole one."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import AndornotError
from ..files import write_atomically

_OPTIMISER = "optimiser."


class CheckpointError(AndornotError):
    """A checkpoint that is damaged, or belongs to another run."""


class Checkpoint(NamedTuple):
    """How far a run is: the next step, weights and buffers (the centre too), the optimiser's tensors, and the settings.

    No state of random generators is needed: every random number of a step is made from the seed and the step.
    """

    step: int
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    settings: dict[str, Any]


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Tensors as a safetensors file, atomically.

    Not with safetensors' own `save_file`: that writes to a file of a random name, which a killed process leaves
    behind, and that only its owner may read.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata)
    write_atomically(path, lambda partial: partial.write_bytes(content))


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes the checkpoint in the place of the last one."""
    optimiser = {_OPTIMISER + name: tensor for name, tensor in checkpoint.optimiser.items()}
    metadata = {"step": str(checkpoint.step), "settings": json.dumps(checkpoint.settings)}
    write_tensors(path, {**checkpoint.model, **optimiser}, metadata)


def load_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint, or raises a CheckpointError."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
            metadata = file.metadata() or {}
        step, settings = int(metadata["step"]), json.loads(metadata["settings"])
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}); start anew with --overwrite") from None
    except (KeyError, ValueError):
        raise CheckpointError(f"{path} is not a checkpoint of andornot; start anew with --overwrite") from None
    model = {name: tensor for name, tensor in tensors.items() if not name.startswith(_OPTIMISER)}
    optimiser = {n.removeprefix(_OPTIMISER): tensor for n, tensor in tensors.items() if n.startswith(_OPTIMISER)}
    return Checkpoint(step, model, optimiser, settings)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: for SGD the momentum of each parameter."""
    return {
        f"{index}.{name}": tensor
        for index, state in optimiser.state_dict()["state"].items()
        for name, tensor in state.items()
        if isinstance(tensor, Tensor)
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Puts the tensors of `optimiser_tensors` back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
