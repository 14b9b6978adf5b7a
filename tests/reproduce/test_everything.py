"""`andornot reproduce all`, with models that are made up: which experiments, on what, and the page of all of them."""

import html
import json
from pathlib import Path

import pytest
from makers import write_mnist
from matplotlib.figure import Figure
from squares import small_model

from andornot.commands.main import main
from andornot.evaluate.errors import EvaluationError
from andornot.evaluate.experiments import degrees, retrieval_report
from andornot.evaluate.experiments.compared_operators import PAPER
from andornot.evaluate.report.writing import REPORT, RESULT, plain
from andornot.reproduce import EXPERIMENTS, retrieval
from andornot.reproduce.everything import _is_finished, plan_all
from andornot.reproduce.experiments import make_plan, settings_of
from andornot.reproduce.workspace import Workspace

SCENES = "scenes:?count=60&size=32&classes=dog+sun+ball"
PROTOCOL = ["--pictures=2", "--top=3", "--gallery-pictures=0", "--enough=2", "--fewest=1"]


def plans(*data: str) -> dict[str, str]:
    return {name: plan.data for name, plan in plan_all(data, None, "small", None, [], {}).items()}


def test_pictures_go_to_the_experiments_that_they_belong_to():
    found = plans("mnist:/m", "cifar10:/c")
    assert found["classification"] == found["ablation"] == "cifar10:/c", "the paper's before another"
    assert found["mnist-retrieval"] == "mnist:/m"
    assert found["multilabel"].startswith("scenes:"), "embedded"
    assert plans(SCENES)["multilabel"] == plans(SCENES)["degrees"] == plans(SCENES)["scenes-retrieval"] == SCENES
    assert "voc-retrieval" not in found, "there are no such pictures"
    assert set(found) == {*EXPERIMENTS} - {"voc-retrieval"}


@pytest.mark.parametrize(
    ("data", "seeds", "message"),
    [
        (["/some/where"], None, "--data /some/where: say what it is, as in mnist:PATH"),
        (["folder:/f"], None, "--data folder:/f: no experiment takes folder"),
        (["mnist:/a", "mnist:/b"], None, "--data mnist:/b: mnist is given already, as mnist:/a"),
        ([], ["logic=3"], "--seeds LABEL=K is for one experiment"),
    ],
)
def test_what_cannot_be_is_refused(data, seeds, message):
    with pytest.raises(EvaluationError, match=message):
        plan_all(data, None, "small", seeds, [], {})


@pytest.mark.parametrize("left", ["", '{"settings": {"da', "[]", '{"settings": null}', '{"settings": {}}'])
def test_an_experiment_with_half_a_result_is_not_finished(left, tmp_path):
    plan = make_plan("mnist-retrieval", None, None, "small", None, [], {})
    (tmp_path / RESULT).write_text(left)
    assert not _is_finished(tmp_path, plan)
    (tmp_path / RESULT).write_text(json.dumps({"settings": plain(settings_of(plan))}))
    assert _is_finished(tmp_path, plan)


def test_one_experiment_takes_one_source(tmp_path, capsys):
    arguments = ["reproduce", "mnist-retrieval", "--data=mnist:/a", "--data=mnist:/b", "-o", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "--data mnist:/b: mnist-retrieval takes one source, and has one" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def quick(monkeypatch) -> None:
    for module, names in (
        (retrieval_report, ("draw_rates", "draw_both_rates", "draw_search")),
        (degrees, ("draw_sheet", "draw_boxes", "draw_bars")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: Figure((1, 1)))
    monkeypatch.setattr(retrieval, "OPERATORS", PAPER)
    monkeypatch.setattr(retrieval, "ARITHMETIC", ())
    monkeypatch.setattr(
        Workspace, "model", lambda _, name, images, __: small_model(images.channels, seed=int(name[-1]))
    )


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_all_experiments_and_a_page_that_opens_with_what_holds(tmp_path, capsys):
    write_mnist(tmp_path / "mnist", train=60, test=40)
    out = tmp_path / "out"
    data = [f"--data=mnist:{tmp_path / 'mnist'}", f"--data={SCENES}"]
    arguments = ["reproduce", "all", *data, *PROTOCOL, "--seeds=1", "-o", str(out)]
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert "on two cores; stopped, the same command goes on" in said
    result = json.loads((out / RESULT).read_text())
    done = {*EXPERIMENTS} - {"voc-retrieval"}
    assert set(result["figures"]) == done
    page = html.unescape((out / REPORT).read_text())
    assert page.index("claims of the paper") < page.index("<table")
    for name in done:
        assert f'href="{name}/{REPORT}"' in page
        assert (out / name / REPORT).exists()
        for claim in result["figures"][name]:
            assert claim["text"] in page
            assert claim["rule"] in page
    counted = [
        claim["verdict"] for claims in result["figures"].values() for claim in claims if claim["whose"] != "ours"
    ]
    assert result["summary"].startswith(f"Of {len(counted)} claims of the paper, {counted.count('holds')} hold here")

    before = {path: path.stat().st_mtime_ns for path in out.glob(f"*/{RESULT}")}
    (out / "classification" / RESULT).unlink()
    capsys.readouterr()
    assert main(arguments) == 0
    changed = [path.parent.name for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert changed == ["classification"], "what is finished is not done again"
    assert "mnist-retrieval      finished" in capsys.readouterr().err


def test_a_page_links_to_reports_beside_it(tmp_path):
    from andornot.evaluate.report.outcome import Link, Outcome, Section, Table
    from andornot.evaluate.report.writing import write_outcome

    rows = [[Link("the <first>", "one/report.html"), 1.0]]
    sections = [Section("Reports", content=[Table("All.", ["report", "figure"], rows)])]
    write_outcome(tmp_path, Outcome("Page", "It.", {}, {}, sections), settings={}, seed=0, seconds=1.0)
    assert '<a href="one/report.html">the &lt;first&gt;</a>' in Path(tmp_path / REPORT).read_text()
