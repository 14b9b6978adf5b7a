"""The HTTP API: the gallery's own answers, as JSON."""

import csv
import io
import itertools
import os
import struct
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pillow_heif
import pytest
from PIL import Image
from serving import image, save, served, small_gallery, wait_until

from andornot import Formula, degree_distance
from andornot.choices import LOGICS
from andornot.data import decode
from andornot.gallery import Filter, Gallery, Hit, queries
from andornot.gallery.hits import percent
from andornot.gallery.names import Names
from andornot.gallery.options import SEARCH_SCORES
from andornot.logic import parser
from andornot.logic.distance import SCORES
from andornot.web import parameters, responses, services, uploads
from andornot.web.browsing import Browser
from andornot.web.downloads import as_zip
from andornot.web.snapshots import Snapshot


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    return small_gallery(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def client(gallery) -> Iterator[httpx.Client]:
    with served(gallery) as client:
        yield client


@pytest.fixture
def own(tmp_path) -> Iterator[tuple[Gallery, httpx.Client]]:
    """A gallery that a test may change, and a server before it."""
    gallery = small_gallery(tmp_path)
    with served(gallery) as client:
        yield gallery, client


def get(client: httpx.Client, address: str, **parameters: object) -> dict:
    response = client.get(f"/api/{address}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def refused(client: httpx.Client, status: int, address: str, **parameters: object) -> dict:
    response = client.get(f"/api/{address}", params=parameters)
    assert response.status_code == status, response.text
    return response.json()["error"]


def identity(gallery: Gallery, ending: str) -> int:
    return next(i for i, path in zip(gallery.ids, gallery.paths, strict=True) if path.endswith(ending))


def jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def upload(client: httpx.Client, content: bytes) -> str:
    response = client.post("/api/uploads", content=content, headers={"Content-Type": "image/jpeg"})
    assert response.status_code == 200, response.text
    return response.json()["upload"]


# --- looking around -----------------------------------------------------------------------------------------------


def test_the_gallery_as_a_whole(client, gallery):
    told = get(client, "gallery")
    assert told["name"] == "g"
    assert (told["images"], told["broken"], told["features"], told["values"]) == (
        24,
        0,
        gallery.model.num_features,
        4,
    )
    assert told["labels"] == [{"label": "cats", "images": 11}, {"label": "dogs", "images": 13}]
    assert told["taken"]["from"] <= told["taken"]["to"]
    assert told["scores"] == list(SEARCH_SCORES)
    assert told["logics"] == list(LOGICS)
    assert get(client, "gallery") == told


def test_the_choices_of_the_api_are_those_of_the_gallery():
    choices = {
        name: field.annotation.__args__
        for name, field in parameters.SearchParameters.model_fields.items()
        if name in ("score", "logic")
    }
    assert choices == {"score": SEARCH_SCORES, "logic": ("", *LOGICS)}


def test_a_search_reads_its_formula_once_and_looks_for_its_names_once(client, monkeypatch):
    calls, original, parsed = [], Names.resolve, parser.parse.cache_info().misses
    monkeypatch.setattr(Names, "resolve", lambda *a: (calls.append(a), original(*a))[1])
    assert len(get(client, "search", formula="1 | (2 - 3) | 4 | 4", why=True)["names"]) == 5
    assert (len(calls), parser.parse.cache_info().misses - parsed) == (1, 1)


@pytest.mark.parametrize("address", ["/", "/api/gallery", "/api/images/1/thumbnail", "/static/js/api.js", "/nowhere"])
def test_the_head_of_an_answer_is_that_of_the_answer(client, address):
    whole, head = client.get(address), client.head(address)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
    assert client.get(address).content == whole.content, "the connection is left as it should be"


def test_images_come_in_parts_and_in_order(client, gallery):
    whole = get(client, "images", limit=1000)
    assert whole["total"] == 24
    assert [image["id"] for image in whole["images"]] == gallery.ids
    assert [image["name"] for image in whole["images"]] == [Path(path).name for path in gallery.paths]
    part = get(client, "images", offset=20, limit=3)
    assert (part["total"], part["offset"], part["images"]) == (24, 20, whole["images"][20:23])
    by_name = [image["name"] for image in get(client, "images", order="name", limit=100)["images"]]
    assert by_name == sorted(by_name)
    up, down = ([p["id"] for p in get(client, "images", order=order)["images"]] for order in ("taken", "-taken"))
    assert up == down[::-1]
    assert get(client, "images", offset=1000)["images"] == []


def test_images_can_be_filtered(client):
    assert get(client, "images", label="cats")["total"] == 11
    assert get(client, "images", label="", after="", before="")["total"] == 24
    assert get(client, "images", label="dogs", after="1990", before="2990-05", file_dates="1")["total"] == 13
    assert get(client, "images", label="dogs", after="1990", before="2990-05")["total"] == 0  # no camera dated them
    assert get(client, "images", before="1990-01-01")["total"] == 0
    wrong_label = refused(client, 400, "images", label="cat")
    assert wrong_label["code"] == "invalid-filter"
    assert 'did you mean "cats"?' in wrong_label["message"]
    assert refused(client, 400, "search", formula="1", after="yesterday")["code"] == "invalid-filter"


def test_a_term_leads_back_to_its_image(client):
    for told in get(client, "images")["images"]:
        assert [name["id"] for name in get(client, "formula", formula=told["term"])["names"]] == [told["id"]]


def test_one_image_with_what_it_has_more_of_than_others(client, gallery):
    chosen = identity(gallery, "cat-3.png")
    told = get(client, f"images/{chosen}")
    assert (told["name"], told["label"], told["width"], told["height"]) == ("cat-3.png", "cats", 60, 40)
    degrees = gallery.model.encode(gallery.paths).degrees
    beyond = degrees[gallery.ids.index(chosen)] - degrees.mean(0)
    strongest = [feature["feature"] for feature in told["features"]]
    assert len(strongest) == 12
    assert beyond[strongest].min() >= beyond.sort(descending=True).values[11] - 0.01
    for feature in told["features"]:
        assert feature["degree"] == pytest.approx(
            float(degrees[gallery.ids.index(chosen), feature["feature"]]), abs=0.01
        )


def test_features_are_counted_over_all_images(client, gallery):
    degrees = gallery.model.encode(gallery.paths).degrees.numpy()
    listed = get(client, "features", limit=1000)
    assert listed["total"] == len(listed["features"]) == gallery.model.num_features
    spreads = [feature["spread"] for feature in listed["features"]]
    assert spreads == sorted(spreads, reverse=True)
    for told in listed["features"][:5]:
        column = degrees[:, told["feature"]]
        assert told["mean"] == pytest.approx(column.mean(), abs=0.01)
        assert told["spread"] == pytest.approx(column.std(), abs=0.01)
        assert len(told["images"]) == 4
        shown = [column[gallery.ids.index(image["id"])] for image in told["images"]]
        assert shown == pytest.approx(np.sort(column)[:-5:-1], abs=0.01)
    means = [feature["mean"] for feature in get(client, "features", order="mean", offset=2, limit=4)["features"]]
    assert means == pytest.approx(np.sort(degrees.mean(0))[::-1][2:6], abs=0.01)


def test_one_feature_with_its_distribution(client, gallery):
    told = get(client, "features/3", top=5)
    column = gallery.model.encode(gallery.paths).degrees[:, 3].numpy()
    assert sum(part["images"] for part in told["histogram"]) == 24
    assert (told["histogram"][0]["from"], told["histogram"][-1]["to"], len(told["histogram"])) == (0, 1, 20)
    assert [p["degree"] for p in told["images"]] == pytest.approx(np.sort(column)[::-1][:5], abs=0.01)
    assert refused(client, 404, f"features/{gallery.model.num_features}")["code"] == "not-found"


# --- images -----------------------------------------------------------------------------------------------------


def test_a_thumbnail_is_made_once_and_known_by_its_tag(own):
    gallery, client = own
    chosen = identity(gallery, "dog-1.jpg")
    first = client.get(f"/api/images/{chosen}/thumbnail")
    assert first.headers["content-type"] == "image/jpeg"
    assert first.headers["cache-control"] == "private, no-cache"
    assert Image.open(io.BytesIO(first.content)).size == (60, 40)
    kept = list((gallery.folder / "cache" / "thumbnails").rglob("*.jpg"))
    assert [file.read_bytes() for file in kept] == [first.content]
    kept[0].write_bytes(b"from the disk")
    version = get(client, f"images/{chosen}")["version"]
    again = client.get(f"/api/images/{chosen}/thumbnail", params={"v": version})
    assert again.content == b"from the disk"
    assert "immutable" in again.headers["cache-control"]
    other = client.get(f"/api/images/{chosen}/thumbnail", params={"v": "1"})
    assert other.headers["cache-control"] == "private, no-cache"
    same = client.get(f"/api/images/{chosen}/thumbnail", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (same.status_code, same.content) == (304, b"")


def written_into(path: Path, other: bytes) -> None:
    path.write_bytes(other)


def replaced(path: Path, other: bytes) -> None:
    path.with_suffix(".new").write_bytes(other)
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("change", [written_into, replaced])
def test_no_other_image_is_kept_under_a_digest(own, monkeypatch, change):
    gallery, client = own
    chosen = identity(gallery, "dog-1.jpg")
    path = Path(gallery.paths[gallery.ids.index(chosen)])
    content, times = path.read_bytes(), path.stat()
    other = jpeg(image(4_000, (90, 90)))
    version = get(client, f"images/{chosen}")["version"]
    changes = [other]

    def decode_late(file: object, **options: int) -> Image.Image:
        if changes:
            change(path, changes.pop())
        return decode(file, **options)

    monkeypatch.setattr(responses, "decode", decode_late)
    changed = client.get(f"/api/images/{chosen}/thumbnail", params={"v": version})
    assert Image.open(io.BytesIO(changed.content)).size == (90, 90)
    assert changed.headers["cache-control"] == "private, no-cache"
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    back = client.get(f"/api/images/{chosen}/thumbnail", params={"v": version})
    assert Image.open(io.BytesIO(back.content)).size == (60, 40)
    assert back.headers["etag"] != changed.headers["etag"]
    assert "immutable" in back.headers["cache-control"]


def test_a_file_that_changes_all_the_time_is_not_shown_as_something_else(own, monkeypatch):
    gallery, client = own
    path = Path(gallery.paths[0])
    sides = itertools.count(50)

    def decode_late(file: object, **options: int) -> Image.Image:
        image(1, (next(sides), 40)).save(path)
        return decode(file, **options)

    monkeypatch.setattr(responses, "decode", decode_late)
    assert refused(client, 503, "images/1/thumbnail")["code"] == "file-changing"


def test_an_image_has_the_same_version_until_it_changes(own, tmp_path):
    gallery, client = own

    def versions() -> dict[str, str]:
        """As all answers tell them."""
        listed = {told["name"]: told["version"] for told in get(client, "images")["images"] if told["id"] < 11}
        found = get(client, "search", formula="cat-1.png", include_queries=1, top=100)
        assert {hit["name"]: hit["version"] for hit in found["hits"]}.items() >= listed.items()
        mentioned = get(client, "formula", formula="cat-1.png")
        assert mentioned["names"][0]["version"] == mentioned["tree"]["version"] == listed["cat-1.png"]
        assert get(client, "compare", a="cat-1.png", b="2")["a"]["version"] == listed["cat-1.png"]
        return listed

    before, state = versions(), get(client, "gallery")["state"]
    assert len(set(before.values())) == 10
    path = Path(gallery.paths[0])
    image(1000).save(path)
    changed = client.get("/api/images/1/thumbnail", params={"v": before[path.name]})
    assert changed.headers["cache-control"] == "private, no-cache"  # it is not what that version stands for
    save(tmp_path / "photos" / "cats" / "new.png", 999)
    Gallery.open(gallery.folder).update()
    wait_until(lambda: get(client, "gallery")["state"] != state)
    after = versions()
    assert {name for name, version in after.items() if before[name] != version} == {path.name}


def test_a_thumbnail_is_small_and_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = image(1, (800, 400))
    wide.paste("white", (0, 0, 800, 200))
    (tmp_path / "photos").mkdir()
    wide.save(tmp_path / "photos" / "turned.jpg", exif=exif)
    wide.save(tmp_path / "photos" / "turned.png", exif=exif)
    gallery = small_gallery(tmp_path)
    with served(gallery) as client:
        # Not every browser knows of a PNG how the camera was held.
        shown = client.get(f"/api/images/{identity(gallery, 'turned.png')}/image")
        assert shown.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(shown.content)).size == (400, 800)
        chosen = identity(gallery, "turned.jpg")
        told = get(client, f"images/{chosen}")
        assert (told["width"], told["height"]) == (400, 800)
        thumbnail = Image.open(io.BytesIO(client.get(f"/api/images/{chosen}/thumbnail").content))
        assert thumbnail.size == (128, 256)
        assert min(thumbnail.getpixel((120, 128))) > 240  # what was above is at the right now


def test_a_file_that_changed_since_is_shown_as_it_is_and_one_that_is_gone_is_not(own):
    gallery, client = own
    chosen = identity(gallery, "cat-1.png")
    path = Path(gallery.paths[gallery.ids.index(chosen)])
    before = client.get(f"/api/images/{chosen}/thumbnail")
    image(1000, (90, 90)).save(path)
    after = client.get(f"/api/images/{chosen}/thumbnail", headers={"If-None-Match": before.headers["etag"]})
    assert Image.open(io.BytesIO(after.content)).size == (90, 90)
    path.unlink()
    for what in ("thumbnail", "image"):
        assert refused(client, 404, f"images/{chosen}/{what}")["code"] == "file-missing"
    assert get(client, f"images/{chosen}")["width"] == 60  # as it was indexed
    path.write_bytes(b"no image")
    assert refused(client, 404, f"images/{chosen}/thumbnail")["code"] == "broken-image"


@pytest.mark.parametrize(
    ("name", "media_type"), [("cat-1.png", "image/png"), ("dog-1.jpg", "image/jpeg"), ("my dog.gif", "image/gif")]
)
def test_an_image_that_browsers_can_show_is_sent_as_it_is(client, gallery, name, media_type):
    chosen = identity(gallery, name)
    response = client.get(f"/api/images/{chosen}/image")
    assert response.headers["content-type"] == media_type
    assert response.content == Path(gallery.paths[gallery.ids.index(chosen)]).read_bytes()


def test_an_image_that_browsers_cannot_show_is_made_a_jpeg(client, gallery):
    response = client.get(f"/api/images/{identity(gallery, 'old.bmp')}/image")
    assert response.headers["content-type"] == "image/jpeg"
    shown = np.asarray(Image.open(io.BytesIO(response.content)), float)
    assert abs(shown - np.asarray(image(203), float)).mean() < 3


def test_a_gallery_that_cannot_be_written_has_thumbnails_too(tmp_path):
    gallery = small_gallery(tmp_path)
    (gallery.folder / "cache").write_text("in the way, whoever runs the test")
    with served(gallery) as client:
        assert client.get("/api/images/1/thumbnail").status_code == 200
        assert len(get(client, "search", formula="1", top=5)["hits"]) == 5


# --- searching ----------------------------------------------------------------------------------------------------

FORMULAS = (
    "1",
    "cat-1.png | dog-2.jpg",
    "cat-1.png & ~dog-2.jpg",
    '(cat-1.png | "my dog.gif") - 5',
    "at_least(2, 1, 2, 3) & ~4",
    "like(1, 2, 3 | 4) - 5",
    "1 & (1 | 2)",
)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("score", SCORES)
def test_hits_are_those_of_the_gallery(client, gallery, formula, score):
    told = get(client, "search", formula=formula, score=score, top=7)
    expected = gallery.search(formula, 7, score)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in expected]
    assert [hit["distance"] for hit in told["hits"]] == pytest.approx([hit.distance for hit in expected], abs=1e-5)
    assert [hit["name"] for hit in told["hits"]] == [Path(hit.path).name for hit in expected]
    assert (told["formula"], told["total"]) == (formula, 24)


def test_every_setting_arrives(client, gallery):
    settings = {"semantics": "independent", "logic": "lukasiewicz", "include_queries": 1, "why": 1, "label": "dogs"}
    told = get(client, "search", formula="1 & (1 | 14)", top=5, **settings)
    expected = gallery.search(
        "1 & (1 | 14)",
        5,
        semantics="independent",
        logic="lukasiewicz",
        include_queries=True,
        why=True,
        filter=Filter(label="dogs"),
    )
    assert told["total"] == 13
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in expected]
    for hit, hit_expected in zip(told["hits"], expected, strict=True):
        assert [(why["feature"], [p["name"] for p in why["shown_by"]]) for why in hit["why"]] == [
            (why.feature, [Path(path).name for path in why.shown_by]) for why in hit_expected.why
        ]


def test_similar_is_a_search_for_one_image(client):
    similar, search = get(client, "images/3/similar", top=4), get(client, "search", formula="3", top=4)
    assert similar["hits"] == search["hits"]
    assert refused(client, 404, "images/12345/similar")


def test_a_formula_is_told_as_a_tree_with_every_mention(client):
    text = 'at_least(2, 3, "my dog.gif", ~3) | 4 | (5 | 6) - 7 - like(8, 9)'
    told = get(client, "formula", formula=text)
    assert [text[name["start"] : name["end"]] for name in told["names"]] == ["3", '"my dog.gif"', "3", *"456789"]
    assert told["names"][1]["file"] == "my dog.gif"

    def short(node: dict) -> object:
        match node["op"]:
            case "name":
                return text[node["start"] : node["end"]]
            case "not":
                return ["not", short(node["item"])]
            case "at_least":
                return ["at_least", node["k"], *map(short, node["items"])]
        return [node["op"], *map(short, node["items"])]

    assert short(told["tree"]) == [
        "or",
        ["at_least", 2, "3", '"my dog.gif"', ["not", "3"]],
        "4",
        ["minus", ["minus", ["or", "5", "6"], "7"], ["like", "8", "9"]],
    ]


def test_a_mention_says_what_it_is_and_which_part_is_meant(client):
    told = get(client, "formula", formula="1[0, 0.25, 0.5, 1] | cat-2.png[15, 0, 60, 10] | 3")["names"]
    assert [name["kind"] for name in told] == ["image"] * 3
    assert [name["crop"] for name in told] == [[0, 0.25, 0.5, 1], [0.25, 0, 1, 0.25], None]


def test_a_part_of_an_upload_is_looked_for(client, tmp_path):
    whole = image(300)
    whole.save(tmp_path / "whole.png")
    whole.crop((0, 0, 30, 40)).save(tmp_path / "left.png")
    sent = [
        client.post(
            "/api/uploads", content=(tmp_path / name).read_bytes(), headers={"Content-Type": "image/png"}
        ).json()
        for name in ("whole.png", "left.png")
    ]
    crop, left = f"{sent[0]['upload']}[0, 0, 0.5, 1]", sent[1]["upload"]
    [name] = get(client, "formula", formula=crop)["names"]
    assert (name["kind"], name["upload"], name["crop"]) == ("upload", sent[0]["upload"], [0, 0, 0.5, 1])
    [pixels] = get(client, "formula", formula=f"{sent[0]['upload']}[0, 0, 30, 40]")["names"]
    assert pixels["crop"] == [0, 0, 0.5, 1]
    found, expected = (get(client, "search", formula=text, top=5)["hits"] for text in (crop, left))
    assert [hit["id"] for hit in found] == [hit["id"] for hit in expected]


def test_the_deepest_formula_is_told(client):
    text = "~(" * 99 + " & ".join(["1"] * 64) + ")" * 99
    assert len(get(client, "formula", formula=text)["names"]) == 64


@pytest.mark.parametrize(("call", "depth"), [("like(", 126), ("like(", 127), ("like(", 200), ("at_least(1, ", 150)])
def test_calls_are_told_however_deep_they_are_nested(client, call, depth):
    formula = call * depth + "1" + ")" * depth
    node = get(client, "formula", formula=formula)["tree"]
    for _ in range(depth):
        [node] = node["items"]
    assert (node["op"], node["id"]) == ("name", 1)
    assert client.get("/api/search", params={"formula": formula}).status_code == 200


@pytest.mark.parametrize(
    ("formula", "start", "end", "code"),
    [
        ("1 & & 2", 4, 5, "missing-operand"),
        ("1 &", 3, 3, "missing-operand"),
        ("", 0, 0, "empty-formula"),
        ("1 & nobody.jpg", 4, 14, "unknown-name"),
        ('1 & "twim.png"', 4, 14, "unknown-name"),
        ("1 | twin.png", 4, 12, "ambiguous-name"),
        ("1 & 99", 4, 6, "unknown-name"),
        ("ä & ö", 0, 1, "unknown-name"),
        ("1 & 'x", 4, 5, "unclosed-quote"),
        ("1 (2)", 2, 3, "missing-operator"),
        ("1 & image:nobody.jpg", 4, 20, "unknown-name"),
        ("1 & Image : 'no body'", 4, 21, "unknown-name"),
        ("image:nobody.jpg[0, 0, 1, 1]", 0, 16, "unknown-name"),
    ],
)
@pytest.mark.parametrize("address", ["formula", "search", "download"])
def test_a_wrong_formula_has_a_code_and_a_span(client, address, formula, start, end, code):
    error = refused(client, 400, address, formula=formula)
    assert (error["code"], error["span"]) == (code, [start, end])
    assert error["message"]


def test_a_search_returns_the_parsed_formula(client):
    found = get(client, "search", formula="1 and not cat-3.png")
    fields = ("formula", "understood", "is_condition", "terms", "names", "tree", "notes")
    assert {name: found[name] for name in fields} == get(client, "formula", formula="1 and not cat-3.png")


def test_plain_text_is_read_as_a_formula_and_the_answer_says_how(client):
    answer = get(client, "search", formula="photos of cat-1.png without dog-1.jpg", top=50)
    assert answer["formula"] == answer["understood"] == "cat-1.png and not dog-1.jpg"
    assert [name["start"] for name in answer["names"]] == [0, 18]
    strict = get(client, "search", formula=answer["understood"], top=50)
    assert strict["understood"] is None
    assert strict["hits"] == answer["hits"]
    without = get(client, "search", formula="cat-1.png except dog-1.jpg, 3", top=50)
    assert (without["formula"], without["understood"]) == ("cat-1.png", None)
    assert get(client, "search", formula="cat-1.png", exclude=[13, 3], top=50)["hits"] == without["hits"]
    assert {hit["id"] for hit in without["hits"]}.isdisjoint({2, 3, 13})


def test_an_excluded_image_is_in_no_list(client):
    listed = get(client, "images", exclude=[3, 999], limit=100)
    assert listed["total"] == 23
    assert 3 not in {image["id"] for image in listed["images"]}
    refused(client, 400, "images", exclude="three")


def test_a_lenient_search_returns_mistakes_with_status_200(client):
    answer = get(client, "search", formula="1 & nobo", lenient=1)
    error = refused(client, 400, "search", formula="1 & nobo")
    assert answer == {"error": {**error, "corrections": [], "understood": None}, "parsed": None}
    assert get(client, "search", formula="1 & 2", lenient=1)["hits"]


@pytest.mark.parametrize(
    ("formula", "corrected", "is_certain"),
    [
        ("1 & image:cat-1.pgn", "1 & image:cat-1.png", False),
        ('not "my dog.giff"', 'not "my dog.gif"', False),
        ("ä1 (1)", "ä1 and (1)", True),
        ("cat-1.pgn without 2", "cat-1.png and not 2", False),
        ("1 2 (3 4)", "1 and 2 and (3 and 4)", True),
    ],
)
def test_a_lenient_search_offers_corrections(client, formula, corrected, is_certain):
    first = get(client, "search", formula=formula, lenient=1)["error"]["corrections"][0]
    assert (first["formula"], first["is_certain"]) == (corrected, is_certain)


def test_a_formula_that_is_parsed_and_cannot_be_searched_is_returned_parsed(client):
    answer = get(client, "search", formula="3 and (4 - 4)", lenient=1)
    assert answer["error"]["code"] == "empty-query"
    assert answer["parsed"] == get(client, "formula", formula="3 and (4 - 4)")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("1[0, 0, 5000, 10]", "cat-0.png[0, 0, 5000, 10] reaches beyond the image, which has 60 x 40 pixels"),
        ("1 and 2[0, 0, 0.001, 1]", "cat-1.png[0, 0, 0.001, 1] is less than a pixel of the image, which has 60 x 40"),
    ],
)
def test_a_crop_that_cannot_be_cut_is_told_to_who_asked_and_to_nobody_else(client, formula, message):
    with ThreadPoolExecutor(6) as threads:
        wrong = [threads.submit(refused, client, 400, "search", formula=formula) for _ in range(3)]
        right = [threads.submit(get, client, "search", formula="2 and 3") for _ in range(3)]
    assert [one.result()["message"] for one in wrong] == 3 * [message]
    assert all(one.result()["hits"] for one in right)


def test_the_crops_of_a_formula_are_bounded(own):
    gallery, client = own

    def crops(count: int, start: int = 0) -> str:
        return " | ".join(f"1[0, 0, {30 + start + n}, 40]" for n in range(count))

    assert client.get("/api/search", params={"formula": crops(16)}).status_code == 200
    for address in ("search", "formula", "download"):
        error = refused(client, 400, address, formula=crops(17))
        assert error["code"] == "too-many-crops"
        assert error["span"][0] == len(crops(16)) + len(" | ")
    gallery.define("corners", crops(10))
    wait_until(lambda: client.get("/api/search", params={"formula": "corners"}).status_code == 200)
    assert refused(client, 400, "search", formula=f"corners | {crops(10, 10)}")["code"] == "too-many-crops"


def test_a_file_is_decoded_once_for_all_its_crops(client, monkeypatch):
    decoded = []

    def counted(path: str) -> Image.Image:
        decoded.append(path)
        return decode(path)

    monkeypatch.setattr(queries, "decode", counted)
    whole = get(client, "search", formula="1[0, 0, 1, 1]", top=5)["hits"]
    assert len(decoded) == 1
    found = get(client, "search", formula="1[0, 0, 0.5, 1] | 2[0, 0, 1, 0.5] | 1[0, 0, 1, 1] | 1[0.5, 0, 1, 1]")
    assert found["hits"]
    assert sorted(decoded[1:]) == sorted(set(decoded[1:]))
    assert len(decoded) == 3
    assert get(client, "search", formula="1[0, 0, 1, 1]", top=5)["hits"] == whole


def test_a_crop_of_a_file_that_is_gone_says_so(own, tmp_path):
    _, client = own
    (tmp_path / "photos" / "cats" / "cat-0.png").unlink()
    told = refused(client, 400, "search", formula="1[0, 0, 0.5, 0.5]")
    assert told["message"] == "cat-0.png[0, 0, 0.5, 0.5] needs the file of the image, which is gone"


def test_two_images_side_by_side(client, gallery):
    told = get(client, "compare", a="cat-1.png", b="my dog.gif", features=6)
    a, b = gallery.model.encode([path for path in gallery.paths if path.endswith(("cat-1.png", "my dog.gif"))])
    assert (told["a"]["name"], told["b"]["name"], len(told["features"])) == ("cat-1.png", "my dog.gif", 6)
    expected = {
        "a": a,
        "b": b,
        "or": a | b,
        "and": a & b,
        "not_a": ~a,
        "not_b": ~b,
        "a_minus_b": a - b,
        "b_minus_a": b - a,
    }
    assert told["degrees"].keys() == told["distributions"].keys() == expected.keys()
    for operation, value in expected.items():
        of_features = value.probs[told["features"]].numpy()
        np.testing.assert_allclose(told["distributions"][operation], of_features, atol=0.01)
        np.testing.assert_allclose(told["degrees"][operation], value.degrees[told["features"]].numpy(), atol=0.01)
    assert told["distance"] == pytest.approx(float(degree_distance(a, b)), abs=0.01)
    assert refused(client, 404, "compare", a="1", b="nobody")["code"] == "unknown-name"


def test_a_name_that_was_defined_is_no_image_to_compare(own):
    gallery, client = own
    gallery.define("mine", "like(1, 2)")
    wait_until(lambda: get(client, "definitions")["definitions"] != [])
    assert refused(client, 404, "compare", a="mine", b="1")["code"] == "unknown-name"
    assert refused(client, 404, "compare", a="1", b="dog")["code"] == "unknown-name"


def test_a_search_is_told_as_it_was_asked_whatever_the_names_in_it_stand_for(own):
    gallery, client = own
    gallery.define("mine", "like(1, 2)")
    wait_until(lambda: get(client, "definitions")["definitions"] != [])
    told = get(client, "search", formula="3 and not mine")
    assert told["formula"] == "3 and not mine"
    assert [told["formula"][one["start"] : one["end"]] for one in told["names"]] == ["3", "mine"]
    for formula, position in (("3 and (4 - 4)", 7), ("3 and (mine - mine)", 0)):
        wrong = refused(client, 400, "search", formula=formula)
        assert (wrong["code"], wrong["span"][0]) == ("empty-query", position)


def test_an_image_beside_itself_shares_everything(client):
    told = get(client, "compare", a="1", b="cat-0.png", features=8)
    assert told["a"]["id"] == told["b"]["id"] == 1
    np.testing.assert_allclose(told["degrees"]["and"], told["degrees"]["a"], atol=1e-6)
    np.testing.assert_allclose(told["degrees"]["a_minus_b"], 0, atol=1e-6)
    assert told["distance"] == pytest.approx(0, abs=1e-6)


def test_many_askers_are_answered_together_and_each_its_own(client, gallery, monkeypatch):
    calls: list[int] = []
    plain = Gallery.search

    def counted(self: Gallery, formula: list[Formula], *args: object, **kwargs: object) -> object:
        calls.append(len(formula))
        return plain(self, formula, *args, **kwargs)

    monkeypatch.setattr(Gallery, "search", counted)
    formulas = [f"{1 + number % 24} | {1 + number % 7}" for number in range(60)]
    formulas[7], formulas[30] = "1 &&", "at_least(2, 1, 2, 3)"
    with ThreadPoolExecutor(30) as pool:
        asked = list(
            pool.map(
                lambda formula: client.get(
                    "/api/search", params={"formula": formula, "top": 3, "semantics": "independent", "logic": "product"}
                ),
                formulas,
            )
        )
    assert [response.status_code for response in asked].count(400) == 2
    assert asked[7].status_code == asked[30].status_code == 400
    assert asked[30].json()["error"]["code"] == "unsupported"
    assert max(calls) > 1
    monkeypatch.undo()
    for number in (0, 20, 59):
        expected = gallery.search(formulas[number], 3, semantics="independent", logic="product")
        assert [hit["id"] for hit in asked[number].json()["hits"]] == [hit.id for hit in expected]


# --- uploads ------------------------------------------------------------------------------------------------------


def test_an_uploaded_image_can_be_searched_with(client, gallery, tmp_path):
    file = tmp_path / "new.jpg"
    file.write_bytes(jpeg(image(555)))
    name = upload(client, file.read_bytes())
    told = get(client, "search", formula=f"{name} - 3", top=6)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in gallery.search(f'"{file}" - 3', 6)]
    assert told["names"][0] == {
        "name": name,
        "start": 0,
        "end": len(name),
        "id": None,
        "upload": name,
        "version": "",
        "file": name,
        "kind": "upload",
        "crop": None,
    }
    assert get(client, "compare", a=name, b="3")["a"]["upload"] == name
    thumbnail = client.get(f"/api/uploads/{name}/thumbnail")
    assert Image.open(io.BytesIO(thumbnail.content)).size == (60, 40)
    assert client.delete(f"/api/uploads/{name}").status_code == 204
    assert client.delete(f"/api/uploads/{name}").status_code == 404
    assert client.get(f"/api/uploads/{name}/thumbnail").status_code == 404
    assert refused(client, 400, "search", formula=name)["code"] == "unknown-name"


def test_an_image_of_a_phone_can_be_uploaded_and_what_is_too_large_is_refused(client):
    pillow_heif.register_heif_opener()
    content = io.BytesIO()
    image(7).save(content, "HEIF")
    assert upload(client, content.getvalue()).startswith("upload-")
    table = struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, 33, 22)
    bomb = table + b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 19_900, 19_900) + bytes(9)
    refusal = client.post("/api/uploads", content=bomb, headers={"Content-Type": "image/x-icon"})
    assert refusal.status_code == 413
    assert refusal.json()["error"]["code"] == "too-large"


def test_an_upload_is_what_the_same_file_is_by_its_path(gallery, tmp_path):
    files = [tmp_path / f"{number}.jpg" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(jpeg(image(300 + number)))
    files.append(Path(gallery.paths[0]))  # and a copy of what is in the gallery
    kept = uploads.Uploads()
    try:
        names = [kept.add(file.read_bytes()).name for file in files]
        represented = kept.represent(names, Snapshot(gallery, Browser(gallery.planner)))
        for chosen in ([0], [3], [0, 1, 2]):
            by_path = gallery.search(" & ".join(f'"{files[n]}"' for n in chosen), 30, include_queries=True)
            text = " & ".join(f'"{names[n]}"' for n in chosen)
            by_upload = gallery.search(text, 30, include_queries=True, images=represented)
            assert by_upload == by_path  # to the last bit
    finally:
        kept.close()


def test_uploads_are_dropped_when_nobody_uses_them_or_there_are_too_many(monkeypatch):
    content = jpeg(image(1))
    kept = uploads.Uploads()
    try:
        first, second, third = (kept.add(content) for _ in range(3))
        monkeypatch.setattr(uploads, "MAX_UPLOADS", 2)
        kept.get(first.name)
        kept.evict()
        assert set(kept.known([first.name, second.name, third.name])) == {first.name, third.name}
        assert not second.file.exists()
        monkeypatch.setattr(uploads, "MAX_TOTAL_BYTES", len(content))
        kept.get(first.name)
        kept.evict()
        assert not third.file.exists()
        monkeypatch.setattr(uploads, "UNUSED_SECONDS", 0.0)
        kept.evict()
        assert not first.file.exists()
    finally:
        kept.close()
    assert not first.file.parent.exists()


# --- hits to keep -------------------------------------------------------------------------------------------------


def test_hits_as_a_list(client):
    response = client.get("/api/download", params={"formula": "1 | 2", "format": "csv", "top": 5})
    assert response.headers["content-disposition"] == 'attachment; filename="hits.csv"'
    rows = list(csv.DictReader(io.StringIO(response.text)))
    hits = get(client, "search", formula="1 | 2", top=5)["hits"]
    assert [int(row["id"]) for row in rows] == [hit["id"] for hit in hits]
    assert rows[0].keys() == {"rank", "percent", "distance", "id", "name", "label", "words"}
    assert [row["percent"] for row in rows] == [percent(hit["truth"]).removesuffix(" %") for hit in hits]


def test_a_name_is_no_formula_of_a_spreadsheet(tmp_path):
    folder = tmp_path / "photos" / "@folder"
    names = ["=cmd|'C calc'!A0.png", "+1.png", "-2+3.png", "@SUM(1).png", "plain.png", "a=b.png"]
    for number, name in enumerate(names):
        save(folder / name, 300 + number)
    with served(small_gallery(tmp_path)) as client:
        for form in ("csv", "zip"):
            parameters = {"formula": "1", "format": form, "top": 100, "label": "@folder", "include_queries": 1}
            content = client.get("/api/download", params=parameters).content
            if form == "zip":
                content = zipfile.ZipFile(io.BytesIO(content)).read("hits.csv")
            rows = list(csv.DictReader(io.StringIO(content.decode())))
            assert {row["name"] for row in rows} == {f"'{name}" for name in names[:4]} | set(names[4:])
            assert {row["label"] for row in rows} == {"'@folder"}
            assert not any(value.startswith(tuple("=+-@\t\r\n")) for row in rows for value in row.values())


def test_the_owner_hears_where_images_are_and_nobody_else(gallery, client):
    paths = dict(zip(gallery.ids, gallery.paths, strict=True))

    def told(asking: httpx.Client, **headers: str) -> list[tuple[int, str | None]]:
        asking.headers.update(headers)
        images = [get(asking, "images/3"), *get(asking, "search", formula="1", top=3)["hits"]]
        images += get(asking, "images/2/similar", top=3)["hits"]
        assert not any("path" in name for name in get(asking, "images")["images"])
        rows = asking.get("/api/download", params={"formula": "1", "format": "csv", "top": 3}).text
        listed = [(int(row["id"]), row.get("path")) for row in csv.DictReader(io.StringIO(rows))]
        packed = asking.get("/api/download", params={"formula": "1", "top": 3}).content
        assert str(gallery.folder.parent).encode() not in packed
        return [*((image["id"], image["path"]) for image in images), *listed]

    with served(gallery, show_paths=True) as owner:
        heard = told(owner)
        assert len(heard) == 10
        assert all(path == paths[identity] for identity, path in heard)
        for name in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"):
            with httpx.Client(base_url=owner.base_url, timeout=30) as through_a_proxy:
                assert {path for _, path in told(through_a_proxy, **{name: "x"})} == {None}
    assert {path for _, path in told(client)} == {None}


def test_hits_as_a_zip_of_images_with_names_of_their_own(own):
    gallery, client = own
    gone = Path(gallery.paths[4])
    gone.unlink()
    response = client.get("/api/download", params={"formula": "1", "top": 100, "include_queries": True})
    assert response.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(set(names)) == len(names) == 24  # 23 images and the list
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("hits.csv"), encoding="utf-8")))
        assert {row["name"] for row in rows if not row["file"]} == {gone.name}
        by_id = dict(zip(gallery.ids, gallery.paths, strict=True))
        for row in rows:
            if row["file"]:
                assert archive.read(row["file"]) == Path(by_id[int(row["id"])]).read_bytes()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (r"..\..\evil.png", "-.._.._evil.png"),
        (r"C:\x.png", "-C__x.png"),
        ('a<b>"c"|d?*.png', "-a_b__c__d__.png"),
        ("x" * 251 + ".png", "-" + "x" * 246 + ".png"),
        ("ü" * 125 + ".jpeg", "-" + "ü" * 122 + ".jpeg"),
        ("y." + "z" * 240, "-y." + "z" * 240),
        ("y." + "z" * 250, "-y." + "z" * 248),
    ],
)
def test_a_zip_can_be_unpacked_everywhere(tmp_path, name, expected):
    path = save(tmp_path / "here.png", 1).rename(tmp_path / name)
    hit = Hit(str(path), 0.5, 1)
    with zipfile.ZipFile(io.BytesIO(b"".join(as_zip([hit])))) as archive:
        assert archive.namelist() == [f"0001{expected}", "hits.csv"]
        [row] = csv.DictReader(io.TextIOWrapper(archive.open("hits.csv"), encoding="utf-8"))
        assert row["file"] == f"0001{expected}"
        archive.extractall(tmp_path / "unpacked")
    assert sorted(file.name for file in (tmp_path / "unpacked").iterdir()) == [f"0001{expected}", "hits.csv"]


# --- a gallery that changes -----------------------------------------------------------------------------------------


def test_the_server_follows_the_gallery(own, tmp_path):
    gallery, client = own
    before = get(client, "gallery")["state"]
    save(tmp_path / "photos" / "cats" / "new.png", 999)
    Gallery.open(gallery.folder).update()
    wait_until(lambda: get(client, "gallery")["state"] != before)
    assert get(client, "gallery")["images"] == 25
    assert [hit["name"] for hit in get(client, "search", formula="new.png", include_queries=1, top=1)["hits"]] == [
        "new.png"
    ]
    assert get(client, "images", label="cats")["total"] == 12


def test_a_recalibrated_gallery_is_searched_with_its_new_model_and_uploads_stay(own):
    gallery, client = own
    name = upload(client, jpeg(image(77)))
    before = get(client, "gallery")["state"]
    other = Gallery.open(gallery.folder)
    other.remove([str(number) for number in range(1, 13)])
    other.recalibrate()
    wait_until(lambda: get(client, "gallery")["images"] == 12 and get(client, "gallery")["state"] != before)
    wait_until(
        lambda: (
            [hit["id"] for hit in get(client, "search", formula="14", top=5)["hits"]]
            == [hit.id for hit in other.search("14", 5)]
        )
    )
    assert len(get(client, "search", formula=f"{name} & 14")["hits"]) == 11


def test_a_gallery_that_is_gone_is_said_so_and_may_come_back(own, tmp_path, caplog):
    gallery, client = own
    gallery.folder.rename(tmp_path / "elsewhere")
    wait_until(lambda: client.get("/api/gallery").status_code == 503)
    for address in ("gallery", "images/1", "images/1/thumbnail", "search?formula=1", "formula?formula=1"):
        response = client.get(f"/api/{address}")
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert str(tmp_path) not in response.text
    assert str(tmp_path) in caplog.text
    assert not gallery.folder.exists()
    (tmp_path / "elsewhere").rename(gallery.folder)
    wait_until(lambda: client.get("/api/gallery").status_code == 200)


def test_damage_is_told_without_paths(own, caplog):
    gallery, client = own
    for file in (gallery.folder / "images.lance" / "data").iterdir():
        file.write_bytes(b"\1" * file.stat().st_size)
    error = refused(client, 500, "search", formula="1 & 2")
    assert error["code"] == "damaged-gallery"
    assert "andornot index --repair" in error["message"]
    assert str(gallery.folder) not in error["message"]
    assert "is damaged" in caplog.text


# --- load -----------------------------------------------------------------------------------------------------------


def test_a_full_line_is_answered_with_try_again(gallery, monkeypatch):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> responses.EncodedImage:
        begun.release()
        assert go_on.wait(30)
        return responses.EncodedImage(b"")

    monkeypatch.setattr(responses.Thumbnails, "get", slow)
    monkeypatch.setattr(services, "_WORKING", (2, 2))
    with served(gallery) as client, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.get, f"/api/images/{number}/thumbnail") for number in (1, 2)]
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        busy = client.get("/api/features")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        assert busy.json()["error"]["code"] == "busy"
        assert client.get("/api/search", params={"formula": "1"}).status_code == 200  # in a line of its own
        go_on.set()
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert client.get("/api/features").status_code == 200


def test_the_documentation_is_made_of_the_schema_and_loads_nothing_from_elsewhere(client):
    schema = get(client, "openapi.json")
    page = client.get("/api/docs").text
    assert all(path in page for path in schema["paths"])
    assert all(f'id="{name}"' in page for name in schema["components"]["schemas"])
    assert "://" not in page
    assert "<script" not in page
    assert "style=" not in page
    assert client.get("/api/docs.css").headers["content-type"].startswith("text/css")
    assert not any("422" in operation["responses"] for path in schema["paths"].values() for operation in path.values())


def test_an_address_that_leads_nowhere_is_a_page_for_people_and_json_for_programs(client, gallery):
    people = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for address in ("/nowhere", "/static/nowhere.js", "/feature"):
        page = client.get(address, headers=people)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "There is nothing at this address" in page.text
        assert "style-src 'sha256-" in page.headers["content-security-policy"]
        assert 'href="/"' in page.text
        assert client.get(address).json()["error"]["code"] == "not-found"
    assert client.get("/api/nowhere", headers=people).json()["error"]["code"] == "not-found"
    with served(gallery, host="0.0.0.0", token="the-token") as guarded:
        page = guarded.get("/?q=<script>", headers=people)
        assert (page.status_code, page.headers["www-authenticate"]) == (401, "Bearer")
        assert "The token is missing or wrong" in page.text
        assert "<script" not in page.text


@pytest.mark.parametrize("address", ["/", "/features", "/feature/12", "/compare", "/help"])
def test_addresses_of_the_page_are_the_page(client, address):
    response = client.get(address)
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    tag = response.headers["etag"]
    assert client.get("/static/index.html", headers={"If-None-Match": tag}).status_code in (200, 304)


def test_a_condition_is_explained_and_searched(client, gallery):
    told = get(client, "formula", formula="1 and not 2*(3 | like(4, 1))")
    assert (told["is_condition"], told["terms"]) == (True, ["1", "3 | like(4, 1)"])
    assert [name["id"] for name in told["names"]] == [1, 3, 4, 1]
    first, without = told["tree"]["items"]
    assert (told["tree"]["op"], first["id"], without["op"]) == ("and", 1, "not")
    assert (without["item"]["op"], without["item"]["weight"]) == ("weight", 2)
    assert [item["op"] for item in without["item"]["item"]["items"]] == ["name", "like"]
    assert [told["tree"]["level"], without["level"], without["item"]["item"]["level"]] == ["condition"] * 2 + ["term"]
    assert not get(client, "formula", formula="1 & 2")["is_condition"]
    found = get(client, "search", formula="1 and not 2", top=5)
    expected = gallery.search("1 and not 2", top=5)
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in expected]
    assert [hit["truth"] for hit in found["hits"]] == pytest.approx([hit.truth for hit in expected])
    assert {type(hit["is_weak"]) for hit in found["hits"]} == {bool}
    assert all(hit["boxes"] == [] for hit in found["hits"])
    least = expected[1].truth
    assert len(get(client, "search", formula="1 and not 2", top=5, min_truth=least, expand=0)["hits"]) <= 5
    assert client.get("/api/search", params={"formula": "1 and not 2", "min_truth": 1.5}).status_code == 400
