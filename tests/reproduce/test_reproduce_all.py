"""`andornot reproduce all`, with models that are made up: which experiments, on what, and the page of all of them."""

import html
import json
from pathlib import Path

import pytest
from makers import write_mnist
from matplotlib.figure import Figure
from squares import small_model

from andornot.commands.main import main
from andornot.errors import EvaluationError
from andornot.evaluate.experiments import degrees, retrieval_report
from andornot.evaluate.experiments.operators import PAPER
from andornot.evaluate.report.writing import REPORT, RESULT
from andornot.reproduce import EXPERIMENTS, representations
from andornot.reproduce.plan import Workspace
from andornot.reproduce.run import plan_all

SCENES = "scenes:?count=60&size=32&classes=dog+sun+ball"
PROTOCOL = ["--images-per-class=2", "--top=3", "--gallery-images=0", "--min-per-class=2", "--min-per-pair=1"]


def plans(*data: str) -> dict[str, str]:
    return {name: plan.data for name, plan in plan_all(data, None, "small", None, [], {}).items()}


def test_images_go_to_the_experiments_that_they_belong_to():
    found = plans("mnist:/m", "cifar10:/c")
    assert found["classification"] == found["ablation"] == "cifar10:/c", "the paper's before another"
    assert found["mnist-retrieval"] == "mnist:/m"
    assert found["multilabel"].startswith("scenes:"), "embedded"
    assert plans(SCENES)["multilabel"] == plans(SCENES)["degrees"] == plans(SCENES)["scenes-retrieval"] == SCENES
    assert "voc-retrieval" not in found, "there are no such images"
    assert set(found) == {*EXPERIMENTS} - {"voc-retrieval"}


@pytest.mark.parametrize(
    ("data", "seeds", "message"),
    [
        (["/some/where"], None, "--data /some/where: name the source, as in mnist:PATH"),
        (["folder:/f"], None, "--data folder:/f: no experiment uses folder"),
        (["mnist:/a", "mnist:/b"], None, "--data mnist:/b: mnist was given before, as mnist:/a"),
        ([], ["logic=3"], "--seeds LABEL=K is for a single experiment"),
    ],
)
def test_what_cannot_be_is_refused(data, seeds, message):
    with pytest.raises(EvaluationError, match=message):
        plan_all(data, None, "small", seeds, [], {})


def test_one_experiment_takes_one_source(tmp_path, capsys):
    arguments = ["reproduce", "mnist-retrieval", "--data=mnist:/a", "--data=mnist:/b", "-o", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "--data mnist:/b: mnist-retrieval takes one source" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def quick(monkeypatch) -> None:
    for module, names in (
        (retrieval_report, ("draw_rates", "draw_both_rates", "draw_search")),
        (degrees, ("draw_top_images", "draw_boxes", "draw_bars")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: Figure((1, 1)))
    monkeypatch.setattr(representations, "OPERATORS", PAPER)
    monkeypatch.setattr(representations, "ARITHMETIC", ())
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
    assert "mnist-retrieval      to do" in capsys.readouterr().err
    result = json.loads((out / RESULT).read_text())
    done = {*EXPERIMENTS} - {"voc-retrieval"}
    assert set(result["metrics"]) == done
    page = html.unescape((out / REPORT).read_text())
    assert page.index("claims of the paper") < page.index("<table")
    for name in done:
        assert f'href="{name}/{REPORT}"' in page
        assert (out / name / REPORT).exists()
        for claim in result["metrics"][name]:
            assert claim["text"] in page
            assert claim["rule"] in page
    counted = [
        claim["verdict"] for claims in result["metrics"].values() for claim in claims if claim["source"] != "ours"
    ]
    assert result["summary"].startswith(f"Of {len(counted)} claims of the paper, {counted.count('holds')} hold here")

    before = {path: path.stat().st_mtime_ns for path in out.glob(f"*/{RESULT}")}
    (out / "classification" / RESULT).write_text('{"settings": {"da')
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
