"""The Milvus engine: addresses and filters by themselves; the rest with a real server, which is killed now and then."""

import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from galleries import photos, save_picture, tiny_model, tiny_recipe, touch_later
from hypothesis import given
from hypothesis import strategies as st
from milvus_server import MilvusServer

from andornot import Representation
from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError, Where
from andornot.gallery.engines import engine_named, milvus, milvus_connection
from andornot.gallery.engines.exact import Exact
from andornot.gallery.engines.milvus import Milvus, milvus_engine
from andornot.gallery.engines.milvus_connection import Address, Connection
from andornot.gallery.engines.milvus_records import as_path, as_stored, expression_of
from andornot.gallery.engines.milvus_space import Space
from andornot.gallery.filters import Conditions
from andornot.gallery.layout import IDENTITY
from andornot.gallery.paths import is_inside, label_of
from andornot.logic.distance import SCORES

HOSTILE = [
    "it's",
    'say "hi"',
    "back\\slash",
    "100%",
    "under_score",
    "ünï 図",
    "new\nline",
    "a/",
    "dog0",
    "do",
    ") or (id > 0",
]


def milvus_of(gallery: Gallery, score: str = "degrees") -> Milvus:
    engine = gallery._searching._engine(score)[1]
    assert isinstance(engine, Milvus)
    return engine


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("milvus://localhost/photos", Address("localhost", 19530, "photos")),
        ("milvus://10.0.0.7:7/a_1/?index=hnsw&ef=99", Address("10.0.0.7", 7, "a_1", index="HNSW", ef=99)),
        ("milvus://me:p%40ss@h/base/photos", Address("h", 19530, "photos", "base", "me:p@ss")),
        ("milvus://h/p?secure=true", Address("h", 19530, "p", tls=())),
        ("milvus://h/p?secure=false", Address("h", 19530, "p")),
        ("milvus://h/p?ca_pem_path=/ca", Address("h", 19530, "p", tls=(("ca_pem_path", "/ca"),))),
        ("milvus://token@[::1]:5/photos?index=FLAT", Address("::1", 5, "photos", "", "token", "FLAT")),
    ],
)
def test_an_address_is_taken_apart(text, expected):
    assert Address.parse(text) == expected


def test_a_token_of_the_environment_stands_in_where_the_address_has_none(monkeypatch):
    monkeypatch.setenv("MILVUS_TOKEN", "me:secret")
    assert Address.parse("milvus://h/p").credentials == "me:secret"
    assert Address.parse("milvus://you:other@h/p").credentials == "you:other"


def test_a_password_is_not_shown():
    address = Address.parse("milvus://me:secret@[::1]:5/base/photos?index=FLAT")
    assert str(address) == "milvus://[::1]:5/base/photos"
    assert "secret" not in f"{address!r}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus:photos", "the host is missing"),
        ("milvus:///photos", "the host is missing"),
        ("milvus://me:secret@host", '"" cannot be the name of a collection'),
        ("milvus://me:secret@host/my-photos", '"my-photos" cannot be the name'),
        ("milvus://me:secret@host/a/b/c", '"/a/b/c" has too many parts'),
        ("milvus://me:secret@host:99999/photos", "the host and the port cannot be read"),
        ("milvus://[::1/photos", "the host and the port cannot be read"),
        ("milvus://me:x/secret@host/photos", "cannot be read"),
        ("milvus://me/secret@host/photos", "in a password, / .* are written as %2F"),
        ("milvus://host/photos?index=IVF", 'index "IVF" is unknown, there are FLAT and HNSW'),
        ("milvus://host/photos?ef=many", 'ef must be a number from 1 to 32768, got "many"'),
        ("milvus://host/photos?secure=perhaps", 'secure must be true or false, got "perhaps"'),
        ("milvus://host/photos?m=3", 'option "m" is unknown, there are index, ef, secure, ca_pem_path'),
    ],
)
def test_a_wrong_address_is_one_clear_line_without_the_password(text, message, tmp_path):
    with pytest.raises(
        GalleryError, match=f"wrong address of a Milvus collection: .*{message}.*; write milvus://"
    ) as e:
        Gallery.create(tmp_path / "g", tiny_model(), engine=text)
    assert "secret" not in str(e.value)
    assert not (tmp_path / "g").exists()


def test_without_pymilvus_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "andornot.gallery.engines.milvus")
    monkeypatch.delitem(sys.modules, "andornot.gallery.engines.milvus_connection")
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(GalleryError, match=r"this engine needs pymilvus: pip install 'andornot\[milvus\]'"):
        engine_named("milvus://localhost/photos")


def test_nobody_at_the_address_is_one_clear_line(tmp_path, capfd):
    photos(tmp_path / "photos", 3)
    tiny_model().save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    command = ["index", str(tmp_path / "photos"), "--gallery", str(tmp_path / "g"), "--model", str(tmp_path / "model")]
    assert main([*command, "--engine", f"milvus://me:secret@127.0.0.1:{port}/photos"]) == 2
    captured = capfd.readouterr()
    away = f"the Milvus server at 127.0.0.1:{port} is away: start it, and give the same command again; nothing is lost"
    assert captured.err.splitlines()[-1] == f"andornot: {away}"
    assert captured.err.count("andornot:") == 1
    assert captured.out == ""
    assert len(Gallery.open(tmp_path / "g").search("000.png", score="degrees")) == 2, "the pictures are in the gallery"


def test_a_port_that_never_answers_is_an_error_after_a_bounded_time(tmp_path, monkeypatch):
    monkeypatch.setattr(milvus_connection, "_CONNECT_SECONDS", 1)
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 3))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        silent = Gallery.open(tmp_path / "g", engine=f"milvus://127.0.0.1:{port}/photos")
        start = time.monotonic()
        with pytest.raises(GalleryError, match=f"127.0.0.1:{port} does not answer within 1 seconds: is it a Milvus"):
            silent.search("000.png", score="degrees")
    assert time.monotonic() - start < 10


# --- filters and vectors --------------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=5) | st.sampled_from(HOSTILE)
paths = st.lists(names, min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(
    path=paths,
    folder=st.none() | paths | st.just("/"),
    label=st.none() | names,
    times=st.tuples(st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5)),
    taken=st.integers(-5, 5),
    by_camera=st.sampled_from([-1, 0, 1]),
    file_dates=st.booleans(),
    inside=st.booleans(),
)
def test_an_expression_says_what_the_filter_says(path, folder, label, times, taken, by_camera, file_dates, inside):
    """What Milvus reads is a Python expression as well."""
    if inside and folder is not None:
        path = f"{folder.rstrip('/')}{path}"
    after, before = times
    expected = (
        (folder is None or is_inside(path, folder))
        and (label is None or label_of(path) == label)
        and (after is None or taken >= after)
        and (before is None or taken < before)
        and (times == (None, None) or file_dates or by_camera != 0)
    )
    text = expression_of(Conditions(folder, label, after, before, file_dates))
    values = {"path": as_stored(path), "label": as_stored(label_of(path)), "taken": taken}
    values["by_camera"] = by_camera
    assert bool(eval(text or "True", {}, values)) == expected


def test_names_that_are_no_text_can_be_stored():
    path = os.fsdecode(b"/photos/\xff\xfe/a.png")
    assert as_stored(path) == "/photos/%FF%FE/a.png"
    assert as_path(as_stored(path)) == path


@pytest.mark.parametrize("score", ["cross-entropy", "containment"])
@pytest.mark.parametrize("sharpness", [0.1, 3.0, 1000.0])
def test_the_nearest_point_is_the_one_with_the_largest_inner_product(score, sharpness):
    """Also where probabilities are so small that they count as 1e-12."""
    generator = torch.Generator().manual_seed(0)
    pictures = Representation.from_logits(sharpness * torch.randn(200, 16, 4, generator=generator))
    queries = Representation.from_logits(2 * torch.randn(9, 16, 4, generator=generator))
    vectors, asking = SCORES[score].gallery(pictures), SCORES[score].query(queries)
    space = Space.of(score, 16, 4)
    points, from_queries = space.gallery(vectors).double(), space.queries(asking).double()
    assert points.shape == (200, space.dimensions) == (200, 65)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(200).double(), atol=1e-6, rtol=0)
    nearest = torch.cdist(from_queries, points).argmin(1)
    best = (asking.double() @ vectors.double().T).max(1).values
    torch.testing.assert_close((asking.double() @ vectors.double().T)[range(9), nearest], best, atol=1e-5, rtol=1e-5)


# --- with a server --------------------------------------------------------------------------------------------------

with_server = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("milvus") is None, reason="the server is not installed: pip install milvus==2.3.5"),
    pytest.mark.xdist_group("milvus"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[MilvusServer]:
    with MilvusServer() as running:
        yield running


@pytest.fixture
def address(server, request) -> Iterator[str]:
    """A collection that nobody else uses."""
    name = f"c_{abs(hash(request.node.name)):x}"
    yield server.address(name)
    for collection in server.client.list_collections():
        if collection.startswith(name):
            for alias in server.client.describe_collection(collection)["aliases"]:
                server.client.drop_alias(alias)
            server.client.drop_collection(collection)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A gallery of 120 pictures in folders with odd names."""
    made = tmp_path_factory.mktemp("milvus")
    for number, label in enumerate(["cat", "dog", *HOSTILE[:6], "dog0", "do"]):
        photos(made / "photos" / label, 12, start=12 * number)
    gallery = Gallery.create(made / "g", tiny_model())
    gallery.add(made / "photos")
    return made


@pytest.fixture
def copied(folder, tmp_path) -> Path:
    shutil.copytree(folder / "g", tmp_path / "g")
    return tmp_path / "g"


def random_formula(rng: np.random.Generator) -> str:
    text = str(rng.integers(1, 121))
    for _ in range(rng.integers(0, 4)):
        text = f"({text}) {rng.choice(list('|&-'))} {'~' if rng.random() < 0.3 else ''}{rng.integers(1, 121)}"
    return text if rng.random() < 0.8 else f"~({text})"


def assert_same_hits(one: list[Any], other: list[Any]) -> None:
    np.testing.assert_allclose([hit.distance for hit in one], [hit.distance for hit in other], atol=1e-5)
    # Of pictures at equal distances, to rounding, either may be first.
    far = one[-1].distance - 1e-5 if one else 0
    assert {hit.id for hit in one if hit.distance < far} <= {hit.id for hit in other}


def contents_there(engine: Milvus) -> dict[int, tuple[str, str, int, list[float]]]:
    fields = ["id", "path", "label", "taken", "vector"]
    engine._server.call("load_collection", engine._name)
    options = {"output_fields": fields, "limit": 1000, "consistency_level": "Strong"}
    found = engine._server.call("query", engine._name, "id >= 0", **options)
    return {r["id"]: (r["path"], r["label"], r["taken"], [round(float(x), 5) for x in r["vector"]]) for r in found}


def contents_expected(gallery: Gallery) -> dict[int, tuple[str, str, int, list[float]]]:
    snapshot, engine = gallery._snapshot, milvus_of(gallery)
    rows = np.sort(snapshot.rows)
    vectors = engine._vectors.take(rows)
    expected = {}
    for vector, identity in zip(vectors, snapshot.ids_of_rows(rows).tolist(), strict=True):
        entry = snapshot.entry(identity)
        assert entry is not None
        picture = entry.picture
        path, label = as_stored(picture.path), as_stored(label_of(picture.path))
        expected[picture.id] = path, label, picture.taken, [round(float(x), 5) for x in vector]
    return expected


def assert_holds(gallery: Gallery) -> None:
    assert contents_there(milvus_of(gallery)) == contents_expected(gallery)


class OnlyCandidates(Exact):
    """Scores what Milvus found, and refuses to look through the gallery instead."""

    search = None  # type: ignore[assignment]


class Counting:
    """Counts the pictures that go to the server; may do something before each batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None] = lambda _: None) -> None:
        self.batches: list[int] = []
        original = Connection.call

        def call(connection: Connection, method: str, *arguments: Any, **options: Any) -> Any:
            if method == "upsert" and not arguments[0].endswith(("_about", "_centred")):
                before(len(self.batches))
                self.batches.append(len(arguments[1]))
            return original(connection, method, *arguments, **options)

        monkeypatch.setattr(Connection, "call", call)


class TestServer:
    pytestmark = with_server

    @pytest.mark.parametrize("score", SCORES)
    def test_hits_are_those_of_the_exact_engine(self, score, folder, address, monkeypatch):
        monkeypatch.setattr(milvus, "exact_for", OnlyCandidates)
        exact, far = Gallery.open(folder / "g"), Gallery.open(folder / "g", engine=address)
        far.prepare(score)
        rng = np.random.default_rng(0)
        for _ in range(15):
            formula, top = random_formula(rng), int(rng.integers(1, 60))
            assert_same_hits(far.search(formula, top, score), exact.search(formula, top, score))
        several = [random_formula(rng) for _ in range(5)]
        for one, other in zip(far.search(several, 9, score), exact.search(several, 9, score), strict=True):
            assert_same_hits(one, other)
        assert_same_hits(far.search("7", 3, score, why=True), exact.search("7", 3, score))

    def test_filters_are_those_of_the_exact_engine(self, folder, address):
        exact, far = Gallery.open(folder / "g"), Gallery.open(folder / "g", engine=address)
        far.prepare("degrees")
        root = folder / "photos"
        labels = sorted(path.name for path in root.iterdir())
        assert len(labels) == 10
        wheres = [Where(label=label) for label in labels] + [Where(folder=str(root / label)) for label in labels]
        wheres += [Where(after="2000", before="2100"), Where(after="2100"), Where(folder="photos", before="2000")]
        wheres += [Where(after="2000", before="2100", file_dates=True), Where(before="2000", file_dates=True)]
        wheres += [Where(folder="dog", label="dog"), Where(folder="dog", label="do")]
        for where in wheres:
            for top in (5, 40):
                hits = far.search("1 | 17", top, where=where, include_queries=True, score="degrees")
                assert_same_hits(hits, exact.search("1 | 17", top, where=where, include_queries=True, score="degrees"))
        with pytest.raises(GalleryError, match='no picture has the label "dgo"; did you mean "dog"'):
            far.search("1", where=Where(label="dgo"), score="degrees")
        with pytest.raises(GalleryError, match=r"no picture of the gallery is in photos/dog/013\.png"):
            far.search("1", where=Where(folder="photos/dog/013.png"), score="degrees")

    def test_a_filter_is_applied_by_the_server(self, folder, address, monkeypatch):
        monkeypatch.setattr(milvus, "exact_for", OnlyCandidates)
        monkeypatch.setattr(milvus, "SPARE", 0)
        far = Gallery.open(folder / "g", engine=address)
        far.prepare("degrees")
        for label in ("dog", 'say "hi"', "back\\slash", "100%"):
            hits = far.search("1", 12, where=Where(label=label), include_queries=True, score="degrees")
            assert len(hits) == 12
            assert all(label_of(hit.path) == label for hit in hits)

    def test_more_than_milvus_gives_is_compared_here(self, folder, address, monkeypatch):
        exact, far = Gallery.open(folder / "g"), Gallery.open(folder / "g", engine=address)
        far.prepare("degrees")
        monkeypatch.setattr(milvus, "_LARGEST_TOP", 50)
        assert far.search("1", 100, score="degrees") == exact.search("1", 100, score="degrees")
        assert len(far.search("1", 1000, score="degrees")) == 119

    @pytest.mark.parametrize("score", ["degrees", "cross-entropy"])
    def test_hnsw_finds_nearly_all(self, score, tmp_path, server, address):
        """Milvus builds no graph for fewer than 1,024 pictures."""
        exact = Gallery.create(tmp_path / "g", tiny_model())
        exact.add(photos(tmp_path / "photos", 1300))
        far = Gallery.open(tmp_path / "g", engine=f"{address}?index=HNSW")
        far.prepare(score)
        name = milvus_of(far, score)._name
        deadline = time.monotonic() + 60
        while server.client.describe_index(name, "vector")["indexed_rows"] < 1300:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert server.client.describe_index(name, "vector")["index_type"] == "HNSW"
        rng = np.random.default_rng(1)
        shares = []
        for _ in range(20):
            formula = random_formula(rng)
            expected = {hit.id for hit in exact.search(formula, 50, score)}
            shares.append(len(expected & {hit.id for hit in far.search(formula, 50, score)}) / 50)
        assert np.mean(shares) > 0.95

    def test_the_kind_of_index_follows_the_address_and_the_size(self, copied, server, address, monkeypatch):
        def kind() -> str:
            return str(server.client.describe_index(address.rpartition("/")[2], "vector")["index_type"])

        Gallery.open(copied, engine=address).prepare("degrees")
        assert kind() == "FLAT"
        Gallery.open(copied, engine=f"{address}?index=HNSW").prepare("degrees")
        assert kind() == "HNSW"
        assert len(Gallery.open(copied, engine=f"{address}?ef=20").search("1", 30, score="degrees")) == 30
        Gallery.open(copied, engine=address).prepare("degrees")
        assert kind() == "FLAT"
        monkeypatch.setattr(milvus, "_FLAT_AT_MOST", 119)
        Gallery.open(copied, engine=address).prepare("degrees")
        assert kind() == "HNSW"
        assert len(Gallery.open(copied, engine=address).search("1", 30, score="degrees")) == 30

    def test_only_what_changed_is_sent_and_the_collection_is_as_if_made_afresh(self, tmp_path, address, monkeypatch):
        files = photos(tmp_path / "photos" / "cat", 30)
        far = Gallery.create(tmp_path / "g", recipe=tiny_recipe(), engine=address)
        sent = Counting(monkeypatch).batches

        def news() -> int:
            far.update()
            assert_holds(far)
            exact = Gallery.open(tmp_path / "g")
            assert_same_hits(far.search("1 | 2", 9, score="degrees"), exact.search("1 | 2", 9, score="degrees"))
            count = sum(sent)
            sent.clear()
            return count

        far.add(tmp_path / "photos")
        assert news() == 30
        assert news() == 0
        photos(tmp_path / "photos" / "dog", 5, start=30)
        assert news() == 5
        save_picture(files / "003.png", 999)
        touch_later(files / "003.png")
        (files / "004.png").rename(tmp_path / "photos" / "dog" / "moved.png")
        (files / "005.png").unlink()
        assert news() == 2
        far.remove("006.png")
        (files / "006.png").unlink()
        assert news() == 0
        far.recalibrate()
        assert news() == 33

    def test_an_index_changes_nothing_if_there_is_nothing_new(self, copied, address, monkeypatch):
        Gallery.open(copied, engine=address).prepare("degrees")
        monkeypatch.setattr(Milvus, "_synchronise", None)
        Gallery.open(copied, engine=address).prepare("degrees")

    def test_rows_that_move_are_not_sent_again(self, copied, address, monkeypatch):
        far = Gallery.open(copied, engine=address)
        far.prepare("degrees")
        monkeypatch.setattr("andornot.gallery.writer._SPARE_ROWS", -1000)
        sent = Counting(monkeypatch).batches
        far.update()
        assert far._snapshot.state.first_file == 2
        assert sent == []
        assert_holds(far)

    def test_pictures_that_left_the_gallery_are_no_hits(self, copied, address):
        far = Gallery.open(copied, engine=address)
        far.prepare("degrees")
        nearest = [hit.id for hit in far.search("1", 60, score="degrees")]
        far.remove(map(str, nearest[:40]))
        with pytest.warns(
            UserWarning, match=r"does not hold the gallery as it is now: andornot index --gallery .* com"
        ):
            assert [hit.id for hit in far.search("1", 20, score="degrees")] == nearest[40:]

    # --- whose collection it is -------------------------------------------------------------------------------------

    def test_a_collection_of_somebody_else_is_refused(self, copied, server, address):
        from pymilvus import DataType

        name = address.rpartition("/")[2]
        schema = server.client.create_schema(description="holiday")
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
        server.client.create_collection(name, schema=schema)
        far = Gallery.open(copied, engine=address)
        for use in (lambda: far.prepare("degrees"), lambda: far.search("1", score="degrees")):
            with pytest.raises(GalleryError, match=f"{name} in milvus://.* was not made by andornot: choose another"):
                use()
        assert server.client.describe_collection(name)["description"] == "holiday"

    def test_a_collection_of_another_gallery_is_refused(self, copied, tmp_path, address):
        Gallery.open(copied, engine=address).prepare("degrees")
        other = Gallery.create(tmp_path / "other", tiny_model(), engine=address)
        with pytest.raises(GalleryError, match="holds degrees of another gallery: choose another name"):
            other.add(photos(tmp_path / "photos", 3))
        with pytest.raises(GalleryError, match="holds degrees of another gallery"):
            other.search("000.png", score="degrees")
        assert_holds(Gallery.open(copied, engine=address))
        shutil.move(copied, tmp_path / "moved")
        assert len(Gallery.open(tmp_path / "moved", engine=address).search("1", score="degrees")) == 10, (
            "a gallery may be moved"
        )

    def test_vectors_of_another_model_are_refused_and_replaced(self, tmp_path, address):
        far = Gallery.create(tmp_path / "g", recipe=tiny_recipe(), engine=address)
        far.add(photos(tmp_path / "photos", 20))
        (tmp_path / "photos" / "003.png").unlink()
        there = Gallery.open(tmp_path / "g")
        there.update()
        there.recalibrate()
        far.refresh()
        with pytest.raises(
            GalleryError,
            match=r"is of another model, or of an older version: andornot index --gallery \S+ --engine \S+ fills",
        ):
            far.search("000.png", score="degrees")
        far.update()
        assert_holds(far)

    def test_a_missing_collection_is_an_error_with_the_command(self, copied, address, capfd):
        score = ["--score", "containment"]
        assert main(["search", "1", "--gallery", str(copied), "--engine", address, *score]) == 2
        shown = address.replace("root:Milvus@", "")
        name = f"{address.rpartition('/')[2]}_containment"
        assert capfd.readouterr().err == (
            f"andornot: there is no collection {name} in {shown}: andornot index --gallery {copied} --engine {shown} "
            "--score containment fills it\n"
        )

    def test_a_wrong_password_is_one_clear_line(self, copied, address):
        wrong = Gallery.open(copied, engine=address.replace("Milvus@", "secret@"))
        with pytest.raises(GalleryError, match="does not take this user and password") as error:
            wrong.search("1", score="degrees")
        assert "secret" not in str(error.value)

    def test_a_database_may_be_named(self, copied, server, address):
        host, _, name = address.rpartition("/")
        server.client.create_database("andornot_test")
        with pytest.raises(GalleryError, match=r"says: database.*not found"):
            Gallery.open(copied, engine=f"{host}/nobody/{name}").prepare("degrees")
        far = Gallery.open(copied, engine=f"{host}/andornot_test/{name}")
        far.prepare("degrees")
        assert len(far.search("1", score="degrees")) == 10
        assert not server.client.has_collection(name)

    def test_the_commands_are_the_same(self, tmp_path, address, capfd):
        photos(tmp_path / "photos" / "cat", 20)
        tiny_model().save(tmp_path / "model")
        gallery = ["--gallery", str(tmp_path / "g")]
        options = [*gallery, "--model", str(tmp_path / "model"), "--score", "cross-entropy"]
        assert main(["index", str(tmp_path / "photos"), *options, "--engine", address]) == 0
        for score in ("degrees", "cross-entropy"):
            search = ["search", "1 | 2", *gallery, "--json", "--score", score, "--label", "cat", "--top", "5"]
            capfd.readouterr()
            assert main(search) == 0
            expected = json.loads(capfd.readouterr().out)
            assert main([*search, "--engine", address]) == 0
            captured = capfd.readouterr()
            assert [hit["id"] for hit in json.loads(captured.out)["hits"]] == [hit["id"] for hit in expected["hits"]]
            assert captured.err == ""

    # --- when something dies ----------------------------------------------------------------------------------------

    def test_a_collection_that_is_not_loaded_is_loaded(self, copied, server, address):
        far = Gallery.open(copied, engine=address)
        far.prepare("degrees")
        server.client.release_collection(address.rpartition("/")[2])
        assert len(far.search("1", score="degrees")) == 10

    def test_the_server_is_killed_during_an_index_and_nothing_is_lost(self, tmp_path, server, address, monkeypatch):
        photos(tmp_path / "photos", 60)
        far = Gallery.create(tmp_path / "g", tiny_model(), engine=address)
        monkeypatch.setattr(milvus, "_BATCH_ROWS", 10)
        with monkeypatch.context() as patch:

            def kill(number: int) -> None:
                if number == 3:
                    server.kill()
                    patch.setattr(milvus_connection, "_REQUEST_SECONDS", 2)

            sent = Counting(patch, kill).batches
            with pytest.raises(GalleryError, match="is away: start it, and give the same command again; nothing is lo"):
                far.add(tmp_path / "photos")
            assert len(sent) == 4
            exact = Gallery.open(tmp_path / "g")
            assert len(exact.search("1", 100, score="degrees")) == 59, "the gallery is complete"
            with pytest.raises(GalleryError, match="is away"):
                Gallery.open(tmp_path / "g", engine=address).search("1", score="degrees")
        server.start()
        with pytest.warns(UserWarning, match="does not hold the gallery as it is now"):
            assert len(Gallery.open(tmp_path / "g", engine=address).search("1", 9, score="degrees")) == 9
        sent = Counting(monkeypatch).batches
        far.update()
        assert sum(sent) == 30, "three batches were there"
        assert_holds(far)
        assert_same_hits(far.search("1 & ~2", 20, score="degrees"), exact.search("1 & ~2", 20, score="degrees"))

    def test_an_index_outlives_a_server_that_comes_back(self, tmp_path, server, address, monkeypatch):
        photos(tmp_path / "photos", 40)
        far = Gallery.create(tmp_path / "g", tiny_model(), engine=address)
        monkeypatch.setattr(milvus, "_BATCH_ROWS", 10)
        starting = threading.Thread(target=server.start)

        def restart(number: int) -> None:
            if number == 2:
                server.kill()
                starting.start()

        Counting(monkeypatch, restart)
        far.add(tmp_path / "photos")
        starting.join()
        assert_holds(far)

    def test_a_server_that_is_killed_after_an_index_has_kept_everything(self, copied, server, address):
        far = Gallery.open(copied, engine=address)
        far.prepare("degrees")
        server.kill()
        server.start()
        again = Gallery.open(copied, engine=address)
        assert_same_hits(
            again.search("1 & ~2", 20, score="degrees"), Gallery.open(copied).search("1 & ~2", 20, score="degrees")
        )
        assert_holds(again)

    def test_a_server_that_hangs_is_an_error_after_a_bounded_time(self, copied, server, address, monkeypatch):
        far = Gallery.open(copied, engine=address)
        far.prepare("degrees")
        far.search("1", score="degrees")
        monkeypatch.setattr(milvus_connection, "_REQUEST_SECONDS", 2)
        with server.frozen():
            for use in (lambda: far.search("1", score="degrees"), lambda: far.prepare("containment")):
                start = time.monotonic()
                with pytest.raises(GalleryError, match=r"does not answer within 2 seconds|is away"):
                    use()
                assert time.monotonic() - start < 20
        server.kill()  # which would give up itself, after so long a pause
        server.start()

    def test_the_client_is_killed_at_random_moments_and_nothing_is_lost(self, tmp_path, address):
        rng = np.random.default_rng(0)
        Gallery.create(tmp_path / "g", tiny_model())
        killed = 0
        for step in range(6):
            photos(tmp_path / "photos", 15, start=15 * step)
            running = CONTEXT.Process(target=_index, args=(str(tmp_path), address))
            running.start()
            while not (tmp_path / "begun").exists():
                assert running.is_alive()
                time.sleep(0.001)
            (tmp_path / "begun").unlink()
            running.join(rng.random() * (6 if step == 0 else 3))
            killed += running.is_alive()
            with suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGKILL)
            running.join()
        assert killed >= 3
        far = Gallery.open(tmp_path / "g", engine=address)
        far.add(tmp_path / "photos")
        assert len(far) == 90
        assert_holds(far)
        far.search("1", score="degrees")


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["andornot.gallery"])


def _index(folder: str, address: str) -> None:
    """In a process of its own: an index with a request for every few pictures; says when it begins with Milvus."""
    torch.set_num_threads(1)
    milvus._BATCH_ROWS = 3  # type: ignore[misc]
    original = Milvus.prepare

    def prepare(engine: Milvus) -> None:
        Path(folder, "begun").touch()
        original(engine)

    Milvus.prepare = prepare  # type: ignore[method-assign]
    Gallery.open(Path(folder, "g"), engine=milvus_engine(address)).add(Path(folder, "photos"))


def test_the_ledger_is_a_gallery_like_any_other(tmp_path):
    """The name of a gallery, which it gets for Milvus, is no stranger in its folder."""
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / IDENTITY).write_text("ours")
    Gallery.create(tmp_path / "g", tiny_model())
    assert Gallery.exists(tmp_path / "g")
