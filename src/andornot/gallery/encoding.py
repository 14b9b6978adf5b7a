"""From files to what a gallery stores of them. The same here and on the nodes of a cluster."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch

from ..model import Model
from .feature_store import as_rows
from .scanning import Scanned, scan_all

BATCH: Final = 64


class Encoded(NamedTuple):
    """Some files, without their pixels; and by digest the features of those whose content was not known."""

    files: list[Scanned]
    features: dict[bytes, Any]


Encode = Callable[[Sequence[str], Model, Collection[bytes]], Iterator[Encoded]]
"""Files in order, some at a time. Contents that are known, by their digests, are not encoded."""


def encode_files(
    paths: Sequence[str], model: Model, known: Collection[bytes], *, threads: int | None = None
) -> Iterator[Encoded]:
    """Here, in this process; the next files are decoded while some are computed."""
    batch: list[Scanned] = []
    for scanned in scan_all(paths, model, known.__contains__, threads):
        batch.append(scanned)
        if len(batch) == BATCH:
            yield _encode_batch(batch, model, known)
            batch = []
    if batch:
        yield _encode_batch(batch, model, known)


def _encode_batch(batch: Sequence[Scanned], model: Model, known: Collection[bytes]) -> Encoded:
    """Reads `known` once more: what was not when a file was decoded may be by now."""
    fresh = {item.digest: item.pixels for item in batch if item.pixels is not None and item.digest not in known}
    features = {}
    if fresh:
        rows = as_rows(model.activations(torch.stack([*fresh.values()]), batch_size=BATCH, progress=False))
        features = dict(zip(fresh, rows, strict=True))
    return Encoded([item._replace(pixels=None) for item in batch], features)
