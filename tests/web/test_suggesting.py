"""The API for who does not know yet what to ask."""

import io
import json
import shutil

import httpx
import pytest
from serving import image, save, served, small_gallery
from test_api import get, refused, wait_until
from worded import worded_gallery

from andornot.commands.main import main
from andornot.gallery import Gallery
from andornot.gallery.words import WordCount, WordIndex
from andornot.web.browsing import Browser
from andornot.web.suggestions import Completer

ADDRESSES = ("words", "complete?text=a", "examples", "folders", "definitions", "broken")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    return small_gallery(tmp_path_factory.mktemp("suggesting"))


@pytest.fixture(scope="module")
def client(gallery):
    with served(gallery) as client:
        yield client


def test_file_names_are_completed(client):
    told = get(client, "complete", text="1 and my", cursor=8)
    assert (told["start"], told["end"]) == (6, 8)
    assert [(one["text"], one["kind"], one["label"]) for one in told["completions"]] == [
        ('"my dog.gif"', "image", "my dog.gif")
    ]
    assert {one["text"] for one in get(client, "complete", text="TWIN")["completions"]} == {"11", "24"}
    assert len(get(client, "complete", text="cat", limit=3)["completions"]) == 3
    assert [one["text"] for one in get(client, "complete", text="1 a")["completions"]] == ["and", "and not"]
    assert get(client, "complete", text="like(1 ")["completions"] == []


def test_words_come_first_then_definitions_then_files(gallery):
    words = WordIndex({"cat": 7, "cattle": 9, "catamaran": 0, "wild cat": 2}, [WordCount("cat", 7)])
    found = Completer(Browser(gallery.planner), words, ["catnap"]).complete("cat", 3, 8).found
    assert [one.label for one in found][:4] == ["cat", "cattle", "wild cat", "catnap"]
    assert [one.kind for one in found][4:] == ["image"] * 4
    assert [one.text for one in Completer(Browser(gallery.planner), words, ["cat"]).complete("cat", 3, 1).found] == [
        "word:cat"
    ]
    assert {
        one.kind for one in Completer(Browser(gallery.planner), words, ["catnap"]).complete("word:cat", 8, 9).found
    } == {"word"}


def test_a_gallery_without_words_says_so(client):
    assert get(client, "words") == {"words": [], "has_words": False}
    assert get(client, "images/1")["words"] == []


def test_answers_say_how_phrases_were_understood(tmp_path, capsys):
    gallery = worded_gallery(tmp_path, {1: {"dog": 0.9}, 2: {"sofa": 0.8}})
    with served(gallery) as client:
        for address in ("search", "formula"):
            told = get(client, address, formula='Hund and "living room furniture"')["notes"]
            assert [(note["code"], note["word"]) for note in told] == [
                ("taken-for", "Hund"),
                ("approximate", "living room furniture"),
            ]
            assert told[0]["by"] == ["dog"]
            assert len(told[1]["by"]) == 3
    assert main(["search", "Hund", "--gallery", str(gallery.address)]) == 0
    assert capsys.readouterr().out.startswith("Hund: taken for dog\n")
    assert main(["search", "Hund", "--gallery", str(gallery.address), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [{"code": "taken-for", "word": "Hund", "by": ["dog"]}]


def test_examples_find_what_they_promise(client):
    for example in get(client, "examples")["examples"]:
        found = get(client, "search", formula=example["formula"], top=len(example["hits"]))["hits"]
        assert [hit["id"] for hit in found] == [hit["id"] for hit in example["hits"]]
        assert not any(hit["is_weak"] for hit in found)


def test_folders_filter_images_searches_and_downloads(client):
    tree = get(client, "folders")
    assert [(one["folder"], one["images"]) for one in tree["folders"]] == [("cats", 11), ("dogs", 13)]
    assert get(client, "images", folder="cats")["total"] == 11
    assert {hit["label"] for hit in get(client, "search", formula="1", folder="dogs")["hits"]} == {"dogs"}
    rows = client.get("/api/download", params={"formula": "1", "folder": "dogs", "format": "csv"}).text.splitlines()
    assert len(rows) == 14
    for wrong in ("/", "..", "/etc", "photos/../cats"):
        if wrong != "/":
            assert refused(client, 400, "search", formula="1", folder=wrong)["code"] == "invalid-filter"


def test_definitions_and_broken_files_are_listed(tmp_path):
    gallery = small_gallery(tmp_path)
    (tmp_path / "photos" / "cats" / "half.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    gallery.update()
    gallery.define("both", "cat-1.png and cat-2.png")
    with served(gallery, show_paths=True) as client:
        (told,) = get(client, "definitions")["definitions"]
        assert (told["name"], told["kind"], told["formula"]) == ("both", "condition", "cat-1.png and cat-2.png")
        assert [one["text"] for one in get(client, "complete", text="bo")["completions"]] == ["both"]
        broken = get(client, "broken")
        assert broken["total"] == 1
        assert broken["files"][0]["path"] == str(tmp_path / "photos" / "cats" / "half.png")
        assert get(client, "broken", offset=1)["files"] == []
    with served(gallery) as client:
        (file,) = get(client, "broken")["files"]
        assert (file["name"], file["path"]) == ("half.png", None)
        assert str(tmp_path) not in str(file)


def test_a_copy_is_stacked_on_its_original(tmp_path):
    gallery = small_gallery(tmp_path)
    shutil.copy(tmp_path / "photos" / "dogs" / "old.bmp", tmp_path / "photos" / "dogs" / "copy.bmp")
    gallery.update()
    with served(gallery) as client:
        hits = get(client, "search", formula="cat-1.png", top=100)["hits"]
        first, second = (hit for hit in hits if hit["name"] in ("old.bmp", "copy.bmp"))
        assert second["stacked_on"] == first["id"]
        assert first["stacked_on"] is None
        assert [hit["id"] for hit in hits] == [hit.id for hit in gallery.search("cat-1.png", top=100)]


def test_an_unknown_name_says_what_is_near(client):
    for address in ("search", "formula"):
        assert refused(client, 400, address, formula="cat-1.pgn")["suggestions"][0] == "cat-1.png"


def test_an_upload_keeps_its_name(client):
    buffer = io.BytesIO()
    image(5).save(buffer, "PNG")
    told = client.post(
        "/api/uploads",
        params={"name": "C:\\me\\süß.png"},
        content=buffer.getvalue(),
        headers={"Content-Type": "image/png"},
    ).json()
    assert told["name"] == "süß.png"
    for address in ("formula", "search"):
        assert get(client, address, formula=told["upload"])["names"][0]["file"] == "süß.png"
    thumbnail = client.get(f"/api/uploads/{told['upload']}/thumbnail")
    assert "immutable" in thumbnail.headers["cache-control"]


def test_what_is_told_follows_the_gallery(tmp_path):
    gallery = small_gallery(tmp_path)
    with served(gallery) as client:
        assert get(client, "complete", text="bird")["completions"] == []
        save(tmp_path / "photos" / "birds" / "bird.png", 300)
        Gallery.open(gallery.folder).update()
        wait_until(lambda: len(get(client, "folders")["folders"]) == 3)
        assert [one["text"] for one in get(client, "complete", text="bird")["completions"]] == ["bird.png"]


def test_an_empty_gallery_is_answered_kindly(tmp_path):
    gallery = small_gallery(tmp_path)
    gallery.remove([str(identity) for identity in gallery.ids])
    with served(gallery) as client:
        for address in ADDRESSES:
            assert client.get(f"/api/{address}").status_code == 200, address


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_guards_stand_before_each(gallery, client, address):
    assert client.get(f"/api/{address}", headers={"Host": "evil.example"}).status_code == 403
    assert client.get(f"/api/{address}", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert str(gallery.folder.parent).encode() not in client.get(f"/api/{address}").content
    with served(gallery, token="secret") as guarded:
        assert guarded.get(f"/api/{address}").status_code == 401
        assert guarded.get(f"/api/{address}", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_limits_hold(client: httpx.Client):
    for address, parameters in (
        ("complete", {"text": "x" * 2001}),
        ("complete", {"text": "x", "limit": 101}),
        ("complete", {"text": "x", "cursor": -1}),
        ("words", {"limit": 0}),
        ("broken", {"offset": -1}),
        ("search", {"formula": "1", "folder": "x" * 1001}),
    ):
        assert refused(client, 400, address, **parameters)["code"] == "invalid-parameter"
