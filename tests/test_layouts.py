"""Every source in its usual layout, tiny, through `evaluate` and `reproduce`: not its loader alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from makers import save_image, write_mnist, write_voc_year
from matplotlib.figure import Figure
from squares import small_model

from andornot.commands.main import main
from andornot.data import open_images, train_split
from andornot.evaluate.experiments import retrieval_report
from andornot.evaluate.experiments.sets import gallery_and_queries, train_and_test
from andornot.evaluate.report.writing import RESULT
from andornot.reproduce import representations
from andornot.reproduce.plan import Workspace

# Of each split as many as two classes and their pair need.
THINGS = (*[("dog",)] * 5, *[("cat",)] * 5, *[("dog", "cat")] * 3)
PROTOCOL = ["--images-per-class=2", "--top=3", "--gallery-images=0", "--min-per-class=2", "--min-per-pair=1"]


def voc(root: Path) -> str:
    """As the paper has it: trainval of both years, and the test images of 2007, for 2012 has no labels of its own."""
    for year, splits in (("2007", ("train", "val", "test")), ("2012", ("train", "val"))):
        names = {split: [f"{year}_{split}{number:02}" for number in range(len(THINGS))] for split in splits}
        objects = {
            name: [(thing, 0) for thing in things]
            for of_split in names.values()
            for name, things in zip(of_split, THINGS, strict=True)
        }
        lists = {**names, "trainval": names["train"] + names["val"]}
        write_voc_year(root / "VOCdevkit" / f"VOC{year}", lists, objects)
    return f"voc:{root}/VOCdevkit?years=2007+2012"


def coco(root: Path) -> str:
    (root / "annotations").mkdir(parents=True)
    numbers = {"dog": 18, "cat": 17}
    for split in ("train2017", "val2017"):
        content = {
            "images": [{"id": number, "file_name": f"{number:012}.jpg"} for number in range(len(THINGS))],
            "categories": [{"id": number, "name": name} for name, number in numbers.items()],
            "annotations": [
                {"image_id": number, "category_id": numbers[thing], "bbox": [1, 1, 9, 9]}
                for number, things in enumerate(THINGS)
                for thing in things
            ],
        }
        for number in range(len(THINGS)):
            save_image(root / split / f"{number:012}.jpg", number)
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return f"coco:{root}"


def cifar10(root: Path) -> str:
    random = np.random.default_rng(0)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = (np.arange(60) % 10).astype(np.uint8)[:, None]
        (folder / name).write_bytes(np.hstack([labels, random.integers(0, 256, (60, 3072), np.uint8)]).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(f"class{number}" for number in range(10)) + "\n")
    return f"cifar10:{root}"


def mnist(root: Path) -> str:
    write_mnist(root, train=60, test=40)
    return f"mnist:{root}"


def class_folders(root: Path, train: tuple[str, ...], test: str) -> None:
    for number, name in enumerate(("dog", "cat", "bird")):
        for part in (train[number % len(train)], test):
            for image in range(6):
                save_image(root / part / name / f"{image}.jpg", 10 * number + image)


def imagenet100(root: Path) -> str:
    """Its classes are passed around in several folders."""
    class_folders(root, ("train.X1", "train.X2"), "val.X")
    return f"imagenet100:{root}"


def imagefolder(root: Path) -> str:
    class_folders(root, ("train",), "test")
    return f"imagefolder:{root}"


ONE_CLASS = (mnist, cifar10, imagenet100, imagefolder)
SEVERAL = (voc, coco)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Charts and trainings are tested elsewhere."""
    for name in ("draw_rates", "draw_both_rates", "draw_search"):
        monkeypatch.setattr(retrieval_report, name, lambda *_, **__: Figure((1, 1)))
    monkeypatch.setattr(Workspace, "model", lambda _, __, images, ___: small_model(images.channels))


@pytest.fixture
def model(request, tmp_path) -> Path:
    small_model(1 if request.getfixturevalue("write") is mnist else 3).save(tmp_path / "model")
    return tmp_path / "model"


def measured(folder: Path) -> dict[str, object]:
    return json.loads((folder / RESULT).read_text())


@pytest.mark.parametrize("write", [*ONE_CLASS, *SEVERAL])
def test_a_model_is_evaluated_on_it(write, model, tmp_path):
    data, out = write(tmp_path / "data"), tmp_path / "out"
    kind = ["linear"] if write in ONE_CLASS else ["multilabel"]
    arguments = ["--model", str(model), "--data", data, "-o", str(out)]
    assert main(["evaluate", *kind, *arguments, "--cached", "--epochs=1"]) == 0
    assert measured(out)["protocol"]["images"]["test"] > 0
    assert main(["evaluate", "operability", *arguments, *PROTOCOL]) == 0
    assert measured(out)["protocol"]["images in the gallery"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("write", [*ONE_CLASS, *SEVERAL])
def test_the_experiments_are_reproduced_on_it(write, tmp_path):
    data = write(tmp_path / "data")
    table, search = ("classification", "mnist-retrieval") if write in ONE_CLASS else ("multilabel", "voc-retrieval")
    assert main(["reproduce", table, "--data", data, "--seeds=1", "-o", str(tmp_path / "table")]) == 0
    assert main(["reproduce", search, "--data", data, *PROTOCOL, "-o", str(tmp_path / "search")]) == 0
    assert measured(tmp_path / "table")["metrics"].keys() >= {"vanilla", "mean", "maximum", "logic"}
    assert measured(tmp_path / "search")["metrics"].keys() >= {"vanilla", "mean", "maximum", "logic"}


@pytest.mark.parametrize(
    ("write", "train", "test"),
    [
        (voc, "trainval", "test"),
        (coco, "train2017", "val2017"),
        (cifar10, "train", "test"),
        (mnist, "train", "test"),
        (imagenet100, "train", "val"),
        (imagefolder, "train", "test"),
    ],
)
def test_the_parts_are_the_papers(write, train, test, tmp_path):
    data = write(tmp_path)
    assert [part.split for part in train_and_test(data)] == [train, test]
    assert list(train_split(data).train.names) == list(open_images(data, split=train).names)


def test_voc_is_learnt_from_both_years_and_tested_on_2007(tmp_path):
    gallery, queries = gallery_and_queries(voc(tmp_path))
    assert (len(gallery), len(queries)) == (4 * len(THINGS), len(THINGS))
    assert all("VOC2007" in name for name in queries.names)


@pytest.mark.parametrize("experiment", ["classification", "mnist-retrieval", "degrees", "multilabel"])
def test_other_images_may_be_pretrained_on(experiment, tmp_path, monkeypatch):
    seen = []

    def note(_, __, images, ___):
        seen.append(images.names[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(Workspace, "model", note)
    monkeypatch.setattr(representations, "choose_images", lambda *_: None)
    data, others = mnist(tmp_path / "mnist"), imagefolder(tmp_path / "folder")
    arguments = ["reproduce", experiment, "--data", data, "--pretrain-data", others, "-o", str(tmp_path / "out")]
    main([*arguments, "--set=size=16"])
    assert f"{tmp_path}/folder/train" in seen[0]
