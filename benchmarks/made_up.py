"""Make a gallery of made-up rows, as `andornot index` would have written it: activations, regions, classes and codes.

    python benchmarks/made_up.py folder --rows 1000000

A million rows take about a minute, 4 GB of disk and 3 GB of memory. Rows are variations of a thousand images, each
of two kinds of things: their codes are all different, their activations and classes are those of the image they vary.
With `--light` only those thousand have activations and classes, which take three quarters of the disk.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import normalize

from andornot import Gallery, Model
from andornot.concepts import QuantizedClasses
from andornot.concepts.nouns import NUM_CLASSES
from andornot.gallery.encoding import Extracted, classes_to_bytes, num_regions, to_half, vocabulary_of
from andornot.gallery.records import ImageRecord
from andornot.gallery.rows import ACTIVATIONS, CLASSES, REGIONS, image_rows, sealed_column
from andornot.gallery.storage import Storage
from andornot.gallery.writing import Writer, open_writer
from andornot.model import new_backbone
from andornot.similarity import to_bytes
from andornot.ssl.recipe import load_recipe

PLACE = "/made-up/images of a longer name"
IN_FOLDER = 1000
_POOL = 1024
_KINDS = 400
_BATCH = 2**13
# Rows of a fragment; more are not merged by compaction.
_FRAGMENT = 2**17
_CODE_NOISE, _REGION_NOISE = 0.5, 0.7


def made_up_gallery(folder: Path, rows: int, model: Model | None = None, *, light: bool = False) -> Gallery:
    """Create a gallery with so many rows, by the default photo model or another calibrated one."""
    generator = torch.Generator().manual_seed(0)
    if model is None:
        recipe = load_recipe("photos")
        backbone = new_backbone(recipe, channels=3)
        model = Model.calibrated(backbone, _mixtures(2000, 1, backbone.width, generator)[:, 0], recipe)
    Gallery.create(folder, model)
    pool = min(_POOL, rows)
    with open_writer(Storage(folder)) as writer:
        extracted = _extracted(writer, model, pool, generator)
        writer.put(image_rows([record(number) for number in range(pool)], extracted))
        writer.commit()
        if writer.needs_basis:
            writer.fit_basis(model)
        writer.refit(model)
        variations = _Variations(writer, extracted, generator, light)
        for start in range(pool, rows, _FRAGMENT):
            _write(writer, variations, start, min(start + _FRAGMENT, rows))
        changes = {"fitted_on": rows} if writer.state.codes else {}
        writer._next_id = rows + 1
        writer.save_state(next_id=rows + 1, **changes)
        writer.finish()
    return Gallery.open(folder)


def record(number: int) -> ImageRecord:
    """Return the record of a row: taken every ten minutes from 2000 on, a thousand images in each folder."""
    return ImageRecord(
        id=number + 1,
        path=f"{PLACE}/{number // IN_FOLDER:05}/{number:08}.jpg",
        size=10**6,
        mtime_ns=10**18 + number,
        digest=number.to_bytes(16, "big"),
        taken=946_684_800 + 600 * number,
        by_camera=True,
        width=4000,
        height=3000,
    )


def _mixtures(count: int, each: int, width: int, generator: torch.Generator) -> Tensor:
    """Return activations `(count, each, width)` of images with two kinds of things each, and something of their own."""
    kinds = torch.rand(_KINDS, width, generator=torch.Generator().manual_seed(1)) ** 6
    chosen = torch.randint(_KINDS, (count, 2), generator=generator)
    weights = torch.rand(count, each, 2, generator=generator)
    shared = torch.einsum("new,nwf->nef", weights, kinds[chosen])
    return shared + 0.3 * torch.rand(count, each, width, generator=generator) ** 6


def _extracted(writer: Writer, model: Model, count: int, generator: torch.Generator) -> Extracted:
    """Return made-up results of the backbone for so many images."""
    regions = num_regions(writer.state.grid)
    activations = _mixtures(count, 1 + regions, writer.state.width, generator)
    classes = None
    if vocabulary_of(model) is not None:
        evidence = torch.rand(count, NUM_CLASSES, generator=generator) ** 1000
        classes = classes_to_bytes(QuantizedClasses.of(evidence))
    return Extracted(to_half(activations[:, 0]), to_half(activations[:, 1:].contiguous()) if regions else None, classes)


class _Variations:
    """Rows whose codes are those of images of the pool, with noise."""

    def __init__(self, writer: Writer, pool: Extracted, generator: torch.Generator, light: bool) -> None:
        self._state, self._pool, self._generator, self._light = writer.state, pool, generator, light
        table = writer.table
        ids = np.arange(1, len(pool.activations) + 1)
        columns = {"codes": self._state.codes, "regions": REGIONS if self._state.basis else ""}
        self._codes = {
            kind: torch.from_numpy(table.unseal(table.take(ids, [column]), column)[0].view(np.int8)).float() / 127
            for kind, column in columns.items()
            if column
        }

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return rows of the table of images."""
        chosen = torch.randint(len(self._pool.activations), (stop - start,), generator=self._generator)
        extracted = self._pool.select(chosen.tolist())
        codes = self._varied("codes", chosen, -1, _CODE_NOISE)
        own = None if codes is None else (self._state.codes, codes)
        regions = self._varied("regions", chosen, 64, _REGION_NOISE)
        if regions is not None:
            extracted = extracted._replace(regions=None)
        made = image_rows([record(number) for number in range(start, stop)], extracted, codes=own)
        if self._light:
            made = made.drop_columns([name for name in (ACTIVATIONS, CLASSES) if name in made.column_names])
        if regions is not None:
            made = made.append_column(REGIONS, sealed_column(made["id"].to_numpy(), regions))
        return made

    def _varied(self, kind: str, chosen: Tensor, dimensions: int, noise: float) -> np.ndarray | None:
        if kind not in self._codes:
            return None
        pool = self._codes[kind][chosen]
        vectors = pool.view(len(pool), -1, pool.shape[1] if dimensions < 0 else dimensions)
        random = torch.randn(vectors.shape, generator=self._generator) * (noise / vectors.shape[-1] ** 0.5)
        return np.asarray(to_bytes(normalize(vectors + random, dim=-1)).view(len(pool), -1).numpy())


def _write(writer: Writer, variations: _Variations, start: int, stop: int) -> None:
    """Write one fragment, a few thousand rows at a time."""
    from lance.fragment import write_fragments

    first = variations.rows(start, min(start + _BATCH, stop))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for at in range(start + _BATCH, stop, _BATCH):
            yield from variations.rows(at, min(at + _BATCH, stop)).select(first.column_names).to_batches()

    reader = pa.RecordBatchReader.from_batches(first.schema, batches())
    fragments = write_fragments(reader, writer.table.dataset)
    writer.put_fragments([json.dumps(fragment.to_json()) for fragment in fragments], range(start + 1, stop + 1))
    writer.commit()


def main() -> None:
    """Make a gallery, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--light", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    made_up_gallery(options.folder, options.rows, light=options.light)
    print(f"{options.rows:,} rows in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
