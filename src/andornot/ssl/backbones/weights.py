"""Weights of backbones: load them from files, hash them, import the packages that provide them. No pickle is run."""

import hashlib
import importlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ...errors import AndornotError, MissingPackageError


class BackboneError(AndornotError):
    """A backbone that there is not, or that does not take what it was given."""


def import_package(package: str, *, backbone: str, install: str) -> Any:
    """Import a package, or raise an error that says which `pip install` the backbone needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({error})") from error
        raise MissingPackageError(f"backbone {backbone} needs {package}: pip install {install}") from None
    except (ImportError, OSError, RuntimeError) as error:  # a wheel that does not fit the torch beside it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MissingPackageError(f"backbone {backbone}: {package} cannot be imported ({reason})") from error


def hash_tensors(tensors: Mapping[str, Tensor], header: str = "") -> str:
    """Return a SHA-256 of named tensors and of a text: equal only if names, types, shapes and all bits are."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        content = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(content.dtype), list(content.shape)]).encode())
        digest.update(content.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_weights(network: nn.Module, path: str | os.PathLike[str], ignore: tuple[str, ...] = ()) -> None:
    """Load the state dict in `path` into `network`; names that begin with `ignore` are left out.

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
    """Return the state dict in a file."""
    if not isinstance(path, str | os.PathLike):
        raise BackboneError(f"weights must be the path of a file, got {path!r}")
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of weights at {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no error of its own for a file that is none of weights
        raise BackboneError(f"{path} cannot be read as a file of weights alone ({_first_line(error)})") from None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise BackboneError(f"{path} is not a state dict: it must map names to tensors")
    return content


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
