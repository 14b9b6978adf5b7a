"""`Model`: load, save and export a model, and encode images as representations."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from .concepts import heads_for
from .data import ResizedImages
from .data.converting import Fit, choose_size, square_pixels, to_rgb, whole_pixels, whole_sizes
from .data.decoding import decode
from .data.inputs import as_floats, as_items, as_pixels, check_pixels, group_by_size, to_pil
from .data.readers import default_workers
from .logic import Representation
from .model_files import (
    DESCRIPTION,
    WEIGHTS,
    ModelError,
    NoInitialisation,
    check_device,
    read_model,
    reading,
    write_model,
    write_onnx,
)
from .progress import track
from .ssl.backbones import (
    Backbone,
    accelerate,
    compute_in_parts,
    hash_tensors,
    in_parts,
    is_worthwhile,
    optimise_for_inference,
)
from .ssl.calibration import CalibratedHead
from .ssl.checkpoint import write_tensors
from .ssl.network import FusedHead, Network, PredictionHead, build_heads, new_backbone, new_network
from .ssl.recipe import Recipe, load_recipe

__all__ = [
    "DESCRIPTION",
    "PHOTO_CALIBRATION",
    "WEIGHTS",
    "Model",
    "ModelError",
    "check_device",
    "new_backbone",
    "new_network",
    "photo_recipe",
]

# The quantiles of `Model.pretrained`, in the package; written by tools/calibrate_photos.py.
PHOTO_CALIBRATION: Final = "recipes/photos.safetensors"

# The number of batches that are decoded ahead.
_BATCHES_AHEAD: Final = 2


class Model:
    """A backbone, and a head that converts its activations to a representation.

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
        # If whole images are encoded, their sides are multiples of this.
        self._stride = backbone.stride if recipe.fit == "whole" else None
        self._seen = self._expected = 0

    @classmethod
    def from_network(cls, network: Network, recipe: Recipe) -> Model:
        """Return the model of a trained network whose heads have the settings of the recipe."""
        given, wanted = network.head_settings, recipe.head_settings(network.backbone.width)
        if given != wanted:
            raise ModelError(f"the network has heads of {given}, the recipe {wanted}; pass the network's own recipe")
        return cls(network.backbone, PredictionHead(network, recipe.prediction_temperature), recipe)

    @classmethod
    def calibrated(cls, backbone: Backbone, activations: Tensor, recipe: Recipe) -> Model:
        """Return a model with a head calibrated on the backbone's activations `(n, width)` of some images."""
        head = CalibratedHead(backbone.width, recipe.num_values, recipe.calibration).fit(activations)
        return cls(backbone, head.to(next(backbone.buffers()).device), recipe)

    @classmethod
    def pretrained(cls) -> Model:
        """Return the default photo model, ready to encode: EfficientNet-Lite0, calibrated on 2,191 photos of COCO.

        Its degrees tell how unusual an activation is among those photos. For other kinds of images, calibrate on your
        own with `pretrain(folder, ...)` or `Gallery`.
        """
        recipe = photo_recipe()
        model = _empty_model(new_backbone(recipe, channels=3), recipe)
        with resources.as_file(resources.files("andornot") / PHOTO_CALIBRATION) as file:
            model.head.load_state_dict({"quantiles": load_file(file)["quantiles"].float()})
        return model

    @property
    def num_features(self) -> int:
        """The number of features, N."""
        return self.backbone.width if self.recipe.regime == "calibrated" else self.recipe.num_features

    @property
    def num_values(self) -> int:
        """The number of truth values, M."""
        return self.recipe.num_values

    @property
    def channels(self) -> int:
        """The number of input channels: 1 for grey images, 3 for colour."""
        return self.backbone.channels

    @property
    def fit(self) -> Fit:
        """How images are made square: "crop" or "squash"; not used if `sees_all`."""
        return self.recipe.square_fit

    @property
    def sees_all(self) -> bool:
        """Whether all of an image is encoded, with its aspect ratio."""
        return self._stride is not None

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height at which an image of this size is encoded."""
        return (self.size, self.size) if self._stride is None else choose_size(width / height, self.size, self._stride)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
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
        of floats from 0 to 1; several are a list of those, a tensor `(B, C, H, W)`, or `ResizedImages`. A
        BrokenImageError is raised for a file that cannot be read. `progress`: whether to show a progress bar; by
        default, if it takes long.
        """
        return Representation(self._compute(images, self._fast_head, batch_size, progress), validate=False)

    def preprocess(self, image: Any) -> Tensor:
        """Convert one image of any kind that `encode` accepts to the model's input: uint8 `(C, height, width)`.

        The result is upright, sized by the recipe's `fit`, and grey or colour as the backbone requires. Floats that
        already have this shape stay floats. A stack of such images is encoded without further preprocessing, so this
        can be used as the `transform` of a dataset.
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
        if self._stride is not None:
            return whole_pixels(image, self.size, self._stride)
        return square_pixels(image, self.size, self.fit)

    def iter_feature_maps(self, images: Any, *, batch_size: int = 64, progress: bool | None = None) -> Iterator[Tensor]:
        """Yield the backbone's feature maps `(B, C, h, w)`, batch by batch; all maps of a batch have the same size.

        Use them with `model.backbone`: `pool(maps)` returns activations, `pool(maps[:, :, :4, :4])` those of a region,
        and `classify(maps)` the logits of ImageNet's classes, if it has `classes`.
        """
        for parts in self._look(as_items(images)[1], batch_size, progress):
            yield from (maps for _, maps in parts) if len({maps.shape[2:] for _, maps in parts}) == 1 else _runs(parts)

    def iter_placed_maps(
        self, images: Any, *, batch_size: int = 64, progress: bool | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the indices `(B,)` of images and their feature maps: like `iter_feature_maps`, but in any order.

        Images of the same size are computed together, which is faster.
        """
        for parts in self._look(as_items(images)[1], batch_size, progress):
            yield from parts

    def named_degrees(self, images: Any, *, batch_size: int = 64, progress: bool | None = None) -> dict[str, Tensor]:
        """Return the probability of each named feature, `()` for one image, `(B,)` for several: {"person": tensor, …}.

        Raise a `ModelError` if the backbone has no named features; the default photo backbone has them.
        """
        single, items = as_items(images)
        heads = heads_for(self.backbone.name)
        if heads is None:
            raise ModelError(f"{self.backbone.name} has no named features: only efficientnet-lite0 has")
        degrees = torch.empty(len(items), len(heads.names))
        for places, maps in self.iter_placed_maps(items, batch_size=batch_size, progress=progress):
            degrees[places] = torch.from_numpy(heads.probabilities(maps.float().cpu().numpy()))
        return dict(zip(heads.names, degrees[0] if single else degrees.T, strict=True))

    @torch.no_grad()
    def maps(self, images: Tensor) -> Tensor:
        """Compute the feature maps of one batch `(B, C, H, W)`, floats from 0 to 1 on the model's device."""
        return compute_in_parts(self._maps_for(len(images)), images)

    def reserve(self, count: int) -> None:
        """Announce how many images will be encoded in total, so that acceleration starts immediately."""
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
        """Return `backbone.maps` for this many more images, accelerated if there are enough images in total."""
        self._seen += count
        many = is_worthwhile(max(self._seen, self._expected), self.size)
        return self._accelerated_maps if many else self._fast_backbone.maps

    @cached_property
    def _fast_head(self) -> nn.Module:
        return FusedHead(self.head) if isinstance(self.head, PredictionHead) else self.head

    def _compute(self, images: Any, head: nn.Module, batch_size: int, progress: bool | None) -> Tensor:
        single, items = as_items(images)
        with torch.no_grad():
            nothing = head(torch.zeros(1, self.backbone.width, device=self.device)).cpu()[:0]
            places, results = [torch.empty(0, dtype=torch.int64)], [nothing]
            for some, maps in self.iter_placed_maps(items, batch_size=batch_size, progress=progress):
                places.append(some)
                results.append(head(self.backbone.pool(maps)).cpu())
        ordered = torch.cat(results)[torch.cat(places).argsort()]
        return ordered[0] if single else ordered

    @torch.no_grad()
    def _look(
        self, items: Sequence[Any], batch_size: int, progress: bool | None
    ) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Yield the parts of each batch: indices of images, and their maps, which have the same size."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        maps = self._maps_for(len(items))
        with track("encoding", len(items), shown=progress, delay=2) as bar:
            start = 0
            for batch in self._batches(items, batch_size):
                parts = []
                for places, images in group_by_size(batch):
                    of_parts = in_parts(images.to(self.device))
                    split = torch.split(places + start, len(of_parts[0]))
                    parts += [(where, maps(as_floats(part))) for where, part in zip(split, of_parts, strict=True)]
                yield parts
                start += len(batch)
                bar.update(len(batch))

    def _batches(self, items: Sequence[Any], batch_size: int) -> Iterator[Tensor | list[Tensor]]:
        """Yield batches `(B, C, H, W)` or lists of images, bytes or floats; the next are decoded in the background."""
        if isinstance(items, ResizedImages | Tensor) and self._fits(items.shape):
            for start in range(0, len(items), batch_size):
                yield items[start : start + batch_size]
            return
        with ThreadPoolExecutor(max_workers=default_workers()) as pool:
            waiting = []
            for start in range(0, len(items), batch_size):
                waiting.append([pool.submit(self.preprocess, item) for item in items[start : start + batch_size]])
                if len(waiting) > _BATCHES_AHEAD:
                    yield [future.result() for future in waiting.pop(0)]
            for batch in waiting:
                yield [future.result() for future in batch]

    def _fits(self, shape: Sequence[int]) -> bool:
        """Return whether images `(B, C, H, W)` need no preprocessing."""
        height, width = shape[2:]
        sizes = {(self.size, self.size), *(() if self._stride is None else whole_sizes(self.size, self._stride))}
        return shape[1] in (1, self.channels) and (width, height) in sizes

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `model.safetensors` and then `model.json`; a folder with `model.json` is complete.

        Other files of the backbone are written to a subfolder `backbone`.
        """
        write_model(Path(folder), self.backbone, self.recipe, self.num_features, self._state())

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, backbone: nn.Module | None = None, external_files: bool = False
    ) -> Model:
        """Load a model. If it was made with your own network, pass that as `backbone`.

        Nothing is downloaded, and no code in the model's folder is run. `external_files=True` also reads files of the
        backbone outside the folder, for `transformers:…` models that were saved by version 0.2.
        """
        folder = Path(folder)
        with reading(folder):
            saved = read_model(folder, backbone, external_files)
            with NoInitialisation():
                model = _empty_model(saved.backbone, saved.recipe)
            model._restore(saved.state)
        return model

    @property
    def id(self) -> str:
        """A hash that is equal for models that encode images in the same way."""
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
        # Export copies, because the model itself stays on its device.
        whole = nn.Sequential(optimise_for_inference(self.backbone), copy.deepcopy(self.head)).cpu().eval()
        write_onnx(Path(path), whole, torch.rand(2, self.channels, self.size, self.size))

    def export_weights(self, path: str | os.PathLike[str]) -> None:
        """Write only the backbone's weights to a safetensors file, with the names of its library.

        `resnet18`, `resnet50` and `torchvision:…` have torchvision's names, `timm:…` those of timm. Load them with
        `load_state_dict(load_file(path), strict=False)`, because the classifier is not included.
        """
        write_tensors(Path(path), self.backbone.network.state_dict())


def photo_recipe() -> Recipe:
    """Return the recipe of `Model.pretrained`: `photos` with fewer quantiles, to keep their file small."""
    return load_recipe("photos", calibration={"levels": 65})


def _empty_model(backbone: Backbone, recipe: Recipe) -> Model:
    if recipe.regime == "calibrated":
        return Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)
    return Model.from_network(build_heads(backbone, recipe), recipe)


def _runs(parts: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
    """Yield the maps of a batch in the order of its images; consecutive maps of the same size are stacked."""
    by_place = {place: one for places, maps in parts for place, one in zip(places.tolist(), maps, strict=True)}
    for _, run in groupby(sorted(by_place), key=lambda place: by_place[place].shape):
        yield torch.stack([by_place[place] for place in run])
