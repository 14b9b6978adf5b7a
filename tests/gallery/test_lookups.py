"""What is looked up while somebody types or browses: names, folders, copies."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from andornot.gallery.folder_tree import FolderTree
from andornot.gallery.name_index import NameIndex
from andornot.gallery.stacking import NEARLY_EQUAL, PERHAPS_EQUAL, stacked_on
from andornot.gallery.word_truths import WordTruths


@pytest.mark.parametrize("beginning", ["", "b", "B", "be", "beach", "7", "jp", "ß", "STRASSE", "\n", "zz"])
def test_names_are_found_as_by_looking_at_each(beginning):
    names = ["IMG_7.jpg", "beach.jpg", "my-beach.jpg", "Beat.png", "straße.jpg", "a\nb.jpg", "beach.jpg", "Bär 7.png"]
    wanted = beginning.casefold().replace("\n", " ")
    folded = [name.casefold().replace("\n", " ") for name in names]
    order = sorted(range(len(names)), key=folded.__getitem__)
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
    assert NameIndex(names).find(beginning, 100) == expected
    assert NameIndex(names).find(beginning, 2) == expected[:2]
    assert NameIndex([]).find(beginning, 5) == []


def test_folders_are_told_from_what_was_indexed_on():
    tree = FolderTree({"/home/me/photos/cats": 2, "/home/me/photos/dogs/old": 3}, ["/home/me/photos"])
    root = tree.root
    assert (root.name, root.key, root.pictures) == ("photos", "", 5)
    assert [(one.name, one.key, one.pictures) for one in root.folders] == [
        ("cats", "cats", 2),
        ("dogs/old", "dogs/old", 3),
    ]
    assert tree.path_of("cats") == "/home/me/photos/cats"
    assert tree.path_of("../photos/cats") is None
    assert tree.path_of("/home/me/photos/cats") is None


def test_several_places_have_the_shortest_names_that_tell_them_apart():
    tree = FolderTree({"/a/x/photos": 1, "/b/x/photos/in": 2, "/c/loose": 4}, ["/a/x/photos", "/b/x/photos"])
    assert [one.key for one in tree.root.folders] == ["a/x/photos", "b/x/photos/in", "loose"]
    assert tree.root.pictures == 7
    assert tree.path_of("b/x/photos/in") == "/b/x/photos/in"


def test_a_gallery_without_pictures_has_no_folders():
    assert FolderTree({}, ["/a"]).root.pictures == 0


def test_a_picture_is_stacked_on_the_first_that_it_nearly_equals_and_that_is_not_stacked_itself():
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


def test_words_are_offered_that_are_surely_seen_in_one_of_fifty_pictures():
    supports = {(1,): np.array([0.0] * 98 + [0.4, 0.5]), (2,): np.full(100, 0.2), (3,): np.array([0.9] + [0.0] * 99)}
    truths = WordTruths(None, None, None)
    truths.__dict__ |= {"postings": SimpleNamespace(support=supports.__getitem__), "_used": np.arange(100)}
    nouns = [SimpleNamespace(classes=classes) for classes in supports]
    assert truths.surely_seen(nouns) == [nouns[0], nouns[2]]
    truths.__dict__ |= {"postings": None}
    assert truths.surely_seen(nouns) == []
