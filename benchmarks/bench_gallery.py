"""Filling and searching galleries: from JPEGs, and 210,000 pictures against FAISS' flat index. Takes minutes.

By default the pictures are the 5,000 embedded digits and noisy copies, and the model is trained on them. With MNIST:

    python benchmarks/bench_gallery.py --data mnist:/data/mnist --model model/
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from andornot import Gallery, Model
from andornot.data import ImageSet, open_images
from andornot.gallery.database import Picture
from andornot.gallery.engines import Engine, Exact
from andornot.gallery.engines.faiss import MEASURED_TOP, Faiss
from andornot.gallery.engines.reduction import KINDS, sample_queries
from andornot.gallery.feature_store import as_rows, checksum
from andornot.gallery.filters import Selection
from andornot.gallery.indexing import Indexing
from andornot.gallery.scope import look_through
from andornot.gallery.vectors import Stored, Vectors
from andornot.gallery.writer import open_writer
from andornot.model import new_backbone
from andornot.pretraining import pretrain
from andornot.ssl.recipe import load_recipe
from timing import Row, best_ratio, print_table

_QUERIES = 40
_BATCH = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits", help="small grey pictures (default: digits)")
    parser.add_argument("--model", type=Path, help="folder of a model (default: one is trained)")
    parser.add_argument("--pictures", type=int, default=210_000, help="how many, with copies (default: 210,000)")
    parser.add_argument("--scores", nargs="+", default=["degrees", "cross-entropy"], help="default: both")
    parser.add_argument("--jpegs", type=Path, help="folder of JPEGs to index (default: 500 drawn ones)")
    parser.add_argument("--keep", type=Path, help="folder for the gallery, used again if it is there")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        print_table("filling", [bench_index(options.jpegs, Path(folder))])
        place = options.keep or Path(folder) / "gallery"
        if not place.exists():
            fill(place, options, Path(folder))
        seconds = time.perf_counter()
        gallery = Gallery.open(place)
        model = gallery.model
        seconds = time.perf_counter() - seconds
        print(f"{len(gallery):,} pictures, {model.num_features} features of {model.num_values} values")
        print_table("a gallery", [Row("opening it, seconds", seconds, "< 1", seconds < 1), exact_batch(gallery)])
        for score in options.scores:
            print_table(f"FAISS, {score}", list(bench_faiss(gallery, score)))


def bench_index(jpegs: Path | None, folder: Path) -> Row:
    """Pictures a second, decoded and stored, against the bare backbone on pictures that are in memory."""
    if jpegs is None:
        jpegs = folder / "jpegs"
        jpegs.mkdir()
        scenes = open_images("scenes:?count=500&size=480")
        for number in range(len(scenes)):
            picture = Image.fromarray(scenes.images[number].permute(1, 2, 0).numpy())
            picture.save(jpegs / f"{number:04}.jpg", quality=90)
    recipe = load_recipe("photos")
    backbone = new_backbone(recipe, channels=3)
    count, size = len(list(jpegs.iterdir())), recipe.size or backbone.size
    batch = torch.rand(64, 3, size, size)
    seconds: list[tuple[float, float]] = []
    for number in range(3):
        gallery = Gallery.create(folder / f"indexed-{number}")
        start = time.perf_counter()
        with open_writer(gallery.folder) as writer:
            Indexing(writer, gallery.model, look_through([str(jpegs)], (), prune=False)).run(progress=False)
        middle = time.perf_counter()
        with torch.no_grad():
            for _ in range(0, count, len(batch)):
                backbone(batch)
        pictures = -(-count // len(batch)) * len(batch)
        seconds.append(((middle - start) / count, (time.perf_counter() - middle) / pictures))
    mine, bare = (min(times) for times in zip(*seconds, strict=True))
    ratio = bare / mine
    what = f"indexing {count} JPEGs, speed against the bare backbone ({1 / bare:.0f} pictures a second)"
    return Row(what, ratio, "≥ 0.8", ratio >= 0.8)


def fill(place: Path, options: argparse.Namespace, folder: Path) -> None:
    """A gallery of pictures and noisy copies. They have no files, so what `index` would write is written here."""
    images = open_images(options.data)
    if options.model is None:
        pretrain(images, folder / "model", load_recipe("digits"))
    model = Model.load(options.model or folder / "model")
    Gallery.create(place, model)
    with open_writer(place) as writer:
        for number, batch in enumerate(noisy_copies(images, options.pictures)):
            rows = as_rows(model.activations(batch, progress=False))
            first = writer.features.append(rows)
            for row, features in enumerate(rows, first):
                path = f"/pictures/{row:06}.png"
                writer.database.insert(
                    Picture(writer.new_id(), path, 1, 1, row.to_bytes(32, "big"), 0, row, checksum(features))
                )
            writer.commit()
            print(f"\r{_BATCH * (number + 1):,} of {options.pictures:,} pictures", end="", flush=True)
    print()


def noisy_copies(images: ImageSet, count: int) -> Iterator[Tensor]:
    """The pictures themselves, then copies that are shifted by up to two pixels, with noise."""
    generator = np.random.default_rng(0)
    for start in range(0, count, _BATCH):
        chosen = range(start, min(start + _BATCH, count))
        pictures = [images.images[number % len(images)].numpy() for number in chosen]
        noisy = [
            picture if number < len(images) else with_noise(picture, generator)
            for number, picture in zip(chosen, pictures, strict=True)
        ]
        yield torch.from_numpy(np.stack(noisy))


def with_noise(picture: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    shifted = np.roll(picture, generator.integers(-2, 3, 2), (1, 2))
    return np.clip(shifted + generator.normal(0, 12, picture.shape), 0, 255).astype(np.uint8)


def exact_batch(gallery: Gallery) -> Row:
    """64 queries at once against the product of the same matrices in memory."""
    vectors, queries = prepared(gallery, "degrees")
    everything = Selection(vectors.sources.snapshot, None)
    matrix = vectors.take(everything.rows)
    batch = queries.flatten(0, 1)[:64]
    engine = Exact(vectors)
    slower, *_ = best_ratio(partial(engine.search, batch, 10, everything), lambda: batch @ matrix.T, 12)
    return Row("a batch of 64, speed against the bare matrix product", 1 / slower, "≥ 0.8", 1 / slower >= 0.8)


def bench_faiss(gallery: Gallery, score: str) -> Iterator[Row]:
    vectors, queries = prepared(gallery, score)
    everything = Selection(vectors.sources.snapshot, None)
    start = time.perf_counter()
    engine = Faiss(vectors)
    engine.prepare()
    yield Row("making the index, seconds", time.perf_counter() - start, "-", True)
    flat = faiss.IndexFlatIP(vectors.dimensions)
    for rows in np.array_split(everything.rows, 100):
        flat.add(vectors.take(rows).numpy())
    truth = [flat.search(of_kind.numpy(), MEASURED_TOP)[1] for of_kind in queries]
    for kind, of_kind, best in zip(KINDS, queries, truth, strict=True):
        recall = recalled(engine, of_kind, best, everything)
        yield Row(f"recall@{MEASURED_TOP} of {kind}", recall, "≥ 0.99", recall >= 0.99)
    mixed = queries[:, :3].flatten(0, 1)

    def one_by_one() -> None:
        for query in mixed:
            engine.search(query[None], MEASURED_TOP, everything)

    def flat_one_by_one() -> None:
        for query in mixed:
            flat.search(query[None].numpy(), MEASURED_TOP)

    slower, _, seconds = best_ratio(one_by_one, flat_one_by_one, 9)
    what = f"single queries, speed against FAISS Flat ({1000 * seconds / len(mixed):.1f} ms)"
    yield Row(what, 1 / slower, "≥ 20", 1 / slower >= 20)
    assert engine.index is not None
    memory = engine.index.bytes / (4 * len(everything) * vectors.dimensions)
    yield Row("memory against FAISS Flat", memory, "< 0.5", memory < 0.5)


def prepared(gallery: Gallery, score: str) -> tuple[Vectors, Tensor]:
    """All vectors, stored, and queries of each kind that the index was not made with, `(kinds, n, D)`."""
    gallery.prepare(score)
    sources = gallery._searching._sources
    vectors = Vectors(sources, gallery._searching.degrees if score == "degrees" else Stored(sources, score))
    return vectors, torch.stack(list(sample_queries(sources, score, _QUERIES, np.random.default_rng(1))))


def recalled(engine: Engine, queries: Tensor, truth: np.ndarray, everything: Selection) -> float:
    found, _ = engine.search(queries, MEASURED_TOP, everything)
    return float(np.mean([len(np.intersect1d(*pair)) / MEASURED_TOP for pair in zip(found, truth, strict=True)]))


if __name__ == "__main__":
    main()
