"""Encoding and indexing by ONNX Runtime against torch with folded batch norms, in processor seconds of one run.

Processor seconds of one thread, because others may use the machine. With photographs of one's own:

    python benchmarks/bench_encode.py --jpegs photos/
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from andornot import Gallery, Model
from andornot.gallery.indexing import Indexer
from andornot.gallery.scanning import find_files
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.model import new_backbone, new_network
from andornot.ssl.recipe import load_recipe, make_recipe
from jpegs import draw
from timing import Row, best_ratio, print_table, settle

TOP = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jpegs", type=Path, help="folder of JPEGs to index (default: 500 drawn ones)")
    options = parser.parse_args()
    settle()
    recipe = load_recipe("photos")
    lite = Model.calibrated(new_backbone(recipe, channels=3), torch.rand(64, 1280), recipe)
    digits = make_recipe({"backbone": "conv5"})
    conv5 = Model.from_network(new_network(digits, channels=1), digits)
    rows = [bench_encode(lite, 64, "≥ 1.8", 1.8), bench_encode(conv5, 1024, "-", 0)]
    with tempfile.TemporaryDirectory() as folder:
        jpegs = options.jpegs or draw(Path(folder, "jpegs"))
        print_table("encoding", [*rows, bench_index(jpegs, Path(folder)), *compare(jpegs, lite)])


def use(model: Model, *, runtime: bool) -> Model:
    """Has a model encode by ONNX Runtime from the first image on, or by torch for ever."""
    model._seen = 10**9
    model.__dict__.pop("_accelerated_maps", None)
    if not runtime:
        model.__dict__["_accelerated_maps"] = model._fast_backbone.maps
    return model


def bench_encode(model: Model, count: int, target: str, least: float) -> Row:
    images = torch.rand(count, model.channels, model.size, model.size)
    torch_model = use(Model(model.backbone, model.head, model.recipe), runtime=False)
    use(model, runtime=True)
    candidate, baseline = (partial(one.encode, images) for one in (model, torch_model))
    ratio, seconds, _ = best_ratio(candidate, baseline, 6, time.process_time)
    what = f"encode, times as fast as torch, {model.backbone.name} ({count / seconds:,.0f} a second)"
    return Row(what, 1 / ratio, target, 1 / ratio >= least)


def bench_index(jpegs: Path, folder: Path) -> Row:
    """Files are read, decoded, hashed, encoded and stored."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2):
        for runtime in (True, False):
            gallery = Gallery.create(folder / f"{runtime}-{number}")
            use(gallery.model, runtime=runtime)
            start = time.process_time()
            with open_writer(Storage(gallery.address)) as writer:
                scope = find_files([str(jpegs)], (), prune=False)
                summary = Indexer(writer, gallery.model, scope).run(progress=False)
            seconds[runtime].append((time.process_time() - start) / summary.added)
    mine, theirs = min(seconds[True]), min(seconds[False])
    what = f"index of {summary.added} JPEGs, times as fast as with torch ({1 / mine:.0f} a processor second)"
    return Row(what, theirs / mine, "≥ 1.6", theirs / mine >= 1.6)


def compare(jpegs: Path, model: Model) -> list[Row]:
    """Each image as a query as torch sees it, among all as ONNX Runtime does, stored in half precision."""
    files = sorted(jpegs.iterdir())
    by_torch, by_runtime = (
        use(model, runtime=runtime).activations(files, progress=False).half().float() for runtime in (False, True)
    )
    model = Model.calibrated(model.backbone, by_torch, model.recipe)
    one, other = (
        torch.nn.functional.normalize(model.encode_activations(part).degrees) for part in (by_torch, by_runtime)
    )
    wanted, found = (similarity.topk(TOP).indices for similarity in (one @ one.T, one @ other.T))
    recall = sum(len(set(a) & set(b)) for a, b in zip(wanted.tolist(), found.tolist(), strict=True)) / wanted.numel()
    first = (found[:, 0] == wanted[:, 0]).float().mean().item()
    return [
        Row(f"recall@{TOP} of {len(files)} images against torch's features", recall, "≥ 0.999", recall >= 0.999),
        Row("queries whose nearest image is the same", first, "≥ 0.999", first >= 0.999),
    ]


if __name__ == "__main__":
    main()
