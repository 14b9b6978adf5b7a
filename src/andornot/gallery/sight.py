"""All that one pass of the backbone gives of pictures: features, regions, and ImageNet's classes in them."""

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from ..ssl.backbones import cut_windows, windows_of
from ..words import KeptClasses, NamedClasses, WordError, words_of
from ..words.classes import KEPT
from .feature_store import as_rows

# A class has two bytes and its weight one.
CLASSES_SIZE: Final = 3 * KEPT


class Seen(NamedTuple):
    """Of n pictures: features `(n, width)` as they are stored, the activations `(n, R, width)` of their regions, as
    they are stored too, and the bytes `(n, 288)` of their classes. `grid` is the height and the width of their maps."""

    features: np.ndarray
    regions: np.ndarray | None
    classes: np.ndarray | None
    grid: tuple[int, int]


class Sight:
    """Looks at pictures with a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._words = classes_of(model)

    def see(self, pixels: Tensor, batch_size: int) -> Seen:
        """Of pictures `(n, C, size, size)`, at least one."""
        backbone, wholes, regions, classes = self._model.backbone, [], [], []
        grid = (1, 1)
        for maps in self._model.look(pixels, batch_size=batch_size, progress=False):
            grid = (maps.shape[2], maps.shape[3])
            wholes.append(backbone.pool(maps).cpu())
            cut = cut_windows(maps)
            if has_regions(grid):
                regions.append(backbone.pool(cut).cpu().view(len(maps), -1, backbone.width))
            if self._words is not None:
                classes.append(as_bytes(KeptClasses.of(self._words.evidence(maps, cut).cpu())))
        return Seen(
            as_rows(torch.cat(wholes)),
            as_rows(torch.cat(regions)) if regions else None,
            np.concatenate(classes) if classes else None,
            grid,
        )


def has_regions(grid: tuple[int, int]) -> bool:
    """Whether a map of that height and width has regions that are not the whole of it."""
    return len(windows_of(*grid)) > 1


def map_shape(model: Model) -> tuple[int, int]:
    """The height and the width of the model's maps; one empty picture is looked at."""
    maps = model.maps(torch.zeros(1, model.channels, model.size, model.size, device=model.device))
    return maps.shape[2], maps.shape[3]


def classes_of(model: Model) -> NamedClasses | None:
    """The named classes of a model, if it has any."""
    try:
        words = words_of(model)
    except WordError:
        return None
    return words if isinstance(words, NamedClasses) else None


def as_bytes(kept: KeptClasses) -> np.ndarray:
    """Kept classes as they are stored, `(n, 288)`."""
    classes = kept.classes.numpy().astype("<u2").view(np.uint8)
    return np.concatenate([classes, kept.weights.numpy()], 1)


def of_bytes(content: np.ndarray) -> KeptClasses:
    """What `as_bytes` made."""
    classes = np.ascontiguousarray(content[:, : 2 * KEPT]).view("<u2").astype(np.uint16)
    return KeptClasses(torch.from_numpy(classes), torch.from_numpy(np.ascontiguousarray(content[:, 2 * KEPT :])))
