"""Encode files into what a gallery stores, in one pass of the backbone. Used locally and on a cluster."""

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..concepts import ImageNetVocabulary, QuantizedClasses, find_vocabulary
from ..concepts.heads import BOXES_KEPT, WordBoxes
from ..concepts.imagenet import CLASSES_KEPT
from ..concepts.nouns import NUM_CLASSES
from ..model import Model
from ..ssl.backbones import cut_windows, windows_of
from .scanning import ScannedFile, scan_all

BATCH: Final = 64


class Extracted(NamedTuple):
    """The stored features of n images: activations `(n, width)` and those of R regions `(n, R, width)`, both float16;
    classes `(n, 288)`, named features `(n, K)` and boxes of words `(n, 80)`, all uint8. None if the model lacks
    them."""

    activations: np.ndarray
    regions: np.ndarray | None
    classes: np.ndarray | None
    named: np.ndarray | None = None
    boxes: np.ndarray | None = None

    def select(self, places: list[int]) -> "Extracted":
        """Return the features of some of the images."""
        chosen = np.array(places, np.int64)
        rest = (None if part is None else part[chosen] for part in self[1:])
        return Extracted(self.activations[chosen], *rest)


class WrittenRows(NamedTuple):
    """Rows that a worker wrote to files: their fragments as JSON, and their image ids by path."""

    fragments: list[str]
    ids: dict[str, int]


class EncodedBatch(NamedTuple):
    """Scanned files without their pixels, and the extracted features of new contents, by digest.

    `written`: the rows that a worker has already written for them.
    """

    files: list[ScannedFile]
    digests: list[bytes]
    extracted: Extracted | None
    written: WrittenRows | None = None


Encode = Callable[[Sequence[str], Model, Collection[bytes], Callable[[str], int]], Iterator[EncodedBatch]]
"""Encodes files in order, in batches. Contents with known digests are not encoded. The last argument returns the
id that the image at a path will have; only workers that write rows need it."""


def encode_files(
    paths: Sequence[str],
    model: Model,
    known: Container[bytes],
    identify: Callable[[str], int] | None = None,  # noqa: ARG001 - for workers
    *,
    threads: int | None = None,
) -> Iterator[EncodedBatch]:
    """Encode files in this process; the next files are decoded while a batch is computed."""
    batch: list[ScannedFile] = []
    for scanned in scan_all(paths, model, known.__contains__, threads):
        batch.append(scanned)
        if len(batch) == BATCH:
            yield _encode_batch(batch, model, known)
            batch = []
    if batch:
        yield _encode_batch(batch, model, known)


def _encode_batch(batch: Sequence[ScannedFile], model: Model, known: Container[bytes]) -> EncodedBatch:
    # Check `known` again: content that was new when its file was decoded may be known by now.
    fresh = {item.digest: item.pixels for item in batch if item.pixels is not None and item.digest not in known}
    extracted = extract(model, [*fresh.values()], BATCH) if fresh else None
    return EncodedBatch([item._replace(pixels=None) for item in batch], [*fresh], extracted)


# A class takes two bytes, and its weight one.
CLASSES_SIZE: Final = 3 * CLASSES_KEPT
_HALF_MAX: Final = 65_504.0


def extract(model: Model, images: Sequence[Tensor], batch_size: int) -> Extracted:
    """Run the backbone on preprocessed images, at least one."""
    backbone, vocabulary = model.backbone, vocabulary_of(model)
    order, wholes, regions, classes, named, boxes = [], [], [], [], [], []
    for places, maps in model.iter_placed_maps(images, batch_size=batch_size, progress=False):
        order.append(places.numpy())
        wholes.append(backbone.pool(maps).cpu())
        windows = cut_windows(maps)
        if num_regions((maps.shape[2], maps.shape[3])):
            regions.append(backbone.pool(windows).cpu().view(len(maps), -1, backbone.width))
        if vocabulary is not None:
            evidence, found = vocabulary.look(maps, windows)
            evidence = evidence.cpu()
            classes.append(classes_to_bytes(QuantizedClasses.of(evidence)))
            if found is not None:
                named.append(probabilities_to_bytes(evidence[:, NUM_CLASSES:].numpy()))
                boxes.append(boxes_to_bytes(found))
    extracted = Extracted(
        to_half(torch.cat(wholes)),
        to_half(torch.cat(regions)) if regions else None,
        np.concatenate(classes) if classes else None,
        np.concatenate(named) if named else None,
        np.concatenate(boxes) if boxes else None,
    )
    return extracted.select(np.argsort(np.concatenate(order)).tolist())


def to_half(activations: Tensor) -> np.ndarray:
    """Return activations as stored, in float16. Everything is computed from these, never from float32 ones."""
    return activations.float().clamp(-_HALF_MAX, _HALF_MAX).half().cpu().numpy()


def num_regions(grid: tuple[int, int] | None) -> int:
    """Return the number of regions of a feature map of this height and width; 0 if it is too small."""
    count = 0 if grid is None else len(windows_of(*grid))
    return count if count > 1 else 0


def feature_map_grid(model: Model) -> tuple[int, int]:
    """Return the height and width of the model's feature maps, measured with a blank image."""
    maps = model.maps(torch.zeros(1, model.channels, model.size, model.size, device=model.device))
    return maps.shape[2], maps.shape[3]


def vocabulary_of(model: Model) -> ImageNetVocabulary | None:
    """Return the ImageNet vocabulary of a model, or None."""
    words = find_vocabulary(model.backbone)
    return words if isinstance(words, ImageNetVocabulary) else None


def classes_to_bytes(kept: QuantizedClasses) -> np.ndarray:
    """Return top classes as stored bytes `(n, 288)`."""
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
    """Return probabilities of named features as stored: one byte per logit."""
    safe = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.clip(np.round(_LOGIT_STEPS * np.log(safe / (1 - safe))) + 128, 0, 255), np.uint8)


def probabilities_from_bytes(content: np.ndarray) -> np.ndarray:
    """Invert `probabilities_to_bytes`."""
    return np.asarray(1 / (1 + np.exp((128 - content.astype(np.float32)) / _LOGIT_STEPS)), np.float32)


# A box takes a byte for its word, 255 for none, and four for its sides.
BOXES_SIZE: Final = 5 * BOXES_KEPT


def boxes_to_bytes(found: WordBoxes) -> np.ndarray:
    """Return the boxes of words as stored bytes `(n, 80)`."""
    sides = np.round(255 * found.boxes).astype(np.uint8)
    parts = np.concatenate([(found.words & 255).astype(np.uint8)[..., None], sides], 2)
    return np.ascontiguousarray(parts.reshape(len(parts), BOXES_SIZE))


def boxes_from_bytes(content: np.ndarray) -> WordBoxes:
    """Invert `boxes_to_bytes`."""
    parts = content.reshape(len(content), BOXES_KEPT, 5)
    words = parts[..., 0].astype(np.int64)
    return WordBoxes(np.where(words == 255, -1, words), (parts[..., 1:] / 255).astype(np.float32))
