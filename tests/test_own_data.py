"""Data sets, transforms, loaders, streams, losses and loggers of the user's own, from `pretrain`."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from andornot import Model, open_images, pretrain
from andornot.data import ImageSet
from andornot.errors import AndornotError
from andornot.model import DESCRIPTION, WEIGHTS
from andornot.pretraining import PretrainingError
from andornot.ssl import SynthesisLoss
from andornot.ssl.batches import BatchError
from andornot.ssl.recipe import Recipe, load_recipe, make_recipe
from andornot.ssl.training import LOG, TrainingError

TINY = {
    "backbone": "conv5",
    "backbone_options": {"width": 8},
    "num_features": 4,
    "num_values": 4,
    "predictor_hidden": 8,
    "batch_size": 8,
    "epochs": 2,
    "size": 28,
    "checkpoint_seconds": 0,
    "views": {"flip": 0, "jitter": 0, "grey": 0, "blur": 0},
}
COUNT = 20


def tiny(**changes: object) -> Recipe:
    return make_recipe({**TINY, **changes})


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    images = open_images("digits", split="train")
    return images.subset(torch.arange(COUNT) * (len(images) // COUNT))


class Digits(Dataset):
    """PIL images, with or without class numbers; nothing else that data sets of torchvision have."""

    def __init__(self, images: ImageSet, labelled: bool = True) -> None:
        self.images, self.labelled = images, labelled

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = self.images.read(index)
        return (image, int(self.images.targets[index])) if self.labelled else image


class Stream(IterableDataset):
    """The images of a data set, one after the other."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        return (self.dataset[index] for index in range(len(self.dataset)))


def view(image: Image.Image) -> Tensor:
    """A crop, random by all three generators."""
    top, left = random.randrange(5), int(np.random.randint(5))
    crop = image.crop((left, top, left + 24, top + 24)).resize((28, 28))
    return torch.from_numpy(np.array(crop, np.float32)[None] / 255) * torch.rand(1)


class BreakOffError(Exception):
    """What ends a run in these tests."""


class BreakOff:
    """A logger that ends the run at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def log_metrics(self, _: dict[str, float], step: int) -> None:
        if step == self.at:
            raise BreakOffError

    def finalize(self, status: str) -> None:
        assert status == "failed"


def run(images: Any, folder: Path, recipe: Recipe | None = None, **options: Any) -> dict[str, Tensor]:
    pretrain(images, folder, recipe or tiny(), log_every=1, say=lambda _: None, **options)
    return load_file(folder / WEIGHTS)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- data sets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [True, False])
def test_a_data_set_is_trained_on_as_the_same_images_of_a_source(labelled, digits, tmp_path):
    expected = run(digits, tmp_path / "source")
    assert same(run(Digits(digits, labelled), tmp_path / "own"), expected)
    assert Model.load(tmp_path / "own").channels == 1


def test_labels_of_a_data_set_are_used_to_measure_knn_accuracy(digits, tmp_path):
    run(digits, tmp_path / "source", test_images=digits)
    run(Digits(digits), tmp_path / "own", test_images=Digits(digits))
    assert "knn_features" in (tmp_path / "own" / LOG).read_text()
    assert (tmp_path / "own" / LOG).read_text() == (tmp_path / "source" / LOG).read_text()


def test_a_data_set_can_be_calibrated_on(digits, tmp_path):
    recipe = tiny(regime="calibrated")
    assert same(run(Digits(digits), tmp_path / "own", recipe), run(digits, tmp_path / "source", recipe))


def test_targets_and_classes_of_a_data_set_are_read_without_its_images():
    dataset = TensorDataset(torch.zeros(3, 3, 8, 8))
    dataset.targets, dataset.classes = [2, 0, 2], ["cat", "dog", "swan"]
    images = ImageSet.from_dataset(dataset)
    assert (images.targets.tolist(), images.class_names, images.channels) == ([2, 0, 2], ("cat", "dog", "swan"), 3)


def test_an_image_that_a_data_set_cannot_read_is_left_out(digits, tmp_path):
    class Broken(Digits):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise OSError("cannot identify image file")
            return super().__getitem__(index)

    said: list[str] = []
    pretrain(Broken(digits), tmp_path, tiny(), say=said.append)
    assert said[1].splitlines() == ["1 of 20 images could not be read:", "  3: cannot identify image file"]


# --- transforms, loaders and streams ----------------------------------------------------------------------------------


class Pairs(Dataset):
    """Pairs of views and labels, as a data set of one's own makes them."""

    def __init__(self, images: ImageSet) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = self.images.read(index)
        return (view(image), view(image)), 0


def data(kind: str, digits: ImageSet) -> dict[str, Any]:
    """The first arguments of `pretrain`, for each kind of data of one's own."""
    if kind == "transform":
        return {"images": Digits(digits), "views": view}
    if kind == "loader":
        return {"images": DataLoader(Pairs(digits), batch_size=8, shuffle=True, drop_last=True)}
    recipe = tiny(steps=5)
    if kind == "stream of images":
        return {"images": Stream(Digits(digits)), "recipe": recipe}
    return {"images": Stream(Digits(digits)), "views": view, "recipe": recipe}


KINDS = ["transform", "loader", "stream of images", "stream with a transform"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_broken_off_ends_the_same(kind, digits, tmp_path):
    random.seed(0)
    expected = run(**data(kind, digits), folder=tmp_path / "whole")
    drawn = random.random()
    with pytest.raises(BreakOffError):
        run(**data(kind, digits), folder=tmp_path / "broken", loggers=[BreakOff(at=4)])
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    assert same(run(**data(kind, digits), folder=tmp_path / "broken", resume=True), expected)
    assert (tmp_path / "broken" / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
    random.seed(0)
    assert drawn == random.random(), "the generators of the process are left as they were"


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(digits, tmp_path):
    one, two = (run(Digits(digits), tmp_path / str(w), views=view, workers=w) for w in (0, 2))
    assert same(one, two)


def test_the_batch_size_of_a_loader_is_noted(digits, tmp_path):
    run(DataLoader(Pairs(digits), batch_size=5, drop_last=True), tmp_path)
    assert Model.load(tmp_path).recipe.batch_size == 5
    assert (tmp_path / LOG).read_text().splitlines()[-1].startswith("8,2.000,"), "2 passes of 4 batches"


def test_steps_may_stand_in_the_place_of_epochs(digits, tmp_path):
    run(digits, tmp_path, tiny(steps=3), test_images=digits)
    header, *rows = [line.split(",") for line in (tmp_path / LOG).read_text().splitlines()]
    assert rows[-1][:2] == ["3", "1.500"]
    assert rows[-1][header.index("knn_degrees")], "kNN accuracy is measured at the end"


@pytest.mark.parametrize(
    ("images", "recipe", "error", "message"),
    [
        ("stream", tiny(), TrainingError, "the length of a stream is not known; set steps in the recipe"),
        ("stream", tiny(regime="frozen", steps=5), PretrainingError, "need a recipe with regime=scratch, not frozen"),
        ("empty", tiny(steps=5), BatchError, "the loader has no batch in it"),
        ("one image", tiny(), BatchError, "a batch of 1 images is too small .* pass drop_last=True"),
        ("no pairs", tiny(), BatchError, "a batch is two tensors of views, or such a pair and labels; got Tensor"),
        ("bytes", tiny(), BatchError, r"two views of a batch are floats \(B, C, H, W\) .* got torch.uint8 \(8, 1, 28"),
    ],
)
def test_what_cannot_be_trained_on_is_one_clear_line(images, recipe, error, message, digits, tmp_path):
    pixels = digits.resized(28)[:]
    given = {
        "stream": lambda: Stream(Digits(digits)),
        "empty": lambda: Stream(Digits(digits.subset([0, 1]))),
        "one image": lambda: DataLoader(Pairs(digits), batch_size=19),
        "no pairs": lambda: DataLoader(pixels / 255, batch_size=8),
        "bytes": lambda: DataLoader(TensorDataset(pixels, pixels), batch_size=8),
    }[images]()
    with pytest.raises(error, match=message):
        run(given, tmp_path / "model", recipe)


# --- losses and loggers -----------------------------------------------------------------------------------------------


class Cosine(nn.Module):
    """SimSiam's loss, with a weight that is trained too."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.calls: list[int] = []

    def forward(self, *outputs: Any) -> Tensor:
        self.calls.append(len(outputs))
        first, second = outputs[:2]
        return -self.scale * nn.functional.cosine_similarity(first.p.flatten(1), second.z.flatten(1).detach()).mean()


@pytest.mark.parametrize(("synthesis", "outputs"), [("logic", 3), ("vanilla", 2)])
def test_a_loss_of_ones_own_is_trained_noted_and_given_again(synthesis, outputs, digits, tmp_path):
    loss, recipe = Cosine(), tiny(synthesis=synthesis)
    run(digits, tmp_path / "mine", recipe, loss=loss)
    assert loss.calls == [outputs] * 4
    assert loss.scale.item() != 2
    assert json.loads((tmp_path / "mine" / DESCRIPTION).read_text())["recipe"]["loss"] == "function:Cosine"
    assert "prediction_spread" in (tmp_path / "mine" / LOG).read_text()
    with pytest.raises(PretrainingError, match='"function:Cosine" is a loss of your own: pretrain'):
        run(digits, tmp_path / "again", load_recipe(tmp_path / "mine" / "recipe.yaml"))


def test_the_recipes_loss_given_as_ones_own_trains_the_same(digits, tmp_path):
    recipe = tiny()
    expected = run(digits, tmp_path / "recipe", recipe)
    mine = SynthesisLoss("logic", beta=recipe.beta)
    assert same(run(digits, tmp_path / "own", recipe, loss=mine), expected)


class Noted:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.status = ""

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.rows.append((step, metrics))

    def finalize(self, status: str) -> None:
        self.status = status


def test_a_logger_of_ones_own_gets_the_figures_of_the_log(digits, tmp_path):
    logger = Noted()
    run(digits, tmp_path, loggers=[logger])
    header, *rows = [line.split(",") for line in (tmp_path / LOG).read_text().splitlines()]
    assert [step for step, _ in logger.rows] == [1, 2, 3, 4]
    assert [f"{metrics['loss_total']:.6g}" for _, metrics in logger.rows] == [
        row[header.index("loss_total")] for row in rows
    ]
    assert logger.status == "success"


@pytest.mark.parametrize("name", ["tensorboard", pytest.param("wandb", marks=pytest.mark.slow)])
def test_figures_can_be_logged_to_tensorboard_and_to_wandb_offline(name, digits, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run(digits, tmp_path, loggers=[name])
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
        assert [event.step for event in events.Scalars("loss_total")] == [1, 2, 3, 4]
    else:
        (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
        assert b"prediction_spread" in file.read_bytes()


def test_an_unknown_logger_is_one_clear_line(digits, tmp_path):
    with pytest.raises(AndornotError, match='unknown logger "tensorbord"; did you mean "tensorboard"'):
        run(digits, tmp_path, loggers=["tensorbord"])
