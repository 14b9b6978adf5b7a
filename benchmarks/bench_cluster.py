"""Two Ray workers beside one process, for indexing; two shards beside one, for searching.

    python benchmarks/bench_cluster.py                          500 drawn JPEGs; 100,000 made-up rows
    python benchmarks/bench_cluster.py --rows 1000000           a minute or two, and 4 GB of disk
    python benchmarks/bench_cluster.py --gallery made-up/       a gallery of benchmarks/made_up.py

It starts Ray on this machine (`pip install 'andornot[ray]'`). Ray's start, some seconds, is not in the figures; that of
the workers that index is. Times are wall-clock times: on a busy machine, two processes share what is left.
"""

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from andornot import Formula, Gallery, Model
from andornot.gallery import SearchOptions
from andornot.gallery.planner import Planner
from andornot.gallery.shard import Shard
from andornot.gallery.storage import Storage
from andornot.gallery.table import ImageTable
from jpegs import draw
from made_up import made_up_gallery
from timing import Row, print_table, settle

TOP = 50
QUERIES = {"a term": "{a}", "a condition of three terms": "{a} and {b} and not {c}", "a word": "dog and {a}"}
_ROUNDS = 7


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jpegs", type=Path, help="folder of images (default: 500 drawn ones of 480 pixels)")
    parser.add_argument("--rows", type=int, default=100_000, help="of the gallery that is searched")
    parser.add_argument("--gallery", type=Path, help="search this gallery instead")
    options = parser.parse_args()
    settle()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    import ray

    start = partial(ray.init, "local", include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        start(num_cpus=2)
        print_table("indexing", bench_indexing(options.jpegs or draw(Path(folder, "jpegs")), Path(folder)))
        ray.shutdown()
        if options.gallery is None:
            options.gallery = made_up_gallery(Path(folder, "made-up"), options.rows).folder
        start(num_cpus=1)  # one thread for each shard
        print_table(f"searching {len(Gallery.open(options.gallery)):,} rows", bench_searching(options.gallery))
        print_table("shards one after the other, processor time", bench_processor_time(options.gallery))
    ray.shutdown()


def bench_indexing(jpegs: Path, folder: Path) -> list[Row]:
    """Compare two workers with one process."""
    seconds: dict[str | None, list[float]] = {None: [], "local": []}
    galleries: dict[str | None, Gallery] = {}
    for number in range(2):
        for cluster in (None, "local"):
            gallery = galleries[cluster] = Gallery.create(folder / f"{cluster}-{number}")
            seconds[cluster].append(timed(partial(gallery.add, jpegs, cluster=cluster, progress=False)))
    one, two = min(seconds[None]), min(seconds["local"])
    count = len(galleries[None])
    what = f"index of {count} JPEGs, two Ray workers, times as fast as one process ({count / two:.0f} a second)"
    same = galleries[None].search("1", TOP) == galleries["local"].search("1", TOP)
    return [
        Row(what, one / two, "≥ 1.5", one / two >= 1.5),
        Row("the same hits", float(same), "1", same),
    ]


def bench_searching(folder: Path) -> list[Row]:
    """Compare two shards with one, both on Ray, and both with the gallery in this process."""
    galleries = {
        "in process": Gallery.open(folder),
        "one shard": Gallery.open(folder, cluster="local", shards=1),
        "two shards": Gallery.open(folder, cluster="local", shards=2),
    }
    generator = np.random.default_rng(0)
    rows = []
    for what, formula in QUERIES.items():
        chosen = generator.integers(1, len(galleries["in process"]), (_ROUNDS, 3)).tolist()
        queries = [formula.format(a=a, b=b, c=c) for a, b, c in chosen]
        hits = {name: gallery.search(queries[0], TOP) for name, gallery in galleries.items()}  # reads all columns
        same = hits["in process"] == hits["one shard"] == hits["two shards"]
        seconds: dict[str, list[float]] = {name: [] for name in galleries}
        for query in queries:
            for name, gallery in galleries.items():
                seconds[name].append(timed(partial(gallery.search, query, TOP)))
        best = {name: float(np.median(times)) for name, times in seconds.items()}
        told = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in best.items())
        ratio = best["one shard"] / best["two shards"]
        rows.append(Row(f"{what}, two shards, times as fast as one ({told})", ratio, "≥ 1.5", ratio >= 1.5))
        rows.append(Row(f"{what}, the same hits", float(same), "1", same))
    return rows


class MeasuredShards:
    """Shards in this process, one after the other, that add up the processor seconds of the slowest in each call."""

    def __init__(self, table: ImageTable, model: Model, count: int) -> None:
        self._shards = [Shard(table, model, number, count) for number in range(count)]
        self.seconds = 0.0

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of each shard."""
        answers, slowest = [], 0.0
        for shard in self._shards:
            start = time.process_time()
            answers.append(getattr(shard, method)(*arguments))
            slowest = max(slowest, time.process_time() - start)
        self.seconds += slowest
        return answers

    def for_version(self, table: ImageTable, model: Model) -> Self:  # noqa: ARG002 - as that of others
        """Not needed: the gallery does not change."""
        return self


def bench_processor_time(folder: Path) -> list[Row]:
    """Compare the processor time of the slower of two shards with that of one: what two idle machines would take."""
    gallery = Gallery.open(folder)
    table = ImageTable.open(Storage(folder))
    shards = {count: MeasuredShards(table, gallery.model, count) for count in (1, 2)}
    planners = {count: Planner(table, gallery.model, measured) for count, measured in shards.items()}
    generator = np.random.default_rng(0)
    rows = []
    for what, formula in QUERIES.items():
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for a, b, c in generator.integers(1, len(table), (_ROUNDS + 1, 3)).tolist():
            for count, planner in planners.items():
                query = planner.names.resolve(Formula(formula.format(a=a, b=b, c=c)))
                shards[count].seconds = 0.0
                planner.search([query], SearchOptions(TOP), {})
                seconds[count].append(shards[count].seconds)
        one, two = (float(np.median(times[1:])) for times in seconds.values())  # the first reads all columns
        told = f"{1000 * one:.0f} and {1000 * two:.0f} ms"
        rows.append(Row(f"{what}, processor time of one shard / of the slower of two ({told})", one / two, "", True))
    return rows


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
