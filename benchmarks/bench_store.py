"""Opening, look-ups, refreshing and searching galleries of made-up rows, at several sizes.

    python benchmarks/bench_store.py --rows 5000 1000000
    python benchmarks/bench_store.py --rows 10000000 --light      # 10 GB of disk and of memory

With `--light` only a thousand rows have activations and classes: words are not searched then.
Every measure runs in a process of its own. Searches are compared with one product of as many float32 vectors, in the
same process; other figures are wall-clock milliseconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from andornot import Gallery
from andornot.gallery import Filter
from andornot.gallery.commits import copy_rows
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.web.browsing import Browser
from andornot.web.presenters import present_gallery, present_images
from made_up import IN_FOLDER, PLACE, made_up_gallery, record
from timing import Row, best_ratio, print_table

_T = TypeVar("_T")
_REPEATS = 6
_COMMITTED = 512
_TOP = 50
_CONDITION = "11 and 222 and not 333"


def main() -> None:
    """Make a gallery of each size, and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 200_000], help="sizes (default: 5,000, 200,000)")
    parser.add_argument("--keep", type=Path, help="folder for the galleries, used again if they are there")
    parser.add_argument("--light", action="store_true", help="rows without activations and classes")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(MEASURES[options.measure](options.keep)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for count in options.rows:
            folder = (options.keep or Path(temporary)) / str(count)
            if not folder.exists():
                made_up_gallery(folder, count, light=options.light)
            show(folder, count)


def show(folder: Path, count: int) -> None:
    """Measure one gallery."""
    found: dict[str, float] = {"bytes a row on disk": size_of(folder / "images.lance") / count}
    for name in MEASURES:
        command = [sys.executable, __file__, "--measure", name, "--keep", str(folder)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found |= json.loads(done.stdout)
    ratios = [Row(what, value, "≤ 10", value <= 10) for what, value in found.items() if "/" in what]
    print_table(f"{count:,} made-up rows", ratios)
    for what, value in found.items():
        if "/" not in what:
            print(f"  {what}: {value:,.1f}", flush=True)


def opening(folder: Path) -> dict[str, float]:
    """Open a gallery; the memory is what it adds to Python, torch and this package."""
    import lance  # noqa: F401 - not part of opening

    before = memory()
    seconds, gallery = timed(lambda: Gallery.open(folder))
    found = {"opening, ms": seconds, "opening, MB": memory() - before}
    total = len(gallery)
    gallery.model  # noqa: B018
    steps: dict[str, Callable[[int], object]] = {
        "by name": lambda n: gallery.resolve(f"{n * 7919 % total:08}.jpg"),
        "by id": lambda n: gallery.resolve(str(n * 7919 % total + 1)),
        "50 records by id": lambda n: gallery._table.get_many([(n * 7919 + 13 * k) % total + 1 for k in range(50)]),
        "completion of a name": lambda n: Browser(gallery.planner).complete_name(f"{n * 7919 % total:08}"[:6], 8),
    }
    return found | first_and_next(steps)


def browsing(folder: Path) -> dict[str, float]:
    """List, filter and describe a gallery as the page does."""
    gallery = Gallery.open(folder)
    gallery.model  # noqa: B018
    browser, total = Browser(gallery.planner), len(gallery)
    steps: dict[str, Callable[[int], object]] = {
        "filter by folder": lambda n: browser.positions(Filter(folder=f"{PLACE}/{n % max(1, total // IN_FOLDER):05}")),
        "filter by date": lambda n: browser.positions(Filter(after=f"{2000 + n}-02", before=f"{2000 + n}-03")),
        "page of 60": lambda n: present_images(browser, Filter(), "id", 60 * n, 60),
        "front page": lambda n: present_gallery(browser, "g", True) if n < 2 else None,
    }
    return first_and_next(steps)


def searching(folder: Path) -> dict[str, float]:
    """Search, with the first search of a process apart: it reads what is scanned into memory."""
    gallery = Gallery.open(folder)
    gallery.model  # noqa: B018
    before = memory()
    found = {}
    # In a light gallery none of the last rows has classes.
    has_words = bool(gallery._table.classes(gallery._table.ids[-1:])[1].all())
    first = {"term": "11", "condition of three terms": _CONDITION} | ({"word": "dog"} if has_words else {})
    for what, formula in first.items():
        found[f"{what}, first, ms"] = timed(lambda: gallery.search(formula, top=_TOP))[0]  # noqa: B023
    found["memory of a searcher, MB"] = memory() - before
    rows = len(gallery)
    vectors, query = torch.rand(min(rows, 200_000), 128), torch.rand(1, 128)
    parts = -(-rows // len(vectors))

    def product() -> None:
        for _ in range(parts):
            (query @ vectors.T).topk(_TOP)

    for what, formula in {"term": "12", "condition of three terms": "13 and 224 and not 335"}.items():
        ratio, mine, _ = best_ratio(lambda: gallery.search(formula, top=_TOP), product, 9)  # noqa: B023
        found[f"{what}, ms"] = 1000 * mine
        found[f"{what} / product of float32 vectors"] = ratio
    if not has_words:
        return found
    found["another word, ms"] = timed(lambda: gallery.search("cat", top=_TOP))[0]
    found["the same word again, ms"] = timed(lambda: gallery.search("cat", top=_TOP))[0]
    return found


def refreshing(folder: Path) -> dict[str, float]:
    """Refresh a gallery that was searched, after a commit of new rows; these are removed again."""
    gallery = Gallery.open(folder)
    gallery.search(_CONDITION, top=_TOP)
    found = {}
    with open_writer(Storage(folder)) as writer:
        source = list(range(1, _COMMITTED + 1))
        ids = [writer.new_id() for _ in source]
        records = [record(10**8 + identity)._replace(id=identity) for identity in ids]
        rows = copy_rows(
            writer.table.take(gallery._table.ids[:_COMMITTED], sorted(writer.table.columns)), records, writer.table
        )
        writer.put(rows)
        found[f"commit of {_COMMITTED} rows, ms"] = timed(writer.commit)[0]
        found["refresh, ms"] = timed(gallery.refresh)[0]
        found["term after it, ms"] = timed(lambda: gallery.search("14", top=_TOP))[0]
        found["condition after it, ms"] = timed(lambda: gallery.search(_CONDITION, top=_TOP))[0]
        for identity in ids:
            writer.remove(identity)
        found["commit of their removal, ms"] = timed(writer.commit)[0]
    return found


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {
    "opening": opening,
    "browsing": browsing,
    "searching": searching,
    "refreshing": refreshing,
}


def first_and_next(steps: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Return the milliseconds of each step, the first time and afterwards."""
    found = {}
    for what, step in steps.items():
        found[f"{what}, first, ms"] = timed(lambda: step(0))[0]  # noqa: B023
        found[f"{what}, ms"] = min(timed(lambda: step(n))[0] for n in range(1, _REPEATS))  # noqa: B023
    return found


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def memory() -> float:
    """Return the resident set, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def timed(step: Callable[[], _T]) -> tuple[float, _T]:
    """Return the milliseconds that a step takes, and its result."""
    start = time.perf_counter()
    result = step()
    return 1000 * (time.perf_counter() - start), result


if __name__ == "__main__":
    main()
