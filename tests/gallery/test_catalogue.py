"""The catalogue of a gallery's records: the same as the ledger, whatever is done to it."""

import errno
import gc
import json
import multiprocessing
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

import numpy as np
import pytest
from galleries import photos, save_picture, tiny_model, touch_later
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andornot.gallery import Gallery, Summary, Where, catalogue, keys
from andornot.gallery.catalogue import Catalogue, Sink
from andornot.gallery.database import STATES, Picture, read_snapshot
from andornot.gallery.errors import DamagedError
from andornot.gallery.feature_store import checksum
from andornot.gallery.filters import Selection, mask
from andornot.gallery.layout import DATABASE, DERIVED
from andornot.gallery.records import State
from andornot.gallery.snapshot import Snapshot
from andornot.gallery.writer import Writer, open_writer


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """So that a few pictures are many chunks, pages and runs."""
    monkeypatch.setattr(catalogue, "CHUNK", 4)
    monkeypatch.setattr(keys, "_IN_PAGE", 5)
    monkeypatch.setattr(keys, "_MANY", 3)


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", tiny_model())
    photos(tmp_path / "photos" / "cat", 9)
    photos(tmp_path / "photos" / "dog", 9, start=5)
    made.add(tmp_path / "photos")
    return made


def files(gallery: Gallery, ending: str) -> list[Path]:
    return sorted((gallery.folder / DERIVED).glob(f"records-*.{ending}"))


def told(gallery: Gallery) -> list[object]:
    """Everything that a reader can hear of the records."""
    browser, snapshot = gallery.browse(), gallery._snapshot
    entries = [snapshot.entry(identity) for identity in gallery.ids]
    names = sorted({Path(path).name for path in gallery.paths})
    return [
        gallery.ids,
        gallery.paths,
        entries,
        [list(snapshot.called(name)) for name in [*names, "nobody.png"]],
        [list(snapshot.with_digest(entry.picture.digest)) for entry in entries if entry is not None],
        [browser.term(position) for position in range(len(browser))],
        browser.labels,
        browser.fingerprint,
        [mask(Where(label=label), snapshot).tolist() for label in browser.labels],
        [Selection(snapshot, Where(label=label)).rows.tolist() for label in browser.labels],
        mask(Where(after="2001", file_dates=True), snapshot).tolist(),
        snapshot.id_of_row.tolist(),
        [(hit.id, hit.path) for hit in gallery.search("1", top=100)],
    ]


# --- any sequence of changes ----------------------------------------------------------------------------------------


class Oracle:
    """A gallery's records as a dictionary, and the same changes made to both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pictures: dict[int, tuple[Picture, int]] = {}

    def change(self, writer: Writer, what: str, number: int) -> None:
        known = sorted(self.pictures)
        if what == "add" or not known:
            row = np.full((1, 16), number, np.float16)
            place = writer.features.append(row)
            identity = writer.new_id()
            path = f"/p/{'ab'[number % 2]}/{number % 3}/{identity if number % 5 else 'same'}-{identity}.png"
            path = path if number % 5 else f"/p/{identity}/same.png"
            self._put(Picture(identity, path, 1, 2, bytes([number % 7]) * 16, number, place, checksum(row[0])), 1)
            writer.database.insert(self.pictures[identity][0], by_camera=True)
            return
        picture, _ = self.pictures[known[number % len(known)]]
        if what == "remove":
            del self.pictures[picture.id]
            writer.database.remove(picture.id)
            return
        if what == "move":
            self._put(picture._replace(path=f"/moved/{picture.id}/{number}.png"), 0)
        else:
            row = np.full((1, 16), number, np.float16)
            place = writer.features.append(row)
            self._put(picture._replace(row=place, features_crc=checksum(row[0]), digest=bytes([number % 5]) * 16), 0)
        writer.database.update(self.pictures[picture.id][0], by_camera=False)

    def _put(self, picture: Picture, by_camera: int) -> None:
        self.pictures[picture.id] = picture, by_camera

    def check(self, snapshot: Snapshot, state: dict[int, tuple[Picture, int]]) -> None:
        ids = sorted(state)
        assert snapshot.ids.tolist() == ids
        assert list(snapshot.paths) == [state[identity][0].path for identity in ids]
        assert [snapshot.entry(identity) for identity in ids] == [state[identity] for identity in ids]
        assert list(snapshot.catalogue.entries()) == [state[identity] for identity in ids]
        assert [snapshot.picture(position) for position in range(len(ids))] == [state[n][0] for n in ids]
        assert all(snapshot.entry(other) is None for other in (-1, 0, 10**6, *(set(range(40)) - set(ids))))
        assert snapshot.taken.tolist() == [state[identity][0].taken for identity in ids]
        assert snapshot.by_camera.tolist() == [state[identity][1] for identity in ids]
        for name in {Path(state[identity][0].path).name for identity in ids} | {"same.png", "none"}:
            wanted = [n for n in ids if Path(state[n][0].path).name == name]
            assert [entry.picture.id for entry in snapshot.called(name)] == wanted
            assert snapshot.catalogue.is_only_one_called(os.fsencode(name)) == (len(wanted) < 2)
        for byte in range(7):
            wanted = [n for n in ids if state[n][0].digest == bytes([byte]) * 16]
            assert [entry.picture.id for entry in snapshot.with_digest(bytes([byte]) * 16)] == wanted
        counts = Counter(str(Path(state[identity][0].path).parent) for identity in ids)
        assert snapshot.folder_counts == counts
        inside = snapshot.in_folders(lambda folder: folder.startswith("/p/a"))
        assert inside.tolist() == [state[n][0].path.startswith("/p/a/") for n in ids]
        for first, end in ((0, 100), (50, 60), (-1, 999), (5, 5)):
            between = snapshot.catalogue.taken_between(first, end)
            assert between.tolist() == [first <= state[n][0].taken < end for n in ids]
            dated = snapshot.catalogue.without_file_dates(between)
            assert dated.tolist() == [first <= state[n][0].taken < end and state[n][1] != 0 for n in ids]
        rows = [state[n][0].row for n in ids]
        assert snapshot.catalogue.rows_at(inside).tolist() == [
            row for row, own in zip(rows, inside, strict=True) if own
        ]
        owners = {state[identity][0].row: identity for identity in ids}
        assert snapshot.id_of_row.tolist() == [owners.get(row, 0) for row in range(snapshot.state.rows)]
        assert snapshot.contradiction() == ""


step = st.tuples(
    st.sampled_from(["add", "add", "add", "move", "change", "remove", "commit", "commit", "refresh", "reopen"]),
    st.integers(0, 200),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=60))
def test_what_is_looked_up_is_what_was_written_through_any_changes(steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any") / "g"
    oracle, model = Oracle(folder), tiny_model()
    reader = Gallery.create(folder, model)
    committed: dict[int, tuple[Picture, int]] = {}
    seen = committed
    position = 0
    while position < len(steps):
        with open_writer(folder) as writer:
            assert writer.database.catalogue is not None
            while position < len(steps):
                what, number = steps[position]
                position += 1
                if what == "commit":
                    writer.commit()
                    committed = dict(oracle.pictures)
                elif what == "refresh":
                    reader.refresh()
                    seen = committed
                    assert reader._snapshot.catalogue.file
                elif what == "reopen":
                    break
                else:
                    oracle.change(writer, what, number)
            writer.commit()
            committed = dict(oracle.pictures)
        oracle.check(reader._snapshot, seen)
    reader.refresh()
    oracle.check(reader._snapshot, committed)
    oracle.check(Gallery.open(folder)._snapshot, committed)
    shutil.rmtree(folder / DERIVED, ignore_errors=True)
    oracle.check(Gallery.open(folder)._snapshot, committed)


# --- damages --------------------------------------------------------------------------------------------------------


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


DAMAGES = {
    "all deleted": lambda gallery: shutil.rmtree(gallery.folder / DERIVED),
    "the index deleted": lambda gallery: files(gallery, "index")[-1].unlink(),
    "the segments deleted": lambda gallery: files(gallery, "bin")[0].unlink(),
    "the segments cut off": lambda gallery: os.truncate(files(gallery, "bin")[0], 500),
    "the segments emptied": lambda gallery: os.truncate(files(gallery, "bin")[0], 0),
    "all indexes cut off": lambda gallery: [os.truncate(file, 50) for file in files(gallery, "index")],
    "all indexes emptied": lambda gallery: [os.truncate(file, 0) for file in files(gallery, "index")],
    "zeros": lambda gallery: files(gallery, "bin")[0].write_bytes(bytes(files(gallery, "bin")[0].stat().st_size)),
    "no text": lambda gallery: [file.write_bytes(b"\xff\n" * 9) for file in files(gallery, "index")],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_read_from_the_ledger_and_made_again(damage, gallery):
    before = told(gallery)
    DAMAGES[damage](gallery)
    assert told(Gallery.open(gallery.folder)) == before
    assert Gallery.open(gallery.folder).update() == Summary(unchanged=18)
    again = Gallery.open(gallery.folder)
    assert again._snapshot.catalogue.file
    assert again._snapshot.catalogue.is_whole()
    assert told(again) == before


def test_any_flipped_bit_is_noticed(gallery):
    before = told(gallery)
    for ending in ("bin", "index"):
        (file, *_) = [one for one in files(gallery, ending) if ending == "bin" or _is_current(gallery, one)]
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 60)):
            flip(file, place)
            assert told(Gallery.open(gallery.folder).refreshed()) == before, (ending, place)
            file.write_bytes(whole)


def _is_current(gallery: Gallery, file: Path) -> bool:
    return file.name == f"records-{read_snapshot(gallery.folder).state.edition:016x}.index"


def test_a_reader_whose_catalogue_is_damaged_later_is_told_so_or_answers_right(gallery, tmp_path):
    reader = Gallery.open(gallery.folder)
    before = told(reader)
    (file,) = files(gallery, "bin")
    again = Gallery.open(gallery.folder)
    os.truncate(file, 0)
    assert told(again) == before
    late = Gallery.open(gallery.folder)
    save_picture(tmp_path / "photos" / "cat" / "new.png", 99)
    Gallery.open(gallery.folder).update()
    with pytest.raises(DamagedError, match="the gallery was changed since: open it once more"):
        told(late)
    late.refresh()
    assert len(told(late)[0]) == 19


def test_a_catalogue_of_an_older_state_is_not_used(gallery, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(gallery.folder / DERIVED, old)
    Path(gallery.paths[3]).rename(tmp_path / "photos" / "dog" / "moved.png")
    save_picture(tmp_path / "photos" / "cat" / "new.png", 99)
    assert gallery.update() == Summary(added=1, moved=1, unchanged=17)
    before = told(gallery)
    for file in (gallery.folder / DERIVED).iterdir():
        file.unlink()
    for file in old.glob("records-*"):
        shutil.copy(file, gallery.folder / DERIVED)
    assert told(Gallery.open(gallery.folder).refreshed()) == before
    # Even under the name of the newer one.
    edition = read_snapshot(gallery.folder).state.edition
    (index, *_) = files(gallery, "index")
    index.rename(index.with_name(f"records-{edition:016x}.index"))
    assert told(Gallery.open(gallery.folder).refreshed()) == before
    gallery.update()
    assert Gallery.open(gallery.folder)._snapshot.catalogue.file


def test_a_lost_catalogue_is_written_by_a_search_and_the_ledger_is_left_alone(gallery):
    shutil.rmtree(gallery.folder / DERIVED)
    ledger = (gallery.folder / DATABASE).read_bytes()
    reader = Gallery.open(gallery.folder)
    assert not reader._snapshot.catalogue.file
    reader.search("1")
    assert (gallery.folder / DATABASE).read_bytes() == ledger
    assert Gallery.open(gallery.folder)._snapshot.catalogue.file


# --- who wrote it ---------------------------------------------------------------------------------------------------


def test_a_gallery_without_a_catalogue_opens_as_it_is_and_gains_one_at_the_next_index(gallery):
    """Written before there were any: its state has no such key."""
    before = told(gallery)
    with closing(sqlite3.connect(gallery.folder / DATABASE)) as connection, connection:
        values = dict(connection.execute("SELECT key, value FROM gallery"))
        del values["edition"], values["checksum"]
        values["checksum"] = _checksum(values)
        for table in STATES:
            connection.execute(f"DELETE FROM {table}")
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", values.items())
    shutil.rmtree(gallery.folder / DERIVED)
    old = Gallery.open(gallery.folder)
    assert told(old) == before
    assert not files(gallery, "index")
    old.update()
    assert old._snapshot.catalogue.file
    assert told(old) == before


def _checksum(values: dict[str, object]) -> int:
    from andornot.gallery.records import _mapping_crc

    assert State.of_values({**values, "checksum": _mapping_crc(values)}) is not None
    return _mapping_crc(values)


def test_a_process_that_is_killed_before_the_commit_leaves_nothing_that_counts(gallery, tmp_path, monkeypatch):
    before = told(gallery)
    save_picture(tmp_path / "photos" / "cat" / "new.png", 99)
    with monkeypatch.context() as patched:
        patched.setattr("andornot.gallery.database._write_state", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            gallery.update()
    assert len(files(gallery, "index")) > 1
    assert told(Gallery.open(gallery.folder)) == before
    assert gallery.update() == Summary(added=1, unchanged=18)
    again = told(Gallery.open(gallery.folder))
    assert len(again[0]) == 19
    with open_writer(gallery.folder):
        pass
    assert [len(files(gallery, ending)) for ending in ("index", "bin")] == [1, 1]
    assert told(Gallery.open(gallery.folder)) == again


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_commit_stands_though_the_disk_is_full_for_the_catalogue(gallery, tmp_path, monkeypatch):
    save_picture(tmp_path / "photos" / "cat" / "new.png", 99)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Sink, "put", full)
        with open_writer(gallery.folder) as writer:
            writer.database.remove(7)
            writer.commit()
            assert writer.state.edition == 0
    reader = Gallery.open(gallery.folder)
    assert (len(reader), reader._snapshot.catalogue.file) == (17, "")
    assert reader.update().unchanged == 17
    assert reader._snapshot.catalogue.file


def test_a_file_of_which_most_is_in_use_no_longer_is_written_anew(gallery, monkeypatch):
    monkeypatch.setattr(catalogue, "_SPARE_BYTES", 0)
    (first,) = files(gallery, "bin")
    old, before = Gallery.open(gallery.folder), told(gallery)
    for _ in range(6):
        for path in gallery.paths:
            touch_later(Path(path))
        gallery.update()
    assert not first.exists()
    (latest,) = files(gallery, "bin")
    assert latest.stat().st_size < 6 * sum(map(len, json.dumps(gallery.paths)))
    assert told(gallery)[1] == before[1]
    assert old.paths == before[1]  # it has the old file open still


# --- another process ------------------------------------------------------------------------------------------------


def _read_again_and_again(folder: Path, is_over: Event, reads: Semaphore) -> None:
    while not is_over.is_set():
        reads.release()
        snapshot = read_snapshot(folder)
        assert len(snapshot) == snapshot.state.pictures == len(list(snapshot.paths))
        for position, identity in enumerate(snapshot.ids.tolist()):
            entry = snapshot.entry(identity)
            assert entry is not None
            assert entry.picture == snapshot.picture(position)
            assert int(entry.picture.path.split("-")[1]) == identity
            assert entry in list(snapshot.called(Path(entry.picture.path).name))


def test_a_catalogue_is_written_while_another_process_reads(tmp_path):
    folder = Gallery.create(tmp_path / "g", tiny_model()).folder
    context = multiprocessing.get_context("spawn")
    is_over, reads = context.Event(), context.Semaphore(0)
    reader = context.Process(target=_read_again_and_again, args=(folder, is_over, reads), daemon=True)
    reader.start()
    assert reads.acquire(timeout=60)
    generator = np.random.default_rng(0)
    row = np.ones((1, 16), np.float16)
    pictures: list[Picture] = []
    for _ in range(8):
        with open_writer(folder) as writer:
            for _ in range(10):
                for _ in range(7):
                    identity = writer.new_id()
                    place, crc = writer.features.append(row), checksum(row[0])
                    pictures.append(Picture(identity, f"/p/0-{identity}-.png", 1, 1, b"d", 0, place, crc))
                    writer.database.insert(pictures[-1])
                for number in set(generator.integers(len(pictures), size=3).tolist()):
                    moved = pictures[number]._replace(path=f"/p/{generator.integers(10**9)}-{pictures[number].id}-.png")
                    pictures[number] = moved
                    writer.database.update(moved)
                writer.commit()
    assert reads.acquire(timeout=60)
    is_over.set()
    reader.join(60)
    assert reader.exitcode == 0
    assert list(Gallery.open(folder)._snapshot.pictures()) == pictures


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux says which files are open")
def test_a_gallery_that_is_followed_for_long_has_few_files_open(gallery):
    """Not even until Python looks for garbage, which may be long."""
    gc.disable()
    try:
        follower = gallery
        for number in range(20):
            with open_writer(gallery.folder) as writer:
                entry = gallery._snapshot.entry(1)
                assert entry is not None
                writer.database.update(entry.picture._replace(taken=number))
                writer.commit()
            follower = follower.refreshed()
            told(follower)
        opened = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
        own = [path for path in opened if path.is_relative_to(gallery.folder.resolve())]
        assert 0 < sum(path.name.startswith("records-") for path in own) < 5
    finally:
        gc.enable()


def test_a_catalogue_in_memory_is_that_on_disk(gallery):
    snapshot = gallery._snapshot
    rows = [((*entry.picture.record,), entry.by_camera) for entry in map(snapshot.entry, gallery.ids) if entry]
    assert Catalogue.of(rows).fingerprint == snapshot.catalogue.fingerprint
