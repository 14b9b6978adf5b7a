import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import andornot
from andornot import cli
from andornot.cli import main
from andornot.evaluate import retrieval_report
from andornot.model import Model, new_network
from andornot.reproduce import EXPERIMENTS
from andornot.ssl.recipe import make_recipe


def test_an_output_that_cannot_be_is_one_clear_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"andornot: File exists: {tmp_path / 'file'}\n"
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [[], ["dance"], ["demo", "--loud"]])
def test_wrong_usage_exits_with_2_and_no_traceback(arguments):
    result = subprocess.run([sys.executable, "-m", "andornot", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "usage: andornot" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["demo", "pretrain", "evaluate", "reproduce", "index", "search"])
def test_every_command_has_a_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"andornot {command}" in capsys.readouterr().out.partition("example")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"], ["--version"]], ids=" ".join)
def test_a_pipe_that_nobody_reads_is_no_error(arguments):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "andornot", *arguments]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (0, "")


def test_stopped_while_it_starts_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_parser", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["search", "a.jpg", "--gallery", "g"]) == 130
    assert capsys.readouterr() == ("", "andornot: stopped\n")


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"andornot {andornot.__version__}\n"


# evaluate


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    """Folders `two` (classes, in train and test), `bare` (without labels) and `model`."""
    folder = tmp_path_factory.mktemp("sets")
    random = np.random.default_rng(0)
    places = [folder / "two" / split / name for split in ("train", "test") for name in ("dark", "light")]
    for place in (*places, folder / "bare"):
        place.mkdir(parents=True)
        for number in range(8):
            pixels = random.integers(0, 99, (28, 28), dtype=np.uint8) + 120 * (place.name == "light")
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    Model.from_network(new_network(recipe, 3), recipe).save(folder / "model")
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
    "operability": (["--pictures=2", "--top=3"], {"the model"}),
}


@pytest.mark.parametrize("what", WORKS)
def test_an_evaluation_writes_its_result_and_prints_json_if_asked(what, sets, tmp_path, capsys):
    options, figures = WORKS[what]
    assert evaluate(sets, what, tmp_path / "out", *options, "--seed=3", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert printed == result["figures"]
    assert figures <= printed.keys()
    assert result["seed"] == result["settings"]["seed"] == 3
    assert result["settings"]["data"] == f"imagefolder:{sets / 'two'}"
    assert result["settings"]["command"].startswith("andornot ")
    assert result["seconds"] > 0
    assert {"run", "json", "evaluation", "output"}.isdisjoint(result["settings"])
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_an_evaluation_prints_a_summary_and_where_the_report_is(sets, tmp_path, capsys):
    assert evaluate(sets, "knn", tmp_path) == 0
    summary, where = capsys.readouterr().out.splitlines()
    assert summary == json.loads((tmp_path / "result.json").read_text())["summary"]
    assert where == f"The report is in {tmp_path / 'report.html'}"


MISTAKES = {
    "no data": ("knn", ["--data=mnist:/nowhere"], "/nowhere"),
    "an unknown source": ("linear", ["--data=magic:here"], 'unknown source "magic"'),
    "no model": ("knn", ["--model=nowhere"], "nowhere is no model: it is not a folder; andornot pretrain makes one"),
    "not a model": ("knn", ["--model={sets}/two"], "two is no model: it has no model.json in it; andornot pretrain"),
    "no labels": ("operability", ["--data={sets}/bare"], "these pictures have none: try digits, scenes or voc:PATH"),
    "no labels, no splits": ("knn", ["--data={sets}/bare"], "bare has no part to be measured on: it needs the splits"),
    "no test split": (
        "linear",
        ["--data=imagefolder:{sets}/two/train"],
        "train has no part to be measured on: it needs the splits train and test (or val), and has none",
    ),
    "a part only": ("knn", ["--data=digits?split=test"], "says split=test, and split=train was asked for"),
    "several classes": (
        "linear",
        ["--data=scenes?count=9&size=32"],
        "pictures have no class or several, and this needs",
    ),
    "few of a class": (
        "operability",
        [],
        'the class "dark" has 8 pictures to ask with, 30 are needed: take --pictures 8',
    ),
    "k": ("knn", ["-k=0"], "k must be 1 or more and the temperature above 0, not 0 and 0.07"),
    "k below 0": ("knn", ["-k=-5"], "k must be 1 or more"),
    "temperature": ("knn", ["--temperature=0"], "the temperature above 0, not 20 and 0.0"),
    "epochs": ("linear", ["--epochs=0"], "epochs must be 1 or more, not 0"),
    "epochs of multilabel": ("multilabel", ["--epochs=-1"], "epochs must be 1 or more, not -1"),
    "views": ("multilabel", ["--cached-views=3"], "cached_views=3 must be 0 or more, and needs cached=True"),
    "top of degrees": ("degrees", ["--top=0"], "at least 1"),
    "features": ("degrees", ["--features=-2"], "at least 1"),
    "pictures": ("operability", ["--pictures=-1"], "--pictures -1: it must be 1 or more"),
    "top": ("operability", ["--top=0"], "--top 0: it must be 1 or more"),
    "gallery": ("operability", ["--gallery=-7"], "--gallery -7: it must be 1 or more, or 0 for all pictures"),
    "enough": ("operability", ["--enough=0"], "--enough 0: it must be 1 or more"),
    "fewest": ("operability", ["--fewest=0"], "--fewest 0: it must be 1 or more"),
    "seed": ("linear", [f"--seed={2**63}"], "--seed 9223372036854775808: it must be 0 or more, and below 2^63"),
    "seed below 0": ("operability", ["--seed=-1"], "--seed -1: it must be 0 or more"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_evaluate_is_one_line_and_leaves_nothing(mistake, sets, tmp_path, capsys):
    what, more, message = MISTAKES[mistake]
    assert evaluate(sets, what, tmp_path / "out", *(text.format(sets=sets) for text in more)) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("andornot: ")
    assert message in line
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", WORKS)
def test_every_evaluation_has_a_help_with_an_example(what, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", what, "--help"])
    assert f"andornot evaluate {what} --model model/" in capsys.readouterr().out.partition("example")[2]


def test_following_a_hint_works(sets, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(retrieval_report, "draw_hits", lambda *_: [])  # which takes long
    assert evaluate(sets, "operability", tmp_path) == 2
    hint = re.findall(r"--\w+ \d+", capsys.readouterr().err)
    assert evaluate(sets, "operability", tmp_path, *" ".join(hint).split()) == 2
    hint += re.findall(r"--\w+ \d+", capsys.readouterr().err)
    assert hint == ["--pictures 8", "--top 16"]
    assert evaluate(sets, "operability", tmp_path, *" ".join(hint).split()) == 0


# reproduce


REFUSED = {
    "no data": (["mnist-retrieval", "--data=mnist:/nowhere"], "/nowhere"),
    "no embedded data": (
        ["voc-retrieval"],
        "voc-retrieval needs pictures that are not embedded: say where, as in --data",
    ),
    "no seeds": (["classification", "--seeds=0"], "--seeds 0: at least one run is needed"),
    "seeds below 0": (["ablation", "--seeds=-2"], "--seeds -2: at least one run is needed"),
    "an unknown setting": (["classification", "--set=epoch=1"], 'unknown key "epoch"; did you mean "epochs"?'),
    "epochs": (["classification", "--set=epochs=-1"], "epochs: "),
    "no labels": (["mnist-retrieval", "--data={sets}/bare"], "retrieval is measured by labels, and these pictures"),
    "no test split": (["classification", "--data={sets}/bare"], "bare has no part to be measured on"),
    "few of a class": (["mnist-retrieval", "--data=imagefolder:{sets}/two"], 'the class "dark" has 8 pictures to ask'),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_of_reproduce_is_one_line_and_leaves_nothing(mistake, sets, tmp_path, capsys):
    arguments, message = REFUSED[mistake]
    assert main(["reproduce", "-o", str(tmp_path / "out"), *(text.format(sets=sets) for text in arguments)]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("andornot: ")
    assert message in line
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["reproduce", "dance", "-o=out"], ["evaluate", "dance"]])
def test_an_unknown_experiment_is_told_which_there_are(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err.splitlines()[-1]
    assert "'dance'" in error
    assert all(name in error for name in (EXPERIMENTS if arguments[0] == "reproduce" else WORKS))


def test_the_help_of_reproduce_lists_all_experiments(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    told = capsys.readouterr().out
    assert all(f"  {name} " in told and experiment.help in told for name, experiment in EXPERIMENTS.items())


def test_reproduce_prints_a_summary_or_json(sets, tmp_path, capsys):
    small = ["backbone_options.width=8", "num_features=4", "num_values=4", "predictor_hidden=8", "batch_size=8"]
    arguments = ["reproduce", "classification", "--data", f"imagefolder:{sets / 'two'}", "-o", str(tmp_path)]
    arguments += ["--seeds=1", "--set=epochs=1", *(f"--set={change}" for change in small)]
    assert main(arguments) == 0
    summary, where = capsys.readouterr().out.splitlines()
    result = json.loads((tmp_path / "result.json").read_text())
    assert summary == result["summary"]
    assert where == f"The report is in {tmp_path / 'report.html'}"
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result["figures"]
