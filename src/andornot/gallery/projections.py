"""Projections of activations to int8 codes: of whole images, and of regions.

Both are fitted on a gallery's own images. The codes of whole images can be recomputed from the stored activations, so
their projection is refitted when the gallery grows or its model is recalibrated. The activations of regions are not
stored, so their basis, which has its own head, is fitted only once.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import normalize, pad

from ..concepts.text_space import named_directions
from ..logic import Representation
from ..model import Model
from ..similarity import Components, fit_components, from_bytes, to_bytes
from ..ssl.calibration import CalibratedHead
from .storage import Storage

REGION_DIMENSIONS: Final = 64
WHOLE_DIMENSIONS: Final = 128
# `torch._int_mm` reads out of bounds for vectors of one byte.
_FEWEST_DIMENSIONS: Final = 2
# From this many images, a projection is fitted and codes are stored; below, images are projected when they are read.
ENOUGH_IMAGES: Final = 512
# Sample size for fitting projections.
FIT_SAMPLE: Final = 4096
# Refit when the gallery has grown by this factor.
REFIT_GROWTH: Final = 10
_ROWS_AT_ONCE: Final = 1024
# Normalizes the concatenation of two unit vectors.
_ROOT: Final = math.sqrt(2)
# Rows of a matrix product are rounded the same way only if their number is a multiple of this.
_PADDED_TO: Final = 16


@torch.no_grad()
def degrees_of(model: Model, activations: Tensor) -> Tensor:
    """Return the degrees `(n, N)` of activations `(n, width)`; the result for a row does not depend on the batch."""
    parts = []
    for part in torch.split(activations.float(), _ROWS_AT_ONCE):
        if isinstance(model.head, CalibratedHead):
            parts.append(model.head.degrees(part.to(model.device)).cpu())
        else:
            padding = part.new_zeros(-len(part) % _PADDED_TO, part.shape[1])
            parts.append(model.encode_activations(torch.cat([part, padding])).degrees[: len(part)])
    return torch.cat(parts) if parts else torch.zeros(0, model.num_features)


# --- whole images ---------------------------------------------------------------------------------------------------


def fit_wholes(model: Model, activations: np.ndarray) -> Components:
    """Fit the components of whole images on activations `(n, width)` of a sample."""
    dimensions = max(_FEWEST_DIMENSIONS, min(WHOLE_DIMENSIONS, model.num_features))
    return fit_components(degrees_of(model, torch.from_numpy(activations)), dimensions)


def whole_codes(model: Model, components: Components, activations: np.ndarray) -> np.ndarray:
    """Return the codes `(n, d)` int8 of activations `(n, width)`."""
    axes = components.axes.double()
    parts = [np.empty((0, axes.shape[1]), np.int8)]
    for part in np.split(activations, range(_ROWS_AT_ONCE, len(activations), _ROWS_AT_ONCE)):
        reduced = components.remove_mean(degrees_of(model, torch.from_numpy(part))).double() @ axes
        parts.append(to_bytes(normalize(reduced, dim=-1)).numpy())
    return np.concatenate(parts)


class NamedProjector:
    """Appends named features to the vectors of whole images; they make up half of a similarity."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __len__(self) -> int:
        return len(self._names)

    def join(self, vectors: Tensor, probabilities: Tensor | None) -> Tensor:
        """Return vectors `(n, d + K)` from unit vectors `(n, d)` and the probabilities `(n, K)` of named features.

        Without probabilities, the similarity to an image is that of the first part alone.
        """
        if probabilities is None:
            return pad(vectors * _ROOT, (0, len(self)))
        directions = torch.from_numpy(named_directions(probabilities.numpy(), self._names))
        return torch.cat([vectors, directions.to(vectors)], 1) / _ROOT

    def codes(self, codes: Tensor, probabilities: np.ndarray) -> Tensor:
        """Return the codes `(n, d + K)` int8 of images with codes `(n, d)` and named features `(n, K)`."""
        found = torch.empty(len(codes), codes.shape[1] + len(self), dtype=torch.int8)
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            found[part] = to_bytes(self.join(from_bytes(codes[part]), torch.from_numpy(probabilities[part])))
        return found


def save_components(storage: Storage, components: Components) -> str:
    """Write components to a file of the gallery and return its name."""
    return _save(storage, "components", {"mean": components.mean, "axes": components.axes})


def load_components(storage: Storage, name: str) -> Components:
    """Read what `save_components` wrote; raise a DamagedError if it is damaged."""
    tensors = load(storage.load_content(name))
    return Components(tensors["mean"], tensors["axes"])


# --- regions --------------------------------------------------------------------------------------------------------


class RegionBasis:
    """Projects regions to codes: a head, and the components of its degrees."""

    def __init__(self, model: Model, components: Components) -> None:
        """Initialize with a model whose head computes the degrees of regions."""
        self.components, self._model = components, model

    @classmethod
    def fit(cls, model: Model, wholes: Tensor, regions: Tensor, *, calibrate: bool) -> "RegionBasis":
        """Fit on activations `(n, width)` of images and `(m, width)` of regions.

        `calibrate`: fit a head on these images instead of using the model's.
        """
        fitted = Model.calibrated(model.backbone, wholes, model.recipe) if calibrate else model
        sample = torch.cat([wholes, regions])
        chosen = torch.randperm(len(sample), generator=torch.Generator().manual_seed(0))[:FIT_SAMPLE].sort().values
        return cls(fitted, fit_components(degrees_of(fitted, sample[chosen]), REGION_DIMENSIONS))

    def represent(self, activations: Tensor) -> Representation:
        """Return the representations `(n, N, M)` of activations `(n, width)`, by the head of the basis."""
        return self._model.encode_activations(activations)

    def project(self, degrees: Tensor) -> Tensor:
        """Return unit vectors `(..., 64)` of degrees `(..., N)`, to compare with codes."""
        return self.components.project(degrees)

    def codes(self, activations: Tensor) -> Tensor:
        """Return the codes `(n, R, 64)` int8 of regions with activations `(n, R, width)`."""
        degrees = degrees_of(self._model, activations.reshape(-1, activations.shape[-1]))
        return to_bytes(self.project(degrees)).view(*activations.shape[:-1], REGION_DIMENSIONS)

    def save(self, storage: Storage) -> str:
        """Write the basis to a file of the gallery and return its name."""
        tensors = {"mean": self.components.mean, "axes": self.components.axes}
        # A trained head never changes and is stored with the model.
        if isinstance(self._model.head, CalibratedHead):
            tensors["quantiles"] = self._model.head.quantiles
        return _save(storage, "basis", tensors)

    @classmethod
    def load(cls, storage: Storage, name: str, model: Model) -> "RegionBasis":
        """Read what `save` wrote; raise a DamagedError if it is damaged."""
        tensors = load(storage.load_content(name))
        if "quantiles" in tensors:
            head = CalibratedHead(model.backbone.width, model.num_values, model.recipe.calibration)
            head.quantiles.copy_(tensors["quantiles"])
            model = Model(model.backbone, head.to(model.device), model.recipe)
        return cls(model, Components(tensors["mean"], tensors["axes"]))


def _save(storage: Storage, kind: str, tensors: dict[str, Tensor]) -> str:
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return storage.save_content(kind, content, ".safetensors")
