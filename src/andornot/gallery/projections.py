"""Projections of activations to int8 codes: of whole images, and of regions.

Both are fitted on a gallery's own images. The codes of whole images can be computed again from the stored activations,
so their projection is refitted when the gallery grows or its model is recalibrated. The activations of regions are not
stored, so their basis is fitted once, with a head of its own, and stays.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import normalize

from ..files import write_atomically
from ..logic import Representation
from ..model import Model
from ..similarity import Components, fit_components, to_bytes
from ..ssl.calibration import CalibratedHead
from .errors import DamagedError
from .storage import Storage

REGION_DIMENSIONS: Final = 64
WHOLE_DIMENSIONS: Final = 128
# torch's product of int8 vectors reads past vectors of one byte.
_FEWEST_DIMENSIONS: Final = 2
# With this many images a projection is fitted and codes are stored; fewer are projected when they are read.
ENOUGH_IMAGES: Final = 512
# Samples that projections are fitted on.
FIT_SAMPLE: Final = 4096
# Fitted again when there are so many times as many images.
REFIT_GROWTH: Final = 10
_ROWS_AT_ONCE: Final = 1024
# The last rows of a product are rounded differently unless their number is a multiple of this.
_PADDED_TO: Final = 16


@torch.no_grad()
def degrees_of(model: Model, activations: Tensor) -> Tensor:
    """Return the degrees `(n, N)` of activations `(n, width)`; each row's are the same in any batch."""
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


def save_components(storage: Storage, components: Components, announce: Callable[[str], None]) -> str:
    """Write components to a file of the gallery; its name, which is announced before."""
    return _save(storage, "components", {"mean": components.mean, "axes": components.axes}, {}, announce)


def load_components(storage: Storage, name: str) -> Components:
    """Read what `save_components` wrote; a DamagedError if it is damaged."""
    tensors = _load(storage, name)
    return Components(tensors["mean"], tensors["axes"])


# --- regions --------------------------------------------------------------------------------------------------------


class RegionBasis:
    """Projects regions to codes: a head, and the components of its degrees."""

    def __init__(self, model: Model, components: Components) -> None:
        """`model` has the head."""
        self.components, self._model = components, model

    @classmethod
    def fit(cls, model: Model, wholes: Tensor, regions: Tensor, *, calibrate: bool) -> "RegionBasis":
        """Fit on activations `(n, width)` of images and `(m, width)` of regions.

        `calibrate`: fit a head on these images; else the model's own is used.
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

    def save(self, storage: Storage, announce: Callable[[str], None]) -> str:
        """Write the basis to a file of the gallery; its name, which is announced before."""
        head = self._model.head
        tensors = {"mean": self.components.mean, "axes": self.components.axes}
        if isinstance(head, CalibratedHead):
            tensors["quantiles"] = head.quantiles
        # A trained head belongs to the model and does not change.
        about = {"model": "" if isinstance(head, CalibratedHead) else self._model.id}
        return _save(storage, "basis", tensors, about, announce)

    @classmethod
    def load(cls, storage: Storage, name: str, model: Model) -> "RegionBasis":
        """Read what `save` wrote; a DamagedError if it is damaged."""
        tensors = _load(storage, name)
        if "quantiles" in tensors:
            head = CalibratedHead(model.backbone.width, model.num_values, model.recipe.calibration)
            head.quantiles.copy_(tensors["quantiles"])
            model = Model(model.backbone, head.to(model.device), model.recipe)
        return cls(model, Components(tensors["mean"], tensors["axes"]))


def basis_copy(name: str) -> str:
    """Return the name of the second copy of a basis: without the basis all images would have to be encoded again."""
    return f"{name}.copy"


def _save(
    storage: Storage, kind: str, tensors: dict[str, Tensor], about: dict[str, str], announce: Callable[[str], None]
) -> str:
    """Write tensors to a file whose name has the hash of its content."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, about)
    name = f"{kind}-{_hash(content)}.safetensors"
    for one in (name, basis_copy(name)) if kind == "basis" else (name,):
        announce(one)
        _write(storage, one, content)
    return name


def _write(storage: Storage, name: str, content: bytes) -> None:
    with storage.new_file(name) as path:
        write_atomically(path, lambda partial: partial.write_bytes(content))


def _load(storage: Storage, name: str) -> dict[str, Tensor]:
    content = _read(storage, name, name) or _read(storage, name, basis_copy(name))
    if content is None:
        raise DamagedError(str(storage), f"{name} is missing or damaged")
    tensors: dict[str, Tensor] = load(content)
    return tensors


def _read(storage: Storage, name: str, file: str) -> bytes | None:
    """Return what was stored under a name, from one of its files; None if that is missing or damaged."""
    try:
        content = storage.local_copy(file).read_bytes()
    except FileNotFoundError:
        return None
    return content if _hash(content) == name.removesuffix(".safetensors").rsplit("-", 1)[-1] else None


def repair_basis(storage: Storage, name: str) -> bool:
    """Restore the basis of regions from its copy, or the copy; False if both are damaged."""
    files = (name, basis_copy(name))
    contents = [_read(storage, name, file) for file in files]
    whole = next((content for content in contents if content is not None), None)
    if whole is None:
        return False
    for file, content in zip(files, contents, strict=True):
        if content is None:
            _write(storage, file, whole)
    return True


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
