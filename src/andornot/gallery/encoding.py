"""From files to what a gallery stores of them, by one pass of the backbone. The same here and on a cluster."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from ..ssl.backbones import cut_windows, windows_of
from ..words import ImageNetVocabulary, QuantizedClasses, WordError, vocabulary_for
from ..words.imagenet import CLASSES_KEPT
from ..words.nouns import NUM_CLASSES
from .scanning import ScannedFile, scan_all

BATCH: Final = 64


class Extracted(NamedTuple):
    """Of n images, as stored: activations `(n, width)` and those of R regions `(n, R, width)`, both float16, and
    classes `(n, 288)` uint8, and named features `(n, K)` uint8. The last three are None for a model without them."""

    activations: np.ndarray
    regions: np.ndarray | None
    classes: np.ndarray | None
    named: np.ndarray | None = None

    def select(self, places: list[int]) -> "Extracted":
        """Return what was extracted of some of the images."""
        chosen = np.array(places, np.int64)
        regions = None if self.regions is None else self.regions[chosen]
        classes, named = (None if part is None else part[chosen] for part in (self.classes, self.named))
        return Extracted(self.activations[chosen], regions, classes, named)


class WrittenRows(NamedTuple):
    """Rows that a worker wrote to files: their fragments as JSON, and the ids of their images by path."""

    fragments: list[str]
    ids: dict[str, int]


class EncodedBatch(NamedTuple):
    """Some files, without their pixels; and what was extracted of those contents that were not known, by digest.

    `written`: a worker has written the rows of these already.
    """

    files: list[ScannedFile]
    digests: list[bytes]
    extracted: Extracted | None
    written: WrittenRows | None = None


Encode = Callable[[Sequence[str], Model, Collection[bytes], Callable[[str], int]], Iterator[EncodedBatch]]
"""Encodes files in order, some at a time. Contents that are known, by their digests, are not encoded. The last argument
gives the id that the image of a path will have; only workers that write rows need it."""


def encode_files(
    paths: Sequence[str],
    model: Model,
    known: Collection[bytes],
    identify: Callable[[str], int] | None = None,  # noqa: ARG001 - for workers
    *,
    threads: int | None = None,
) -> Iterator[EncodedBatch]:
    """Encode files in this process; the next files are decoded while some are computed."""
    batch: list[ScannedFile] = []
    for scanned in scan_all(paths, model, known.__contains__, threads):
        batch.append(scanned)
        if len(batch) == BATCH:
            yield _encode_batch(batch, model, known)
            batch = []
    if batch:
        yield _encode_batch(batch, model, known)


def _encode_batch(batch: Sequence[ScannedFile], model: Model, known: Collection[bytes]) -> EncodedBatch:
    # Asks `known` once more: a content that was not known when a file was decoded may be by now.
    fresh = {item.digest: item.pixels for item in batch if item.pixels is not None and item.digest not in known}
    extracted = extract(model, torch.stack([*fresh.values()]), BATCH) if fresh else None
    return EncodedBatch([item._replace(pixels=None) for item in batch], [*fresh], extracted)


# A class takes two bytes, and its weight one.
CLASSES_SIZE: Final = 3 * CLASSES_KEPT
_HALF_MAX: Final = 65_504.0


def extract(model: Model, pixels: Tensor, batch_size: int) -> Extracted:
    """Run the backbone on images `(n, C, size, size)`, at least one."""
    backbone, vocabulary = model.backbone, vocabulary_of(model)
    wholes, regions, classes, named = [], [], [], []
    for maps in model.iter_feature_maps(pixels, batch_size=batch_size, progress=False):
        wholes.append(backbone.pool(maps).cpu())
        windows = cut_windows(maps)
        if num_regions((maps.shape[2], maps.shape[3])):
            regions.append(backbone.pool(windows).cpu().view(len(maps), -1, backbone.width))
        if vocabulary is not None:
            evidence = vocabulary.evidence(maps, windows).cpu()
            classes.append(classes_to_bytes(QuantizedClasses.of(evidence)))
            if vocabulary.heads is not None:
                named.append(probabilities_to_bytes(evidence[:, NUM_CLASSES:].numpy()))
    return Extracted(
        to_half(torch.cat(wholes)),
        to_half(torch.cat(regions)) if regions else None,
        np.concatenate(classes) if classes else None,
        np.concatenate(named) if named else None,
    )


def to_half(activations: Tensor) -> np.ndarray:
    """Return activations as they are stored. Everything is computed from these, never from wider ones."""
    return activations.float().clamp(-_HALF_MAX, _HALF_MAX).half().cpu().numpy()


def num_regions(grid: tuple[int, int] | None) -> int:
    """Return the number of regions of a feature map of that height and width; 0 if it is too small for any."""
    count = 0 if grid is None else len(windows_of(*grid))
    return count if count > 1 else 0


def feature_map_grid(model: Model) -> tuple[int, int]:
    """Return the height and the width of the model's feature maps, from one empty image."""
    maps = model.maps(torch.zeros(1, model.channels, model.size, model.size, device=model.device))
    return maps.shape[2], maps.shape[3]


def vocabulary_of(model: Model) -> ImageNetVocabulary | None:
    """Return the named classes of a model, if it has any."""
    try:
        words = vocabulary_for(model)
    except WordError:
        return None
    return words if isinstance(words, ImageNetVocabulary) else None


def classes_to_bytes(kept: QuantizedClasses) -> np.ndarray:
    """Return top classes as they are stored, `(n, 288)`."""
    classes = kept.classes.numpy().astype("<u2").view(np.uint8)
    return np.concatenate([classes, kept.weights.numpy()], 1)


def classes_from_bytes(content: np.ndarray) -> QuantizedClasses:
    """Invert `classes_to_bytes`."""
    classes = np.ascontiguousarray(content[:, : 2 * CLASSES_KEPT]).view("<u2").astype(np.uint16)
    return QuantizedClasses(
        torch.from_numpy(classes), torch.from_numpy(np.ascontiguousarray(content[:, 2 * CLASSES_KEPT :]))
    )


# Logits from -8 to 8 in 256 steps.
_LOGIT_STEPS: Final = 16


def probabilities_to_bytes(probabilities: np.ndarray) -> np.ndarray:
    """Return probabilities of named features as they are stored: a byte for the logit of each."""
    safe = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.clip(np.round(_LOGIT_STEPS * np.log(safe / (1 - safe))) + 128, 0, 255), np.uint8)


def probabilities_from_bytes(content: np.ndarray) -> np.ndarray:
    """Invert `probabilities_to_bytes`."""
    return np.asarray(1 / (1 + np.exp((128 - content.astype(np.float32)) / _LOGIT_STEPS)), np.float32)
