"""Weights from a file into a network: .safetensors, or a torch file that holds tensors alone. No pickle is run."""

import os
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from .errors import BackboneError


def load_weights(network: nn.Module, path: str | os.PathLike[str], ignore: tuple[str, ...] = ()) -> None:
    """Fills `network` from the state dict in `path`, whose names must fit; those that begin with `ignore` are left out.

    Raises a FileNotFoundError, or a ValueError that names the first weights that do not fit.
    """
    weights = {name: value for name, value in read_weights(path).items() if not name.startswith(ignore or "\0")}
    own = network.state_dict()
    missing = [name for name in own if name not in weights and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in own]
    misshapen = [
        f"{name} is {tuple(value.shape)} instead of {tuple(own[name].shape)}"
        for name, value in weights.items()
        if name in own and value.shape != own[name].shape
    ]
    problems = [
        f"{what} {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for what, names in (("missing", missing), ("unexpected", unexpected), ("wrong shape:", misshapen))
        if names
    ]
    if problems:
        raise BackboneError(f"the weights in {path} do not fit: {'; '.join(problems)}")
    network.load_state_dict(weights, strict=False)


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The state dict in a file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of weights at {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise BackboneError(f"{path} cannot be read as a file of weights alone ({_first_line(error)})") from None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise BackboneError(f"{path} is not a state dict: it must map names to tensors")
    return content


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
