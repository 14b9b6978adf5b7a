"""Linear evaluation: what it learns, what it leaves alone, and what it says of itself."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from squares import CORNERS, small_model, squares

from andornot.data import ImageSet, open_images
from andornot.data.readers import FileReader
from andornot.data.resized import UncroppedImages
from andornot.errors import EvaluationError
from andornot.evaluate.experiments.linear import (
    LinearConfig,
    evaluate_knn,
    evaluate_linear,
    measure_linear,
    stratified_split,
)
from andornot.evaluate.experiments.probing import (
    ProbeFeatures,
    augmented_inputs,
    evaluation_images,
    frozen,
    hash_weights,
    new_layer,
    take_images,
    train_layer,
)
from andornot.evaluate.report.outcome import Figure, Table
from andornot.ssl.views import Views, ViewSettings

# LARS takes short steps: several hundred of them are needed.
QUICK = {"epochs": 20, "batch_size": 10}


@pytest.fixture(scope="module")
def model():
    return small_model()


# What comes out


# A random crop often loses which corner it is of.
@pytest.mark.parametrize(("cached", "least"), [(False, 0.5), (True, 0.9)])
def test_corners_are_learnt_and_the_backbone_stays_bit_identical(model, cached, least):
    before = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    result = measure_linear(model, squares(200), squares(80, seed=1), LinearConfig(**QUICK, cached=cached))
    assert result.accuracy > least
    assert result.protocol["backbone"]["bit_identical_afterwards"] is True
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_tested_epoch_is_the_best_on_the_validation_images(model):
    settings = LinearConfig(epochs=12, batch_size=64, cached=True)
    result = measure_linear(model, squares(200), squares(80, seed=1), settings)
    assert len(result.curve) == 12
    assert result.validation_accuracy == max(result.curve)
    assert result.best_epoch == 1 + result.curve.index(max(result.curve))


def test_the_accuracy_is_that_of_the_layer_as_it_was_after_the_best_epoch(model):
    """The same training, stopped there by hand: the cosine is that of all epochs."""
    train, test = squares(120), squares(90, seed=1)
    whole = measure_linear(model, train, test, LinearConfig(epochs=30, batch_size=64, cached=True, seed=3))
    assert whole.best_epoch < 30
    generator = torch.Generator().manual_seed(3)
    known, new = train.resized(16), test.resized(16)
    classes, new_classes = train.labels.int().argmax(1), test.labels.int().argmax(1)
    learnt, _ = stratified_split(classes, 0.1, generator)
    features, new_features = (model.backbone(images[:].float() / 255).detach() for images in (known, new))
    weights = torch.normal(0.0, 0.01, (4, 64), generator=generator)
    bias, velocity, bias_velocity = torch.zeros(4), torch.zeros(4, 64), torch.zeros(4)
    for epoch in range(whole.best_epoch):
        rate = 1.6 * (1 + math.cos(math.pi * epoch / 30)) / 2
        order = learnt[torch.randperm(len(learnt), generator=generator)]
        for batch in order.tensor_split(2):
            torch.randint(1, batch.shape, generator=generator)  # the draw among the one cached view
            error = (features[batch] @ weights.T + bias).softmax(1) - torch.eye(4)[classes[batch]]
            gradient = error.T @ features[batch] / len(batch)
            trust = 0.001 * weights.norm() / gradient.norm()
            velocity = 0.9 * velocity + rate * trust * gradient
            bias_velocity = 0.9 * bias_velocity + rate * error.mean(0)
            weights, bias = weights - velocity, bias - bias_velocity
    predicted = (new_features @ weights.T + bias).argmax(1)
    assert whole.accuracy == pytest.approx((predicted == new_classes).double().mean().item())


def test_the_seed_decides_everything_and_torchs_own_generator_is_left_alone(model):
    sets = squares(100), squares(60, seed=1)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = measure_linear(model, *sets, LinearConfig(epochs=5, batch_size=32))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert measure_linear(model, *sets, LinearConfig(epochs=5, batch_size=32)) == first
    assert measure_linear(model, *sets, LinearConfig(epochs=5, batch_size=32, seed=1)).curve != first.curve


def test_it_is_as_good_as_logistic_regression_on_real_digits():
    """A random network is enough to compare the two."""
    train = open_images("digits", split="train").subset(
        torch.randperm(4000, generator=torch.Generator().manual_seed(0))[:1000]
    )
    test = open_images("digits", split="test").subset(range(0, 1000, 2))
    model = small_model(size=28, images=train)
    result = measure_linear(model, train, test, LinearConfig(epochs=100, batch_size=128, cached=True))
    features = [model.activations(images.resized(28)) for images in (train, test)]
    classes = [images.labels.int().argmax(1) for images in (train, test)]
    oracle = LogisticRegression(max_iter=1000).fit(features[0], classes[0])
    assert result.accuracy > oracle.score(features[1], classes[1]) - 0.02


# The frozen backbone


def test_the_check_sees_any_change_of_a_parameter_or_a_buffer():
    for change in (
        lambda backbone: backbone.network[1].running_mean.add_(1e-6),
        lambda backbone: backbone.network[1].num_batches_tracked.add_(1),
        lambda backbone: backbone.network[0].weight.data[0, 0, 0, 0].neg_(),
        lambda backbone: backbone._scale.mul_(2),
    ):
        model = small_model()
        with pytest.raises(EvaluationError, match="the backbone changed during its evaluation"), frozen(model):
            change(model.backbone)
    with frozen(model):
        pass


def test_a_backbone_that_someone_left_in_train_mode_is_put_in_eval_mode_and_stays_so():
    model = small_model()
    model.backbone.train()
    measure_linear(model, squares(40), squares(20), LinearConfig(epochs=1))
    assert not any(module.training for module in model.backbone.modules())


def test_an_evaluation_that_changes_the_backbone_is_refused():
    model = small_model()
    norm = model.backbone.network[1]

    def learn(*_) -> None:
        norm.running_mean += 1

    norm.register_forward_pre_hook(learn)
    with pytest.raises(EvaluationError, match="the backbone changed"):
        measure_linear(model, squares(40), squares(20), LinearConfig(epochs=1))


def test_the_digest_is_of_names_types_shapes_and_values():
    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    assert hash_weights(layers[0]) != hash_weights(layers[1])
    layers[1].load_state_dict(layers[0].state_dict())
    assert hash_weights(layers[0]) == hash_weights(layers[1])
    assert hash_weights(layers[0]) != hash_weights(layers[1].double())


# What the layer sees


def test_a_tenth_of_each_class_is_held_out():
    classes = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)[
        torch.randperm(100, generator=torch.Generator().manual_seed(5))
    ]
    learnt, held_out = stratified_split(classes, 0.1, torch.Generator().manual_seed(0))
    assert classes[held_out].bincount().tolist() == [5, 3, 2]
    assert sorted([*learnt.tolist(), *held_out.tolist()]) == list(range(100))
    _, other = stratified_split(classes, 0.1, torch.Generator().manual_seed(1))
    assert not torch.equal(held_out, other)


def test_larger_images_are_evaluated_by_their_center(model):
    larger = small_model(channels=3, size=70)
    images = evaluation_images(larger, squares(3, side=80, channels=3), "crop", None)
    assert images.size == 80
    expected = larger.backbone(images[:][..., 5:75, 5:75].float() / 255)
    torch.testing.assert_close(ProbeFeatures(larger).of_center_crops(images, torch.arange(3), None), expected)
    small = evaluation_images(model, squares(3), "crop", None)
    assert small.size == 16
    expected = model.backbone(small[:].float() / 255)
    torch.testing.assert_close(ProbeFeatures(model).of_center_crops(small, torch.arange(3), None), expected)


def test_training_sees_fresh_random_crops_and_mirrors_only_colour(model):
    settings = LinearConfig(epochs=1)
    for channels, flip in ((1, 0.0), (3, 0.5)):
        images = squares(20, channels=channels)
        protocol = measure_linear(small_model(channels), images, images, settings).protocol
        assert protocol["training_views"] == {
            "random_resized_crop": [0.08, 1.0],
            "flip": flip,
            "cut_from": "the original",
        }
    views = Views(ViewSettings(16, crop_scale=(0.08, 1), flip=0, jitter=0, grey=0, blur=0))
    resized, numbers = squares(8).resized(16), torch.tensor([5, 2])
    inputs = augmented_inputs(ProbeFeatures(model), UncroppedImages(resized), views)
    seen = inputs(numbers, torch.Generator().manual_seed(0))
    expected = model.backbone(views(resized[numbers], torch.Generator().manual_seed(0)))
    torch.testing.assert_close(seen, expected)
    assert not seen.requires_grad


def test_grey_and_colour_meet_as_in_encode(model):
    coloured = ImageSet(squares(4, channels=3).reader, list("abcd"), labels=squares(4).labels, class_names=CORNERS)
    images = coloured.resized(16)
    ours = take_images(model, images, torch.arange(4))
    grey = [np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in images]
    assert ours.shape == (4, 1, 16, 16)
    assert (ours.squeeze(1).int() - torch.from_numpy(np.stack(grey)).int()).abs().max() <= 1
    for cached in (False, True):
        settings = LinearConfig(epochs=1, cached=cached)
        measure_linear(model, squares(40, channels=3), squares(20), settings)
        measure_linear(small_model(3), squares(40), squares(20), settings)


def test_the_learning_rate_is_a_cosine_and_batches_are_even(model):
    generator = torch.Generator().manual_seed(0)
    layer = new_layer(ProbeFeatures(model), 4, generator)
    optimiser = torch.optim.SGD(layer.parameters(), 2.0)
    sizes, rates = [], []

    def inputs(numbers, _generator):
        sizes.append(len(numbers))
        rates.append(optimiser.param_groups[0]["lr"])
        return torch.zeros(len(numbers), 64)

    targets = torch.zeros(100, dtype=torch.int64)
    settings = LinearConfig(epochs=4, batch_size=32)
    loss = torch.nn.functional.cross_entropy
    train_layer(layer, optimiser, loss, inputs, targets, torch.arange(65), settings, generator)
    assert sizes == [22, 22, 21] * 4
    assert rates[::3] == pytest.approx([2.0, 1 + 0.5**0.5, 1.0, 1 - 0.5**0.5])


def test_unreadable_images_are_left_out_and_counted(model, tmp_path):
    paths = []
    for number, image in enumerate(squares(40, channels=3).images):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(paths[-1])
    (tmp_path / "7.png").write_bytes(b"nothing")
    train = ImageSet(FileReader(paths), paths, labels=squares(40).labels, class_names=CORNERS)
    result = measure_linear(model, train, squares(20), LinearConfig(epochs=2, cached=True))
    assert result.protocol["unreadable_images_left_out"] == {"training": 1, "test": 0}
    assert result.protocol["images"] == {"training": 39, "test": 20}


# What it says


def test_the_outcome_has_a_table_a_curve_and_plain_data(model):
    settings = LinearConfig(epochs=3, cached=True)
    outcome = evaluate_linear(model, squares(60), squares(40, seed=1), settings)
    result = measure_linear(model, squares(60), squares(40, seed=1), settings)
    assert json.loads(json.dumps(outcome.metrics))["curve"] == list(result.curve)
    assert json.loads(json.dumps(outcome.protocol)) == result.protocol
    assert "inputs computed once, without augmentation" in outcome.summary
    assert "cached" in outcome.protocol["training_views"]
    table, image = outcome.sections[0].content
    assert isinstance(table, Table)
    assert isinstance(image, Figure)
    assert table.rows[0] == ["test", result.accuracy]
    assert image.figure.axes[0].lines[0].get_ydata().tolist() == list(result.curve)
    assert image.figure.axes[0].lines[1].get_xdata() == [result.best_epoch]


def test_neighbours_name_k_and_temperature_and_agree_with_the_accuracy_of_their_parts(model):
    outcome = evaluate_knn(model, squares(60), squares(40, seed=1), k=5, temperature=0.1)
    assert outcome.protocol["k"] == 5
    assert outcome.protocol["temperature"] == 0.1
    assert outcome.metrics["backbone_features"] > 0.9
    assert [row[1] for row in outcome.sections[0].content[0].rows] == list(outcome.metrics.values())
    assert evaluate_knn(model, squares(8), squares(8)).protocol["k"] == 8
    assert json.dumps([outcome.metrics, outcome.protocol])
    with pytest.raises(EvaluationError, match="k must be 1 or more"):
        evaluate_knn(model, squares(8), squares(8), k=0)


def test_sets_that_do_not_fit_are_refused_in_one_line(model):
    good = squares(20)
    with pytest.raises(EvaluationError, match="the training images have no labels"):
        measure_linear(model, squares(20, labels=False), good)
    with pytest.raises(EvaluationError, match="some test images have no class or several"):
        measure_linear(model, good, squares(20, several=True))
    fewer = ImageSet(good.reader, good.names, labels=good.labels[:, :3], class_names=CORNERS[:3], channels=1)
    with pytest.raises(EvaluationError, match=r"have 4 classes \(top left, .*, …\), and the test images 3 classes"):
        measure_linear(model, good, fewer)
    with pytest.raises(EvaluationError, match="1 training images leaves none to train on"):
        measure_linear(model, squares(1), good)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs must be 1 or more, not 0"),
        ({"batch_size": 0}, "batch_size must be 1 or more"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0"),
        ({"momentum": 1}, "momentum must be from 0 to below 1"),
        ({"weight_decay": -1}, "weight_decay must be 0 or more"),
        ({"validation": 0}, "validation must be between 0 and 1"),
        ({"epoch": 3}, 'unknown setting "epoch"; did you mean "epochs"'),
        ({"cached": "perhaps"}, 'cached: Input should be a valid boolean.*, not "perhaps"'),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(EvaluationError, match=message):
        LinearConfig(**wrong)
