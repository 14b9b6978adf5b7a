"""Killed processes, full disks, damaged files: nothing is lost that was committed, and one line says what is wrong."""

import errno
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from galleries import (
    assert_same_contents,
    contents,
    photos,
    save_picture,
    seeing_recipe,
    tiny_model,
    touch_later,
)

from andornot.gallery import Gallery, GalleryError, Summary, database, encoding, indexing, layout, writer
from andornot.gallery.beside import WHOLE
from andornot.gallery.errors import DamagedError, LockedError
from andornot.gallery.lock import HOLDER
from andornot.gallery.reading import read
from andornot.gallery.regions import read_all
from andornot.gallery.repairing import _damaged

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["andornot.gallery"])


def _index(gallery: str, folder: str, output: str) -> None:
    """In a process of its own: makes the gallery or goes on, with a commit for every few pictures."""
    import torch

    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    torch.set_num_threads(1)
    encoding.BATCH = indexing.COMMIT_PICTURES = 3  # type: ignore[misc]
    writer.ENOUGH_FOR_A_BASIS = 12  # type: ignore[misc]
    opened = Gallery.open(gallery) if Gallery.exists(Path(gallery)) else Gallery.create(gallery, recipe=seeing_recipe())
    opened.add(folder)


class Indexing:
    """An `index` that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.errors = folder / "errors.txt"
        arguments = (str(folder / "g"), str(folder / "photos"), str(self.errors))
        self.process = CONTEXT.Process(target=_index, args=arguments)
        self.process.start()

    def kill_when(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not reached() and self.process.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.0002)
        with suppress(ProcessLookupError):  # it was faster
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(60)

    def finish(self) -> None:
        self.process.join(120)
        assert self.process.exitcode == 0, self.errors.read_text()


def check(folder: Path) -> int:
    """What is there is whole: every committed picture has its features. How many there are."""
    if not Gallery.exists(folder / "g"):
        return 0
    snapshot, features, stores = read_all(folder / "g")
    assert _damaged(snapshot, features) == []
    for beside in stores:
        rows = snapshot.rows if beside is not None and beside.is_begun else snapshot.rows[:0]
        crcs = snapshot.catalogue.features_crcs(snapshot.ids_of_rows(rows))
        assert beside is None or (beside.conditions(rows, crcs) == WHOLE).all()
    assert sorted(set(snapshot.rows.tolist())) == sorted(snapshot.rows.tolist())
    return len(snapshot)


def same_as_fresh(folder: Path) -> None:
    gallery = Gallery.open(folder / "g")
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    fresh = Gallery.create(folder / "fresh", recipe=seeing_recipe())
    fresh.add(folder / "photos")
    assert (gallery.without_regions, gallery._snapshot.state.basis[:5]) == (0, "basis")
    assert_same_contents(gallery, fresh)
    assert gallery.broken == fresh.broken == {}
    name = Path(gallery.paths[0]).name
    assert len(gallery.search(f'"{name}"', top=1000)) == len(gallery) - 1


def disturb(folder: Path, rng: np.random.Generator, step: int) -> None:
    """Changes, adds, moves and deletes some pictures."""
    files = sorted((folder / "photos").glob("*.png"))
    for number, path in enumerate(rng.permutation(np.array(files, object))[:9]):
        if number < 3:
            save_picture(path, int(rng.integers(10**6)))
            touch_later(path)
        elif number < 5:
            path.rename(path.with_name(f"moved {step} {number}.png"))
        elif number < 7:
            path.unlink()
    for number in range(6):
        save_picture(folder / "photos" / f"new {step} {number}.png", int(rng.integers(10**6)))


def test_killed_at_telling_moments_it_goes_on(tmp_path):
    photos(tmp_path / "photos", 40)

    def is_begun(name: str) -> bool:
        return check(tmp_path) > 0 and any(name in spare for spare in read(tmp_path / "g")[0].state.spare)

    moments: dict[str, Callable[[], bool]] = {
        "while the model is saved": lambda: any((tmp_path / "g").glob("model-*")),
        "when the database is there": lambda: Gallery.exists(tmp_path / "g"),
        "with the first features": lambda: (tmp_path / "g" / "features-0001.bin").exists(),
        "while the basis of the regions is made": lambda: is_begun("basis"),
        "in the middle": lambda: check(tmp_path) >= 15,
        "when all are encoded": lambda: check(tmp_path) >= 38,
        "while the calibrated model is saved": lambda: is_begun("model"),
    }
    least = 0
    for name, reached in moments.items():
        Indexing(tmp_path).kill_when(reached)
        now = check(tmp_path)
        assert now >= least, name
        least = now
    Indexing(tmp_path).finish()
    assert check(tmp_path) == 40
    same_as_fresh(tmp_path)


def kill_often(folder: Path, times: int) -> None:
    rng = np.random.default_rng(times)
    photos(folder / "photos", 30)
    Indexing(folder).finish()
    guest = photos(folder / "g" / "model-trains", 2)
    disturb(folder, rng, times)
    start = time.monotonic()
    Indexing(folder).finish()
    takes = time.monotonic() - start
    killed = step = 0
    while killed < times:
        step += 1
        before = {picture.path: picture.id for picture in read(folder / "g")[0].pictures()}
        disturb(folder, rng, step)
        moment = time.monotonic() + rng.random() * takes
        running = Indexing(folder)
        running.kill_when(lambda moment=moment: time.monotonic() > moment)
        if running.process.exitcode == -signal.SIGKILL:
            killed += 1
        else:  # it was faster
            takes *= 0.8
        check(folder)
        after = {picture.path: picture.id for picture in read(folder / "g")[0].pictures()}
        assert all(after[path] == before[path] for path in before.keys() & after.keys())
    Indexing(folder).finish()
    same_as_fresh(folder)
    # What the killed ones began is gone, and what is not the gallery's is there.
    state = read(folder / "g")[0].state
    assert {path.name for path in (folder / "g").glob("model-*")} == {state.model, guest.name}
    assert len(list(guest.iterdir())) == 2


def test_killed_at_random_moments_it_goes_on(tmp_path):
    kill_often(tmp_path, 5)


@pytest.mark.slow
def test_killed_at_fifty_random_moments_it_goes_on(tmp_path):
    kill_often(tmp_path, 50)


@pytest.mark.slow
def test_readers_of_other_processes_see_whole_states(tmp_path):
    photos(tmp_path / "photos", 60)
    running = Indexing(tmp_path)
    sizes = []
    while running.process.is_alive():
        sizes.append(check(tmp_path))
    running.finish()
    assert sizes == sorted(sizes)
    assert check(tmp_path) == 60


def test_two_processes_at_once_the_second_says_who_holds_the_lock(tmp_path):
    photos(tmp_path / "photos", 3)
    Gallery.create(tmp_path / "g", tiny_model()).add(tmp_path / "photos")
    photos(tmp_path / "photos", 300, start=3)
    running = Indexing(tmp_path)
    while not (tmp_path / "g" / HOLDER).exists():
        assert running.process.is_alive()
    with pytest.raises(LockedError, match=rf"is being written by process {running.process.pid} on \S+ since 20"):
        Gallery.open(tmp_path / "g").update()
    running.finish()
    assert check(tmp_path) == 303


# --- disks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 20))
    return made


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_full_disk_loses_nothing_and_names_the_file(call, gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BATCH", 3)
    monkeypatch.setattr(indexing, "COMMIT_PICTURES", 3)
    photos(tmp_path / "photos", 20, start=20)
    original, calls = getattr(os, call), []

    def full(*arguments: object) -> int:
        calls.append(1)
        if len(calls) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left on device") as error:
        gallery.update()
    assert error.value.filename == str(gallery.folder / "features-0001.bin")
    monkeypatch.setattr(os, call, original)
    assert 20 < check(tmp_path) < 40
    gallery.update()
    assert check(tmp_path) == 40
    assert Gallery.repair(gallery.folder).damaged_features == 0


def test_a_disk_that_is_full_for_the_database_is_one_line(gallery, tmp_path, monkeypatch):
    photos(tmp_path / "photos", 400, start=20)
    monkeypatch.setattr(indexing, "COMMIT_PICTURES", 64)
    original = database.Database.__init__

    def small(self: database.Database, folder: Path) -> None:
        original(self, folder)
        self._connection.execute("PRAGMA max_page_count = 20")

    monkeypatch.setattr(database.Database, "__init__", small)
    with pytest.raises(OSError, match="No space left on device") as error:
        gallery.update()
    assert error.value.filename == str(gallery.folder / layout.DATABASE)
    monkeypatch.undo()
    assert 20 <= check(tmp_path) < 420
    gallery.update()
    assert check(tmp_path) == 420


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_gallery_can_be_searched_and_says_that_it_cannot_be_written(gallery):
    shutil.rmtree(gallery.folder / "derived")
    for path in gallery.folder.glob("gallery.sqlite-*"):
        path.unlink()
    gallery.folder.chmod(0o555)
    try:
        assert len(Gallery.open(gallery.folder).search("000.png", top=30)) == 19
        with pytest.raises(OSError, match="Permission denied"):
            gallery.update()
    finally:
        gallery.folder.chmod(0o755)


# --- damage ---------------------------------------------------------------------------------------------------------


def flip(path: Path, offset: int, count: int = 1) -> None:
    with path.open("rb+") as file:
        file.seek(offset)
        content = bytes(byte ^ 0xFF for byte in file.read(count))
        file.seek(offset)
        file.write(content)


ROW = 16 * 2  # bytes of a picture's features


def test_damaged_features_are_found_and_exactly_those_are_encoded_anew(gallery, tmp_path):
    before, ids = contents(gallery), gallery.ids
    flip(gallery.folder / "features-0001.bin", 4 * ROW + 7)
    flip(gallery.folder / "features-0001.bin", 9 * ROW)
    shutil.rmtree(gallery.folder / "derived")
    damaged = Gallery.open(gallery.folder)
    with pytest.raises(DamagedError, match=r"the features of .*00[49]\.png are damaged.*; andornot index --repair"):
        damaged.search("000.png")
    with pytest.raises(DamagedError):
        damaged.search("004.png", score="containment")
    (tmp_path / "photos" / "009.png").unlink()
    repaired = Gallery.repair(gallery.folder)
    assert str(repaired) == (
        "the features of 2 pictures were damaged: 1 are encoded anew, 1 dropped because their files are gone or broken"
    )
    again = Gallery.open(gallery.folder)
    assert again.ids == [identity for identity in ids if identity != 10]
    after = contents(again)
    for path in after:
        np.testing.assert_allclose(after[path], before[path], rtol=2e-3, atol=1e-3)
    assert len(again.search("000.png", top=30)) == 18
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_features_that_were_cut_off_are_encoded_anew(how, gallery, tmp_path):
    file = gallery.folder / "features-0001.bin"
    if how == "truncated":
        os.truncate(file, 12 * ROW + 5)
    else:
        file.unlink()
    with pytest.raises(GalleryError, match=f"{file} is {'damaged: it is shorter' if how == 'truncated' else how}"):
        Gallery.open(gallery.folder)
    assert Gallery.repair(gallery.folder).damaged_features == (8 if how == "truncated" else 20)
    again = Gallery.open(gallery.folder)
    assert (again.ids, again.update()) == (gallery.ids, Summary(unchanged=20))
    check(tmp_path)
    assert len(again.search("000.png", top=30)) == 19


def page_of(gallery: Path, table: str) -> tuple[int, int]:
    """Where the first page of a table lies in the file, after all is in it, and the size of a page."""
    with closing(sqlite3.connect(gallery / layout.DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    return (root - 1) * size, size


def test_a_damaged_record_is_found_and_repaired(gallery, tmp_path):
    """One letter of a path: SQLite itself cannot see that."""
    before = gallery.search("000.png", top=30)
    page_of(gallery.folder, "pictures")
    file = gallery.folder / layout.DATABASE
    for ending in ("-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)
    content = file.read_bytes()
    place = content.rindex(b"photos/007.png")
    positions = [i for i in range(len(content)) if content.startswith(b"photos/007.png", i)]
    for place in positions:  # in the table, and in the index of paths
        flip(file, place + len(b"photos/00"), 1)
    assert Gallery.open(gallery.folder).search("000.png", top=30) == before  # from the catalogue, which is whole
    with pytest.raises(DamagedError, match=r"gallery\.sqlite is damaged in what it says of .*--repair"):
        gallery.update()
    repaired = Gallery.repair(gallery.folder)
    assert repaired.kept_records == 19
    again = Gallery.open(gallery.folder)
    assert again.update() == Summary(added=1, unchanged=19)
    assert check(tmp_path) == 20
    assert again.ids == [*(identity for identity in range(1, 21) if identity != 8), 21]


@pytest.mark.parametrize("where", ["a page of the table", "the header", "everything", "emptied"])
def test_a_damaged_database_is_one_line_and_repaired_as_far_as_it_goes(where, gallery, tmp_path):
    photos(tmp_path / "photos", 200, start=20)
    gallery.update()
    start, size = page_of(gallery.folder, "pictures")
    file = gallery.folder / layout.DATABASE
    for ending in ("-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)
    if where == "emptied":
        file.write_bytes(b"")
    else:
        offset, count = {
            "a page of the table": (start, 200),
            "the header": (0, 100),
            "everything": (0, file.stat().st_size),
        }[where]
        assert size == 4096
        flip(file, offset, count)
    if where == "a page of the table":  # of which readers have a copy, with checksums of its own
        assert Gallery.open(gallery.folder).search("000.png", top=300) == gallery.search("000.png", top=300)
    with pytest.raises(GalleryError, match=r"gallery\.sqlite is damaged.*--repair"):
        Gallery.open(gallery.folder).update()
    repaired = Gallery.repair(gallery.folder)
    assert repaired.kept_records is not None
    again = Gallery.open(gallery.folder)
    assert again.model.id == gallery.model.id
    again.add(tmp_path / "photos")
    assert check(tmp_path) == 220
    assert_same_contents(gallery, again)
    assert len(again.search("000.png", top=300)) == 219


def test_a_table_whose_name_is_no_text_any_more_is_one_line(gallery, tmp_path):
    """Then the message of SQLite is no text either."""
    page_of(gallery.folder, "pictures")
    file = gallery.folder / database.DATABASE
    for ending in ("-wal", "-shm"):
        Path(f"{file}{ending}").unlink(missing_ok=True)
    flip(file, file.read_bytes().index(b"tablepicturespictures") + len("tablepict"))
    with pytest.raises(DamagedError, match=r"gallery\.sqlite is damaged.*--repair"):
        Gallery.open(gallery.folder)
    Gallery.repair(gallery.folder)
    Gallery.open(gallery.folder).add(tmp_path / "photos")
    assert check(tmp_path) == 20


def test_repairing_what_is_no_gallery_is_one_line(tmp_path):
    with pytest.raises(GalleryError, match="has no gallery in it"):
        Gallery.repair(tmp_path)


def test_a_gallery_of_a_newer_version_is_refused(gallery):
    with closing(sqlite3.connect(gallery.folder / layout.DATABASE)) as connection, connection:
        for table in database.STATES:
            connection.execute(f"UPDATE {table} SET value = 99 WHERE key = 'format'")
            connection.execute(f"UPDATE {table} SET value = '7.0' WHERE key = 'version'")
    with pytest.raises(GalleryError, match=r"was made by andornot 7\.0, and this is .*: update andornot"):
        Gallery.open(gallery.folder)
