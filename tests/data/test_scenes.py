"""Scenes: what the labels and boxes say is in the image, and an image depends on its number and the seed alone."""

import numpy as np
import pytest
import torch
from PIL import Image

from andornot.data import open_images, scenes


def pixels(images, index):
    return np.asarray(images.read(index), dtype=np.int64)


def test_a_scene_is_drawn_the_same_each_time():
    first, second = open_images("scenes?count=5&seed=3"), open_images("scenes?count=9&seed=3")
    for i in range(5):  # the count does not matter
        assert np.array_equal(pixels(first, i), pixels(second, i))
    assert torch.equal(first.labels, second.labels[:5])
    assert list(first.boxes) == list(second.boxes[:5])
    assert np.array_equal(pixels(second.subset([4, 2]), 1), pixels(first, 2))


def test_seeds_splits_and_numbers_give_different_scenes():
    sets = [
        open_images("scenes?count=3&seed=0"),
        open_images("scenes?count=3&seed=1"),
        open_images("scenes?count=3", "test"),
    ]
    drawn = {images.read(i).tobytes() for images in sets for i in range(3)}
    assert len(drawn) == 9
    assert sets[0].read(1).tobytes() == open_images("scenes?count=3", "train").read(1).tobytes()


def test_one_to_three_different_things():
    images = open_images("scenes?count=600")
    counts = torch.bincount(images.labels.sum(1))
    assert counts[0] == 0
    assert len(counts) == 4
    assert min(counts[1:].tolist()) > 150
    assert images.class_names == tuple(scenes.THINGS)
    assert len(images.class_names) == 24
    frequency = images.labels.float().mean(0)
    assert frequency.min() > 0.03  # about 2 of 24 each
    assert frequency.max() < 0.15


def test_labels_say_what_the_boxes_say():
    images = open_images("scenes?count=40&seed=5")
    for i in range(40):
        numbers = [number for number, _ in images.boxes[i]]
        assert numbers == images.labels[i].nonzero().flatten().tolist()
        for _, (x0, y0, x1, y1) in images.boxes[i]:
            assert 0 <= x0 < x1 <= 224
            assert 0 <= y0 < y1 <= 224
            assert x1 - x0 >= 12
            assert y1 - y0 >= 12
    with pytest.raises(IndexError):
        images.boxes[40]


def test_things_hardly_overlap():
    for boxes in open_images("scenes?count=60").boxes:
        for i, (_, a) in enumerate(boxes):
            for _, b in boxes[:i]:
                common = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
                assert common <= 0.04 * min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))


def test_boxes_are_exactly_around_what_is_visible(monkeypatch):
    images = open_images("scenes?count=12&seed=2")
    with_things = [pixels(images, i) for i in range(12)]
    boxes = list(images.boxes)
    monkeypatch.setattr(Image.Image, "paste", lambda *_: None)
    for i in range(12):
        changed = np.abs(with_things[i] - pixels(images, i)).max(-1) > 0
        outside = changed.copy()
        for _, (x0, y0, x1, y1) in boxes[i]:
            assert changed[y0:y1, x0:x1].any(axis=0).mean() > 0.9  # nearly every row and column of a box has the thing
            assert changed[y0:y1, x0:x1].any(axis=1).mean() > 0.9
            outside[y0:y1, x0:x1] = False
        assert not outside.any()


def test_a_choice_of_classes():
    images = open_images("scenes?count=50&classes=dog+cat")
    assert images.class_names == ("dog", "cat")
    assert images.labels.any(1).all()
    assert images.labels.sum(1).max() == 2
    assert open_images("scenes?count=5&classes=sun").labels.all()


@pytest.mark.parametrize("size", [32, 64, 300])
def test_any_size(size):
    images = open_images(f"scenes?count=8&size={size}")
    assert all(image.shape == (3, size, size) for image in images.images)
    assert all(min(box) >= 0 and max(box) <= size for boxes in images.boxes for _, box in boxes)
    assert images.resized(size).shape == (8, 3, size, size)


@pytest.mark.parametrize("name", scenes.THINGS)
def test_every_thing_has_an_image(name):
    images = open_images(f"scenes?count=1&classes={name}")
    ((number, (x0, y0, x1, y1)),) = images.boxes[0]
    assert number == 0
    assert max(x1 - x0, y1 - y0) > 50
    assert pixels(images, 0)[y0:y1, x0:x1].std() > 10


def test_scenes_are_colourful():
    for image in open_images("scenes?count=6").images:
        assert 120 < image.float().mean() < 240
        assert image.float().std() > 20


def test_the_attribution_names_author_and_licence():
    assert "Twitter" in scenes.ATTRIBUTION
    assert "CC-BY 4.0" in scenes.ATTRIBUTION
