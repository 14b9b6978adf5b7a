"""Finished runs side by side, and what every report exports."""

import csv
import json
import math
from pathlib import Path

import pytest

from andornot.commands.main import main
from andornot.evaluate import EvaluationError, Figure, Interval, MeanStd, Outcome, Section, Table, compare_runs
from andornot.evaluate.report.writing import write_outcome

ACCURACIES = {"logic-0": 0.75, "logic-1": 1.0, "logic-2": 0.75, "mean-0": 0.5, "mean-1": 0.5, "mean-2": 0.0}


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    """Evaluations of two methods with three seeds each."""
    for name, accuracy in ACCURACIES.items():
        (tmp_path / name).mkdir()
        metrics = {
            "accuracy": accuracy,
            "rate": {"value": accuracy / 2, "low": 0, "high": 1},
            "rows": [1, 2],
            "on": True,
        }
        (tmp_path / name / "result.json").write_text(json.dumps({"metrics": metrics}))
    return [tmp_path / name for name in ACCURACIES]


def test_differences_are_paired_by_seed(runs):
    metrics = compare_runs(runs, reference="mean").metrics
    assert metrics["values"].keys() == {"accuracy", "rate"}, "numbers, also those with an interval"
    assert metrics["values"]["accuracy"]["logic"] == MeanStd.of([0.75, 1.0, 0.75])
    difference = metrics["differences"]["accuracy"]["logic"]
    deviation = math.sqrt(sum((value - 0.5) ** 2 for value in (0.25, 0.5, 0.75)) / 2)
    reach = 4.302653 * deviation / math.sqrt(3)  # Student's t of two degrees of freedom
    assert difference.value == 0.5
    assert (difference.low, difference.high) == pytest.approx((0.5 - reach, 0.5 + reach), rel=1e-5)


def test_one_common_seed_has_a_difference_without_an_interval_and_none_has_none(runs):
    assert compare_runs([runs[0], runs[3]]).metrics["differences"]["accuracy"] == {"mean": -0.25}
    assert compare_runs([runs[0], runs[4]]).metrics["differences"]["accuracy"] == {"mean": None}


def test_models_are_compared_by_the_end_of_their_logs(tmp_path):
    for name, accuracy in (("small", 0.5), ("large", 0.75)):
        (tmp_path / name).mkdir()
        rows = ["step,epoch,knn_degrees,spread", "1,0.5,,0.1", f"2,1.0,{accuracy},", "3,1.5,,0.3"]
        (tmp_path / name / "log.csv").write_text("\n".join(rows))
    values = compare_runs([tmp_path / "small", tmp_path / "large"]).metrics["values"]
    assert values == {"spread": {"small": 0.3, "large": 0.3}, "knn_degrees": {"small": 0.5, "large": 0.75}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "logic-0" / "result.json").unlink(), "logic-0 has neither result.json nor log.csv"),
        (lambda f: (f / "logic-0" / "result.json").write_text("{"), "the result in .*logic-0 cannot be read"),
        (lambda f: (f / "mean-0" / "result.json").write_text('{"metrics": {"mAP": 1}}'), "no metric in common"),
        (lambda f: (f / "mean-0").rename(f / "logic_1"), 'two runs of "logic" have the same seed'),
    ],
)
def test_runs_that_cannot_be_compared_are_one_clear_line(change, message, runs):
    folder = runs[0].parent
    change(folder)
    with pytest.raises(EvaluationError, match=message):
        compare_runs(sorted(folder.iterdir()))
    with pytest.raises(EvaluationError, match='no run of the reference "mix"; the runs are of mean'):
        compare_runs(runs[4:], reference="mix")


def test_the_command_writes_a_report_and_exports(runs, tmp_path, capsys):
    assert main(["evaluate", "compare", *map(str, runs), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("6 runs of 2 methods, 2 metrics; the reference is logic.\nReport: ")
    names = sorted(path.name for path in (tmp_path / "out" / "export").iterdir())
    assert names == [
        *("01-metrics-of-each-method.csv", "01-metrics-of-each-method.tex"),
        *("02-difference-to-logic.csv", "02-difference-to-logic.tex"),
        *("03-each-run.pdf", "03-each-run.svg"),
    ]
    assert json.loads((tmp_path / "out" / "result.json").read_text())["metrics"]["differences"]["accuracy"]["mean"]


def test_tables_are_exported_with_all_digits_and_for_latex(tmp_path):
    rows = [["a & b_1", 1 / 3, MeanStd(0.5, 0.25), Interval(0.5, 0.25, 0.75)], ["~c", None, 0.125, None]]
    table = Table("Rates, 100 %", ["query", "rate", "mean", "gain"], rows, digits=2)
    write_outcome(tmp_path, Outcome("T", "S", {}, {}, [Section("One", "", [table])]), settings={}, seed=0, seconds=1)
    with (tmp_path / "export" / "01-rates-100.csv").open() as file:
        header, first, second = csv.reader(file)
    assert header == ["query", "rate", "mean", "mean std", "gain", "gain low", "gain high"]
    assert first == ["a & b_1", "0.3333333333333333", "0.5", "0.25", "0.5", "0.25", "0.75"]
    assert second == ["~c", "", "0.125", "", "", "", ""]
    assert (tmp_path / "export" / "01-rates-100.tex").read_text().splitlines() == [
        "% Rates, 100 %",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"query & rate & mean & gain \\",
        r"\midrule",
        r"a \& b\_1 & 0.33 & 0.50 $\pm$ 0.25 & 0.50 (0.25 to 0.75) \\",
        r"\textasciitilde{}c &  & 0.12 &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_figures_with_photographs_stay_in_the_report(tmp_path):
    from matplotlib.figure import Figure as MatplotlibFigure

    figure = MatplotlibFigure()
    figure.subplots().imshow([[0, 1], [1, 0]])
    sections = [Section("One", "", [Figure("Photographs", figure)])]
    write_outcome(tmp_path, Outcome("T", "S", {}, {}, sections), settings={}, seed=0, seconds=1)
    assert list((tmp_path / "export").iterdir()) == []
