"""What a gallery stores: the same bytes for every Python, checked whenever they are read, whatever files are called."""

import json
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from galleries import contents, photos, save_image, seeing_recipe, table_of, tiny_model, touch_later

from andornot.gallery import Filter, Gallery, Summary
from andornot.gallery.encoding import Extracted
from andornot.gallery.errors import DamagedError
from andornot.gallery.records import ImageRecord, State
from andornot.gallery.rows import RECORD as COLUMNS
from andornot.gallery.rows import hash_records, image_rows, sealed_column, unseal
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.web.browsing import Browser

RECORD = ImageRecord(7, "/p/shaking 🫨 \udcff.png", 5, 10**18, bytes(range(16)), -3, True, 640, 480)
STATE = State(
    "model-abc", "abc", 16, None, 5, ("/p", "/q \udcff 🫨"), (7, 7), "basis-1", "components-2", "codes_2", 600,
    "definitions-3", "unreadable-4", {"backbone": "conv5"},
)  # fmt: skip


# --- checksums ------------------------------------------------------------------------------------------------------


def stored(record: ImageRecord) -> pa.Table:
    return image_rows([record], Extracted(np.zeros((1, 2), np.float16), None, None))


def test_checksums_are_of_fixed_bytes():
    """Another number here makes all galleries that exist damaged."""
    assert stored(RECORD)["checksum"].to_pylist() == [2285798020]
    ids, content = np.array([1, 2**40]), np.arange(6, dtype=np.uint8).reshape(2, 3)
    sealed = [content[0].tobytes() + zlib.crc32(b"\0\1\2", 1).to_bytes(4, "little")]
    sealed += [content[1].tobytes() + zlib.crc32(b"\3\4\5", 0).to_bytes(4, "little")]
    assert sealed_column(ids, content).to_pylist() == sealed


def test_any_other_value_has_another_checksum():
    others: dict[str, list[Any]] = {
        "path": [b"/p/b.png", b"/p/shaking \xfe.png"], "name": ["b.png"], "digest": [bytes(16)], "by_camera": [False],
        "width": [1, -1, 0], "height": [1, -1, 0],
    }  # fmt: skip
    rows = stored(RECORD)
    for name in COLUMNS[:-1]:
        place, kind = rows.column_names.index(name), rows.schema.field(name).type
        for value in (*others.get(name, [1, -1, 0, 2**62]), None):
            changed = rows.set_column(place, name, pa.array([value], kind))
            assert hash_records(changed)[0] != rows["checksum"].to_pylist()[0], (name, value)


def test_what_was_sealed_is_the_same_or_is_noticed():
    generator = np.random.default_rng(0)
    ids, content = np.arange(1, 9), generator.integers(0, 256, (8, 20), dtype=np.uint8)
    column = sealed_column(ids, content, ids != 5)

    def damaged(rows: list[bytes | None]) -> list[int]:
        return np.flatnonzero(unseal(ids, pa.chunked_array([pa.array(rows, column.type)]))[2]).tolist()

    opened, valid, _ = unseal(ids, pa.chunked_array([column[:3], column[3:]]))
    assert (opened[valid] == content[ids != 5]).all()
    assert not opened[4].any()
    assert valid.tolist() == (ids != 5).tolist()
    sealed = column.to_pylist()
    assert damaged(sealed) == []
    for place in range(len(sealed[3])):
        flipped = bytearray(sealed[3])
        flipped[place] ^= 1 << int(generator.integers(8))
        assert damaged([*sealed[:3], bytes(flipped), *sealed[4:]]) == [3]
    assert damaged([sealed[1], sealed[0], *sealed[2:]]) == [0, 1], "rows changed places"


def test_the_state_is_what_was_stored_or_nothing():
    stored = STATE.to_json()
    assert State.from_json(stored) == STATE
    for place in range(len(stored)):
        letter = chr(ord(stored[place]) ^ 1)
        assert State.from_json(stored[:place] + letter + stored[place + 1 :]) is None, place
        assert State.from_json(stored[:place]) is None, place


def test_a_state_of_another_format_is_told_apart():
    values = json.loads(STATE.to_json().partition(" ")[2])
    text = json.dumps({**values, "format": values["format"] + 1, "unheard of": 1})
    assert State.from_json(f"{zlib.crc32(text.encode()):08x} {text}") is None


# --- damaged rows ---------------------------------------------------------------------------------------------------


def put_damaged(gallery: Gallery, identity: int, column: str) -> None:
    """Store a row with another value in one column, and all its checksums as they were."""
    with open_writer(Storage(gallery.address)) as writer:
        table = writer.table
        row = table.take(np.array([identity]), sorted(table.columns))
        (value,) = row[column].to_pylist()
        changed = bytes([value[0] ^ 1, *value[1:]]) if isinstance(value, bytes) else value + type(value)(1)
        place, kind = row.column_names.index(column), row.schema.field(column).type
        writer.put(row.set_column(place, column, pa.array([changed], kind)), [identity])
        writer.commit()
    gallery.refresh()


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", tiny_model(recipe=seeing_recipe()))
    made.add(photos(tmp_path / "photos", 12))
    return made


DAMAGED = ["activations", "full_regions", "classes", "path", "name", "size", "digest", "taken", "width", "checksum"]


@pytest.mark.parametrize("column", DAMAGED)
def test_a_damaged_row_is_noticed_by_what_reads_it_and_encoded_again_by_the_repair(column, gallery, tmp_path):
    texts = ["000.png", "000.png and 001.png and not 005.png", "dog"]
    before, expected = contents(gallery), [gallery.search(text, top=20, include_queries=True) for text in texts]
    put_damaged(gallery, 4, column)
    with pytest.raises(DamagedError, match=r"is damaged: .* wrong checksum; andornot index --repair"):
        gallery.search(texts, top=20, include_queries=True)
    assert str(Gallery.repair(gallery.folder)) != "nothing was damaged"
    again = Gallery.open(gallery.folder)
    again.update()
    assert len(again) == 12
    now = contents(again)
    assert now.keys() == before.keys()
    for path, activations in before.items():
        np.testing.assert_allclose(now[path], activations, rtol=2e-3, atol=1e-3)
    if again.ids == list(range(1, 13)):
        assert [again.search(text, top=20, include_queries=True) for text in texts] == expected
    else:  # nothing of the row was to be trusted, not its id
        assert again.ids == [1, 2, 3, *range(5, 13), 13]
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"
    assert (tmp_path / "photos" / "003.png").exists()


def test_damaged_activations_are_not_copied_under_a_new_checksum(gallery, tmp_path):
    put_damaged(gallery, 4, "activations")
    shutil.copy(tmp_path / "photos" / "003.png", tmp_path / "photos" / "copy.png")
    with pytest.raises(DamagedError, match=r"the activations of .*003\.png have a wrong checksum"):
        gallery.update()
    Gallery.repair(gallery.folder)
    gallery.refresh()
    assert gallery.update() == Summary(added=1, unchanged=12)
    stored = contents(gallery)
    assert (stored[str(tmp_path / "photos" / "copy.png")] == stored[str(tmp_path / "photos" / "003.png")]).all()


# --- odd names ------------------------------------------------------------------------------------------------------

ODD = [
    *("shaking 🫨.png", "heart 🩵 naïve 図.png", "it's “quoted”.png", "new\nline.png", "tab\t.png", "100%_.png"),
    *(os.fsdecode(name) for name in (b"\xff\xfe.png", b"caf\xe9.png", b"caf\xe8.png", b"\xed\xa0\x80.png")),
    "\U0010ffe9 private.png",
]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are not UTF-8")
def test_files_and_folders_whose_names_are_not_utf_8(tmp_path):
    latin = tmp_path / "photos" / os.fsdecode(b"f\xeate")
    for seed, name in enumerate(ODD):
        save_image(tmp_path / "one.png", seed)
        for folder in (latin, tmp_path / "photos" / "plain"):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(tmp_path / "one.png", folder / f"{folder.name[0]} {name}")
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    assert gallery.add(tmp_path / "photos") == Summary(added=2 * len(ODD))
    assert gallery.update() == Summary(unchanged=2 * len(ODD))
    gallery = Gallery.open(gallery.folder)
    paths = {str(folder / f"{folder.name[0]} {name}") for folder in (latin, latin.parent / "plain") for name in ODD}
    assert set(gallery.paths) == paths
    assert {record.path for record in table_of(gallery).records()} == paths
    for name in ODD:
        for query in (latin / f"f {name}", f"image:{json.dumps(f'f {name}', ensure_ascii=False)}"):
            if isinstance(query, Path) or not set(name) & set("\n\t"):
                hits = gallery.search(query, top=1, include_queries=True)
                assert hits[0].path in {str(latin / f"f {name}"), str(latin.parent / "plain" / f"p {name}")}
    for where in (Filter(label=latin.name), Filter(folder=str(latin)), Filter(folder=latin.name)):
        assert {hit.path for hit in gallery.search("1", 50, filter=where, include_queries=True)} == {
            path for path in paths if path.startswith(f"{latin}{os.sep}")
        }
    browser = Browser(gallery.planner)
    assert browser.labels == {"plain": len(ODD), **{label: len(ODD) for label in browser.labels if label != "plain"}}
    assert {browser.folder_path(node.key) for node in browser.folders.folders} >= {str(latin.parent / "plain")}
    assert len(browser.positions(Filter(), "name")) == 2 * len(ODD)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are not UTF-8")
def test_names_that_are_not_utf_8_change_as_others_do(tmp_path):
    folder = photos(tmp_path / "photos", 2)
    odd, other = (folder / os.fsdecode(name) for name in (b"caf\xe9.png", b"caf\xe8.png"))
    save_image(odd.with_name("new.png"), 9).rename(odd)
    (folder / os.fsdecode(b"br\xf6ken.png")).write_bytes(b"no image")
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    assert gallery.add(folder).added == 3
    assert list(gallery.broken) == [str(folder / os.fsdecode(b"br\xf6ken.png"))]
    (identity,) = (one for one, path in zip(gallery.ids, gallery.paths, strict=True) if path == str(odd))
    odd.rename(other)
    assert gallery.update().moved == 1
    save_image(other.with_name("new.png"), 10).replace(other)
    touch_later(other)
    assert gallery.update().changed == 1
    assert dict(zip(gallery.ids, gallery.paths, strict=True))[identity] == str(other)
    gallery.define("coffee", f"image:{identity}")
    assert Gallery.open(gallery.folder).definitions == {"coffee": str(identity)}
    assert gallery.remove(str(other)) == 1
    assert str(other) not in gallery.paths
