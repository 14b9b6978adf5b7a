"""What a gallery's database holds: checked before anything is written, and the same for every Python and version."""

import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from galleries import contents, photos, save_picture, tiny_model, tiny_recipe

from andornot.gallery import Gallery, Summary, database, format_1
from andornot.gallery.database import STATES, Database, Picture, read_snapshot
from andornot.gallery.errors import DamagedError
from andornot.gallery.layout import DATABASE
from andornot.gallery.records import Broken, State, are_sound, is_sound, values_crc
from andornot.gallery.writer import open_writer

NAMES = ("shaking 🫨.png", "heart 🩵 naïve 図.png", "it's “quoted” \udcff.png")


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    for seed, name in enumerate(NAMES, 50):
        save_picture(tmp_path / "photos" / name, seed)
    (tmp_path / "photos" / "broken.png").write_bytes(b"no picture")
    made.add(photos(tmp_path / "photos", 17))
    return made


def execute(gallery: Gallery, *statements: str) -> None:
    with closing(sqlite3.connect(gallery.folder / DATABASE)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def files(gallery: Gallery) -> dict[str, bytes]:
    """All that must not change while the gallery is damaged."""
    return {path.name: path.read_bytes() for path in gallery.folder.glob("features*")}


# --- checksums ------------------------------------------------------------------------------------------------------


def test_checksums_are_of_fixed_bytes():
    """Whatever makes these numbers others makes all galleries damaged."""
    picture = Picture(7, "/p/shaking 🫨 \udcff.png", 5, 10**18, bytes(range(16)), -3, 2, 4_000_000_000)
    assert picture.record[-1] == 0x37E6B446
    assert Broken("/p/x.png", 5, 7, "not a picture").record[-1] == 0x1221B4CD
    assert values_crc(["format", 2, "folders", b"/p\0/q\xff", "calibrated_on", None]) == 0x2F0827E2


def test_any_other_value_has_another_checksum():
    picture = Picture(7, "/p/a.png", 5, 10**18, bytes(range(16)), 3, 2, 4_000_000_000)
    others: dict[str, list[Any]] = {"path": ["/p/b.png", "/p/a.pn"], "digest": [bytes(16), bytes(15)]}
    for name in Picture._fields:
        for value in others.get(name, [1, -1, 0, 2**62]):
            record = picture._replace(**{name: value}).record
            assert not is_sound((*record[:-1], picture.record[-1])), (name, value)
            assert not are_sound([picture.record, (*record[:-1], picture.record[-1])])
    for value in (None, 7.0, "7", b"7"):
        assert not is_sound((value, *picture.record[1:]))
        assert not are_sound([(value, *picture.record[1:])])
    assert is_sound(picture.record)
    assert are_sound([picture.record])


def test_the_state_is_what_was_stored_or_nothing():
    state = State("model-0001", "abc", 16, None, folders=("/p", "/q \udcff 🫨"), spare=("model-0002",))
    values = state.values
    assert State.of_values(values) == state
    for key, value in values.items():
        for other in (None, 0, 1, "x", b"", str(value), -1):
            if other != value or type(other) is not type(value):
                assert State.of_values({**values, key: other}) is None, key
        assert State.of_values({name: values[name] for name in values if name != key}) is None


# --- the state ------------------------------------------------------------------------------------------------------

FLIPS: dict[str, Any] = {
    "next_id": 3, "rows": 5, "width": 48, "model_id": "'0123456789abcdef'", "model": "'model-0007'", "first_file": 3,
    "calibrated_on": 0, "pictures": 19, "folders": "x'2f78'", "spare": "x'6d6f64656c2d30303032'", "format": 1,
}  # fmt: skip


@pytest.mark.parametrize("key", FLIPS)
def test_one_damaged_copy_of_the_state_does_no_harm(key, gallery, tmp_path):
    before, state = contents(gallery), gallery._snapshot.state
    for table in STATES:
        execute(gallery, f"UPDATE {table} SET value = {FLIPS[key]} WHERE key = '{key}'")
        assert Gallery.open(gallery.folder)._snapshot.state == state
        again = Gallery.open(gallery.folder)
        assert again.update().unchanged == 20  # which writes both copies
    execute(gallery, f"UPDATE {STATES[0]} SET value = {FLIPS[key]} WHERE key = '{key}'")
    assert Gallery.repair(gallery.folder).kept_records == 20
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"
    photos(tmp_path / "photos", 3, start=30)
    again = Gallery.open(gallery.folder)
    assert again.update().added == 3
    assert contents(again).keys() > before.keys()
    assert again.ids == list(range(1, 24))


@pytest.mark.parametrize("key", FLIPS)
def test_a_damaged_state_is_found_before_anything_is_written_and_is_derived_again(key, gallery, tmp_path):
    before, stored = contents(gallery), files(gallery)
    execute(gallery, *(f"UPDATE {table} SET value = {FLIPS[key]} WHERE key = '{key}'" for table in STATES))
    photos(tmp_path / "photos", 3, start=30)
    for use in (lambda: Gallery.open(gallery.folder), gallery.update, gallery.recalibrate):
        with pytest.raises(DamagedError, match=r"gallery\.sqlite is damaged in what it says of the gallery as a whole"):
            use()
    assert files(gallery) == stored
    repaired = Gallery.repair(gallery.folder)
    assert (repaired.kept_records, repaired.damaged_features) == (20, 0)
    assert "which folders it was made of is lost: name them once more" in str(repaired)
    again = Gallery.open(gallery.folder)
    assert again.model.id == gallery.model.id
    assert all((contents(again)[path] == before[path]).all() for path in before)
    assert again.add(tmp_path / "photos").added == 3
    assert len(set(again.ids)) == len(again) == 23
    assert len(again.search("000.png", top=50)) == 22
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


def test_a_picture_that_is_missing_in_the_database_is_missed(gallery):
    """A row that is gone: SQLite itself cannot know of it."""
    execute(gallery, "DELETE FROM pictures WHERE id = 5")
    assert Gallery.open(gallery.folder).paths == gallery.paths  # as the catalogue still has them
    with pytest.raises(DamagedError, match="it has 19 pictures, and there were 20"):
        Gallery.open(gallery.folder).update()
    shutil.rmtree(gallery.folder / "derived")
    with pytest.raises(DamagedError, match="it has 19 pictures, and there were 20"):
        Gallery.open(gallery.folder)
    Gallery.repair(gallery.folder)
    assert Gallery.open(gallery.folder).update() == Summary(added=1, unchanged=19, broken=gallery.broken)


def test_no_record_is_written_over_another(gallery):
    """Whatever the state says: an id that is in use is an error, not a replacement."""
    pictures = dict(zip(gallery.ids, gallery.paths, strict=True))
    taken = read_snapshot(gallery.folder).picture(4)
    changes: list[tuple[Callable[[Database], None], str]] = [
        (lambda database: database.insert(taken._replace(path="/other.png")), "UNIQUE constraint failed"),
        (lambda database: database.insert(taken._replace(id=999)), "UNIQUE constraint failed"),
        (lambda database: database.update(taken._replace(id=999, path="/other.png")), "picture 999 is not in it"),
        (lambda database: database.remove(999), "picture 999 is not in it"),
    ]
    for change, message in changes:
        with open_writer(gallery.folder) as writer:
            change(writer.database)
            with pytest.raises(DamagedError, match=message):
                writer.commit()
    gallery.refresh()
    assert dict(zip(gallery.ids, gallery.paths, strict=True)) == pictures


def test_damaged_features_are_not_copied_under_a_new_checksum(gallery, tmp_path):
    content = (gallery.folder / "features-0001.bin").read_bytes()
    (gallery.folder / "features-0001.bin").write_bytes(bytes(len(content)))
    copy = tmp_path / "photos" / "copy.png"
    copy.write_bytes((tmp_path / "photos" / "003.png").read_bytes())
    with pytest.raises(DamagedError, match=r"the features of .*003\.png are damaged"):
        gallery.update()
    with pytest.raises(DamagedError, match=r"the features of .* are damaged"):
        gallery.recalibrate()
    assert Gallery.repair(gallery.folder).damaged_features == 20


def test_a_damaged_record_whose_file_is_there_is_added_anew_by_the_repair(tmp_path):
    """Even of a file that is in no folder of the gallery: nobody else would find it again."""
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add([str(path) for path in sorted(photos(tmp_path / "photos", 6).iterdir())])
    execute(gallery, "UPDATE pictures SET taken = taken + 1 WHERE id = 2")
    with pytest.raises(DamagedError, match=r"in what it says of .*001\.png"):
        gallery.update()
    shutil.rmtree(gallery.folder / "derived")
    with pytest.raises(DamagedError, match=r"in what it says of .*001\.png"):
        Gallery.open(gallery.folder)
    repaired = Gallery.repair(gallery.folder)
    assert "the records of 1 pictures were damaged: they are added anew" in str(repaired)
    again = Gallery.open(gallery.folder)
    assert (again.ids, sorted(again.paths)) == ([1, 3, 4, 5, 6, 7], gallery.paths)


# --- galleries of 0.1 -----------------------------------------------------------------------------------------------


def old_repr(picture: Picture, knows: Callable[[str], bool]) -> str:
    """What a Python that knows these letters writes."""
    path = "".join(
        letter if letter.isascii() or knows(letter) else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in picture.path
    )
    quote = '"' if "'" in path else "'"
    rest = ", ".join(f"{name}={value!r}" for name, value in list(picture._asdict().items())[2:])
    return f"Picture(id={picture.id}, path={quote}{path}{quote}, {rest})"


def of_python_3_11(letter: str) -> bool:
    return letter.isprintable() and letter not in "🫨🩵"


def of_python_3_12(letter: str) -> bool:
    return letter.isprintable() or letter in "🫨🩵"


def make_old(gallery: Gallery, knows: Callable[[str], bool] = of_python_3_11) -> None:
    """Writes the database as 0.1 did."""
    snapshot = read_snapshot(gallery.folder)
    with closing(sqlite3.connect(gallery.folder / DATABASE)) as connection, connection:
        for table in ("gallery_copy", "broken"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("CREATE TABLE folders (path BLOB PRIMARY KEY)")
        connection.execute("CREATE TABLE broken (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, reason TEXT)")
        folders = [(os.fsencode(folder),) for folder in snapshot.folders]
        connection.executemany("INSERT INTO folders VALUES (?)", folders)
        for path, *rest in snapshot.broken.values():
            connection.execute("INSERT INTO broken VALUES (?, ?, ?, ?)", (os.fsencode(path), *rest))
        connection.execute("DELETE FROM gallery WHERE key IN ('checksum', 'folders', 'spare', 'pictures')")
        connection.execute("UPDATE gallery SET value = 1 WHERE key = 'format'")
        for picture in snapshot.pictures():
            crc = zlib.crc32(old_repr(picture, knows).encode())
            connection.execute("UPDATE pictures SET record_crc = ? WHERE id = ?", (crc, picture.id))


def test_records_as_andornot_0_1_wrote_them_under_two_pythons():
    """Taken from a gallery that 0.1 made with Python 3.11; the second checksum is what Python 3.12 would have given."""
    digest = bytes.fromhex("c4ce4cca0b0e0ff0bb0bf5ba4e22f0ab")
    values = (7, "/tmp/photos/shaking 🫨.png".encode(), 1234, 1_700_000_000_000_000_000, digest, 1_700_000_000, 6, 99)
    for escaped in ("\\U0001fae8", "🫨"):
        text = (
            f"Picture(id=7, path='/tmp/photos/shaking {escaped}.png', size=1234, mtime_ns=1700000000000000000, "
            f"digest={digest!r}, taken=1700000000, row=6, features_crc=99)"
        )
        written = format_1.converted({}, [], [(*values, zlib.crc32(text.encode()))], [])
        assert is_sound(written.records[0])
    assert not is_sound(format_1.converted({}, [], [(*values, 5)], []).records[0])


@pytest.mark.parametrize("knows", [of_python_3_11, of_python_3_12])
def test_a_gallery_of_0_1_is_read_as_it_is_and_carried_over_by_the_first_writer(knows, gallery, tmp_path):
    before = gallery.search("000.png", top=50)
    make_old(gallery, knows)
    file = (gallery.folder / DATABASE).read_bytes()
    old = Gallery.open(gallery.folder)
    assert (old.paths, old.ids, old.folders, old.broken) == (
        gallery.paths, gallery.ids, gallery.folders, gallery.broken
    )  # fmt: skip
    assert old.search("000.png", top=50) == before
    assert (gallery.folder / DATABASE).read_bytes() == file
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"
    photos(tmp_path / "photos", 1, start=40)
    assert old.update() == Summary(added=1, unchanged=20, broken=gallery.broken)
    assert not read_snapshot(gallery.folder).is_old
    assert Gallery.open(gallery.folder).ids == [*gallery.ids, 21]


def test_a_gallery_of_0_1_may_be_on_a_disk_that_cannot_be_written(gallery):
    make_old(gallery)
    for ending in ("-wal", "-shm"):
        Path(f"{gallery.folder / DATABASE}{ending}").unlink(missing_ok=True)
    gallery.folder.chmod(0o555)
    try:
        assert len(Gallery.open(gallery.folder).search("000.png", top=50)) == 19
    finally:
        gallery.folder.chmod(0o755)


def test_carrying_over_is_all_or_nothing(gallery, monkeypatch):
    make_old(gallery)
    with monkeypatch.context() as patched:
        patched.setattr(database, "_write_state", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gallery.update()
    assert read_snapshot(gallery.folder).is_old
    assert gallery.update().unchanged == 20
    assert not read_snapshot(gallery.folder).is_old


@pytest.mark.parametrize(
    ("key", "value"),
    [("next_id", 3), ("rows", 5), ("rows", 500), ("width", 48), ("model_id", "'0123'"), ("model", "'model-0009'")],
)
def test_a_damaged_state_of_0_1_loses_nothing_either(key, value, gallery, tmp_path):
    before, stored = contents(gallery), files(gallery)
    make_old(gallery)
    execute(gallery, f"UPDATE gallery SET value = {value} WHERE key = '{key}'")
    photos(tmp_path / "photos", 2, start=30)
    if key != "next_id":  # which is told by the ids that are in use
        with pytest.raises(ValueError, match=r"--repair"):
            Gallery.open(gallery.folder).update()
        assert files(gallery) == stored
        Gallery.repair(gallery.folder)
    again = Gallery.open(gallery.folder)
    assert again.update() == Summary(added=2, unchanged=20, broken=gallery.broken)
    assert all((contents(again)[path] == before[path]).all() for path in before)
    assert again.ids == list(range(1, 23))
