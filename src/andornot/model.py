"""`Model`: load, save and export a model, and encode images as representations."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .data import ResizedImages
from .data.converting import square_pixels, to_rgb
from .data.decoding import decode
from .data.inputs import as_floats, as_items, as_pixels, check_pixels, to_pil
from .data.readers import default_workers
from .errors import AndornotError
from .files import write_atomically, write_text
from .logic import Representation
from .memory import check_memory
from .progress import track
from .ssl.backbones import (
    Backbone,
    accelerate,
    build_backbone,
    compute_in_parts,
    hash_tensors,
    in_parts,
    is_worthwhile,
    optimise_for_inference,
    rebuild_backbone,
    wrap_backbone,
)
from .ssl.calibration import CalibratedHead
from .ssl.checkpoint import write_tensors
from .ssl.network import Network, fused
from .ssl.recipe import Recipe, load_recipe, make_recipe
from .ssl.training import CHECKPOINT
from .version import __version__

WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"
# A folder beside them, of the files that some backbones need, such as the text tower of `transformers:…`.
BACKBONE_FILES: Final = "backbone"
FORMAT: Final = 1
# The quantiles of `Model.pretrained`, in the package; tools/calibrate_photos.py makes them.
PHOTO_CALIBRATION: Final = "recipes/photos.safetensors"

# A batch is decoded ahead of the one that is computed.
_BATCHES_AHEAD: Final = 2


class ModelError(AndornotError):
    """A folder that holds no model, a damaged one, or one of a newer version."""


def check_device(device: str | torch.device) -> None:
    """Raise a ModelError for a device that is not available."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f'the device "{device}" cannot be used: {reason}') from None


class PredictionHead(nn.Module):
    """Projector, predictor, softmax: activations `(B, width)` to probabilities `(B, N, M)`. Eqs. (p_1), (p_2)."""

    def __init__(self, network: Network, temperature: float) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, activations: Tensor) -> Tensor:
        """Return probabilities `(B, N, M)`."""
        return Representation.from_logits(self.network.project(activations).p, self.temperature, validate=False).probs


class _FusedHead(nn.Module):
    """A `PredictionHead` for encoding: the same probabilities with less work."""

    def __init__(self, head: PredictionHead) -> None:
        super().__init__()
        self.layers = fused([*head.network.projector, *head.network.predictor])
        self.shape = -1, head.network.num_features, head.network.num_values
        self.temperature = head.temperature

    def forward(self, activations: Tensor) -> Tensor:
        return Representation.from_logits(
            self.layers(activations).view(self.shape), self.temperature, validate=False
        ).probs


class Model:
    """A backbone and the head that makes its activations a representation.

    `model.encode(images)` takes paths, PIL images, arrays or tensors, one or several:

    >>> from andornot.ssl.recipe import make_recipe
    >>> recipe = make_recipe({"backbone": "conv5", "num_features": 16, "num_values": 4})
    >>> model = Model.from_network(new_network(recipe, channels=1), recipe)
    >>> model.encode(torch.zeros(5, 1, 28, 28))
    Representation(batch=(5,), N=16, M=4, float32)
    """

    def __init__(self, backbone: Backbone, head: nn.Module, recipe: Recipe) -> None:
        self.backbone, self.head, self.recipe = backbone.eval(), head.eval(), recipe
        self.size = recipe.size or backbone.size
        self._seen = self._expected = 0

    @classmethod
    def from_network(cls, network: Network, recipe: Recipe) -> Model:
        """Return the model of a trained network."""
        return cls(network.backbone, PredictionHead(network, recipe.prediction_temperature), recipe)

    @classmethod
    def calibrated(cls, backbone: Backbone, activations: Tensor, recipe: Recipe) -> Model:
        """Return a model of a backbone, calibrated on the activations `(n, width)` of some images."""
        head = CalibratedHead(backbone.width, recipe.num_values, recipe.calibration).fit(activations)
        return cls(backbone, head.to(next(backbone.buffers()).device), recipe)

    @classmethod
    def pretrained(cls) -> Model:
        """Return the default photo model, ready to encode: EfficientNet-Lite0, calibrated on 6,400 photos of COCO.

        Its degrees say how unusual an activation is among those photos. For images of another kind, calibrate on your
        own with `pretrain(folder, ...)` or `Gallery`.
        """
        recipe = photo_recipe()
        model = _empty_model(new_backbone(recipe, channels=3), recipe)
        with resources.as_file(resources.files("andornot") / PHOTO_CALIBRATION) as file:
            model.head.load_state_dict({"quantiles": load_file(file)["quantiles"].float()})
        return model

    @property
    def num_features(self) -> int:
        """N."""
        return self.backbone.width if self.recipe.regime == "calibrated" else self.recipe.num_features

    @property
    def num_values(self) -> int:
        """M."""
        return self.recipe.num_values

    @property
    def channels(self) -> int:
        """1 for a model of grey images, 3 for colour."""
        return self.backbone.channels

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.backbone.buffers()).device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to a device, and return it; raise a ModelError if there is no such device."""
        check_device(device)
        self.backbone.to(device)
        self.head.to(device)
        for name in ("_fast_backbone", "_accelerated_maps", "_fast_head"):
            self.__dict__.pop(name, None)
        return self

    def __repr__(self) -> str:
        return (
            f"Model({self.backbone.name}, {self.recipe.regime}, N={self.num_features}, M={self.num_values}, "
            f"size={self.size}, channels={self.channels})"
        )

    def encode(self, images: Any, *, batch_size: int = 64, progress: bool | None = None) -> Representation:
        """Return the representation of one image `(N, M)`, or of several `(B, N, M)`.

        An image is a path, a PIL image, an array `(H, W)` or `(H, W, C)` of bytes, or a tensor `(C, H, W)` of bytes or
        of floats from 0 to 1; several are a list of those, a tensor `(B, C, H, W)`, or `ResizedImages`. A file that
        cannot be read is a BrokenImageError. `progress`: whether to show a bar; by default when it takes long.
        """
        return Representation(self._compute(images, self._fast_head, batch_size, progress), validate=False)

    def preprocess(self, image: Any) -> Tensor:
        """Return one image of any kind that `encode` takes as the model's input: uint8 `(C, size, size)`.

        Upright, square by the recipe's `fit`, grey or colour as the backbone is. Floats that have that shape already
        stay floats. A stack of such images is encoded as they are, so this is a `transform` for data sets, too.
        """
        if isinstance(image, str | os.PathLike | bytes):
            image = decode(image, size=self.size, channels=self.channels)
        elif isinstance(image, Image.Image):
            image = to_rgb(image, self.channels, self.size)
        else:
            pixels = as_pixels(image)
            if self._fits((1, *pixels.shape)):
                check_pixels(pixels)
                return pixels.expand(self.channels, -1, -1).cpu()
            image = to_rgb(to_pil(pixels, image), self.channels, self.size)
        return square_pixels(image, self.size, self.recipe.fit)

    def iter_feature_maps(self, images: Any, *, batch_size: int = 64, progress: bool | None = None) -> Iterator[Tensor]:
        """Yield the backbone's feature maps `(B, C, h, w)`, batch by batch.

        `model.backbone` takes them on: `pool(maps)` are activations, `pool(maps[:, :, :4, :4])` those of a region, and
        `classify(maps)` the logits of ImageNet's classes, if it has `classes`.
        """
        return self._look(as_items(images)[1], batch_size, progress)

    @torch.no_grad()
    def maps(self, images: Tensor) -> Tensor:
        """Compute the feature maps of one batch `(B, C, size, size)`, floats from 0 to 1 on the model's device."""
        return compute_in_parts(self._maps_for(len(images)), images)

    def reserve(self, count: int) -> None:
        """Announce how many images will be encoded, in any number of calls, so that acceleration starts at once."""
        self._expected = count

    def activations(self, images: Any, *, batch_size: int = 64, progress: bool | None = None) -> Tensor:
        """Return the backbone's pooled output, before any head: `(width,)` or `(B, width)`."""
        return self._compute(images, nn.Identity(), batch_size, progress)

    @torch.no_grad()
    def encode_activations(self, activations: Tensor, *, batch_size: int = 64) -> Representation:
        """Return the representation of activations `(width,)` or `(B, width)`: `encode` without the backbone."""
        parts = torch.split(activations.view(-1, activations.shape[-1]), batch_size)
        probs = torch.cat([self._fast_head(part.to(self.device)).cpu() for part in parts])
        return Representation(probs[0] if activations.ndim == 1 else probs, validate=False)

    @cached_property
    def _fast_backbone(self) -> Backbone:
        return optimise_for_inference(self.backbone)

    @cached_property
    def _accelerated_maps(self) -> Callable[[Tensor], Tensor]:
        return accelerate(self.backbone, self.size)

    def _maps_for(self, count: int) -> Callable[[Tensor], Tensor]:
        """Return `backbone.maps` for that many more images: accelerated if the images so far are worth it."""
        self._seen += count
        many = is_worthwhile(max(self._seen, self._expected), self.size)
        return self._accelerated_maps if many else self._fast_backbone.maps

    @cached_property
    def _fast_head(self) -> nn.Module:
        return _FusedHead(self.head) if isinstance(self.head, PredictionHead) else self.head

    def _compute(self, images: Any, head: nn.Module, batch_size: int, progress: bool | None) -> Tensor:
        single, items = as_items(images)
        with torch.no_grad():
            results = [head(self.backbone.pool(maps)).cpu() for maps in self._look(items, batch_size, progress)] or [
                head(torch.zeros(1, self.backbone.width, device=self.device)).cpu()[:0]
            ]
        return results[0][0] if single else torch.cat(results)

    @torch.no_grad()
    def _look(self, items: Sequence[Any], batch_size: int, progress: bool | None) -> Iterator[Tensor]:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        maps = self._maps_for(len(items))
        with track("encoding", len(items), shown=progress, delay=2) as bar:
            for batch in self._batches(items, batch_size):
                for images in in_parts(batch.to(self.device)):
                    yield maps(as_floats(images))
                bar.update(len(batch))

    def _batches(self, items: Sequence[Any], batch_size: int) -> Iterator[Tensor]:
        """Yield images `(B, C, size, size)`, bytes or floats; the next batches are decoded in the background."""
        if isinstance(items, ResizedImages | Tensor) and self._fits(items.shape):
            for start in range(0, len(items), batch_size):
                yield items[start : start + batch_size]
            return
        with ThreadPoolExecutor(max_workers=default_workers()) as pool:
            waiting = []
            for start in range(0, len(items), batch_size):
                waiting.append([pool.submit(self.preprocess, item) for item in items[start : start + batch_size]])
                if len(waiting) > _BATCHES_AHEAD:
                    yield _stacked(waiting.pop(0))
            for batch in waiting:
                yield _stacked(batch)

    def _fits(self, shape: Sequence[int]) -> bool:
        """Return whether images `(B, C, H, W)` need no preprocessing."""
        return shape[1] in (1, self.channels) and tuple(shape[2:]) == (self.size, self.size)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `model.safetensors` and then `model.json`: a folder with the second is complete.

        What a backbone needs besides is written to a folder `backbone` in it.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).unlink(missing_ok=True)
        write_tensors(folder / WEIGHTS, self._state())
        files = self.backbone.save_files(folder / BACKBONE_FILES)
        description = {
            "format": FORMAT,
            "backbone": self.backbone.config,
            "num_features": self.num_features,
            "num_values": self.num_values,
            "temperatures": [self.recipe.prediction_temperature, self.recipe.target_temperature],
            "size": self.size,
            "channels": self.channels,
            "recipe": self.recipe.model_dump(mode="json"),
            "weights": _digest(folder / WEIGHTS),
            "versions": {"andornot": __version__, "torch": torch.__version__, "python": platform.python_version()},
        }
        if files:
            description["backbone_files"] = {name: _digest(folder / BACKBONE_FILES / name) for name in files}
        text = json.dumps(description, indent=2) + "\n"
        write_text(folder / DESCRIPTION, text)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, backbone: nn.Module | None = None, external_files: bool = False
    ) -> Model:
        """Load a model. One that was made with a network of your own needs it as `backbone`.

        Nothing is downloaded, and no code that comes with the model is run. `external_files=True` also reads files of
        its backbone that are not in the folder: for models of `transformers:…` that 0.2 saved.
        """
        folder = Path(folder)
        description = _read_description(folder)
        try:
            recipe = make_recipe(description["recipe"])
            if backbone is None:
                if not isinstance(name := description["backbone"]["name"], str):
                    raise ModelError(f"{folder / DESCRIPTION} names no backbone: its name must be a text, got {name!r}")
                if name.startswith("module:"):
                    raise ModelError(
                        f"{folder} has a network of your own in it: Model.load(folder, backbone=…) needs it"
                    )
                _check_files(folder, dict(description.get("backbone_files", {})))
                with _NoInitialisation():
                    backbone = rebuild_backbone(
                        description["backbone"], folder / BACKBONE_FILES, external_files=external_files
                    )
            whole = wrap_backbone(backbone, size=description["size"], channels=description["channels"])
            with _NoInitialisation():
                model = _empty_model(whole, recipe)
            if _digest(folder / WEIGHTS) != description["weights"]:
                raise ModelError(
                    f"{folder / WEIGHTS} is damaged or of another model: its checksum is not the one saved"
                )
            model._restore(load_file(folder / WEIGHTS))
        except FileNotFoundError:
            raise ModelError(f"{folder} has a {DESCRIPTION} but no {WEIGHTS}") from None
        except ModelError:
            raise
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            message = " ".join(str(error).split())
            raise ModelError(f"{folder} does not hold a model that can be read: {message}") from None
        return model

    @property
    def id(self) -> str:
        """A text that is the same for models that encode alike, and differs for others."""
        deciding = ("regime", "num_values", "prediction_temperature", "fit", "calibration")
        settings = {"size": self.size, **self.recipe.model_dump(mode="json", include=set(deciding))}
        return hash_tensors(self._state(), json.dumps(settings, sort_keys=True))[:16]

    def _state(self) -> dict[str, Tensor]:
        if isinstance(self.head, PredictionHead):
            return self.head.network.state_dict()
        heads = {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        return {**{f"backbone.{name}": tensor for name, tensor in self.backbone.state_dict().items()}, **heads}

    def _restore(self, state: dict[str, Tensor]) -> None:
        if isinstance(self.head, PredictionHead):
            self.head.network.load_state_dict(state)
        else:
            nn.ModuleDict({"backbone": self.backbone, "head": self.head}).load_state_dict(state)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Export to ONNX: `images` `(B, C, size, size)` from 0 to 1 in, `probs` `(B, N, M)` out."""
        try:
            import onnx  # noqa: F401
        except ModuleNotFoundError:
            raise ModelError("the export needs the package onnx: pip install onnx") from None
        # Copies: the model itself stays on its device.
        whole = nn.Sequential(optimise_for_inference(self.backbone), copy.deepcopy(self.head)).cpu().eval()
        example = torch.rand(2, self.channels, self.size, self.size)

        def write(partial_path: Path) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    whole,
                    (example,),
                    str(partial_path),
                    dynamo=False,
                    input_names=["images"],
                    output_names=["probs"],
                    dynamic_axes={"images": {0: "batch"}, "probs": {0: "batch"}},
                )

        write_atomically(Path(path), write)


def photo_recipe() -> Recipe:
    """Return the recipe of `Model.pretrained`: `photos`, with fewer quantiles, so that their file is small."""
    return load_recipe("photos", calibration={"levels": 65})


def new_backbone(recipe: Recipe, channels: int, own: nn.Module | None = None) -> Backbone:
    """Build the backbone of the recipe, pretrained if it has weights; trainable only in the regime `scratch`.

    `own` is a network in its place, for `wrap_backbone`.
    """
    torch.manual_seed(recipe.seed)
    if own is not None:
        return wrap_backbone(own, size=recipe.size or 224, channels=channels).requires_grad_(recipe.regime == "scratch")
    # EfficientNet-Lite was trained on colour; grey images are repeated for it.
    channels = 3 if recipe.backbone.startswith("efficientnet") else channels
    backbone = build_backbone(recipe.backbone, channels=channels, **recipe.backbone_options)
    return backbone.requires_grad_(recipe.regime == "scratch")


def new_network(recipe: Recipe, channels: int, own: nn.Module | None = None) -> Network:
    """Build the network of the recipe: its backbone, or your `own`, with new heads."""
    return _with_heads(new_backbone(recipe, channels, own), recipe)


def _with_heads(backbone: Backbone, recipe: Recipe) -> Network:
    outputs, hidden = recipe.num_features * recipe.num_values, recipe.projector_hidden or backbone.width
    weights = hidden * (backbone.width + hidden + outputs) + 2 * recipe.predictor_hidden * outputs
    advice = "lower num_features, num_values, projector_hidden or predictor_hidden"
    check_memory(4 * weights, f"a network with {weights:,} weights in its heads", advice)
    return Network(backbone, recipe.num_features, recipe.num_values, recipe.projector_hidden, recipe.predictor_hidden)


def _empty_model(backbone: Backbone, recipe: Recipe) -> Model:
    if recipe.regime == "calibrated":
        return Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)
    return Model.from_network(_with_heads(backbone, recipe), recipe)


def _stacked(batch: Sequence[Future[Tensor]]) -> Tensor:
    """Stack images: bytes if all are bytes, which take a quarter of the memory."""
    images = [future.result() for future in batch]
    if any(image.dtype != torch.uint8 for image in images):
        images = [as_floats(image) for image in images]
    return torch.stack(images)


class _NoInitialisation(TorchFunctionMode):
    """Skips the drawing of random weights, which takes a while, where others are loaded over them anyway."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


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
