"""Which part of a source is trained on, and which is held out."""

from pathlib import Path

import pytest
from makers import save_picture, write_coco

from andornot.data import training_part


def names(images) -> list[str]:
    return [Path(name).stem for name in images.names]


@pytest.fixture
def coco(tmp_path):
    write_coco(tmp_path, "train2014", names=("a", "b"))
    write_coco(tmp_path, "train2017", names=("c", "d"))
    return tmp_path


def test_of_several_years_the_latest_is_trained_on_and_its_own_val_held_out(coco):
    write_coco(coco, "val2017", names=("e", "f"))
    parts = training_part(f"coco:{coco}")
    assert (names(parts.train), names(parts.held_out)) == (["c", "d"], ["e", "f"])
    assert training_part(f"coco:{coco}?split=train2014").held_out is None


def test_a_year_with_nothing_to_train_on_is_not_the_latest(coco):
    write_coco(coco, "val2018", names=("g", "h"))
    parts = training_part(coco)
    assert (names(parts.train), parts.held_out) == (["c", "d"], None)


def test_val_is_trained_on_where_there_is_a_test_part_as_well(tmp_path):
    for number, part in enumerate(("train", "val", "test")):
        for name in ("cat", "dog"):
            save_picture(tmp_path / part / name / f"{part}.jpg", number)
    parts = training_part(tmp_path)
    assert (names(parts.train), names(parts.held_out)) == (["train"] * 2 + ["val"] * 2, ["test"] * 2)


def test_a_source_without_parts_is_trained_on_as_a_whole(tmp_path):
    save_picture(tmp_path / "one.jpg", 0)
    assert training_part(tmp_path).held_out is None
    assert len(training_part(tmp_path).train) == 1
