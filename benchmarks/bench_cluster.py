"""Two Ray workers beside one process, and a searcher on Milvus beside the gallery in its folder.

    python benchmarks/bench_cluster.py                  500 drawn JPEGs; 20,000 made-up pictures
    python benchmarks/bench_cluster.py --jpegs photos/

Both start what they need on this machine (`pip install 'andornot[ray,milvus,milvus-server]'`). Ray's start, some
seconds, is not in the figures; that of its workers is. Times are of the clock on the wall: on a machine that others
keep busy, two workers get what is left.
"""

import argparse
import logging
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from andornot import Gallery
from jpegs import draw
from timing import Row, print_table, settle

TESTS = Path(__file__).parent.parent / "tests" / "gallery"
TOP = 50
FORMULAS = ("{a}", "{a} | {b}", "{a} & {b}", "~{a}", "{a} & ~{b}", "{a} - {b}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jpegs", type=Path, help="folder of pictures (default: 500 drawn ones of 480 pixels)")
    parser.add_argument("--pictures", type=int, default=20_000, help="in the gallery that is searched")
    options = parser.parse_args()
    settle()
    with tempfile.TemporaryDirectory() as folder:
        print_table("Ray", bench_ray(options.jpegs or draw(Path(folder, "jpegs")), Path(folder)))
        print_table("Milvus", bench_milvus(options.pictures, Path(folder)))


def bench_ray(jpegs: Path, folder: Path) -> list[Row]:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL)
    seconds: dict[str | None, list[float]] = {None: [], "local": []}
    galleries: dict[str | None, Gallery] = {}
    for number in range(2):
        for cluster in (None, "local"):
            gallery = galleries[cluster] = Gallery.create(folder / f"{cluster}-{number}")
            seconds[cluster].append(timed(partial(gallery.add, jpegs, cluster=cluster, progress=False)))
    ray.shutdown()
    one, two = min(seconds[None]), min(seconds["local"])
    count = len(galleries[None])
    what = f"index of {count} JPEGs, two Ray workers, times as fast as one process ({count / two:.0f} a second)"
    rows = [gallery._features.read(gallery._snapshot.rows) for gallery in galleries.values()]
    same = np.array_equal(rows[0], rows[1])
    return [
        Row(what, one / two, "≥ 1.5", one / two >= 1.5),
        Row("the same features, bit by bit", float(same), "1", same),
    ]


def bench_milvus(pictures: int, folder: Path) -> list[Row]:
    sys.path.insert(0, str(TESTS))
    helpers = runpy.run_path(str(TESTS / "galleries.py"))
    server_of = runpy.run_path(str(TESTS / "milvus_server.py"))["MilvusServer"]
    with server_of() as server:
        address = server.address("bench")
        made = Gallery.create(folder / "g", helpers["tiny_model"]())
        made.add(helpers["photos"](folder / "photos", 60))
        helpers["grow_without_files"](made, pictures)
        far = Gallery.open(folder / "g", engine=address)
        filling = sum(timed(partial(far.prepare, score)) for score in ("centred", "degrees"))
        local, remote = Gallery.open(folder / "g"), Gallery.open(address)
        generator = np.random.default_rng(0)
        queries = [
            formula.format(a=a, b=b)
            for formula in FORMULAS
            for a, b in generator.integers(1, pictures, (8, 2)).tolist()
        ]
        found = [[hit.id for hit in gallery.search(query, TOP)] for gallery in (local, remote) for query in queries]
        mine, theirs = found[len(queries) :], found[: len(queries)]
        same = float(np.mean([len({*a} & {*b}) / TOP for a, b in zip(mine, theirs, strict=True)]))
        here, there = (median(partial(gallery.search, queries[0], TOP)) for gallery in (local, remote))
    return [
        Row(f"hits of a searcher on Milvus that are those of the folder, {pictures:,} pictures", same, "1", same == 1),
        Row(
            f"seconds of one search on Milvus, times those in the folder ({1000 * there:.0f} ms)",
            there / here,
            "",
            True,
        ),
        Row("seconds to fill the collection, for each 1,000 pictures", 1000 * filling / pictures, "", True),
    ]


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(work: Callable[[], Any]) -> float:
    return float(np.median([timed(work) for _ in range(9)]))


if __name__ == "__main__":
    main()
