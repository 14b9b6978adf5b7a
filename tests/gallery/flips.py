"""Damage a stored gallery in many ways, one at a time, and look at what searches, lists and repair make of it.

    python tests/gallery/flips.py --count 2000

Damage may have no effect, or be refused with one line; then a repair and an index must bring everything back. What must
never be: another answer, another error, a crash, a lost image, or an id that belongs to another image than before.
"""

import argparse
import multiprocessing
import resource
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stored import ENOUGH, photos, seeing_recipe, small_steps, table_of

from andornot import AndornotError
from andornot.gallery import Filter, Gallery, GalleryError, writing
from andornot.web.browsing import Browser

SEARCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("000.png", {}),
    ("001.png | 002.png", {"score": "degrees"}),
    ("005.png - 006.png", {"why": True}),
    ("like(000.png, 001.png) and not 002.png", {}),
    ("5 and 007.png", {}),
    ("pair or 008.png", {}),
    ("animal", {}),
    ("010.png and not animal", {"filter": Filter(after="2000", folder="photos", file_dates=True)}),
)
COUNT = 24
SECONDS = 120
# Distances from images that were encoded again, in another batch.
TOLERANCE = 0.05


class WrongError(AssertionError):
    """What must never be."""


# --- damage ---------------------------------------------------------------------------------------------------------


def damage_file(file: Path, rng: np.random.Generator) -> str:
    """Flip a bit, overwrite some bytes, cut the file off, or remove it."""
    content = bytearray(file.read_bytes())
    place = int(rng.integers(len(content)))
    how = rng.random()
    if how < 0.6:
        bit = int(rng.integers(8))
        content[place] ^= 1 << bit
        told = f"bit {bit} of byte {place} flipped"
    elif how < 0.8:
        count = int(rng.integers(1, 64))
        content[place : place + count] = rng.bytes(len(content[place : place + count]))
        told = f"{count} bytes at {place} overwritten"
    elif how < 0.9:
        content, told = content[:place], f"cut off at {place}"
    else:
        file.unlink()
        return f"{file.name} removed"
    file.write_bytes(content)
    return f"{file.name} of {len(content)} bytes: {told}"


KINDS = (
    "data", "deletions", "manifest", "indexes", "other", "definitions", "unreadable", "projections", "model",
)  # fmt: skip


def files_of(folder: Path, kind: str) -> list[Path]:
    """Return the files of a kind that the newest version of a gallery needs, and those of no use for `other`."""
    table = table_of(folder)
    images, fragments = folder / "images.lance", table.dataset.get_fragments()
    found: dict[str, list[Path]] = {
        "data": [images / "data" / file.path for fragment in fragments for file in fragment.data_files()],
        "deletions": [images / name for fragment in fragments if (name := fragment.deletion_file()) is not None],
        "manifest": sorted(images.glob("_versions/*.manifest"))[:1],
        "indexes": [
            path
            for index in table.dataset.describe_indices()
            for segment in index.segments
            for path in images.glob(f"_indices/{segment.uuid}/*")
        ],
        "other": [
            path for part in ("_transactions/*", "_checksums/*", "_versions/*.json") for path in images.glob(part)
        ],
        "definitions": [*folder.glob("definitions-*")],
        "unreadable": [*folder.glob("unreadable-*")],
        "projections": [folder / table.state.basis, folder / table.state.components],
        "model": [*(folder / table.state.model).iterdir()],
    }
    return sorted(path for path in found[kind] if path.stat().st_size)


def damage(folder: Path, kind: str, rng: np.random.Generator) -> str:
    """Damage a file of a kind."""
    files = files_of(folder, kind)
    return damage_file(files[rng.integers(len(files))], rng)


# --- answers --------------------------------------------------------------------------------------------------------


def make(folder: Path) -> Gallery:
    """Make a gallery with everything in it that can be damaged."""
    (folder / "photos").mkdir()
    (folder / "photos" / "broken.png").write_bytes(b"no image")
    photos(folder / "photos", ENOUGH)
    with small_steps():
        writing.KEEP = timedelta(hours=1)
        gallery = Gallery.create(folder / "whole", recipe=seeing_recipe())
        gallery.add(folder / "photos")
        photos(folder / "photos", COUNT + 1)
        gallery.update()
        gallery.recalibrate()  # as the repair of a model does
        gallery.define("pair", "003.png | 004.png")
        gallery.define("other", "003.png & 004.png")
        gallery.remove(f"{COUNT:03}.png")
    (folder / "photos" / f"{COUNT:03}.png").unlink()
    photos(folder / "more", 2, start=500)
    return gallery


def searched(gallery: Gallery) -> dict[str, dict[str, float]]:
    """Return the distances of all images from some formulas, by path."""
    return {
        formula: {hit.path: hit.distance for hit in gallery.search(formula, 2 * COUNT, include_queries=True, **options)}
        for formula, options in SEARCHES
    }


def listed(gallery: Gallery) -> dict[str, Any]:
    """Return everything else that a gallery tells."""
    browser = Browser(gallery.planner)
    return {
        "images": dict(zip(gallery.ids, gallery.paths, strict=True)),
        "count": len(gallery),
        "folders": gallery.folders,
        "broken": gallery.broken,
        "definitions": gallery.definitions,
        "by name": browser.positions(Filter(), "name").tolist(),
        "by time": browser.positions(Filter(), "taken").tolist(),
        "folder": browser.positions(Filter(folder="photos")).tolist(),
        "period": browser.period,
        "completed": browser.complete_name("00", 2),
        "features": browser.features.mean.tolist(),
        "tags": {
            identity: [str(shown) for shown in gallery.planner.words.describe(np.array([identity]))[0]]
            for identity in gallery.ids[:3]
        },
        "words": gallery.words("a"),
    }


@cache
def expected(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Return what a gallery without damage answers."""
    gallery = Gallery.open(folder)
    return listed(gallery), searched(gallery)


class Trial:
    """One damage of a copy of a gallery."""

    def __init__(self, base: Path, number: int) -> None:
        self._base, self.folder = base, base / f"damaged-{number}"
        self._listed, self._searched = expected(base / "whole")
        shutil.copytree(base / "whole", self.folder)

    def run(self) -> str:
        """Return what became of the damage."""
        refused = [self._is_refused(use) for use in (self._check_lists, self._check_searches, self._check_index)]
        outcome = "refused and repaired" if any(refused) else "no effect"
        try:
            Gallery.repair(self.folder)
        except GalleryError as error:
            if "--model COPY takes another copy" not in str(error):
                raise WrongError(f"cannot be repaired: {error}") from error
            Gallery.repair(self.folder, self._base / "whole" / table_of(self._base / "whole").state.model)
        self._check_repaired()
        return outcome

    def _is_refused(self, use: Callable[[], None]) -> str:
        try:
            use()
        except AndornotError as error:
            if "\n" in str(error) or "--repair" not in str(error):
                raise WrongError(f"an error that does not help: {error}") from error
            return "refused"
        return ""

    def _check_lists(self) -> None:
        found = listed(Gallery.open(self.folder))
        for what, expected in self._listed.items():
            if found[what] != expected:
                raise WrongError(f"{what}: {found[what]}, and was {expected}")

    def _check_searches(self) -> None:
        found = searched(Gallery.open(self.folder))
        for formula, expected in self._searched.items():
            if found[formula] != expected:
                raise WrongError(f"{formula}: {found[formula]}, and was {expected}")

    def _check_index(self) -> None:
        copy = self.folder.with_name(f"{self.folder.name}-indexed")
        shutil.copytree(self.folder, copy)
        try:
            gallery = Gallery.open(copy)
            gallery.add([self._base / "photos", self._base / "more"])
            if len(gallery) != COUNT + 2:
                raise WrongError(f"{len(gallery)} images after an index")
            self._compare(gallery)
        finally:
            shutil.rmtree(copy)

    def _check_repaired(self) -> None:
        gallery = Gallery.open(self.folder)
        gallery.add([self._base / "photos", self._base / "more"])
        if len(gallery) != COUNT + 2:
            raise WrongError(f"{len(gallery)} images after a repair and an index")
        self._compare(gallery)
        told = str(Gallery.repair(self.folder))
        if told != "nothing was damaged":
            raise WrongError(f"a second repair finds something: {told}")

    def _compare(self, gallery: Gallery) -> None:
        """Check a gallery some images of which may have been encoded again, or have other ids."""
        before, now = self._listed["images"], dict(zip(gallery.ids, gallery.paths, strict=True))
        if missing := set(before.values()) - set(now.values()):
            raise WrongError(f"lost: {sorted(missing)}")
        for identity, path in now.items():
            if before.get(identity, path) != path:
                raise WrongError(f"{identity} was {before[identity]}, and is {path}")
        if set(gallery.broken) != set(self._listed["broken"]):
            raise WrongError(f"unreadable: {gallery.broken}")
        found = {hit.path: hit.distance for hit in gallery.search("000.png", 2 * COUNT, include_queries=True)}
        for path, distance in self._searched["000.png"].items():
            if not abs(found.get(path, np.inf) - distance) <= TOLERANCE:
                raise WrongError(f"{path} at {found.get(path)}, and was at {distance}")


# --- processes ------------------------------------------------------------------------------------------------------


def _work(base: str, connection: Connection) -> None:
    """Run trials that are asked for by number, kind and seed, until the connection is closed."""
    torch.set_num_threads(1)
    # A wrong length must not take all memory of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30, 24 * 2**30))
    with small_steps():
        writing.KEEP = timedelta(hours=1)
        while True:
            try:
                number, kind, seed = connection.recv()
            except EOFError:
                return
            connection.send(_trial(Path(base), number, kind, seed))


def _trial(base: Path, number: int, kind: str, seed: int) -> tuple[str, str]:
    trial, what = Trial(base, number), ""
    try:
        what = damage(trial.folder, kind, np.random.default_rng((seed, number)))
        return what, trial.run()
    except BaseException as error:
        place = "" if isinstance(error, WrongError) else traceback.format_exc()
        return what, f"WRONG {type(error).__name__}: {error}\n{place}"
    finally:
        shutil.rmtree(trial.folder, ignore_errors=True)


class Worker:
    """A process that runs trials; another one takes its place if it crashes or hangs."""

    def __init__(self, base: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(str(base), theirs), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, number: int, kind: str, seed: int) -> tuple[str, str]:
        """Return what was damaged, and what became of it."""
        try:
            self._connection.send((number, kind, seed))
            if self._connection.poll(SECONDS):
                what, outcome = self._connection.recv()
                return what, outcome
        except (EOFError, OSError):
            self._process.join(10)
            return "", f"CRASH exit code {self._process.exitcode}"
        return "", "HANGS"

    def stop(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.join(10)


def run(base: Path, count: int, seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[tuple[str, str, str]]:
    """Yield of each trial its kind, what was damaged, and what became of it."""
    make(base)
    worker = Worker(base)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        what, outcome = worker.run(number, kind, seed)
        if outcome.startswith(("CRASH", "HANGS")):
            worker.stop()
            worker = Worker(base)
        yield kind, f"{number}: {what}", outcome
    worker.stop()


def main() -> int:
    """Run many trials, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    options = parser.parse_args()
    outcomes, wrong = Counter[tuple[str, str]](), 0
    with tempfile.TemporaryDirectory() as folder:
        kinds = (options.kind,) if options.kind else KINDS
        for kind, what, outcome in run(Path(folder), options.count, options.seed, kinds):
            if outcome not in ("no effect", "refused and repaired"):
                print(f"{kind} {what}: {outcome}", flush=True)
                outcome, wrong = "WRONG", wrong + 1
            outcomes[kind, outcome] += 1
    for kind in KINDS:
        print(f"{kind:<12}", ", ".join(f"{n} {what}" for (own, what), n in sorted(outcomes.items()) if own == kind))
    print(f"{outcomes.total()} damages, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
