"""Possession degrees of coloured squares, by a model whose features are red, green and blue: the answers are known."""

import json

import numpy as np
import pytest
from torch import nn

from andornot.data import ImageSet, open_images
from andornot.data.imageset import multi_hot
from andornot.data.readers import ArrayReader
from andornot.errors import EvaluationError
from andornot.evaluate.experiments.degrees import evaluate_degrees
from andornot.evaluate.report.outcome import Figure, Table
from andornot.model import Model
from andornot.ssl.backbones import wrap_backbone
from andornot.ssl.recipe import make_recipe

COLOURS = ("blue", "green", "red")  # the features are in another order: red, green, blue
SIDE = 40


def squares(count: int = 120) -> ImageSet:
    """One or two squares of different colours on black, one on the left and one on the right."""
    rng = np.random.default_rng(0)
    pixels = np.zeros((count, SIDE, SIDE, 3), np.uint8)
    classes, boxes = [], []
    for image in pixels:
        chosen = rng.choice(3, rng.integers(1, 3), replace=False).tolist()
        objects = []
        for place, number in enumerate(chosen):
            side, top = int(rng.integers(9, 14)), int(rng.integers(2, 25))
            left = 22 * place + int(rng.integers(1, 4))
            image[top : top + side, left : left + side, 2 - number] = rng.integers(180, 256)
            objects.append((number, (left, top, left + side, top + side)))
        classes.append(chosen)
        boxes.append(objects)
    names = [f"squares/{number}" for number in range(count)]
    return ImageSet(ArrayReader(pixels), names, labels=multi_hot(classes, 3), class_names=COLOURS, boxes=boxes)


def without(images: ImageSet, *, labels: bool = True) -> ImageSet:
    """The same images without boxes, or without labels as well."""
    known = {"labels": images.labels, "class_names": images.class_names} if labels else {}
    return ImageSet(images.reader, images.names, **known)


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return squares()


@pytest.fixture(scope="module")
def model(images) -> Model:
    """The mean of each colour is a feature."""
    recipe = make_recipe({"regime": "calibrated", "num_values": 5, "size": 16})
    backbone = wrap_backbone(nn.Identity(), size=16)
    features = Model(backbone, nn.Identity(), recipe).activations(images.resized(16))
    return Model.calibrated(backbone, features, recipe)


@pytest.fixture(scope="module")
def outcome(model, images):
    return evaluate_degrees(model, images, progress=False)


def contents(outcome, kind):
    return [[item for item in section.content if isinstance(item, kind)] for section in outcome.sections]


def test_the_images_shown_are_those_with_the_highest_degree(model, images, outcome):
    degrees = model.encode(images.resized(16)).degrees
    assert [row["feature"] for row in outcome.metrics["top"]] == [
        outcome.metrics["classes"]["classes"][row["class"]]["feature"] for row in outcome.metrics["top"]
    ]
    for row in outcome.metrics["top"]:
        ranking = sorted(range(len(images)), key=lambda number: -degrees[number, row["feature"]])[:5]
        assert row["images"] == [f"squares/{number}" for number in ranking]
        assert row["degrees"] == pytest.approx([float(degrees[number, row["feature"]]) for number in ranking])
        assert row["of_the_class"] == 5


def test_each_class_has_the_feature_of_its_colour(images, outcome):
    metrics = outcome.metrics["classes"]
    assert {name: row["feature"] for name, row in metrics["classes"].items()} == {"red": 0, "green": 1, "blue": 2}
    assert all(row["area_held_out"] == 1 for row in metrics["classes"].values())
    assert all(row["median_inside"] > row["median_outside"] for row in metrics["classes"].values())
    assert (metrics["mean_area_held_out"], metrics["left_out"]) == (1, [])
    assert metrics["classes"]["red"]["images"] == int(images.labels[:, 2].sum())


def test_each_crop_has_the_colour_of_its_square_and_not_the_other(images, outcome):
    metrics = outcome.metrics["crops"]
    pairs = int((images.labels.sum(1) == 2).sum())
    assert metrics["all"]["images"] == pairs
    assert 0 < metrics["held out"]["images"] < pairs
    assert sum(row["images"] for row in metrics["classes"].values()) == 2 * pairs
    for row in (metrics["all"], *metrics["classes"].values()):
        assert row["higher_in_own_crop"]["value"] == 1
        assert row["other_crop"] < row["whole"] < row["own_crop"]


def test_tables_have_the_figures_and_the_result_is_plain_data(outcome):
    (_, [classes], [crops]) = contents(outcome, Table)
    metrics = outcome.metrics
    assert json.loads(json.dumps([metrics, outcome.protocol])) == [metrics, outcome.protocol]
    for row in classes.rows:
        assert len(row) == len(classes.columns)
        expected = metrics["classes"]["classes"][row[0]]
        keys = ("images", "feature", "area_chosen", "area_held_out", "median_inside", "median_outside")
        assert row[1:] == [expected[key] for key in keys]
    assert [row[0] for row in crops.rows] == ["all", "held out", "blue", "green", "red"]
    for row in crops.rows:
        expected = {**metrics["crops"]["classes"], **metrics["crops"]}[row[0]]
        shown = [row[1], vars(row[2]), *row[3:]]
        assert shown == list(expected.values())


def test_each_part_has_a_figure_that_can_be_saved(outcome, tmp_path):
    for number, images in enumerate(contents(outcome, Figure)):
        [image] = images
        assert image.caption.endswith(".")
        image.figure.savefig(tmp_path / f"{number}.png", dpi=30)


def test_the_bars_are_the_degrees_of_both_features_in_whole_and_crops(model, images, outcome):
    figure = contents(outcome, Figure)[2][0].figure
    first = int((images.labels.sum(1) == 2).nonzero()[0])
    one, other = images.labels[first].nonzero().flatten().tolist()
    whole = model.encode(images.resized(16)[first]).degrees
    above, below = figure.axes[:3], figure.axes[3:6]
    titles = [axes.get_title() for axes in above]
    assert titles == ["whole image", f"crop of {COLOURS[one]}", f"crop of {COLOURS[other]}"]
    heights = [[bar.get_height() for bar in axes.patches] for axes in below]
    assert heights[0] == pytest.approx([float(whole[2 - one]), float(whole[2 - other])])
    assert heights[1][0] > heights[1][1]
    assert heights[2][0] < heights[2][1]


def test_without_boxes_nothing_is_cut_out_and_the_rest_stays(model, images, outcome):
    boxless = evaluate_degrees(model, without(images), progress=False)
    assert boxless.metrics == {**outcome.metrics, "crops": None}
    assert "no object boxes" in boxless.sections[2].text


def test_images_without_boxes_beside_others_are_not_cut(model, images, outcome):
    mixed = ImageSet(
        images.reader,
        images.names,
        labels=images.labels,
        class_names=COLOURS,
        boxes=[boxes if number < 60 else [] for number, boxes in enumerate(images.boxes)],
    )
    metrics = evaluate_degrees(model, mixed, features=1, progress=False).metrics
    assert metrics["crops"]["all"]["images"] == int((images.labels[:60].sum(1) == 2).sum())
    assert metrics["classes"] == outcome.metrics["classes"]
    alone = ImageSet(
        images.reader, images.names, labels=images.labels, class_names=COLOURS, boxes=[[] for _ in range(len(images))]
    )
    assert "no image has boxes" in evaluate_degrees(model, alone, features=1, progress=False).sections[2].text


def test_without_labels_the_features_that_vary_most_are_shown(model, images):
    unlabelled = evaluate_degrees(model, without(images, labels=False), top=3, features=2, progress=False)
    spread = model.encode(images.resized(16)).degrees.std(dim=0)
    assert [row["feature"] for row in unlabelled.metrics["top"]] == spread.argsort(descending=True)[:2].tolist()
    assert all(len(row["images"]) == 3 and "class" not in row for row in unlabelled.metrics["top"])
    assert (unlabelled.metrics["classes"], unlabelled.metrics["crops"]) == (None, None)
    assert all("no labels" in section.text for section in unlabelled.sections[1:])


def test_few_images_are_enough_for_the_sheet_and_classes_say_what_they_lack(model, images):
    few = evaluate_degrees(model, images.subset([0, 1, 2]), progress=False)
    assert all(len(row["images"]) == 3 for row in few.metrics["top"])
    assert all("10 negatives in each half" in section.text for section in few.sections[1:])


def test_the_seed_draws_the_halves(model, images, outcome):
    again, other = (
        evaluate_degrees(model, without(images), features=1, seed=seed, progress=False).metrics["classes"]
        for seed in (0, 1)
    )
    assert again == outcome.metrics["classes"] != other


@pytest.mark.parametrize("asked", [{"top": 0}, {"features": -1}])
def test_showing_nothing_is_refused(model, images, asked):
    with pytest.raises(EvaluationError, match="must be 1 or more"):
        evaluate_degrees(model, images, **asked)


def test_scenes_have_boxes_to_cut_by(model):
    scenes = open_images("scenes?count=80&size=64&classes=sun+tree+bus")
    metrics = evaluate_degrees(model, scenes, features=1, progress=False).metrics
    assert 0 < metrics["crops"]["all"]["images"] <= int((scenes.labels.sum(1) == 2).sum())
