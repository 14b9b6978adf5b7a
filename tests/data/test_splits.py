"""Which part of a source is trained on, and which is held out."""

from pathlib import Path

import pytest
import torch
from makers import save_image, write_coco, write_mnist, write_voc_year

from andornot.data import open_images, train_split


def names(images) -> list[str]:
    return [Path(name).stem for name in images.names]


@pytest.fixture
def coco(tmp_path):
    write_coco(tmp_path, "train2014", names=("a", "b"))
    write_coco(tmp_path, "train2017", names=("c", "d"))
    return tmp_path


def test_of_several_years_the_latest_is_trained_on_and_its_own_val_held_out(coco):
    write_coco(coco, "val2017", names=("e", "f"))
    found = train_split(f"coco:{coco}")
    assert (names(found.train), names(found.held_out)) == (["c", "d"], ["e", "f"])
    assert train_split(f"coco:{coco}?split=train2014").held_out is None


def test_a_year_with_nothing_to_train_on_is_not_the_latest(coco):
    write_coco(coco, "val2018", names=("g", "h"))
    found = train_split(coco)
    assert (names(found.train), found.held_out) == (["c", "d"], None)


def test_val_is_trained_on_where_there_is_a_test_part_as_well(tmp_path):
    for number, part in enumerate(("train", "val", "test")):
        for name in ("cat", "dog"):
            save_image(tmp_path / part / name / f"{part}.jpg", number)
    found = train_split(tmp_path)
    assert (names(found.train), names(found.held_out)) == (["train"] * 2 + ["val"] * 2, ["test"] * 2)


def test_a_source_without_parts_is_trained_on_as_a_whole(tmp_path):
    save_image(tmp_path / "one.jpg", 0)
    assert train_split(tmp_path).held_out is None
    assert len(train_split(tmp_path).train) == 1


def write_folders(root: Path) -> str:
    for number, part in enumerate(("train", "val")):
        for name in ("cat", "dog"):
            save_image(root / part / name / f"{part}.jpg", number)
    return f"imagefolder:{root}"


def write_voc(root: Path) -> str:
    lists = {"train": ["a"], "val": ["b"], "trainval": ["a", "b"], "test": ["c"]}
    write_voc_year(root / "VOC2007", lists, {"a": [("cat", 0)], "b": [("dog", 0)], "c": [("dog", 0)]})
    return f"voc:{root}"


def write_two_years(root: Path) -> str:
    write_coco(root, "train2017", names=("c", "d"))
    write_coco(root, "val2017", names=("e", "f"))
    return f"coco:{root}"


def write_digits(root: Path) -> str:
    write_mnist(root, train=6, test=4)
    return f"mnist:{root}"


@pytest.mark.parametrize("write", [write_folders, write_voc, write_two_years, write_digits, lambda _: "digits"])
def test_a_source_is_opened_once_and_its_parts_are_those_of_its_own(write, tmp_path):
    spec = write(tmp_path)
    train, held_out = train_split(spec)
    assert train.reader is held_out.reader
    expected = open_images(spec, split=held_out.split)
    assert list(held_out.names) == list(expected.names)
    assert torch.equal(held_out.labels, expected.labels)
    assert torch.equal(held_out.images[0], expected.images[0])
    assert not {*held_out.names} & {*train.names}


def test_scenes_for_the_test_are_other_scenes():
    train, held_out = train_split("scenes:?count=3")
    assert (train.name(0), held_out.name(0), held_out.split) == ("scenes/0", "scenes/test/0", "test")
