"""Checkpoints: one file with everything needed to resume a run, written atomically."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import AndornotError
from ..files import write_atomically
from .backbones import hash_tensors

_OPTIMISER = "optimiser."
_CHECKSUM = "checksum"


class CheckpointError(AndornotError):
    """A checkpoint that is damaged, or belongs to another run."""


class Checkpoint(NamedTuple):
    """How far a run is: the next step, weights and buffers (the center too), the optimiser's tensors, and the settings.

    No state of random generators is needed: every random number of a step is made from the seed and the step.
    """

    step: int
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    settings: dict[str, Any]


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, atomically.

    Not with safetensors' own `save_file`: that writes to a file of a random name, which a killed process leaves
    behind, and that only its owner may read.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata)
    write_atomically(path, lambda partial: partial.write_bytes(content))


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, replacing the last one."""
    optimiser = {_OPTIMISER + name: tensor for name, tensor in checkpoint.optimiser.items()}
    tensors = {**checkpoint.model, **optimiser}
    metadata = {"step": str(checkpoint.step), "settings": json.dumps(checkpoint.settings)}
    write_tensors(path, tensors, {**metadata, _CHECKSUM: hash_tensors(tensors, json.dumps(metadata, sort_keys=True))})


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, or raise a CheckpointError."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
            metadata = file.metadata() or {}
        step, settings = int(metadata["step"]), json.loads(metadata["settings"])
        if metadata.pop(_CHECKSUM, None) != (hash_tensors(tensors, json.dumps(metadata, sort_keys=True))):
            raise CheckpointError(
                f"{path} is damaged (its checksum is wrong); replace it by a copy, or start over with --overwrite"
            )
    except CheckpointError:
        raise
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}); start over with --overwrite") from None
    except (KeyError, ValueError):
        raise CheckpointError(f"{path} is not a checkpoint of andornot; start over with --overwrite") from None
    model = {name: tensor for name, tensor in tensors.items() if not name.startswith(_OPTIMISER)}
    optimiser = {n.removeprefix(_OPTIMISER): tensor for n, tensor in tensors.items() if n.startswith(_OPTIMISER)}
    return Checkpoint(step, model, optimiser, settings)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors: for SGD the momentum of each parameter."""
    return {
        f"{index}.{name}": tensor
        for index, state in optimiser.state_dict()["state"].items()
        for name, tensor in state.items()
        if isinstance(tensor, Tensor)
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the optimiser's state from the tensors of `optimiser_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
