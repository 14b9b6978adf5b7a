"""Opening a gallery of made-up rows, its memory, looking up, filtering, browsing and refreshing, at several sizes.

    python benchmarks/bench_opening.py --pictures 100000 1000000 10000000

Every figure is of a process of its own, in processor seconds. The baseline, in the same run, takes all records into
Python objects and checks them, as opening did before. Ten million pictures take
some minutes, 8 GB of memory and 5 GB of disk.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from andornot import Gallery, Model
from andornot.gallery import Where, database
from andornot.gallery.database import Picture, read_snapshot
from andornot.gallery.feature_store import FeatureWriter, checksum
from andornot.gallery.filters import Selection
from andornot.gallery.layout import DATABASE
from andornot.gallery.paths import is_inside
from andornot.gallery.records import Record, are_sound, values_crc
from andornot.gallery.writer import open_writer
from andornot.model import new_backbone
from andornot.ssl.recipe import make_recipe
from andornot.web.presenters import tell_gallery, tell_pictures
from timing import Row, print_table

_T = TypeVar("_T")
_WIDTH = 16
_PLACE = "/pictures/of a longer name"
_IN_FOLDER = 1000
_BLOCK = 2**18
_COMMITTED = 512
_REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, nargs="+", default=[100_000], help="sizes (default: 100,000)")
    parser.add_argument("--keep", type=Path, help="folder for the galleries, used again if they are there")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure is not None:
        print(json.dumps(MEASURES[options.measure](options.keep)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for count in options.pictures:
            folder = (options.keep or Path(temporary)) / str(count)
            if not folder.exists():
                start = time.perf_counter()
                make(folder, count)
                print(f"{count:,} pictures made in {time.perf_counter() - start:.0f} s", flush=True)
            show(folder, count)


def show(folder: Path, count: int) -> None:
    """Measures one gallery."""
    found: dict[str, dict[str, float]] = {}
    for name in MEASURES:
        command = [sys.executable, __file__, "--measure", name, "--keep", str(folder)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[name] = json.loads(done.stdout)
    opened, before = found["opening"], found["baseline"]
    print_table(
        f"{count:,} pictures",
        [
            Row("opening, seconds", opened["seconds"], "< 1", opened["seconds"] < 1),
            Row("opening, MB", opened["MB"], "< 200", opened["MB"] < 200),
            Row("opening, times as fast as with all records", before["seconds"] / opened["seconds"], "> 1", True),
            Row("memory, of that with all records", opened["MB"] / before["MB"], "< 1", opened["MB"] < before["MB"]),
        ],
    )
    for name in ("opening", "baseline", "use", "refresh"):
        print(f"  {name}: " + ", ".join(f"{what} {value:.4g}" for what, value in found[name].items()), flush=True)


# --- a gallery of made-up rows ---------------------------------------------------------------------------------------


def make(folder: Path, count: int) -> None:
    """What `index` would have written of so many pictures."""
    recipe = make_recipe(
        {"regime": "calibrated", "backbone": "conv5", "backbone_options": {"width": _WIDTH}, "num_values": 4}
    )
    generator = np.random.default_rng(0)
    features = generator.gamma(1.0, size=(4096, _WIDTH)).astype(np.float16)
    model = Model.calibrated(new_backbone(recipe, channels=3), torch.from_numpy(features).float(), recipe)
    gallery = Gallery.create(folder, model)
    state = gallery._snapshot.state
    writer = FeatureWriter(folder, state.width, state.first_file, 0, lambda _: None)
    for start in range(0, count, _BLOCK):
        writer.append(features[np.arange(start, min(start + _BLOCK, count)) % len(features)])
    writer.sync()
    crcs = [checksum(row) for row in features]
    records = (picture(number, crcs).record for number in range(count))
    database.create(folder, replace(state, rows=count, next_id=count + 1, pictures=count), records)
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        origins = ((number, 1, values_crc((number, 1))) for number in range(1, count + 1))
        connection.executemany("INSERT INTO origins VALUES (?, ?, ?)", origins)
    with open_writer(folder):  # which makes the catalogue
        pass
    Gallery.open(folder, engine="exact").prepare()


def picture(number: int, crcs: list[int]) -> Picture:
    """Taken every ten minutes from 2000 on, a thousand in each folder."""
    path = f"{_PLACE}/{number // _IN_FOLDER:05}/{number:08}.jpg"
    taken = 946_684_800 + 600 * number
    return Picture(
        number + 1, path, 10**6, 10**18 + number, number.to_bytes(16, "big"), taken, number, crcs[number % len(crcs)]
    )


# --- measures, each in a process of its own ---------------------------------------------------------------------------


def opening(folder: Path) -> dict[str, float]:
    """An opened gallery, with its model; the memory beyond that of Python, torch and this package."""
    before = memory()
    seconds, gallery = timed(lambda: Gallery.open(folder, engine="exact"))
    grown = memory() - before
    model_seconds, _ = timed(lambda: gallery.model)
    return {"seconds": seconds, "MB": grown, "MB of the whole process": memory(), "model seconds": model_seconds}


def baseline(folder: Path) -> dict[str, float]:
    """All records in memory, checked, and looked through there for a name, a folder and a date."""
    before = memory()

    def read() -> list[Record]:
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            records = connection.execute("SELECT * FROM pictures ORDER BY id").fetchall()
        assert are_sound(records)
        return records

    seconds, records = timed(read)
    grown = memory() - before
    paths = [os.fsdecode(record[1]) for record in records]
    taken, rows = (np.array([record[column] for record in records]) for column in (5, 6))
    place = f"{_PLACE}/00003"

    def rows_in(passing: np.ndarray) -> np.ndarray:
        chosen = np.ones(len(rows), bool)
        chosen[rows] &= passing
        return np.flatnonzero(chosen)

    names = timed(lambda: {os.path.basename(path): position for position, path in enumerate(paths)})  # noqa: PTH119
    in_folder = timed(lambda: rows_in(np.array([is_inside(path, place) for path in paths])))
    of_time = timed(lambda: rows_in((taken >= 10**9) & (taken < 10**9 + 10**6)))
    return {"seconds": seconds, "MB": grown, "name s": names[0], "folder s": in_folder[0], "date s": of_time[0]}


def use(folder: Path) -> dict[str, float]:
    """What is done with an opened gallery; the first time, and again with something else."""
    gallery = Gallery.open(folder, engine="exact")
    before, total = memory(), len(gallery)
    gallery.model  # noqa: B018
    folders = [f"{_PLACE}/{number:05}" for number in range(total // _IN_FOLDER)]
    years = [Where(after=f"{2000 + number}-02", before=f"{2000 + number}-03") for number in range(_REPEATS + 1)]
    snapshot, found = gallery._snapshot, {}
    steps: dict[str, Callable[[int], object]] = {
        "name": lambda n: gallery.resolve(f"{n * 7919 % total:08}.jpg"),
        "id": lambda n: gallery.resolve(str(n * 7919 % total + 1)),
        "folder": lambda n: len(Selection(snapshot, Where(folder=folders[n]))),
        "date": lambda n: len(Selection(snapshot, years[n])),
        "every date": lambda _: snapshot.taken,
        "search of a folder": lambda n: gallery.search(str(n + 1), where=Where(folder=folders[n + 9]), top=50),
        "search": lambda n: gallery.search(f"{n * 7919 % total:08}.jpg", top=50),
        "page": lambda n: tell_pictures(gallery.browse(), Where(), "id", 60 * n, 60),
        "front page": lambda n: tell_gallery(gallery.browse(), "g") if n < 2 else None,
    }
    for what, step in steps.items():
        found[f"{what}, first s"] = timed(lambda: step(0))[0]  # noqa: B023
        found[f"{what}, s"] = min(timed(lambda: step(n))[0] for n in range(1, _REPEATS))  # noqa: B023
    return {**found, "MB afterwards": memory() - before}


def refresh(folder: Path) -> dict[str, float]:
    """What a reader that was searched needs after a commit of so many pictures, and what the commit took."""
    gallery = Gallery.open(folder, engine="exact")
    gallery.resolve("1")
    assert len(gallery._snapshot.id_of_row) >= len(gallery)
    writer_context = open_writer(folder)
    opening_seconds, writer = timed(writer_context.__enter__)
    found = {"writer opens s": opening_seconds}
    try:
        row = writer.features.read(0)
        first = writer.features.append(np.repeat(row[None], _COMMITTED, 0))
        for number in range(first, first + _COMMITTED):
            identity = writer.new_id()
            one = picture(identity + 10**8, [checksum(row)])._replace(id=identity, row=number)
            writer.database.insert(one, by_camera=True)
        found[f"commit of {_COMMITTED} new s"] = timed(writer.commit)[0]
        found["refresh s"] = timed(gallery.refresh)[0]
        found["rows s"] = timed(lambda: gallery._snapshot.id_of_row)[0]
        found["name s"] = timed(lambda: gallery.resolve("00000001.jpg"))[0]
        for identity in np.linspace(1, len(gallery) - 1, _COMMITTED).astype(int).tolist():
            entry = gallery._snapshot.entry(identity)
            assert entry is not None
            writer.database.update(entry.picture._replace(taken=entry.picture.taken + 1), by_camera=True)
        found[f"commit of {_COMMITTED} scattered s"] = timed(writer.commit)[0]
        found["refresh again s"] = timed(gallery.refresh)[0]
    finally:
        writer_context.__exit__(None, None, None)
    assert read_snapshot(folder).state.pictures == len(gallery)
    return found


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {
    "opening": opening,
    "baseline": baseline,
    "use": use,
    "refresh": refresh,
}


def memory() -> float:
    """The resident set, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def timed(step: Callable[[], _T]) -> tuple[float, _T]:
    """The processor seconds that a step takes, which mean more on a shared machine, and what it gives."""
    start = time.process_time()
    result = step()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
