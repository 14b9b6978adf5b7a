"""What the regions of a gallery are written in: few dimensions of a byte each, and what makes these of activations.

A basis is fitted once, and stays: the model may be calibrated anew, and no region has to be computed again. So it has a
head of its own, and queries are made by that. On disk it is there twice, because all regions hang on it.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..files import write_atomically
from ..logic import Representation
from ..model import Model
from ..ssl.calibration import CalibratedHead
from .likeness.components import Components, fit_components, to_bytes

DIMENSIONS: Final = 64
# Wholes and regions that are enough to know the directions in which pictures differ.
ENOUGH: Final = 4096
_COPIES: Final = ("basis.safetensors", "copy.safetensors")
_AT_ONCE: Final = 1024


class Basis:
    """A head, and the components of its degrees. `id` is another text for another basis."""

    def __init__(self, model: Model, components: Components) -> None:
        """`model` has the head."""
        self.components = components
        self._model = model
        head = model.head
        tensors = {"mean": components.mean, "axes": components.axes}
        # A trained head belongs to the model, and cannot become another.
        about = {"model": "" if isinstance(head, CalibratedHead) else model.id}
        if isinstance(head, CalibratedHead):
            tensors["quantiles"] = head.quantiles
        self._content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, about)
        self.id = _id(self._content)

    @classmethod
    def fit(cls, model: Model, wholes: Tensor, regions: Tensor, *, calibrate: bool) -> "Basis":
        """Of the activations `(n, width)` of some pictures and `(m, width)` of regions.

        `calibrate`: the ranks are those among these pictures; else the model has a head that is ready.
        """
        fitted = Model.calibrated(model.backbone, wholes, model.recipe) if calibrate else model
        sample = torch.cat([wholes, regions])
        chosen = torch.randperm(len(sample), generator=torch.Generator().manual_seed(0))[:ENOUGH].sort().values
        degrees = _degrees(fitted, sample[chosen])
        return cls(fitted, fit_components(degrees, DIMENSIONS))

    def represent(self, activations: Tensor) -> Representation:
        """The representations `(n, N, M)` of activations `(n, width)`, by the head of the basis."""
        return self._model.represent(activations)

    def degrees(self, activations: Tensor) -> Tensor:
        """The degrees `(..., N)` of activations `(..., width)`."""
        flat = _degrees(self._model, activations.reshape(-1, activations.shape[-1]))
        return flat.view(*activations.shape[:-1], flat.shape[-1])

    def project(self, degrees: Tensor) -> Tensor:
        """Vectors `(..., 64)` of length 1, of degrees `(..., N)`: what is compared with codes."""
        return self.components.project(degrees)

    def codes(self, activations: Tensor) -> Tensor:
        """What is kept of activations `(..., width)`: int8 `(..., 64)`."""
        return to_bytes(self.project(self.degrees(activations)))

    def save(self, folder: Path) -> None:
        """Writes both copies."""
        folder.mkdir(exist_ok=True)
        for name in _COPIES:
            write_atomically(folder / name, lambda partial: partial.write_bytes(self._content))

    def is_kept_twice(self, folder: Path) -> bool:
        """Whether both copies are whole."""
        return all(content == self._content for content in _contents(folder)) and len(_contents(folder)) == len(_COPIES)

    @classmethod
    def load(cls, folder: Path, identity: str, model: Model) -> "Basis | None":
        """That of a gallery with this model, from the copy that is whole; None if there is none."""
        for content in _contents(folder):
            if _id(content) == identity:
                with suppress(SafetensorError, KeyError, ValueError, RuntimeError):
                    basis = cls._of(load(content), model)
                    return basis if basis.id == identity else None
        return None

    @classmethod
    def _of(cls, tensors: dict[str, Tensor], model: Model) -> "Basis":
        if "quantiles" in tensors:
            head = CalibratedHead(model.backbone.width, model.num_values, model.recipe.calibration)
            head.quantiles.copy_(tensors["quantiles"])
            model = Model(model.backbone, head.to(model.device), model.recipe)
        return cls(model, Components(tensors["mean"], tensors["axes"]))


def basis_ids(folder: Path) -> list[str]:
    """The ids of what may be copies of a basis."""
    return list(dict.fromkeys(map(_id, _contents(folder))))


def _contents(folder: Path) -> list[bytes]:
    found = []
    for name in _COPIES:
        with suppress(OSError):
            found.append((folder / name).read_bytes())
    return found


def _id(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@torch.no_grad()
def _degrees(model: Model, activations: Tensor) -> Tensor:
    parts = []
    for part in torch.split(activations.float(), _AT_ONCE):
        if isinstance(model.head, CalibratedHead):
            parts.append(model.head.degrees(part.to(model.device)).cpu())
        else:
            parts.append(model.represent(part).degrees)
    return torch.cat(parts) if parts else torch.zeros(0, model.num_features)
