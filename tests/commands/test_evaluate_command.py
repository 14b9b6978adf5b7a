"""`andornot evaluate`, as typed in a shell."""

import json
import re
from pathlib import Path

import pytest
import torch
from typed import make_sets, the_line

from andornot.commands.main import main
from andornot.model import Model, new_backbone
from andornot.ssl.recipe import make_recipe


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    make_sets(folder)
    return folder


def evaluate(sets: Path, what: str, output: Path, *more: str) -> int:
    """`more` may say another model or other data: the last counts."""
    data = f"imagefolder:{sets / 'two'}"
    return main(["evaluate", what, "--model", str(sets / "model"), "--data", data, "-o", str(output), *more])


WORKS = {
    "knn": (["-k=3"], {"backbone_features", "possession_degrees"}),
    "linear": (["--epochs=2", "--cached"], {"accuracy"}),
    "multilabel": (["--epochs=2", "--cached", "--ap=11-point"], {"mAP", "by_class"}),
    "degrees": (["--top=2", "--features=2"], {"top"}),
    "operability": (["--images-per-class=2", "--top=3"], {"the model"}),
}


@pytest.mark.parametrize("what", WORKS)
def test_an_evaluation_writes_its_result_and_prints_json_if_asked(what, sets, tmp_path, capsys):
    options, metrics = WORKS[what]
    assert evaluate(sets, what, tmp_path / "out", *options, "--seed=3", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert printed == result["metrics"]
    assert metrics <= printed.keys()
    assert result["seed"] == result["settings"]["seed"] == 3
    assert result["settings"]["data"] == f"imagefolder:{sets / 'two'}"
    assert result["settings"]["command"].startswith("andornot ")
    assert result["seconds"] > 0
    assert {"run", "json", "evaluation", "output"}.isdisjoint(result["settings"])
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_words_are_asked_as_the_user_spells_them(sets, tmp_path, capsys):
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated", "size": 64})
    backbone = new_backbone(recipe, 3)
    Model.calibrated(backbone, torch.rand(8, backbone.width), recipe).save(tmp_path / "model")
    more = [f"--model={tmp_path / 'model'}", "--word=dark=Polar-Bears", "--word=light=tree", "--top=4", "--json"]
    assert evaluate(sets, "words", tmp_path / "out", *more) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["unknown"]["light"].startswith('no class shows "tree"; near it is "vascular plant"')
    for how in ("words", "words, 96 classes kept"):
        assert metrics[how]["by_class"].keys() == {"dark"}
    assert "polar_bear.n.01" in (tmp_path / "out" / "report.html").read_text()


def test_an_evaluation_prints_a_summary_and_where_the_report_is(sets, tmp_path, capsys):
    assert evaluate(sets, "knn", tmp_path) == 0
    summary, where = capsys.readouterr().out.splitlines()
    assert summary == json.loads((tmp_path / "result.json").read_text())["summary"]
    assert where == f"Report: {tmp_path / 'report.html'}"


MISTAKES = {
    "no data": ("knn", ["--data=mnist:/nowhere"], "/nowhere"),
    "an unknown source": ("linear", ["--data=magic:here"], 'unknown source "magic"'),
    "no model": ("knn", ["--model=nowhere"], "nowhere is no model: it is not a folder; andornot pretrain makes one"),
    "not a model": ("knn", ["--model={sets}/two"], "two is no model: it has no model.json in it; andornot pretrain"),
    "no labels": ("operability", ["--data={sets}/bare"], "these have no labels: try digits, scenes or voc:PATH"),
    "no labels, no splits": ("knn", ["--data={sets}/bare"], "bare has no split to test on: it needs the splits"),
    "no test split": (
        "linear",
        ["--data=imagefolder:{sets}/two/train"],
        "train has no split to test on: it needs the splits train and test (or val), and has none",
    ),
    "a part only": ("knn", ["--data=digits?split=test"], "says split=test, and split=train was asked for"),
    "several classes": (
        "linear",
        ["--data=scenes?count=9&size=32"],
        "images have no class or several, and this evaluation needs",
    ),
    "few of a class": (
        "operability",
        [],
        'the class "dark" has 8 query images, 30 are needed: use --images-per-class 8',
    ),
    "k": ("knn", ["-k=0"], "k must be 1 or more and the temperature above 0, not 0 and 0.07"),
    "k below 0": ("knn", ["-k=-5"], "k must be 1 or more"),
    "temperature": ("knn", ["--temperature=0"], "the temperature above 0, not 20 and 0.0"),
    "epochs": ("linear", ["--epochs=0"], "epochs must be 1 or more, not 0"),
    "epochs of multilabel": ("multilabel", ["--epochs=-1"], "epochs must be 1 or more, not -1"),
    "views": ("multilabel", ["--cached-views=3"], "cached_views=3 must be 0, or positive with cached=True"),
    "top of degrees": ("degrees", ["--top=0"], "must be 1 or more"),
    "features": ("degrees", ["--features=-2"], "must be 1 or more"),
    "images": ("operability", ["--images-per-class=-1"], "--images-per-class -1: it must be 1 or more"),
    "top": ("operability", ["--top=0"], "--top 0: it must be 1 or more"),
    "gallery": (
        "operability",
        ["--gallery-images=-7"],
        "--gallery-images -7: it must be 1 or more, or 0 for all images",
    ),
    "enough": ("operability", ["--min-per-class=0"], "--min-per-class 0: it must be 1 or more"),
    "fewest": ("operability", ["--min-per-pair=0"], "--min-per-pair 0: it must be 1 or more"),
    "no named classes": ("words", [], "conv5 has no words: it has no ImageNet classifier"),
    "a word for no class": ("words", ["--word=dog"], "--word dog: it must be CLASS=WORD"),
    "seed": ("linear", [f"--seed={2**63}"], "--seed 9223372036854775808: it must be 0 or more, and below 2^63"),
    "seed below 0": ("operability", ["--seed=-1"], "--seed -1: it must be 0 or more"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_evaluate_is_one_line_and_leaves_nothing(mistake, sets, tmp_path, capsys):
    what, more, message = MISTAKES[mistake]
    assert evaluate(sets, what, tmp_path / "out", *(text.format(sets=sets) for text in more)) == 2
    assert message in the_line(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", [*WORKS, "words"])
def test_every_evaluation_has_a_help_with_an_example(what, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", what, "--help"])
    assert f"andornot evaluate {what} --model model/" in capsys.readouterr().out.partition("example")[2]


def test_following_a_hint_works(sets, tmp_path, capsys):
    assert evaluate(sets, "operability", tmp_path) == 2
    hint = re.findall(r"--[\w-]+ \d+", capsys.readouterr().err)
    assert evaluate(sets, "operability", tmp_path, *" ".join(hint).split()) == 2
    hint += re.findall(r"--[\w-]+ \d+", capsys.readouterr().err)
    assert hint == ["--images-per-class 8", "--top 16"]
    assert evaluate(sets, "operability", tmp_path, *" ".join(hint).split()) == 0


def test_an_unknown_measurement_is_told_which_there_are(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "dance"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert "'dance'" in error
    assert all(name in error for name in WORKS)


def test_a_gallery_is_a_folder_and_never_a_number_of_images(sets, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        evaluate(sets, "operability", tmp_path, "--gallery=7")
    assert "unrecognized arguments: --gallery=7" in capsys.readouterr().err
