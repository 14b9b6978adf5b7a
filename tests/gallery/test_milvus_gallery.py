"""A gallery that is opened by its address in Milvus: the answers of the one in its folder, without the folder."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from galleries import photos, save_picture, tiny_model, touch_later
from milvus_server import MilvusServer
from serving import served

from andornot import AndornotError, FormulaError, degree_distance
from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError, Where, milvus_gallery
from andornot.gallery.conditions import ConditionSearch
from andornot.gallery.engines import milvus, milvus_about
from andornot.gallery.engines.milvus_about import About
from andornot.gallery.engines.milvus_connection import Address, Connection
from andornot.gallery.engines.milvus_records import as_entry, metadata
from andornot.gallery.errors import NeedsFolderError
from andornot.gallery.records import Entry, Picture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("milvus") is None, reason="the server is not installed: pip install milvus==2.3.5"),
    pytest.mark.xdist_group("milvus"),
]
LABELS = ["cat", "dog", 'say "hi"', "back\\slash", "ünï 図", "100%", "dog0"]


@pytest.fixture(scope="module")
def server() -> Iterator[MilvusServer]:
    with MilvusServer() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("remote")
    for number, label in enumerate(LABELS):
        photos(made / "photos" / label, 12, start=12 * number)
    shutil.copy(made / "photos" / "cat" / "000.png", made / "photos" / "dog" / "000.png")
    (made / "photos" / "broken.png").write_bytes(b"no picture")
    os.utime(made / "photos" / "cat" / "003.png", (10**9, 10**9))
    save_picture(made / "elsewhere" / "new.png", 999)
    return made


@pytest.fixture(scope="module")
def address(server) -> str:
    return server.address("opened")


@pytest.fixture(scope="module")
def local(folder, address) -> Gallery:
    gallery = Gallery.create(folder / "g", tiny_model(), engine=address)
    gallery.add(folder / "photos")
    for score in ("cross-entropy", "containment"):
        gallery.prepare(score)
    return Gallery.open(folder / "g", engine="exact")


@pytest.fixture
def remote(local, address) -> Gallery:
    assert len(local)
    return Gallery.open(address)


def told(hits: list[Any]) -> list[Any]:
    return [(hit.id, hit.path, hit.taken, hit.taken_from) for hit in hits]


def assert_same(one: list[Any], other: list[Any]) -> None:
    np.testing.assert_allclose([hit.distance for hit in one], [hit.distance for hit in other], atol=2e-3)
    # Of pictures that are equally far either may be first.
    assert sorted(told(one)) == sorted(told(other))


def opened_again(address: str) -> Gallery:
    """Who has met a server that was away does not ask again at once: gRPC waits longer and longer."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return Gallery.open(address)
        except GalleryError:
            assert time.monotonic() < deadline
            time.sleep(1)


FORMULAS = ["1", "~1", "001.png & ~014.png", "(cat/002.png | 20) - 30", "at_least(2, 5, 6, 7)", "like(3, 4)"]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("score", ["degrees", "centred", "cross-entropy", "containment"])
def test_the_hits_are_those_of_the_folder(formula, score, local, remote):
    assert_same(remote.search(formula, 84, score), local.search(formula, 84, score))
    one, other = remote.search(formula, 5, score), local.search(formula, 5, score)
    np.testing.assert_allclose([hit.distance for hit in one], [hit.distance for hit in other], atol=2e-3)


def test_by_degrees_hits_and_their_truths_are_the_same_to_the_last_bit(local, remote):
    for formula in FORMULAS:
        for score in ("degrees", "centred"):
            one, other = remote.search(formula, 84, score), local.search(formula, 84, score)
            assert [*one] == [*other]


@pytest.mark.parametrize(
    "where",
    [
        Where(label="dog"),
        *(Where(label=label) for label in LABELS[2:]),
        Where(folder="cat"),
        Where(folder="photos"),
        Where(before="2005", file_dates=True),
        Where(before="2005"),
        Where(after="2005", label="cat", file_dates=True),
    ],
    ids=str,
)
def test_filters_are_those_of_the_folder(where, local, remote):
    for top in (3, 200):
        assert_same(remote.search("20 | 30", top, where=where), local.search("20 | 30", top, where=where))


@pytest.mark.parametrize("name", ["003.png", "7", "cat/000.png", "dog/000.png", "020.png"])
def test_names_stand_for_what_they_stand_for_in_the_folder(name, local, remote):
    text = f'"{name}"' if "/" in name else name
    assert remote.named(text) == local.named(text)


@pytest.mark.parametrize("name", ["000.png", "nobody.png", "999", "broken.png"])
def test_errors_of_names_are_those_of_the_folder(name, local, remote):
    with pytest.raises(AndornotError) as theirs:
        local.search(name)
    with pytest.raises(AndornotError) as mine:
        remote.search(name)
    assert str(mine.value) == str(theirs.value)


def test_a_filter_that_nobody_passes_is_the_same_line(local, remote):
    for where in (Where(label="dgo"), Where(folder="/nowhere")):
        with pytest.raises(GalleryError) as theirs:
            local.search("1", where=where)
        with pytest.raises(GalleryError) as mine:
            remote.search("1", where=where)
        assert str(mine.value) == str(theirs.value)


def test_a_picture_from_outside_and_a_copy_of_one_inside_are_found(local, remote, folder):
    new = folder / "elsewhere" / "new.png"
    assert_same(remote.search(new, 9), local.search(new, 9))
    copied = folder / "elsewhere" / "copy.png"
    shutil.copy(folder / "photos" / "cat" / "005.png", copied)
    assert remote.search(copied, 1)[0].distance < 1e-3


def test_what_is_known_of_the_gallery_is_known(local, remote):
    assert len(remote) == len(local) == 85
    assert remote.folders == local.folders
    assert remote.broken == local.broken
    assert remote.model.id == local.model.id
    np.testing.assert_array_equal(remote.represent([3, 5]).probs, local.represent([3, 5]).probs)
    assert "secret" not in repr(remote)
    assert "Milvus@" not in repr(remote)


@pytest.mark.parametrize(
    "use",
    [
        lambda gallery: gallery.add("."),
        lambda gallery: gallery.update(),
        lambda gallery: gallery.remove("1"),
        lambda gallery: gallery.recalibrate(),
        lambda gallery: gallery.prepare(),
        lambda gallery: gallery.paths,
        lambda gallery: gallery.search("1", why=True),
        lambda gallery: gallery.search("1 and not 2", why=True),
        lambda gallery: gallery.describe(1),
        lambda gallery: gallery.search("1", score=degree_distance),
        lambda gallery: gallery.browse().degrees_of_feature(0),
        lambda gallery: gallery.browse().positions(Where(), "name"),
    ],
)
def test_what_needs_the_folder_is_one_clear_line(use, remote):
    with pytest.raises(GalleryError) as error:
        use(remote)
    assert "\n" not in str(error.value)
    assert "Milvus@" not in str(error.value)


CONDITIONS = ["1 and 20", "1 and 20 and not 40", "1 and not 2", "(1 or 30) and not 50", "like(1, 2) and 3", "not 7"]


def whole(local: Gallery) -> Gallery:
    """The gallery in its folder, as if it had no regions: these are not in Milvus."""
    opened = Gallery.open(local.folder, engine="exact")
    opened._searching._regions = None
    return opened


@pytest.mark.parametrize("formula", CONDITIONS)
def test_conditions_are_those_of_whole_pictures(formula, local, remote):
    wanted, found = whole(local).search(formula, top=20), remote.search(formula, top=20)
    assert told(found) == told(wanted)
    assert [(hit.truth, hit.is_weak) for hit in found] == [(hit.truth, hit.is_weak) for hit in wanted]
    assert not any(hit.where for hit in found)


def test_a_condition_among_the_pictures_of_a_filter(local, remote):
    where = Where(label="dog")
    assert told(remote.search("1 and not 40", where=where)) == told(whole(local).search("1 and not 40", where=where))


@pytest.mark.parametrize("formula", CONDITIONS[:5])
def test_candidates_for_a_condition_have_its_truest_pictures_among_them(formula, local, remote, monkeypatch):
    wanted = {hit.id for hit in whole(local).search(formula, top=10)}
    monkeypatch.setattr(milvus_gallery._ConditionSearch, "exact_up_to", 20)
    monkeypatch.setattr(milvus_gallery._ConditionSearch, "candidates", 40)
    found = {hit.id for hit in remote.search(formula, top=10)}
    assert len(wanted & found) >= 9


@pytest.mark.parametrize("formula", CONDITIONS[:5])
def test_candidates_from_milvus_serve_a_gallery_in_its_folder(formula, local, address, monkeypatch):
    wanted = {hit.id for hit in local.search(formula, top=10)}
    far = Gallery.open(local.folder, engine=address)
    monkeypatch.setattr(ConditionSearch, "exact_up_to", 20)
    monkeypatch.setattr(ConditionSearch, "candidates", 40)
    assert len(wanted & {hit.id for hit in far.search(formula, top=10)}) >= 9


def test_a_condition_that_asks_for_nothing_says_why_not_where_there_are_too_many(remote, monkeypatch):
    monkeypatch.setattr(milvus_gallery, "MOST_AT_ONCE", 20)
    with pytest.raises(NeedsFolderError, match=r"^not 7 is true of pictures that are like nothing in it"):
        remote.search("not 7")


def test_the_components_that_a_condition_needs_are_fetched_once(remote):
    remote.search("1 and 20")
    fetched = []
    remote._searching.centred._records.fields = lambda *asked: fetched.append(asked)
    remote.search("1 and 20")
    assert not fetched


def test_words_say_where_they_are_known(remote):
    with pytest.raises(FormulaError, match="in its folder knows them"):
        remote.search("word:dog and 1")


def test_over_http_what_needs_the_folder_is_the_askers_to_change(remote):
    with served(remote) as client:
        assert client.get("/api/search", params={"formula": "1 and not 2"}).json()["hits"]
        answer = client.get("/api/search", params={"formula": "1 and not 2", "why": True})
        assert answer.status_code == 400
        assert "ask the gallery in its folder" in answer.json()["error"]["message"]


def test_the_page_sees_what_it_sees_in_the_folder(local, remote):
    mine, theirs = remote.browse(), local.browse()
    assert mine.labels == theirs.labels
    assert mine.period == theirs.period
    np.testing.assert_allclose(mine.features.mean, theirs.features.mean)
    assert len(mine.positions(Where())) == 85
    first = mine.positions(Where())[0:10].tolist()
    assert first == [theirs.id(position) for position in range(10)]
    for identity in first:
        place = theirs.position_of_id(identity)
        assert mine.term(identity) == theirs.term(place)
        assert mine.taken(identity) == theirs.taken(place)
        assert mine.picture(identity)._replace(row=0) == theirs.picture(place)._replace(row=0)
    shown = [[theirs.id(place) for place in row] for row in theirs.features.shown_by.tolist()]
    assert mine.features.shown_by.tolist() == shown
    assert int(mine.mask(Where(label="dog")).sum()) == int(theirs.mask(Where(label="dog")).sum())


def test_the_command_searches_without_the_folder(remote, address, folder):
    """In a process of its own, as on another machine; the token is in the environment."""
    plain = f"milvus://{address.rpartition('@')[2]}"
    command = [sys.executable, "-m", "andornot", "search", "001.png", "--gallery", plain, "--label", "cat", "--json"]
    environment = {**os.environ, "MILVUS_TOKEN": "root:Milvus"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    hits = json.loads(done.stdout)["hits"]
    assert [hit["id"] for hit in hits] == [hit.id for hit in remote.search("001.png", where=Where(label="cat"))]


def test_index_takes_no_such_address(capsys, address):
    assert main(["index", "photos", "--gallery", address]) == 2
    assert "Milvus@" not in capsys.readouterr().err


def test_refresh_takes_what_was_indexed_since(server, tmp_path):
    address = server.address("growing")
    gallery = Gallery.create(tmp_path / "g", tiny_model(), engine=address)
    gallery.add(photos(tmp_path / "photos", 5))
    far = Gallery.open(address)
    token = far.state_token()
    assert token == far.state_token()
    save_picture(tmp_path / "photos" / "000.png", 50)
    touch_later(tmp_path / "photos" / "000.png")
    (tmp_path / "photos" / "001.png").unlink()
    gallery.add(photos(tmp_path / "photos", 3, start=5))
    assert far.state_token() != token
    far.refresh()
    assert_same(far.search("000.png", 20), Gallery.open(tmp_path / "g").search("000.png", 20))
    gallery.recalibrate()
    fresh = far.refreshed()
    assert fresh.model.id == gallery.model.id != far.model.id


def test_the_next_index_puts_back_what_is_missing_beside_the_collection(server, tmp_path):
    address = server.address("dropped")
    gallery = Gallery.create(tmp_path / "g", tiny_model(), engine=address)
    gallery.add(photos(tmp_path / "photos", 5))
    server.client.drop_collection("dropped_about")
    with pytest.raises(GalleryError, match="holds no gallery that can be opened"):
        Gallery.open(address)
    gallery.update()
    assert len(Gallery.open(address).search("1")) == 4
    (tmp_path / "photos" / "broken.png").write_bytes(b"no picture")
    gallery.update()
    assert [*Gallery.open(address).broken] == [str(tmp_path / "photos" / "broken.png")]


def test_a_collection_of_an_older_version_is_carried_over(server, tmp_path, monkeypatch):
    address = server.address("older")
    gallery = Gallery.create(tmp_path / "g", tiny_model(), engine=address)
    with monkeypatch.context() as patch:
        patch.setattr(milvus, "_FORMAT", 2)
        gallery.add(photos(tmp_path / "photos", 5))
    with pytest.raises(GalleryError, match=r"of an older version: andornot index .* fills it anew"):
        Gallery.open(tmp_path / "g", engine=address).search("1")
    gallery.update()
    assert_same(Gallery.open(address).search("1"), Gallery.open(tmp_path / "g").search("1"))


def test_a_server_that_is_killed_has_kept_everything(server, remote, address):
    before = told(remote.search("1 & ~2", 20))
    server.kill()
    with pytest.raises(GalleryError, match=r"is away|does not answer"):
        Gallery.open(address)
    server.start()
    assert told(opened_again(address).search("1 & ~2", 20)) == before


def test_a_collection_without_what_an_answer_needs_says_which_command_helps(server):
    with pytest.raises(GalleryError, match="holds no gallery that can be opened by its address: andornot index"):
        Gallery.open(server.address("empty"))


def test_damaged_documents_are_found(server, monkeypatch):
    monkeypatch.setattr(milvus_about, "_PART", 10)
    connection = Connection(Address.parse(server.address("papers")))
    about = About(connection, "papers")
    about.write({"a": b"x" * 35, "b": b""}, {"gallery": "g"})
    assert about.read(about.manifest(), "a") == b"x" * 35
    assert about.read(about.manifest(), "b") == b""
    old = about.manifest()
    about.write({"a": b"y" * 12, "b": b""}, {"gallery": "g"})
    assert about.read(about.manifest(), "a") == b"y" * 12
    with pytest.raises(GalleryError, match="a of papers in Milvus is damaged"):
        about.read(old, "a")
    with pytest.raises(GalleryError, match="is not of this gallery"):
        about.write({}, {"gallery": "another"})


def test_an_entry_comes_back_as_it_was_stored():
    path = os.fsdecode(b'/photos/\xff "x"/a.png')
    entry = Entry(Picture(7, path, 3, 4, b"\1\2", -5, 7, 9), -1)
    assert as_entry({"id": 7, **metadata(entry)}) == entry
