"""Damages a gallery in many ways, one at a time, and looks what becomes of searches, indexing and repair.

    python tests/gallery/flips.py --count 2000

A damage may do nothing, or be refused in one line; then a repair and an index must bring everything back. What must
never be: another answer without a word, a traceback, a lost picture, or an id that means another picture than before.
"""

import argparse
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from galleries import photos, seeing_recipe

from andornot.gallery import Gallery, GalleryError, writer
from andornot.gallery.database import STATES
from andornot.gallery.layout import DATABASE, DERIVED

SEARCHES = (("000.png", "degrees"), ("001.png | 002.png", "degrees"), ("003.png - 004.png", "containment"))
COUNT = 24
# A basis of so few pictures, because there are few.
ENOUGH = 16
# Distances: of vectors from the disk, in half precision, and of pictures that were encoded anew in another batch.
ROUNDED, ENCODED_ANEW = 1e-3, 0.02
# Steps of a byte.
CODED_ANEW = 4


class WrongError(AssertionError):
    """What must never be."""


# --- damages --------------------------------------------------------------------------------------------------------


def other_value(value: Any, rng: np.random.Generator) -> Any:
    """A value with one bit flipped, or one of another kind."""
    if rng.random() < 0.1:
        return [None, 0, -1, 1.5, "x", b"\xff", 2**62][rng.integers(7)]
    if isinstance(value, int):
        return value ^ (1 << int(rng.integers(20)))
    if isinstance(value, bytes | str) and value:
        content = bytearray(value if isinstance(value, bytes) else value.encode())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(7))
        return bytes(content) if isinstance(value, bytes) else content.decode("latin-1")
    return 1


def flip_state(folder: Path, rng: np.random.Generator) -> str:
    """A value of the state, in one copy or in both."""
    tables = STATES if rng.random() < 0.5 else [STATES[rng.integers(2)]]
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        rows = connection.execute("SELECT key, value FROM gallery").fetchall()
        key, value = rows[rng.integers(len(rows))]
        other = other_value(value, rng)
        for table in tables:
            connection.execute(f"UPDATE {table} SET value = ? WHERE key = ?", (other, key))
    return f"state: {key} {value!r} -> {other!r} in {len(tables)}"


def flip_record(folder: Path, rng: np.random.Generator) -> str:
    """A value of a record, or a whole one that is gone."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        cursor = connection.execute(f"SELECT rowid, * FROM {'broken' if rng.random() < 0.1 else 'pictures'}")
        table = "pictures" if len(cursor.description) == 10 else "broken"
        columns, rows = [column[0] for column in cursor.description][1:], cursor.fetchall()
        identity, *values = rows[rng.integers(len(rows))]
        if table == "pictures" and rng.random() < 0.1:
            connection.execute("DELETE FROM pictures WHERE rowid = ?", (identity,))
            return f"record {identity} gone"
        place = int(rng.integers(len(columns)))
        other = other_value(values[place], rng)
        try:
            connection.execute(f"UPDATE {table} SET {columns[place]} = ? WHERE rowid = ?", (other, identity))
        except sqlite3.Error:
            return "nothing: SQLite refused"
    return f"record {identity} of {table}: {columns[place]} {values[place]!r} -> {other!r}"


def flip_file(file: Path, rng: np.random.Generator) -> str:
    """A bit of a file, or all that is behind a place in it."""
    content = bytearray(file.read_bytes())
    place = int(rng.integers(len(content)))
    if rng.random() < 0.1:
        file.write_bytes(content[:place])
        return f"{file.name} cut off at {place}"
    bit = int(rng.integers(8))
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"{file.name}: bit {bit} of byte {place}"


def flip_database(folder: Path, rng: np.random.Generator) -> str:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    return flip_file(folder / DATABASE, rng)


def flip_derived(folder: Path, rng: np.random.Generator) -> str:
    files = sorted(path for path in (folder / DERIVED).iterdir() if path.stat().st_size)
    return flip_file(files[rng.integers(len(files))], rng)


def flip_model(folder: Path, rng: np.random.Generator) -> str:
    (model,) = folder.glob("model-*")
    return flip_file(model / ("model.json" if rng.random() < 0.5 else "model.safetensors"), rng)


def flip_beside(folder: Path, rng: np.random.Generator) -> str:
    """A file of regions, of classes, of their seals, or a copy of the basis."""
    patterns = ("regions-*", "classes-*", "basis-*/*")
    files = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return flip_file(files[rng.integers(len(files))], rng)


def flip_basis(folder: Path, rng: np.random.Generator) -> str:
    """Both copies."""
    return "; ".join(flip_file(path, rng) for path in sorted(folder.glob("basis-*/*")))


KINDS: dict[str, Callable[[Path, np.random.Generator], str]] = {
    "state": flip_state,
    "record": flip_record,
    "database": flip_database,
    "features": lambda folder, rng: flip_file(folder / "features-0001.bin", rng),
    "derived": flip_derived,
    "model": flip_model,
    "beside": flip_beside,
    "basis": flip_basis,
}


# --- what becomes of it ---------------------------------------------------------------------------------------------


def make(folder: Path) -> Gallery:
    """A gallery with everything in it that can be damaged."""
    writer.ENOUGH_FOR_A_BASIS = ENOUGH  # type: ignore[misc]
    gallery = Gallery.create(folder / "whole", recipe=seeing_recipe())
    (folder / "photos").mkdir()
    (folder / "photos" / "broken.png").write_bytes(b"no picture")
    gallery.add(photos(folder / "photos", ENOUGH))
    gallery.add(photos(folder / "photos", COUNT))
    gallery.recalibrate()  # as a repair of the model would
    gallery.prepare("containment")
    photos(folder / "more", 2, start=500)
    return gallery


def answers(gallery: Gallery) -> dict[str, dict[str, float]]:
    """Every picture's distance from some formulas."""
    return {
        formula: {hit.path: hit.distance for hit in gallery.search(formula, COUNT + 9, score, include_queries=True)}
        for formula, score in SEARCHES
    }


class Beside(NamedTuple):
    """What is kept beside the features of each picture, by its path, as far as it is there."""

    basis: str
    codes: dict[str, np.ndarray]
    classes: dict[str, np.ndarray]


def beside(gallery: Gallery) -> Beside:
    paths, rows = np.array(gallery.paths, object), gallery._snapshot.rows
    codes, classes, basis = {}, {}, ""
    if gallery._regions is not None:
        basis, has = gallery._regions.basis.id, gallery._regions.has(rows)
        codes = dict(zip(paths[has], gallery._regions.codes(rows[has]).numpy().astype(int), strict=True))
    if gallery._kept_classes is not None:
        has = gallery._kept_classes.has(rows)
        evidence = gallery._kept_classes.read(rows[has]).evidence().numpy()
        classes = dict(zip(paths[has], evidence, strict=True))
    return Beside(basis, codes, classes)


class Trial:
    """One damage of a copy of a gallery."""

    def __init__(self, base: Path, whole: Gallery, expected: dict[str, dict[str, float]]) -> None:
        self._folder, self._photos, self._more = base / "damaged", base / "photos", base / "more"
        self._whole, self._expected = whole, expected
        self._beside = beside(whole)
        self._ids = dict(zip(whole.ids, whole.paths, strict=True))
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(whole.folder, self._folder)

    def run(self, damage: Callable[[Path, np.random.Generator], str], rng: np.random.Generator) -> tuple[str, str]:
        """What was damaged, and what became of it."""
        what = damage(self._folder, rng)
        refused = [self._is_refused(self._search), self._is_refused(self._index)]
        if "newer" in refused:
            return what, "taken for a newer version's"
        try:
            Gallery.repair(self._folder)
        except GalleryError as error:
            if "another copy of it" not in str(error):
                raise WrongError(f"cannot be repaired: {error}") from error
            (model,) = self._whole.folder.glob("model-*")
            Gallery.repair(self._folder, model)
        again = Gallery.open(self._folder)
        again.add([self._photos, self._more])
        self._check(again, tolerance=ENCODED_ANEW)
        again.update(regions=True)
        found = beside(again)
        if not len(found.codes) == len(found.classes) == len(again):
            raise WrongError(f"{len(found.codes)} have regions and {len(found.classes)} classes")
        if str(Gallery.repair(self._folder)) != "nothing was damaged":
            raise WrongError("a second repair finds something")
        return what, "refused and repaired" if any(refused) else "no effect"

    def _is_refused(self, use: Callable[[], None]) -> str:
        try:
            use()
        except GalleryError as error:
            if str(error).endswith("update andornot"):
                return "newer"
            if "\n" in str(error) or "--repair" not in str(error):
                raise WrongError(f"an error that does not help: {error}") from error
            return "refused"
        return ""

    def _search(self) -> None:
        gallery = Gallery.open(self._folder)
        self._check(gallery, tolerance=ROUNDED)
        if (gallery.folders, gallery.broken) != (self._whole.folders, self._whole.broken):
            raise WrongError("other folders, or other broken files")

    def _index(self) -> None:
        gallery = Gallery.open(self._folder)
        gallery.add([self._photos, self._more])
        if len(gallery) != COUNT + 2:
            raise WrongError(f"{len(gallery)} pictures")
        self._check(gallery, tolerance=ROUNDED)

    def _check(self, gallery: Gallery, tolerance: float) -> None:
        missing = set(self._whole.paths) - set(gallery.paths)
        if missing:
            raise WrongError(f"lost: {missing}")
        for identity, path in zip(gallery.ids, gallery.paths, strict=True):
            if self._ids.get(identity, path) != path:
                raise WrongError(f"{identity} was {self._ids[identity]}, and is {path}")
        kept = beside(gallery)
        pairs = [(kept.classes, self._beside.classes, 0.05)]
        pairs += [(kept.codes, self._beside.codes, CODED_ANEW)] if kept.basis == self._beside.basis else []
        for one, other, most in pairs:
            for path in one.keys() & other.keys():
                if np.abs(one[path] - other[path]).max() > most:
                    raise WrongError(f"{path} has other regions or classes")
        found = answers(gallery)
        for formula, distances in self._expected.items():
            for path, distance in distances.items():
                if not abs(found[formula].get(path, np.inf) - distance) <= tolerance:
                    raise WrongError(f"{formula}: {path} at {found[formula].get(path)}, and was at {distance}")


def run(count: int, seed: int, base: Path) -> tuple[Counter[tuple[str, str]], list[str]]:
    """How often what became of which kind of damage, and what must never be."""
    whole = make(base)
    expected, outcomes, wrong = answers(whole), Counter[tuple[str, str]](), []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        kind = list(KINDS)[number % len(KINDS)]
        trial = Trial(base, whole, expected)
        what = ""

        def damage(folder: Path, rng: np.random.Generator, kind: str = kind) -> str:
            nonlocal what
            what = KINDS[kind](folder, rng)
            return what

        try:
            outcome = trial.run(damage, rng)[1]
        except Exception as error:
            outcome = "WRONG"
            place = "" if isinstance(error, WrongError) else traceback.format_exc()
            wrong.append(f"{number}: {what}: {type(error).__name__}: {error}\n{place}")
        outcomes[kind, outcome] += 1
    return outcomes, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        outcomes, wrong = run(options.count, options.seed, Path(folder))
    print("\n".join(wrong))
    for kind in KINDS:
        print(f"{kind:<10}", ", ".join(f"{n} {what}" for (own, what), n in sorted(outcomes.items()) if own == kind))
    print(f"{outcomes.total()} damages, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
