"""Whatever happens to files, an update leaves ids, paths and contents as a simple model says."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from galleries import photos, save_image, seeing_recipe, table_of, tiny_model
from PIL import Image

from andornot.gallery import Gallery, Summary, encoding, indexing, writing
from andornot.gallery.encoding import EncodedBatch, encode_files, to_half
from andornot.gallery.indexing import Indexer
from andornot.gallery.records import digest_of, file_stamp
from andornot.gallery.scanning import find_files
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.model import Model


class Files:
    """The files of two folders, which change in every way that files do. Each change gives a file another time."""

    def __init__(self, root: Path, seed: int) -> None:
        self.folders = [root / "a", root / "b"]
        self._rng, self._clock = np.random.default_rng(seed), 10**18
        for folder in self.folders:
            folder.mkdir(parents=True)
        for _ in range(10):
            self.add()

    def all(self) -> list[Path]:
        return sorted(path for folder in self.folders for path in folder.rglob("*.png"))

    def _some(self, count: int) -> list[Path]:
        files = self.all()
        return [files[place] for place in self._rng.choice(len(files), count, replace=False)]

    def _new_path(self) -> Path:
        names = [f"{number:02}.png" for number in range(30)]
        folder = self.folders[self._rng.integers(2)] / str(self._rng.choice(["", "deep"]))
        folder.mkdir(exist_ok=True)
        free = [folder / name for name in names if not (folder / name).exists()]
        return free[self._rng.integers(len(free))]

    def _write(self, path: Path) -> None:
        save_image(path, int(self._rng.integers(30)))  # some files are copies of others by chance
        self._stamp(path)

    def _stamp(self, path: Path) -> None:
        self._clock += 10**9
        os.utime(path, ns=(self._clock, self._clock))

    def add(self) -> None:
        self._write(self._new_path())

    def change(self) -> None:
        self._write(self._some(1)[0])

    def touch(self) -> None:
        self._stamp(self._some(1)[0])

    def move(self) -> None:
        self._some(1)[0].rename(self._new_path())

    def overwrite(self) -> None:
        one, other = self._some(2)
        one.replace(other)

    def copy(self) -> None:
        path = self._new_path()
        shutil.copy(self._some(1)[0], path)
        self._stamp(path)

    def multiply(self) -> None:
        (source,) = self._some(1)
        for _ in range(2):
            path = self._new_path()
            shutil.copy(source, path)
            self._stamp(path)
        self._stamp(source)

    def swap(self) -> None:
        one, other = self._some(2)
        aside = one.with_suffix(".aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)

    def rotate(self) -> None:
        first, second, third = self._some(3)
        aside = first.with_suffix(".aside")
        first.rename(aside)
        second.rename(first)
        third.rename(second)
        aside.rename(third)

    def remove(self) -> None:
        if len(self.all()) > 6:
            self._some(1)[0].unlink()

    def change_something(self) -> None:
        ways = [
            *(self.add, self.change, self.touch, self.move, self.overwrite),
            *(self.copy, self.multiply, self.swap, self.rotate, self.remove, self.remove),
        ]
        ways[self._rng.integers(len(ways))]()


class Expected:
    """What a gallery should have: the id and the digest of each path."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, bytes]] = {}
        self.used: set[int] = set()

    def follow(self, files: list[Path], stored: dict[str, int]) -> None:
        """Check which ids a gallery gave to files."""
        digests = {str(path): digest_of(path) for path in files}
        assert stored.keys() == digests.keys()
        assert len(set(stored.values())) == len(stored)
        gone = {identity: digest for path, (identity, digest) in self.known.items() if path not in digests}
        new = [path for path in digests if path not in self.known]
        for path in digests.keys() & self.known.keys():
            assert stored[path] == self.known[path][0], "a file that stays keeps its id, whatever its content"
        moved = [path for path in new if stored[path] in gone]
        assert all(gone[stored[path]] == digests[path] for path in moved), "an id goes to the same content"
        for digest in set(digests.values()):
            arrived = sum(digests[path] == digest for path in new)
            left = sum(one == digest for one in gone.values())
            assert sum(digests[path] == digest for path in moved) == min(arrived, left)
        assert not self.used & {stored[path] for path in new if path not in moved}, "no id is used again"
        self.known = {path: (stored[path], digest) for path, digest in digests.items()}
        self.used |= set(stored.values())


class Activations:
    """The activations of contents, by digest, each encoded once, alone."""

    def __init__(self, model: Model) -> None:
        self._model, self._known = model, dict[bytes, np.ndarray]()

    def of(self, path: str) -> np.ndarray:
        digest = digest_of(path)
        if digest not in self._known:
            self._known[digest] = to_half(self._model.activations([path], progress=False))[0]
        return self._known[digest]


def check(gallery: Gallery, files: Files, expected: Expected, activations: Activations) -> None:
    for opened in (gallery, Gallery.open(gallery.folder)):
        assert sorted(opened.paths) == [str(path) for path in files.all()]
    expected.follow(files.all(), dict(zip(gallery.paths, gallery.ids, strict=True)))
    table = table_of(gallery)
    records = {record.id: record for record in table.records()}
    for identity, stored in zip(table.ids.tolist(), table.activations(table.ids), strict=True):
        record = records[identity]
        assert record.digest == digest_of(record.path)
        assert (record.size, record.mtime_ns) == file_stamp(os.stat(record.path))  # noqa: PTH116
        with Image.open(record.path) as image:
            assert (record.width, record.height) == image.size
        np.testing.assert_allclose(stored, activations.of(record.path), rtol=2e-3, atol=1e-3)
    assert gallery.update() == Summary(unchanged=len(gallery))


@pytest.mark.parametrize(
    ("seed", "batch", "commit_seconds", "enough"),
    [(0, 64, 10.0, 512), (1, 1, 0.0, 8), (2, 4, 10.0, 8), (3, 3, 0.0, 512)],
)
def test_updates_follow_random_changes_of_files(seed, batch, commit_seconds, enough, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BATCH", batch)
    monkeypatch.setattr(indexing, "COMMIT_SECONDS", commit_seconds)
    monkeypatch.setattr(writing, "ENOUGH_IMAGES", enough)
    model = tiny_model(recipe=seeing_recipe())
    files, expected, activations = Files(tmp_path / "photos", seed), Expected(), Activations(model)
    gallery = Gallery.create(tmp_path / "g", model)
    gallery.add(files.folders)
    check(gallery, files, expected, activations)
    for round_ in range(12):
        for _ in range(1 + round_ % 7):
            files.change_something()
        gallery.update()
        check(gallery, files, expected, activations)
    again = Gallery.create(tmp_path / "again", model)
    again.add(files.folders)
    chosen = gallery.paths[0], gallery.paths[3]
    text = f'"{chosen[0]}" and not "{chosen[1]}"'
    if enough > 100:  # else the projections were fitted on other images
        truths = [{hit.path: hit.truth for hit in one.search(text, top=99)} for one in (gallery, again)]
        assert truths[0] == pytest.approx(truths[1], abs=1e-3)


# --- files that are renamed while they are indexed ------------------------------------------------------------------


def update_while(gallery: Gallery, act: Callable[[], None]) -> Summary:
    """Update a gallery; something happens after the first batch was encoded."""

    def encode(*arguments: object) -> Iterator[EncodedBatch]:
        done = False
        for made in encode_files(*arguments, threads=1):  # type: ignore[arg-type]
            yield made
            if not done:
                act()
                done = True
        if not done:
            act()

    with open_writer(Storage(gallery.address)) as writer:
        known = [record.path for record in writer.table.records()]
        scope = find_files(list(writer.state.folders), known, prune=False)
        summary = Indexer(writer, gallery.model, scope, encode=encode).run(progress=False)
        writer.finish()
    gallery.refresh()
    return summary


@pytest.fixture
def two_folders(tmp_path, monkeypatch) -> Gallery:
    monkeypatch.setattr(encoding, "BATCH", 2)
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add([photos(tmp_path / "a", 8), photos(tmp_path / "b", 8, start=8)])
    return gallery


def new_ones(folder: Path, count: int = 300) -> None:
    """More than are scanned ahead, so that some are scanned after the first batch."""
    one = save_image(folder / "0new000.png", 100)
    for number in range(1, count):
        (folder / f"0new{number:03}.png").write_bytes(one.read_bytes() + bytes([number % 256, number // 256]))


def ids_by_content(gallery: Gallery) -> dict[bytes, int]:
    return {record.digest: record.id for record in table_of(gallery).records()}


def assert_up_to_date(gallery: Gallery, tmp_path: Path) -> None:
    gallery.update()
    files = sorted(str(path) for folder in ("a", "b") for path in (tmp_path / folder).glob("*.png"))
    assert sorted(gallery.paths) == files
    assert len(set(gallery.ids)) == len(files)
    activations, table = Activations(gallery.model), table_of(gallery)
    for record in table.records():
        assert record.digest == digest_of(record.path)
    paths = [path for path in gallery.paths if "0new" not in path]
    for path in paths:
        stored = table.activations(np.array([gallery.ids[gallery.paths.index(path)]]))[0]
        np.testing.assert_allclose(stored, activations.of(path), rtol=2e-3, atol=1e-3)
    assert gallery.update() == Summary(unchanged=len(files))


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("b", "a")])
def test_a_known_file_that_is_renamed_meanwhile_keeps_its_id(one, other, two_folders, tmp_path):
    new_ones(tmp_path / one, 3)
    before = ids_by_content(two_folders)
    number = {"a": 3, "b": 11}[one]
    source, target = tmp_path / one / f"{number:03}.png", tmp_path / other / "zzz.png"
    update_while(two_folders, lambda: source.rename(target))
    assert_up_to_date(two_folders, tmp_path)
    after = ids_by_content(two_folders)
    assert {digest: after[digest] for digest in before} == before


@pytest.mark.parametrize("target", ["b/zzz.png", "b/008.png", "a/000.png", "b/0aaa.png"])
@pytest.mark.parametrize("source", ["a/0new001.png", "a/0new299.png", "a/007.png"])
def test_whatever_is_renamed_meanwhile_is_right_after_the_next_update(source, target, two_folders, tmp_path):
    new_ones(tmp_path / "a")
    kept = dict(zip(two_folders.paths, two_folders.ids, strict=True))
    update_while(two_folders, lambda: (tmp_path / source).replace(tmp_path / target))
    assert len(set(two_folders.ids)) == len(two_folders)
    assert_up_to_date(two_folders, tmp_path)
    now = dict(zip(two_folders.paths, two_folders.ids, strict=True))
    assert {path: now[path] for path in kept if path in now} == {path: one for path, one in kept.items() if path in now}


def test_two_files_that_are_swapped_meanwhile_are_right_after_the_next_update(two_folders, tmp_path):
    new_ones(tmp_path / "a")
    one, other, aside = tmp_path / "a" / "005.png", tmp_path / "b" / "012.png", tmp_path / "aside"

    def swap() -> None:
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
        for path in (one, other):
            os.utime(path)

    ids = dict(zip(two_folders.paths, two_folders.ids, strict=True))
    update_while(two_folders, swap)
    assert_up_to_date(two_folders, tmp_path)
    now = dict(zip(two_folders.paths, two_folders.ids, strict=True))
    assert {path: now[path] for path in ids} == ids
