"""The retrieval task: which images take part, what is refused and how to go on, and how often a class is found."""

import re
from itertools import combinations

import numpy as np
import pytest
import torch
from squares import small_model, squares

from andornot.data import ImageSet
from andornot.data.errors import BrokenImageError
from andornot.data.imageset import multi_hot
from andornot.data.readers import ArrayReader
from andornot.errors import EvaluationError
from andornot.evaluate.experiments.config import RetrievalConfig, option_name
from andornot.evaluate.experiments.retrieval import (
    Mixture,
    RetrievalTask,
    choose_images,
    encode_task,
    load_pair,
)
from andornot.model import Model


def made(classes: list[list[int]], num_classes: int, name: str = "train") -> ImageSet:
    """Images of 1 x 1 with these classes."""
    return ImageSet(
        ArrayReader(np.zeros((len(classes), 1, 1), np.uint8)),
        [f"{name}/{number}" for number in range(len(classes))],
        labels=multi_hot(classes, num_classes),
        class_names=[f"class {number}" for number in range(num_classes)],
        channels=1,
    )


def one_each(per_class: int, num_classes: int = 10, name: str = "train") -> ImageSet:
    return made([[number % num_classes] for number in range(per_class * num_classes)], num_classes, name)


def some_together(counts: dict[tuple[int, ...], int], num_classes: int = 4, name: str = "train") -> ImageSet:
    """So many images with exactly these classes."""
    return made([list(classes) for classes, count in counts.items() for _ in range(count)], num_classes, name)


def parts(task: RetrievalTask) -> list[ImageSet]:
    """All sets of query images."""
    pairs = [part for pair in task.pairs.values() for part in (pair if isinstance(pair, Mixture) else [pair])]
    return [*task.singles.values(), *pairs]


def names(task: RetrievalTask) -> list[list[str]]:
    return [list(images.names) for images in (task.gallery, *parts(task))]


def class_labels(images: ImageSet) -> list[list[int]]:
    return [row.nonzero().flatten().tolist() for row in images.labels]


# One class each, as in MNIST


def test_the_papers_counts_on_ten_classes():
    task = choose_images(one_each(40), one_each(50, name="test"), RetrievalConfig())
    assert list(task.singles) == list(range(10))
    assert list(task.pairs) == list(combinations(range(10), 2))
    assert task.counts()["ordered pairs of classes"] == 90
    assert task.counts()["images in the gallery"] == len(task.gallery) == 400
    assert {len(images) for images in parts(task)} == {30}
    assert task.mixed
    assert task.counts()["ab"] == "overlay of two images"


def test_queries_are_of_the_right_classes_and_only_from_the_test_images():
    task = choose_images(one_each(40), one_each(50, name="test"), RetrievalConfig())
    assert all(name.startswith("train/") for name in task.gallery.names)
    assert all(name.startswith("test/") for images in parts(task) for name in images.names)
    for number, images in task.singles.items():
        assert class_labels(images) == [[number]] * 30
        assert len(set(images.names)) == 30
    for (a, b), (first, second) in task.pairs.items():
        assert class_labels(first) == [[a]] * 30
        assert class_labels(second) == [[b]] * 30


def test_mixtures_are_drawn_from_all_test_images():
    """Not only from the 30 that are asked with alone."""
    task = choose_images(one_each(40), one_each(50, name="test"), RetrievalConfig())
    used = {name for pair in task.pairs.values() for part in pair for name in part.names}
    assert len(used) > 490


@pytest.mark.parametrize("per_class", [200, 60, 7])
def test_without_test_images_the_queries_are_held_out_of_the_gallery(per_class):
    images = one_each(per_class)
    task = choose_images(images, None, RetrievalConfig(images_per_class=3, top=20))
    asked = {name for part in parts(task) for name in part.names}
    assert not asked & set(task.gallery.names)
    held_out = min(6, per_class // 2)
    assert len(task.gallery) == 10 * (per_class - held_out)
    assert task.gallery.labels.sum(0).tolist() == [per_class - held_out] * 10


# Several classes, as in VOC

VOC = {
    (0,): 60,
    (1,): 50,
    (2,): 40,
    (3,): 39,
    (0, 1): 9,
    (0, 2): 5,
    (1, 2): 4,
    (0, 3): 30,
    (0, 1, 2): 20,
}
SMALL = RetrievalConfig(images_per_class=8, top=20, gallery=35, min_per_class=40, min_per_pair=5)


def test_classes_need_enough_images_of_their_own_and_pairs_enough_together():
    task = choose_images(some_together(VOC), some_together(VOC, name="test"), SMALL)
    assert list(task.singles) == [0, 1, 2], "39 of the last are one too few"
    assert list(task.pairs) == [(0, 1), (0, 2)], "4 of (1, 2) are one too few"
    assert {pair: len(images) for pair, images in task.pairs.items()} == {(0, 1): 8, (0, 2): 5}
    assert not task.mixed
    assert task.counts() == {
        "classes": ["class 0", "class 1", "class 2"],
        "ordered pairs of classes": 4,
        "images in the gallery": 105,
        "query images of a class": [8],
        "query images of a pair": [5, 8],
        "ab": "images with exactly these two classes",
    }


def test_queries_have_exactly_one_or_exactly_two_classes_and_the_gallery_exactly_one():
    task = choose_images(some_together(VOC), some_together(VOC, name="test"), SMALL)
    for number, images in task.singles.items():
        assert class_labels(images) == [[number]] * 8
    for pair, images in task.pairs.items():
        assert class_labels(images) == [list(pair)] * len(images)
    assert all(name.startswith("test/") for images in parts(task) for name in images.names)
    assert all(name.startswith("train/") for name in task.gallery.names)
    assert sorted(class_labels(task.gallery)) == [[0]] * 35 + [[1]] * 35 + [[2]] * 35


def test_a_gallery_of_all_images_has_those_of_several_classes_too():
    train = some_together(VOC)
    task = choose_images(train, some_together(VOC, name="test"), SMALL.changed(gallery=None))
    assert list(task.gallery.names) == list(train.names)


@pytest.mark.parametrize("size", [35, None])
def test_labelled_queries_are_held_out_where_there_are_no_others(size):
    train = some_together({**VOC, (2,): 48})
    task = choose_images(train, None, SMALL.changed(gallery=size))
    assert list(task.singles) == [0, 1, 2]
    asked = {name for part in parts(task) for name in part.names}
    assert not asked & set(task.gallery.names)
    assert len(task.gallery) == (105 if size else len(train) - len(asked))
    alone = task.gallery.labels[task.gallery.labels.sum(1) == 1].sum(0)
    assert alone.tolist() == ([35, 35, 35, 0] if size else [52, 42, 40, 39])


def test_held_out_queries_must_leave_enough():
    """48 images are 40 to search and 8 to ask with; 47 are too few."""
    assert 2 not in choose_images(some_together({**VOC, (2,): 47}), None, SMALL).singles
    assert 2 in choose_images(some_together({**VOC, (2,): 48}), None, SMALL).singles


# The seed


@pytest.mark.parametrize(
    "sets",
    [
        (one_each(40), one_each(50, name="test")),
        (one_each(100), None),
        (some_together(VOC), some_together(VOC, name="test")),
        (some_together(VOC), None),
    ],
    ids=["one class", "one class, held out", "several", "several, held out"],
)
def test_the_seed_decides_which_images_take_part(sets):
    protocol = SMALL.changed(min_per_class=30, gallery=20)
    first, again, other = (choose_images(*sets, protocol.changed(seed=seed)) for seed in (0, 0, 1))
    assert names(first) == names(again)
    assert all(mine != others for mine, others in zip(names(first)[1:], names(other)[1:], strict=True))
    assert first.counts() == other.counts()


# What is refused, and the way on

REFUSED = {
    "one class each, few": (
        one_each(40, 3),
        one_each(12, 3, "test"),
        RetrievalConfig(),
        "has 12 query images, 30 ",
    ),
    "held out, few": (one_each(20, 3), None, RetrievalConfig(top=5), "has 10 query images, 30 are needed"),
    "a small gallery": (
        one_each(4, 3),
        one_each(30, 3, "test"),
        RetrievalConfig(),
        "the gallery has 12 images, and 50 hits count",
    ),
    "small classes": (
        some_together({(0,): 50, (1,): 30, (2,): 9, (0, 1): 8}),
        some_together({(0,): 50, (1,): 30, (0, 1): 8}, name="test"),
        RetrievalConfig(),
        "0 of 4 classes have 200 images that show nothing else, 2 are needed",
    ),
    "small classes, held out": (
        some_together({(0,): 300, (1,): 100, (0, 1): 8}),
        None,
        RetrievalConfig(),
        "1 of 4 classes have 230 images that show nothing else, 2 are needed: use --min-per-class 70 --gallery-images",
    ),
    "tiny classes, held out": (
        some_together({(0,): 40, (1,): 7, (0, 1): 8}),
        None,
        RetrievalConfig(),
        "2 are needed: use --images-per-class 3 --min-per-class 4 --gallery-images 4",
    ),
    "few queries of a class": (
        some_together({(0,): 60, (1,): 60, (0, 1): 1}),
        some_together({(0,): 8, (1,): 3, (0, 1): 8}, name="test"),
        RetrievalConfig(min_per_class=60),
        'the class "class 1" has 3 query images, 5 are needed: use --min-per-pair 3',
    ),
    "no query of a class": (
        some_together({(0,): 70, (1,): 60, (2,): 80, (0, 1): 1}),
        some_together({(0,): 8, (2,): 8, (0, 2): 8}, name="test"),
        RetrievalConfig(min_per_class=60),
        'the class "class 1" has 0 query images, 5 are needed: use --min-per-class 61',
    ),
    "never together": (
        some_together({(0,): 60, (1,): 60, (0, 1): 1}),
        some_together({(0,): 8, (1,): 8, (0, 1): 2}, name="test"),
        RetrievalConfig(min_per_class=60),
        "no two classes of these 2 occur together in 5 images that show only them: use --min-per-pair 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_too_few_images_are_refused_and_the_hint_works(case):
    gallery, queries, protocol, message = REFUSED[case]
    for _ in range(3):  # one option may ask for another
        try:
            task = choose_images(gallery, queries, protocol)
        except EvaluationError as error:
            text = str(error)
            assert message in text
            assert "\n" not in text
            hints = re.findall(r"--([\w-]+) (\d+)", text.partition(": ")[2])
            changes = {name.removesuffix("-images").replace("-", "_"): int(number) for name, number in hints}
            assert changes, text
            protocol, message = protocol.changed(**changes), ""
        else:
            break
    assert message == "", "it was refused at first"
    assert task.pairs
    assert len(task.gallery) >= protocol.top
    assert all(0 < len(images) <= protocol.images_per_class for images in parts(task))


NEEDS_MORE = {
    "no labels": (squares(8, labels=False), "needs labelled images, and these have no labels: try digits"),
    "one class": (one_each(100, 1), "all images are of one class, 2 are needed"),
    "a class without images": (made([[0]] * 80 + [[1]] * 80, 3), '"class 2" has 0 query images, 30 are'),
    "one class alone": (some_together({(0,): 90, (0, 1): 9}), "0 of 4 classes have 230 images that show nothing"),
    "nothing together": (
        some_together({(0,): 300, (1,): 300, (0, 1, 2): 9}),
        "no two classes of these 2 occur together in 5 images that show only them: use a lower --min-per-class",
    ),
}


@pytest.mark.parametrize("case", NEEDS_MORE)
def test_what_no_option_can_help_asks_for_other_images(case):
    images, message = NEEDS_MORE[case]
    with pytest.raises(EvaluationError, match=re.escape(message)) as caught:
        choose_images(images, None, RetrievalConfig())
    assert not re.search(r"--\w+ \d", str(caught.value))


def test_both_sets_need_the_same_classes_and_labels():
    with pytest.raises(EvaluationError, match="have different classes"):
        choose_images(one_each(40, 3), one_each(40, 4), RetrievalConfig())
    with pytest.raises(EvaluationError, match="needs labelled images"):
        choose_images(squares(8), squares(8, labels=False), RetrievalConfig())


@pytest.mark.parametrize("name", ["images_per_class", "top", "min_per_class", "min_per_pair", "gallery"])
@pytest.mark.parametrize("number", [0, -3])
def test_a_protocol_asks_for_something(name, number):
    with pytest.raises(EvaluationError, match=f"^{option_name(name)} {number}: it must be 1 or more"):
        RetrievalConfig(**{name: number})


# Encoding


@pytest.fixture(scope="module")
def model():
    return small_model()


def test_everything_is_encoded_as_the_model_sees_it(model):
    train, test = squares(60, several=True), squares(200, seed=1, several=True)
    task = choose_images(
        train, test, RetrievalConfig(images_per_class=4, top=5, gallery=None, min_per_class=3, min_per_pair=2)
    )
    encoded = encode_task(model, task, progress=False)
    sets = {("gallery",): (task.gallery, encoded.gallery)}
    sets |= {("class", number): (task.singles[number], encoded.singles[number]) for number in task.singles}
    sets |= {pair: (task.pairs[pair], encoded.pairs[pair]) for pair in task.pairs}
    for key, (images, found) in sets.items():
        resized = images.resized(16)
        assert torch.equal(found.activations, model.activations(resized)), key
        torch.testing.assert_close(found.representation.probs, model.encode(resized).probs)
    assert torch.equal(encoded.labels, task.gallery.labels)


def test_a_mixture_is_the_mean_of_two_images(model):
    task = choose_images(squares(40), squares(40, seed=1), RetrievalConfig(images_per_class=5, top=5))
    encoded = encode_task(model, task, progress=False)
    for pair, (first, second) in task.pairs.items():
        mean = (first.resized(16)[:].float() + second.resized(16)[:].float()) / 2 / 255
        torch.testing.assert_close(load_pair(model, task.pairs[pair]), mean)
        torch.testing.assert_close(encoded.pairs[pair].activations, model.activations(mean))


class Damaged(ArrayReader):
    """Some of the images cannot be read."""

    def __init__(self, pixels: np.ndarray, broken: set[int]) -> None:
        super().__init__(pixels)
        self.broken = broken

    def read(self, index, size=None):
        if index in self.broken:
            raise BrokenImageError(str(index), "broken")
        return super().read(index, size)

    def pixels(self, indices):  # noqa: ARG002
        return None


def test_broken_images_are_left_out_with_their_labels(model):
    whole = squares(40)
    images = ImageSet(
        Damaged(whole.reader.pixels(np.arange(40)), {1, 6, 20}),
        whole.names,
        labels=whole.labels,
        class_names=whole.class_names,
        channels=1,
    )
    task = choose_images(images, images, RetrievalConfig(images_per_class=10, top=5))
    encoded = encode_task(model, task, progress=False)
    readable = [number for number in range(40) if number not in (1, 6, 20)]
    assert torch.equal(encoded.labels, whole.labels[readable])
    assert len(encoded.gallery.activations) == 37
    assert {number: len(found.activations) for number, found in encoded.singles.items()} == {0: 9, 1: 9, 2: 9, 3: 10}
    assert all(7 <= len(found.activations) <= 10 for found in encoded.pairs.values())


def test_another_model_with_the_same_backbone_needs_no_second_run_of_it(monkeypatch):
    images = squares(12)
    model = small_model()
    retrieval = RetrievalTask(images.class_names, images, {0: images.subset([0, 1])}, {})
    encoded = encode_task(model, retrieval)
    other = Model.calibrated(model.backbone, encoded.gallery.activations, model.recipe)
    expected = encode_task(other, retrieval)
    monkeypatch.setattr(Model, "activations", None)
    found = encoded.with_heads_of(other)
    assert torch.equal(found.gallery.representation.probs, expected.gallery.representation.probs)
    assert torch.equal(found.singles[0].representation.probs, expected.singles[0].representation.probs)
