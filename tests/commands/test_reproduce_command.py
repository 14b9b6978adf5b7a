"""`andornot reproduce`, as typed in a shell."""

import json
from pathlib import Path

import pytest
from typed import make_sets, the_line

from andornot.commands.main import main
from andornot.reproduce import EXPERIMENTS


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    make_sets(folder)
    return folder


REFUSED = {
    "no data": (["mnist-retrieval", "--data=mnist:/nowhere"], "/nowhere"),
    "no embedded data": (
        ["voc-retrieval"],
        "voc-retrieval needs images that are not embedded: pass --data",
    ),
    "no seeds": (["classification", "--seeds=0"], "--seeds 0: at least one run is needed"),
    "seeds below 0": (["ablation", "--seeds=-2"], "--seeds -2: expected a number of runs, as in --seeds 3"),
    "an unknown setting": (["classification", "--set=epoch=1"], 'unknown key "epoch"; did you mean "epochs"?'),
    "epochs": (["classification", "--set=epochs=-1"], "epochs: "),
    "no labels": (["mnist-retrieval", "--data={sets}/bare"], "retrieval needs labelled images"),
    "no test split": (["classification", "--data={sets}/bare"], "bare has no split to test on"),
    "few of a class": (["mnist-retrieval", "--data=imagefolder:{sets}/two"], 'the class "dark" has 8 query images'),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_of_reproduce_is_one_line_and_leaves_nothing(mistake, sets, tmp_path, capsys):
    arguments, message = REFUSED[mistake]
    assert main(["reproduce", "-o", str(tmp_path / "out"), *(text.format(sets=sets) for text in arguments)]) == 2
    assert message in the_line(capsys)
    assert not (tmp_path / "out").exists()


def test_an_unknown_experiment_is_told_which_there_are(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "dance", "-o=out"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert "'dance'" in error
    assert all(name in error for name in EXPERIMENTS)


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
    assert where == f"Report: {tmp_path / 'report.html'}"
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result["metrics"]
