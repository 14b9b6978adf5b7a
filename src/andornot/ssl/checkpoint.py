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
from .recipe import Recipe, RecipeError, make_recipe

_OPTIMISER = "optimiser."
_CHECKSUM = "checksum"
_DATA = "data"
# Settings that a resumed run may change.
_FREE = ("checkpoint_seconds",)


class CheckpointError(AndornotError):
    """Raised for a checkpoint that is damaged or belongs to another run."""


class Checkpoint(NamedTuple):
    """The state of a run: next step, weights and buffers (including the center), optimiser tensors, and settings.

    The state of random generators is not needed: every random number depends on the seed and the step only.
    """

    step: int
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    settings: dict[str, Any]
    scaler: dict[str, Any] = {}  # noqa: RUF012  # gradient scaler, with precision=16-mixed


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, atomically.

    `safetensors.torch.save_file` writes to a randomly named file that only its owner may read, and that remains if the
    process is killed.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata)
    write_atomically(path, lambda partial: partial.write_bytes(content))


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, replacing the previous one."""
    optimiser = {_OPTIMISER + name: tensor for name, tensor in checkpoint.optimiser.items()}
    tensors = {**checkpoint.model, **optimiser}
    metadata = {"step": str(checkpoint.step), "settings": json.dumps(checkpoint.settings)}
    metadata["scaler"] = json.dumps(checkpoint.scaler)
    write_tensors(path, tensors, {**metadata, _CHECKSUM: hash_tensors(tensors, json.dumps(metadata, sort_keys=True))})


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, or raise a CheckpointError."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
            metadata = file.metadata() or {}
        step, settings, scaler = int(metadata["step"]), json.loads(metadata["settings"]), json.loads(metadata["scaler"])
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
    return Checkpoint(step, model, optimiser, settings, scaler)


def run_settings(recipe: Recipe, images: int | None, batch_size: int, fingerprint: str | None) -> dict[str, Any]:
    """Return the settings that must be equal to resume a run."""
    settings = {"recipe": recipe.model_dump(mode="json"), "images": images, "images in a step": batch_size}
    return settings if fingerprint is None else {**settings, _DATA: fingerprint}


def load_matching(path: Path, mine: dict[str, Any]) -> Checkpoint:
    """Load a checkpoint; raise a CheckpointError if it was made with different settings."""
    checkpoint = load_checkpoint(path)
    theirs = checkpoint.settings
    for what in ("images", "images in a step"):
        if theirs.get(what) != mine[what]:
            raise CheckpointError(
                f"{path} was made with {theirs.get(what)} {what}, and now there are {mine[what]}; "
                "resume with the original images or pass --overwrite"
            )
    if _DATA in theirs and _DATA in mine and theirs[_DATA] != mine[_DATA]:
        raise CheckpointError(
            f"{path} was made with other images, though as many; resume with those or pass --overwrite"
        )
    try:
        # Settings that an older version did not store have their default values.
        recipe = make_recipe(theirs["recipe"]).model_dump(mode="json")
    except RecipeError as error:
        raise CheckpointError(f"{path} is of another version ({error}); start over with --overwrite") from None
    for key, value in mine["recipe"].items():
        before = recipe[key]
        if key not in _FREE and before != value:
            raise CheckpointError(
                f"{path} was made with {key}={before!r}, and now it is {value!r}; "
                "resume with the original settings or pass --overwrite"
            )
    return checkpoint


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
