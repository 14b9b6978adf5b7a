"""From files to what a gallery stores of them. The same here and on the nodes of a cluster."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

import torch

from ..model import Model
from .scanning import Scanned, scan_all
from .sight import Seen, Sight

BATCH: Final = 64


class Encoded(NamedTuple):
    """Some files, without their pixels; and all that is stored of those whose content was not known, by digest."""

    files: list[Scanned]
    fresh: list[bytes]
    seen: Seen | None


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
    seen = Sight(model).see(torch.stack([*fresh.values()]), BATCH) if fresh else None
    return Encoded([item._replace(pixels=None) for item in batch], [*fresh], seen)
