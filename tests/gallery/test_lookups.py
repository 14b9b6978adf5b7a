"""What is looked up while somebody types or browses: names, folders, near duplicates."""

from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import add_without_files, naming_recipe, tiny_model
from worded import show_nouns

from andornot.gallery import Gallery
from andornot.gallery.near_duplicates import NEARLY_EQUAL, PERHAPS_EQUAL, stacked_on
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.web.browsing import Browser

NAMES = [
    *("IMG_7.jpg", "beach.jpg", "my-beach.jpg", "Beat.png", "straße.jpg", "a\nb.jpg", "beach.jpg", "Bär 7.png"),
    *("100%.png", "a_b.png", "axb.png", "it's (1).png", "back\\slash.png", "sunbeam.png", "no \udcff text.png"),
]


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Browser:
    gallery = Gallery.create(tmp_path_factory.mktemp("names") / "g", tiny_model())
    add_without_files(gallery, [f"/{number}/{name}" for number, name in enumerate(NAMES)])
    return Browser(gallery.planner)


BEGINNINGS = [
    "",
    "b",
    "B",
    "be",
    "beach",
    "7",
    "jp",
    "ß",
    "BÄR",
    "zz",
    "%",
    "_",
    "a_",
    "100%",
    "'",
    "(",
    "\\",
    "\udcff",
    "*",
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_names_are_found_as_by_looking_at_each(named, beginning):
    wanted, folded = beginning.lower(), [name.lower() for name in NAMES]
    order = sorted(range(len(NAMES)), key=folded.__getitem__)
    first = [at for at in order if folded[at].startswith(wanted)]
    inside = [
        at
        for at in order
        if wanted
        and any(
            folded[at].startswith(wanted, k) and k and not folded[at][k - 1].isalnum() for k in range(len(folded[at]))
        )
    ]
    expected = list(dict.fromkeys([*first, *inside]))
    assert named.complete_name(beginning, 100) == expected
    assert named.complete_name(beginning, 2) == expected[:2]


def test_an_empty_gallery_has_no_names(tmp_path):
    assert Browser(Gallery.create(tmp_path / "g", tiny_model()).planner).complete_name("a", 5) == []


def browse_folders(folder: Path, counts: dict[str, int], indexed: list[str]) -> Browser:
    gallery = Gallery.create(folder / "g", tiny_model())
    with open_writer(Storage(gallery.address)) as writer:
        writer.save_state(folders=tuple(indexed))
    add_without_files(gallery, [f"{one}/{number}.png" for one, count in counts.items() for number in range(count)])
    return Browser(gallery.planner)


def test_folders_are_told_from_what_was_indexed_on(tmp_path):
    browser = browse_folders(tmp_path, {"/home/me/photos/cats": 2, "/home/me/photos/dogs/old": 3}, ["/home/me/photos"])
    root = browser.folders
    assert (root.name, root.key, root.images) == ("photos", "", 5)
    assert [(one.name, one.key, one.images) for one in root.folders] == [
        ("cats", "cats", 2),
        ("dogs/old", "dogs/old", 3),
    ]
    assert browser.folder_path("cats") == "/home/me/photos/cats"
    assert browser.folder_path("../photos/cats") is None
    assert browser.folder_path("/home/me/photos/cats") is None


def test_several_places_have_the_shortest_names_that_tell_them_apart(tmp_path):
    browser = browse_folders(
        tmp_path, {"/a/x/photos": 1, "/b/x/photos/in": 2, "/c/loose": 4}, ["/a/x/photos", "/b/x/photos"]
    )
    assert [one.key for one in browser.folders.folders] == ["a/x/photos", "b/x/photos/in", "loose"]
    assert browser.folders.images == 7
    assert browser.folder_path("b/x/photos/in") == "/b/x/photos/in"


def test_a_gallery_without_images_has_no_folders(tmp_path):
    with open_writer(Storage(Gallery.create(tmp_path / "g", tiny_model()).address)) as writer:
        writer.save_state(folders=("/a",))
    assert Browser(Gallery.open(tmp_path / "g").planner).folders.images == 0


def test_an_image_is_stacked_on_the_first_that_it_nearly_equals_and_that_is_not_stacked_itself():
    draw = np.random.default_rng(0)
    codes = torch.from_numpy(draw.integers(-9, 10, (60, 3)))
    degrees = torch.from_numpy(draw.random((60, 4)))

    def cosine(of, one, other):
        return float(of[one].double() @ of[other].double() / (of[one].double().norm() * of[other].double().norm()))

    expected: list[int | None] = []
    for place in range(len(codes)):
        alike = (
            earlier
            for earlier in range(place)
            if expected[earlier] is None
            and cosine(codes, place, earlier) >= PERHAPS_EQUAL
            and cosine(degrees, place, earlier) >= NEARLY_EQUAL
        )
        expected.append(next(alike, None))
    assert stacked_on(codes, lambda places: degrees[places]) == expected
    assert any(place is not None for place in expected)
    assert stacked_on(torch.empty(0, 3), lambda places: degrees[places]) == []


def test_degrees_are_read_of_those_alone_that_may_be_copies():
    asked: list[list[int]] = []

    def degrees_of(places):
        asked.append(places.tolist())
        return torch.ones(len(places), 2)

    assert stacked_on(torch.tensor([[9, 0], [0, 9], [9, 1]]), degrees_of) == [None, None, 0]
    assert stacked_on(torch.tensor([[9, 0], [0, 9]]), degrees_of) == [None, None]
    assert asked == [[0, 2]]


def test_words_are_offered_that_are_surely_seen_in_one_of_fifty_images(tmp_path):
    gallery = Gallery.create(tmp_path / "g", tiny_model(recipe=naming_recipe()))
    add_without_files(gallery, [f"/p/{number}.png" for number in range(100)])
    shown = {identity: {"sofa": 0.2} for identity in gallery.ids}
    shown[99] = {"dog": 0.4}
    shown[100] = {"dog": 0.5, "sofa": 0.2}
    shown[1] = {"car": 0.9}
    show_nouns(gallery, shown)
    offered = [noun.word for noun in gallery.planner.words.index.telling]
    assert {"dog", "car"} <= set(offered)
    assert not {"sofa", "couch"} & set(offered)
    assert not Gallery.create(tmp_path / "h", tiny_model()).planner.words.index.telling
