"""Read and write a model's folder (`model.safetensors`, `model.json` and files of the backbone), and export to ONNX."""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .errors import AndornotError
from .files import write_atomically, write_text
from .ssl.backbones import Backbone, rebuild_backbone, wrap_backbone
from .ssl.checkpoint import write_tensors
from .ssl.recipe import Recipe, make_recipe
from .ssl.training import CHECKPOINT
from .version import __version__

WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"
# Subfolder for files that some backbones need, such as the text tower of `transformers:…`.
BACKBONE_FILES: Final = "backbone"
FORMAT: Final = 1


class ModelError(AndornotError):
    """Raised for a model that is missing, damaged, or of a newer version."""


def check_device(device: str | torch.device) -> None:
    """Raise a ModelError for a device that is not available."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f'the device "{device}" cannot be used: {reason}') from None


class SavedModel(NamedTuple):
    """The content of a model's folder: the backbone without its weights, the recipe, and all weights."""

    backbone: Backbone
    recipe: Recipe
    state: dict[str, Tensor]


def write_model(
    folder: Path, backbone: Backbone, recipe: Recipe, num_features: int, state: Mapping[str, Tensor]
) -> None:
    """Write the weights, the backbone's files and finally the description; a folder with a description is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).unlink(missing_ok=True)
    write_tensors(folder / WEIGHTS, dict(state))
    files = backbone.save_files(folder / BACKBONE_FILES)
    description = {
        "format": FORMAT,
        "backbone": backbone.config,
        "num_features": num_features,
        "num_values": recipe.num_values,
        "temperatures": [recipe.prediction_temperature, recipe.target_temperature],
        "size": recipe.size or backbone.size,
        "channels": backbone.channels,
        "recipe": recipe.model_dump(mode="json"),
        "weights": _digest(folder / WEIGHTS),
        "versions": {"andornot": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    if files:
        description["backbone_files"] = {name: _digest(folder / BACKBONE_FILES / name) for name in files}
    write_text(folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Convert errors while a model is read to a ModelError that names the folder."""
    try:
        yield
    except FileNotFoundError:
        raise ModelError(f"{folder} has a {DESCRIPTION} but no {WEIGHTS}") from None
    except ModelError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise ModelError(f"{folder} does not hold a model that can be read: {message}") from None


def read_model(folder: Path, backbone: nn.Module | None, external_files: bool) -> SavedModel:
    """Read a folder and verify checksums; see `Model.load` for `backbone` and `external_files`."""
    description = _read_description(folder)
    recipe = make_recipe(description["recipe"])
    if backbone is None:
        if not isinstance(name := description["backbone"]["name"], str):
            raise ModelError(f"{folder / DESCRIPTION} names no backbone: its name must be a text, got {name!r}")
        if name.startswith("module:"):
            raise ModelError(f"{folder} has a network of your own in it: Model.load(folder, backbone=…) needs it")
        _check_files(folder, dict(description.get("backbone_files", {})))
        with NoInitialisation():
            backbone = rebuild_backbone(description["backbone"], folder / BACKBONE_FILES, external_files=external_files)
    whole = wrap_backbone(backbone, size=description["size"], channels=description["channels"])
    if _digest(folder / WEIGHTS) != description["weights"]:
        raise ModelError(f"{folder / WEIGHTS} is damaged or of another model: its checksum is not the one saved")
    return SavedModel(whole, recipe, load_file(folder / WEIGHTS))


class NoInitialisation(TorchFunctionMode):
    """Skips the slow random initialisation of weights that will be overwritten by loaded ones."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def write_onnx(path: Path, module: nn.Module, example: Tensor) -> None:
    """Export a module from `images` to `probs` to ONNX, for batches of any size."""
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError:
        raise ModelError("the export needs the package onnx: pip install onnx") from None

    def write(partial_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (example,),
                str(partial_path),
                dynamo=False,
                input_names=["images"],
                output_names=["probs"],
                dynamic_axes={"images": {0: "batch"}, "probs": {0: "batch"}},
            )

    write_atomically(path, write)


def _read_description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (folder / CHECKPOINT).exists():
            raise ModelError(
                f"the training in {folder} is not finished: andornot pretrain --resume continues"
            ) from None
        missing = "has no model.json in it" if folder.is_dir() else "is not a folder"
        raise ModelError(f"{folder} is no model: it {missing}; andornot pretrain makes one") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from None
    if not isinstance(description, dict) or not isinstance(description.get("format"), int):
        raise ModelError(f"{file} is of something else than andornot")
    if description["format"] > FORMAT:
        versions = description.get("versions")
        version = versions.get("andornot", "") if isinstance(versions, dict) else ""
        maker = f"andornot {version}" if version else "a newer andornot"
        raise ModelError(f"{folder} was made by {maker}, and this is {__version__}: update andornot")
    return description


def _check_files(folder: Path, digests: Mapping[str, str]) -> None:
    """Raise a ModelError for a file of the backbone that is missing or damaged."""
    for name, digest in digests.items():
        path = folder / BACKBONE_FILES / Path(name).name
        if not path.is_file() or _digest(path) != digest:
            raise ModelError(f"{path} is missing or damaged: its checksum is not the one saved")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
