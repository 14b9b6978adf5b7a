"""Multilabel evaluation: the paper's crops, the layer against its oracle, and what the result says."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from squares import CORNERS, small_model, squares

from andornot.data import ImageSet, open_images
from andornot.errors import EvaluationError
from andornot.evaluate.experiments.multilabel import (
    CROP_SIDES,
    ActivationCache,
    MultilabelConfig,
    ScaleCrops,
    evaluate_multilabel,
    measure_multilabel,
)
from andornot.evaluate.experiments.probing import ProbeFeatures, cache_views, cached_inputs
from andornot.evaluate.metrics.ranking import VARIANTS


@pytest.fixture(scope="module")
def model():
    return small_model()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# The crops


@pytest.mark.parametrize("side", [640, 80])
def test_crops_are_squares_of_the_papers_sides_anywhere_inside(side):
    warp = ScaleCrops(16).draw(torch.zeros(1).expand(5000, 1, side, side), seeded())
    sides = [round(length * side / 640) for length in CROP_SIDES]
    drawn, counts = warp.height.int().unique(return_counts=True)
    assert drawn.tolist() == sorted(sides)
    assert bool((warp.height == warp.width).all())
    assert 880 < counts.min() <= counts.max() < 1120  # 1,000 expected
    assert not bool((warp.top == warp.left).all())
    for place, length in ((warp.top, warp.height), (warp.left, warp.width)):
        free = side - length
        assert bool((place >= 0).all() and (place <= free).all() and (place == place.round()).all())
        smallest = place[length == min(sides)]
        assert smallest.min() <= 0.02 * side
        assert smallest.max() >= 0.48 * side
    assert not warp.flip.any()


def test_a_crop_is_cut_out_and_resized():
    images = torch.randint(256, (6, 3, 40, 40), dtype=torch.uint8, generator=seeded())
    crops = ScaleCrops(16)
    ours, warp = crops(images, seeded(1)), crops.draw(images, seeded(1))
    for number, image in enumerate(images):
        top, left, height, width = (int(edge[number]) for edge in (warp.top, warp.left, warp.height, warp.width))
        image = Image.fromarray(image.permute(1, 2, 0).numpy())
        box = (left, top, left + width, top + height)
        expected = np.asarray(image.crop(box).resize((16, 16), Image.Resampling.BILINEAR))
        torch.testing.assert_close(
            ours[number].permute(1, 2, 0), torch.from_numpy(expected / 255).float(), atol=0.01, rtol=0
        )


# What comes out


@pytest.mark.parametrize("choice", [{}, {"cached": True}, {"cached": True, "cached_views": 3}])
def test_corners_are_learnt_and_the_backbone_stays_bit_identical(model, choice):
    before = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    settings = MultilabelConfig(epochs=15, learning_rate=0.1, **choice)
    result = measure_multilabel(model, squares(150, several=True), squares(80, seed=1, several=True), settings)
    # Chance is 0.4, and a random crop often loses which corner it is of.
    assert result.mean > (0.9 if choice == {"cached": True} else 0.6)
    assert tuple(result.by_class) == CORNERS
    assert result.mean == pytest.approx(sum(result.by_class.values()) / 4)
    assert result.protocol["backbone"]["bit_identical_afterwards"] is True
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_layer_is_one_logistic_regression_a_class_by_momentum_sgd(model):
    """All of it by hand, down to the average precision."""
    train, test = squares(50, several=True), squares(40, seed=1, several=True)
    settings = MultilabelConfig(epochs=6, batch_size=25, learning_rate=0.3, weight_decay=0.01, cached=True, seed=4)
    result = measure_multilabel(model, train, test, settings)
    generator = seeded(4)
    features, new_features = (
        model.backbone(images.resized(16)[:].float() / 255).detach().double() for images in (train, test)
    )
    truth = train.labels.double()
    weights, bias = torch.normal(0.0, 0.01, (4, 64), generator=generator).double(), torch.zeros(4)
    velocity, bias_velocity = torch.zeros(4, 64), torch.zeros(4)
    for epoch in range(6):
        rate = 0.3 * (1 + math.cos(math.pi * epoch / 6)) / 2
        for batch in torch.randperm(50, generator=generator).tensor_split(2):
            torch.randint(1, batch.shape, generator=generator)  # the draw among the one cached view
            error = ((features[batch] @ weights.T + bias).sigmoid() - truth[batch]) / truth[batch].numel()
            velocity = 0.9 * velocity + error.T @ features[batch] + 0.01 * weights
            bias_velocity = 0.9 * bias_velocity + error.sum(0) + 0.01 * bias
            weights, bias = weights - rate * velocity, bias - rate * bias_velocity
    scores = (new_features @ weights.T + bias).numpy()
    for number, name in enumerate(CORNERS):
        expected = average_precision_score(test.labels[:, number].numpy(), scores[:, number])
        assert result.by_class[name] == pytest.approx(expected, abs=1e-4)


def test_cached_views_are_crops_of_each_image_one_drawn_each_time(model):
    images = squares(5).resized(46)
    inputs = cache_views(ProbeFeatures(model), images, ScaleCrops(16), 3, seeded(1), None)
    generator = seeded(1)
    views = [model.backbone(ScaleCrops(16)(images[:], generator)).detach() for _ in range(3)]
    numbers = torch.tensor([4, 0, 4, 4, 4, 4, 4, 4])
    drawn = torch.randint(3, numbers.shape, generator=seeded(2))
    expected = torch.stack([views[view][number] for view, number in zip(drawn, numbers, strict=True)])
    torch.testing.assert_close(inputs(numbers, seeded(2)), expected)
    assert torch.equal(cached_inputs(expected[None])(torch.tensor([2]), seeded()), expected[2:3])


def test_the_seed_decides_everything(model):
    sets = squares(40, several=True), squares(30, seed=1, several=True)
    first, again, other = (
        measure_multilabel(model, *sets, MultilabelConfig(epochs=2, seed=seed)) for seed in (0, 0, 1)
    )
    assert first == again
    assert first.by_class != other.by_class


# What it says


def test_the_protocol_names_the_crops_and_the_choices_and_is_plain_data():
    model = small_model(channels=3, size=70)
    scenes = (open_images(f"scenes?count=6&size=80&seed={seed}", split="train") for seed in (0, 1))
    protocol = measure_multilabel(model, *scenes, MultilabelConfig(epochs=1, variant="11-point")).protocol
    assert protocol["training_views"]["resized_to"] == 200
    assert protocol["training_views"]["crop_sides"] == [200, 180, 160, 120, 100]
    assert protocol["evaluation_view"] == {"resized_to": 80, "fit": "squash", "center_crop": 70}
    assert protocol["average_precision"] == "11-point"
    assert "difficult" in protocol["difficult"]
    assert {"batch_size", "schedule"} <= set(protocol["our_assumptions"])
    assert json.loads(json.dumps(protocol)) == protocol


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_outcome_has_the_mean_and_every_class_and_says_which_have_no_images(model, variant):
    test = squares(30, seed=1, several=True)
    test.labels[:, 2] = False
    settings = MultilabelConfig(epochs=2, cached=True, variant=variant)
    outcome = evaluate_multilabel(model, squares(40, several=True), test, settings)
    means, classes = outcome.sections[0].content
    names = {"mAP": "all classes", "converged_mAP": "all classes, converged probe"}
    assert means.rows == [[name, outcome.metrics[key]] for key, name in names.items()]
    assert [row[0] for row in classes.rows] == list(CORNERS)
    assert classes.rows[2] == ["bottom left", None]
    assert outcome.protocol["classes_without_test_images"] == ["bottom left"]
    assert "No test image shows bottom left" in outcome.sections[0].text
    assert f"({variant}) over 3 classes on 30 test images" in outcome.summary
    assert json.dumps([outcome.metrics, outcome.protocol])


def test_what_cannot_be_is_refused_in_one_line(model):
    with pytest.raises(EvaluationError, match="the test images have no labels"):
        measure_multilabel(model, squares(8), squares(8, labels=False))
    with pytest.raises(EvaluationError, match="cached_views=3 must be 0, or positive with cached=True"):
        MultilabelConfig(cached_views=3)
    with pytest.raises(EvaluationError, match='unknown average precision "voc"'):
        MultilabelConfig(variant="voc")
    with pytest.raises(EvaluationError, match="epochs must be 1 or more"):
        MultilabelConfig(epochs=0)


# What the layer reads


def test_the_layer_may_read_possession_degrees_instead_of_the_backbone(model):
    images = squares(5).resized(16)
    degrees = ProbeFeatures(model, "degrees").of_center_crops(images, torch.arange(5), None)
    torch.testing.assert_close(degrees, model.encode(images).degrees, atol=1e-5, rtol=1e-4)
    settings = MultilabelConfig(epochs=30, learning_rate=1, cached=True, probe_input="degrees")
    result = measure_multilabel(model, squares(150, several=True), squares(80, seed=1, several=True), settings)
    assert result.protocol["probe_input"] == "degrees"
    assert result.protocol["features"].startswith(
        "possession degrees (6) on conv5; the paper's probe reads the backbone"
    )
    assert result.protocol["settings"]["probe_input"] == "degrees"
    assert result.mean > 0.5, "chance is 0.4"


def test_heads_on_one_backbone_are_told_apart_by_degrees_alone(model):
    other = small_model(seed=0, num_features=5)
    other.backbone.load_state_dict(model.backbone.state_dict())
    train, test = squares(60, several=True), squares(40, seed=1, several=True)

    def means(reads):
        settings = MultilabelConfig(epochs=3, cached=True, probe_input=reads)
        return [measure_multilabel(one, train, test, settings).mean for one in (model, other)]

    same, different = means("backbone"), means("degrees")
    assert same[0] == same[1]
    assert different[0] != different[1]


def test_a_layer_that_reads_something_else_is_refused():
    with pytest.raises(EvaluationError, match='probe_input is backbone or degrees, not "pixels"'):
        MultilabelConfig(probe_input="pixels")


def test_features_are_computed_once_for_all_that_share_a_backbone(model, monkeypatch):
    train, test = squares(60, several=True), squares(40, seed=1, several=True)
    settings = MultilabelConfig(epochs=3, cached=True, probe_input="degrees")
    alone = measure_multilabel(model, train, test, settings)
    shared = ActivationCache()
    measure_multilabel(model, train, test, MultilabelConfig(epochs=1, cached=True), cache=shared)
    assert {part: len(cached) for (_, part, _), cached in shared.activations.items()} == {
        "training": 60,
        "test": 40,
    }
    monkeypatch.setattr(type(model), "maps", lambda *_: pytest.fail("the backbone runs again"))
    monkeypatch.setattr(ImageSet, "resized", lambda *_, **__: pytest.fail("images are read again"))
    assert measure_multilabel(model, train, test, settings, cache=shared).by_class == alone.by_class
