"""The report on operability: every way to search has its row, and the metrics go to programs with their intervals."""

import html
import json
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure as MatplotlibFigure
from squares import CORNERS, small_model, squares

from andornot.errors import EvaluationError
from andornot.evaluate.experiments import retrieval_report
from andornot.evaluate.experiments.config import RetrievalConfig
from andornot.evaluate.experiments.operators import CONDITIONS, DEGREES, OPERATORS, PAPER, TRUTH, Operator
from andornot.evaluate.experiments.retrieval import choose_images, encode_task
from andornot.evaluate.experiments.retrieval_report import (
    best_rows,
    draw_hits,
    evaluate_operability,
    measure_rows,
    report_retrieval,
)
from andornot.evaluate.metrics.intervals import Interval
from andornot.evaluate.metrics.operability import closeness
from andornot.evaluate.report.outcome import Figure, Outcome, Table
from andornot.evaluate.report.writing import REPORT, RESULT, write_outcome
from andornot.logic.distance import SCORES, Score

pytestmark = pytest.mark.usefixtures("undrawn")
PROTOCOL = RetrievalConfig(images_per_class=3, top=5, gallery=None, min_per_class=4, min_per_pair=2)


@pytest.fixture(scope="module")
def undrawn():
    """Images of hits take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval_report, "draw_search", lambda _: MatplotlibFigure((1, 1)))
        yield


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module", params=["one class each", "several classes"])
def outcome(request, model, undrawn) -> Outcome:  # noqa: ARG001
    several = request.param == "several classes"
    sets = squares(120, several=several), squares(120, seed=1, several=several)
    return evaluate_operability(model, *sets, PROTOCOL, progress=False)


def tables(outcome: Outcome) -> dict[str, Table]:
    """By what they are about, the first words of the caption."""
    found = [item for section in outcome.sections for item in section.content if isinstance(item, Table)]
    return {table.caption.partition(".")[0]: table for table in found}


def test_every_operator_and_distance_has_a_row(outcome):
    (rows,) = outcome.metrics.values()
    ways = {(o.query, o.name, distance) for o in OPERATORS for distance in o.distances}
    ways |= {(condition.query, condition.name, TRUTH) for condition in CONDITIONS}
    assert {(row["query"], row["operator"], row["distance"]) for row in rows if row["operator"]} == ways
    by_query = {"a|b": "OR: a|b", "ab&a": "AND: ab&a", "ab&~b": "NOT: ab&~b", "ab&~b|a": "NOT, keeping what a shares"}
    for query, title in by_query.items():
        expected = sorted(name for of_query, name, _ in ways if of_query == query)
        assert sorted(line[0] for line in tables(outcome)[title].rows) == expected


def test_the_first_table_sums_up_operability(outcome):
    (rows,) = outcome.metrics.values()
    found = {(row["query"], row["distance"]): row["difference"] for row in rows if row["operator"] == "Gödel"}
    table = next(iter(tables(outcome).values()))
    assert [line[0] for line in table.rows] == ["the model"] * 3
    for line, distance in zip(table.rows, ("cross-entropy", "reverse-cross-entropy", "degrees"), strict=True):
        for cell, query in zip(line[2:], ("a|b", "ab&a", "ab&~b", "ab&~b|a"), strict=True):
            assert vars(cell) == found[query, distance]
    assert set(table.best.values()) == {"low"}


def test_for_not_both_rates_are_shown_and_the_best_is_first(outcome):
    table = tables(outcome)["NOT: ab&~b"]
    assert list(table.columns[2:]) == ["class a", "class b", "difference"]
    assert table.best == {"class a": "high", "class b": "low", "difference": "low"}
    margins = [line[2] - line[3] for line in table.rows]
    assert margins == sorted(margins, reverse=True)


def test_images_with_both_count_only_where_there_are_some(outcome):
    columns = list(tables(outcome)["OR: a|b"].columns[2:])
    one_class = outcome.protocol["ab"] == "overlay of two images"
    assert columns == ["class a", "class b", "difference", *([] if one_class else ["both"])]


def test_a_report_is_written_with_intervals_counts_and_the_protocol(outcome, tmp_path):
    write_outcome(tmp_path, outcome, settings={"data": "squares"}, seed=0, seconds=1.5)
    result = json.loads((tmp_path / RESULT).read_text())
    for row in result["metrics"]["the model"]:
        for name in ("a", "b", "difference"):
            assert 0 <= row[name]["low"] <= row[name]["value"] + 1e-9 <= row[name]["high"] + 2e-9 <= 1 + 3e-9
        assert len(row["runs"]) == 1
        assert row["relative"] is None or row["relative"]["value"] >= 0
    protocol = result["protocol"]
    assert protocol["combinations of a pair, at most"] == 9
    assert protocol["classes"] == list(CORNERS)
    assert protocol["ordered pairs of classes"] == 12
    assert (protocol["top"], protocol["seed"]) == (5, 0)
    assert (protocol["gallery"], protocol["images in the gallery"]) == (None, 120)
    assert "bootstrap over classes" in protocol["interval"]
    page = html.unescape((tmp_path / REPORT).read_text())
    for operator in OPERATORS:
        assert operator.name in page
    assert not re.search(r"(src|href)=.https?:", page)


def test_there_are_charts_for_all_distances_of_the_paper_and_hits_for_a_few_pairs(outcome):
    images = {section.title: [p for p in section.content if isinstance(p, Figure)] for section in outcome.sections}
    assert len(images["Occurrence rates"]) == 3
    assert len(images["Operators compared"]) == 1
    assert [image.caption for image in images["Hits"]] == [
        "a is “top left”, b is “top right”: the model, by the paper's cross-entropy.",
        "a is “top left”, b is “bottom right”: the model, by the paper's cross-entropy.",
        "a is “top right”, b is “bottom right”: the model, by the paper's cross-entropy.",
    ]


@pytest.mark.parametrize(("place", "distance"), [(0, "cross-entropy"), (1, "degrees")])
def test_the_summary_says_the_rates_of_the_papers_operators_by_its_distance_and_then_by_ours(place, distance, outcome):
    (rows,) = outcome.metrics.values()
    found = {(row["query"], row["operator"]): row for row in rows if row["distance"] == distance}
    paragraph = outcome.summary.split("\n\n")[place]
    for key in (("a|b", "Gödel"), ("ab", ""), ("ab&a", "Gödel"), ("ab&~b", "Gödel"), ("a", "")):
        assert f"{found[key]['a']['value']:.0%}" in paragraph
    assert f"class b is left in {found['ab&~b', 'Gödel']['b']['value']:.0%}" in paragraph


def test_the_verdict_says_of_each_operator_whether_it_works(outcome):
    (rows,) = outcome.metrics.values()
    found = {
        row["query"]: closeness(Interval(**row["shift"]), row["relative"] and row["reference"] - row["chance"])
        for row in rows
        if (row["operator"], row["distance"]) == ("Gödel", "cross-entropy")
    }
    words = {"close": "works", "apart": "falls short", "unclear": "is unclear with these images"}
    assert outcome.verdict == (
        f"For the model, by the paper's cross-entropy: OR {words[found['a|b']]}, AND {words[found['ab&a']]}, "
        f"NOT {words[found['ab&~b']]}."
    )


def test_an_operator_of_ones_own_is_a_function_handed_over(model):
    mine = Operator("ab&~b", "my own", "degrees", lambda x: x.ab * (1 - x.b / 2))
    sets = squares(80), squares(40, seed=1)
    outcome = evaluate_operability(model, *sets, PROTOCOL, operators=[*PAPER, mine], progress=False)
    assert [line[0] for line in tables(outcome)["NOT: ab&~b"].rows].count("my own") == 1


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (PAPER[:-1], r"needs the paper's operators as well: pass \[\*PAPER, mine\]"),
        ([*PAPER, replace(PAPER[0], distances=DEGREES)], "two operators for a|b are named 'Gödel'"),
    ],
)
def test_operators_that_no_report_can_be_made_of_are_refused(operators, message, model):
    with pytest.raises(EvaluationError, match=message):
        evaluate_operability(model, squares(80), squares(40, seed=1), PROTOCOL, operators=operators)


def test_several_models_stand_side_by_side_and_a_new_operator_and_distance_get_their_rows(model, monkeypatch):
    monkeypatch.setitem(SCORES, "mine", Score(lambda r: r.degrees.sqrt(), lambda r: r.degrees.sqrt()))
    mine = [
        Operator("ab&~b", "my own", "degrees", lambda x: x.ab * (1 - x.b / 2), DEGREES),
        Operator("ab&a", "my own", "representation", lambda x: x.ab & x.a & x.a, ("mine",)),
    ]
    task = choose_images(squares(80), squares(40, seed=1), PROTOCOL)
    rows = {
        "first": measure_rows(encode_task(model, task), PROTOCOL, operators=PAPER, progress=False),
        "second": measure_rows(encode_task(model, task), PROTOCOL, operators=[*PAPER, *mine], progress=False),
    }
    outcome = report_retrieval("Two models", rows, task, PROTOCOL, [])
    assert [section.title for section in outcome.sections][-1] == "Operators compared", "no hits were given"
    table = tables(outcome)["NOT: ab&~b"]
    assert list(table.columns[2:4]) == ["second: class a", "second: class b"], "the last stands first"
    (line,) = [line for line in table.rows if line[0] == "my own"]
    assert line[5:] == [None, None, None], "the first was not asked"
    assert all(0 <= cell <= 1 for cell in line[2:5])
    about_first = report_retrieval("Two models", rows, task, PROTOCOL, [], first="first")
    assert about_first.summary.startswith("First, by the paper's cross-entropy.")
    assert "Second, by the cosine of degrees." in about_first.summary
    assert list(tables(about_first)["NOT: ab&~b"].columns[2:4]) == ["first: class a", "first: class b"]
    assert ["my own", "mine"] in [line[:2] for line in tables(outcome)["AND: ab&a"].rows]
    assert [line[0] for line in next(iter(tables(outcome).values())).rows] == ["first"] * 3 + ["second"] * 3
    paired = next(table for caption, table in tables(outcome).items() if "minus that of second" in caption)
    assert [line[0] for line in paired.rows] == ["first"] * 3
    relative = next(table for caption, table in tables(outcome).items() if "divided by" in caption)
    for line, own in zip(paired.rows, relative.rows, strict=False):
        same = [None if cell is None else Interval(0, 0, 0) for cell in own[2:]]
        assert line[2:] == same, "the same model twice; nothing where the reference is chance"


def test_the_best_rows_of_not_are_those_where_a_stays_and_b_goes(model):
    task = choose_images(squares(80), squares(40, seed=1), PROTOCOL)
    rows = measure_rows(encode_task(model, task), PROTOCOL, progress=False)
    found = best_rows(rows, "ab&~b")
    assert len(found) == sum(row.query == "ab&~b" for row in rows)
    assert found[0].a.value - found[0].b.value == max(row.a.value - row.b.value for row in found)
    assert best_rows(rows, "a|b") == [row for row in rows if row.query == "a|b"], "in the order of the table"


def test_one_pair_of_classes_is_enough(model):
    images = squares(120)
    two = images.subset(images.labels[:, :2].any(1))
    two.labels, two.class_names = two.labels[:, :2], two.class_names[:2]
    outcome = evaluate_operability(model, two, None, PROTOCOL, progress=False)
    assert outcome.protocol["ordered pairs of classes"] == 2
    assert len(draw_hits("it", model, choose_images(two, None, PROTOCOL))) == 1
