"""Reports: the same numbers for programs, a whole page for people, and nothing that a hostile name could do."""

import base64
import json
import math
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image

from andornot.errors import EvaluationError
from andornot.evaluate.metrics.intervals import Interval, MeanStd
from andornot.evaluate.report.outcome import Figure, Outcome, Section, Table
from andornot.evaluate.report.writing import make_page, to_json_data, write_outcome
from andornot.version import __version__

VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """What a page has: its tags in order, the texts in each kind of tag, and all attributes. Wrong nesting fails."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data.strip("\n")

    def values(self, tag: str, name: str) -> list[str | None]:
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]

    def facts(self) -> dict[str, str]:
        """The definition table of the last section."""
        names = [text for text in self.texts["th"] if text not in ("RetrievalConfig", "Settings", "This run")]
        return dict(zip(reversed(names), reversed(self.texts["td"]), strict=False))


def outcome(**changes) -> Outcome:
    return replace(Outcome("A title", "A summary.", {"accuracy": 0.5}, {"k": 20}, []), **changes)


def written(folder: Path, *, settings=None, seed=0, seconds=1.5, **changes) -> tuple[dict, Page]:
    write_outcome(folder, outcome(**changes), settings=settings or {}, seed=seed, seconds=seconds)
    result = json.loads((folder / "result.json").read_text(), parse_constant=pytest.fail)
    return result, Page((folder / "report.html").read_text(encoding="utf-8"))


def page_with(*content: Table | Figure, folder: Path) -> Page:
    return written(folder, sections=[Section("A section", "", content)])[1]


def drawing() -> MatplotlibFigure:
    figure = MatplotlibFigure(figsize=(3, 2), dpi=100)
    figure.subplots().plot([1, 3, 2])
    return figure


# --- data for programs ----------------------------------------------------------------------------------------------


def test_the_result_has_every_number_in_full(tmp_path):
    metrics = {
        "sum": 0.1 + 0.2,
        "spread": MeanStd(1 / 3, 0.02),
        "interval": Interval(0.12, 0.1, 0.14),
        "tensor": torch.tensor([[1.5, 0.1]]),
        "scalar": torch.tensor(7),
        "numpy": [np.float32(0.1), np.int64(3), np.bool_(True), np.arange(2)],
        "by class": {0: (1, None), "café": True},
    }
    result, _ = written(tmp_path, metrics=metrics)
    assert result["metrics"] == {
        "sum": 0.1 + 0.2,
        "spread": {"mean": 1 / 3, "std": 0.02},
        "interval": {"value": 0.12, "low": 0.1, "high": 0.14},
        "tensor": [[1.5, float(np.float32(0.1))]],
        "scalar": 7,
        "numpy": [float(np.float32(0.1)), 3, True, [0, 1]],
        "by class": {"0": [1, None], "café": True},
    }


def test_the_result_says_how_when_and_on_what(tmp_path):
    settings = {"data": Path("../photos/of mine"), "top": 5}
    result, _ = written(tmp_path, settings=settings, seed=None, seconds=2.25)
    assert result["settings"] == {"data": "../photos/of mine", "top": 5}
    assert (result["title"], result["summary"], result["protocol"]) == ("A title", "A summary.", {"k": 20})
    assert (result["seed"], result["seconds"]) == (None, 2.25)
    assert timedelta() <= datetime.now(UTC) - datetime.fromisoformat(result["date"]) < timedelta(minutes=1)
    assert result["versions"]["andornot"] == __version__
    assert set(result["versions"]) == {"andornot", "torch", "numpy", "python"}
    assert result["machine"]["threads"] == torch.get_num_threads()


def test_what_is_no_number_is_null(tmp_path):
    metrics = {"a": [math.nan, {"b": math.inf}], "c": torch.tensor([-math.inf, 1.0]), "d": MeanStd(0.5, math.nan)}
    result, page = written(tmp_path, metrics=metrics, seconds=math.nan)
    assert result["metrics"] == {"a": [None, {"b": None}], "c": [None, 1.0], "d": {"mean": 0.5, "std": None}}
    assert result["seconds"] is None
    assert page.facts()["duration"] == "–"


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"a": {"b": [1, {2}]}}, r"metrics\.a\.b\[1\] is a set, which cannot be written to result\.json"),
        ({"pairs": {("cat", "dog"): 1}}, r"metrics\.pairs has the key \('cat', 'dog'\)"),
        ({"a": MeanStd}, r"metrics\.a is a type"),
    ],
)
def test_what_json_cannot_have_is_named_and_nothing_is_written(metrics, message, tmp_path):
    with pytest.raises(EvaluationError, match=message):
        written(tmp_path / "out", metrics=metrics)
    assert not (tmp_path / "out").exists()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_data_stays_as_it_is(value):
    assert json.loads(json.dumps(to_json_data(value), allow_nan=False)) == value


# --- a page for people ----------------------------------------------------------------------------------------------


def test_a_page_has_title_summary_sections_and_how_it_was_measured(tmp_path):
    sections = [Section("First", "One paragraph\nof two lines.\n\n \nAnother."), Section("Second")]
    _, page = written(tmp_path, title="Digits", summary="All is well.", sections=sections)
    assert page.texts["title"] == page.texts["h1"] == ["Digits"]
    assert page.texts["p"] == ["All is well.", "One paragraph\nof two lines.", "Another."]
    assert page.texts["h2"] == ["First", "Second", "How this was measured"]
    assert page.values("html", "lang") == ["en"]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>\n<html")


def test_a_page_loads_nothing_and_runs_nothing(tmp_path):
    page = page_with(Figure("A line.", drawing()), Table("A table.", ["a"], [["b"]]), folder=tmp_path)
    loaded = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "data", "action")]
    assert len(loaded) == 2
    assert all(value.startswith("data:") for value in loaded)
    assert not {"script", "iframe", "object", "embed", "form", "base"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    (style,) = page.texts["style"]
    assert "prefers-color-scheme: dark" in style
    assert not any(way in style for way in ("url(", "@import", "http:", "https:"))


def test_an_image_is_there_to_the_last_pixel_with_words_for_it(tmp_path):
    figure = drawing()
    page = page_with(Figure("A line that goes up and down.", figure), folder=tmp_path)
    assert page.values("img", "alt") == page.texts["figcaption"] == ["A line that goes up and down."]
    assert (page.values("img", "width"), page.values("img", "height")) == (["288"], ["192"])
    (source,) = page.values("img", "src")
    kind, _, data = source.partition(",")
    assert kind == "data:image/png;base64"
    expected = BytesIO()
    figure.savefig(expected, dpi=160)
    with Image.open(BytesIO(base64.b64decode(data))) as shown, Image.open(expected) as drawn:
        assert np.array_equal(np.asarray(shown), np.asarray(drawn)[..., :3])


def test_the_verdict_stands_before_the_summary(tmp_path):
    result, page = written(tmp_path, verdict="It works.")
    assert result["verdict"] == "It works."
    assert page.texts["p"] == ["It works.", "A summary."]


def test_charts_turn_dark_with_the_page_and_photographs_do_not(tmp_path):
    shown = MatplotlibFigure(figsize=(1, 1))
    shown.subplots().imshow(np.zeros((2, 2)))
    page = page_with(Figure("A chart.", drawing()), Figure("An image.", shown), folder=tmp_path)
    assert page.values("img", "class") == ["chart", "photographs"]


HOSTILE = ["<b>", "</td></table><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;", "]]>", "a\x00b"]


def page_of(text: str) -> Page:
    """A page that has the text wherever a text can be."""
    cells = [[text, text, 1.0], [text, None, 0.5]]
    sections = [Section(text, text, [Table(text, ["x", text, "y"], cells, best={"y": "high"})])]
    result = {
        "title": text,
        "summary": text,
        "protocol": {f"p{text}": text},
        "settings": {"command": text, "deep": {text: [text, [text]]}},
        "seed": 0,
        "seconds": 1.0,
        "date": "2025-01-31T10:00:00+00:00",
        "versions": {"andornot": text},
        "machine": {"platform": text},
    }
    page = make_page(result, sections)
    page.encode()  # a file can have it
    return Page(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_it_is(text):
    page, harmless = page_of(text), page_of("harmless")
    assert page.tags == harmless.tags
    shown = text.replace("\x00", "\ufffd")
    assert page.texts["title"] == page.texts["h1"] == page.texts["pre"] == page.texts["figcaption"] == [shown]
    assert shown in page.texts["td"]
    assert page.values("div", "aria-label")[0] == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Cs", "Cc"]) | st.sampled_from("<>&\"'/!-"), min_size=1))
def test_no_text_changes_what_a_page_is_made_of(text):
    page, harmless = page_of(f"x{text}x"), page_of("harmless")
    assert [tag for tag in page.tags if tag != "p"] == [tag for tag in harmless.tags if tag != "p"]
    assert [(tag, name) for tag, name, _ in page.attributes] == [(tag, name) for tag, name, _ in harmless.attributes]


# --- tables ---------------------------------------------------------------------------------------------------------


def test_figures_are_written_as_people_read_them(tmp_path):
    cells = [0.12345, -0.00001, 7, 2007, 60000, MeanStd(0.914, 0.0219), Interval(0.12, 0.1, 0.14), math.nan, None, "–x"]
    expected = ["0.12", "0.00", "7", "2007", "60,000", "0.91 ± 0.02", "0.12 (0.10 to 0.14)", "–", "", "–x"]
    table = Table("Cells.", ["row", "value"], [[str(n), cell] for n, cell in enumerate(cells)], digits=2)
    page = page_with(table, folder=tmp_path)
    assert page.texts["td"][: len(cells)] == expected
    assert "± is the standard deviation; in parentheses the 95 % confidence interval." in page.texts["p"]


def test_figures_stand_right_and_words_left(tmp_path):
    rows = [["first", 1, None, "yes"], ["second", MeanStd(0.5, 0.1), 0.25, None]]
    page = page_with(Table("Kinds.", ["name", "a", "b", "c"], rows), folder=tmp_path)
    assert page.values("th", "class")[:4] == ["text", "number", "number", "text"]
    assert page.values("td", "class") == ["number", "number", "text"] * 2
    assert page.values("th", "scope")[:6] == ["col"] * 4 + ["row"] * 2


def test_sentences_are_broken_into_lines_and_words_are_not(tmp_path):
    rows = [["short", "A sentence that would make the table wider than a page, were it in one line."], ["b", "word"]]
    page = page_with(Table("Claims.", ["name", "claim"], rows), folder=tmp_path)
    assert page.values("td", "class") == ["text sentences"] * 2
    assert page.values("th", "class") == ["text", "text sentences", "text", "text"]


def test_the_best_of_a_column_is_bold(tmp_path):
    rows = [
        ["a", 0.9101, MeanStd(3.0, 0.5), 1, 0.7],
        ["b", 0.9099, MeanStd(2.0, 9.0), math.nan, 0.8],  # looks equal to a, and is marked alike
        ["c", 0.5, None, None, 0.9],
    ]
    columns = ["row", "high", "low", "alone", "unmarked"]
    best = {"high": "high", "low": "low", "alone": "high"}
    page = page_with(Table("Best.", columns, rows, best=best), folder=tmp_path)
    assert page.texts["b"] == ["0.910", "0.910", "2.000 ± 9.000"]
    assert "± is the standard deviation; bold is the best of its column." in page.texts["p"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table("T", ["a", "b"], [["x", 1, 2]]), r'the table "T" has 2 columns, but a row of 3 cells'),
        (Table("T", ["a", "b"], [["x", 1]], best={"c": "high"}), 'the table "T" has no numeric column "c"'),
        (Table("T", ["a", "b"], [["x", 1]], best={"b": "most"}), '"b" by \'most\': use "high" or "low"'),
    ],
)
def test_a_table_that_cannot_be_is_refused(table, message, tmp_path):
    with pytest.raises(EvaluationError, match=message):
        page_with(table, folder=tmp_path)


# --- how it was measured --------------------------------------------------------------------------------------------


def test_nested_settings_are_lines_that_can_be_read(tmp_path):
    settings = {
        "command": "andornot evaluate 'my model/'",
        "views": {"crop_scale": (0.2, 1.0), "flip": False, "more": {"blur": None}},
        "sizes": [[640, 576], [512, 384]],
        "operators": [{"text": "ab & ~b"}, {"text": "ab - b"}],
        "nothing": {},
    }
    _, page = written(tmp_path, settings=settings, protocol={"ap_variant": "plain"}, seed=3, seconds=192)
    facts = page.facts()
    assert page.texts["pre"] == ["andornot evaluate 'my model/'"]
    assert "command" not in facts
    expected = {
        "ap variant": "plain",
        "views › crop scale": "0.2, 1.0",
        "views › flip": "no",
        "views › more › blur": "–",
        "sizes": "(640, 576), (512, 384)",
        "operators › 1 › text": "ab & ~b",
        "operators › 2 › text": "ab - b",
        "nothing": "–",
        "seed": "3",
        "duration": "3 min",
    }
    assert expected.items() <= facts.items()
    assert f"andornot {__version__}, torch {torch.__version__}" in facts["versions"]


def test_without_protocol_and_settings_only_the_run_is_told(tmp_path):
    _, page = written(tmp_path, protocol={})
    assert not {"RetrievalConfig", "Settings"} & set(page.texts["th"])
    assert "pre" not in page.tags


# --- whole, or not there --------------------------------------------------------------------------------------------


def test_a_second_report_takes_the_place_of_the_first(tmp_path):
    written(tmp_path / "a" / "b", title="old")
    result, page = written(tmp_path / "a" / "b", title="new")
    assert result["title"] == page.texts["h1"][0] == "new"
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["report.html", "result.json"]


def test_a_kill_between_the_two_files_leaves_no_result(tmp_path):
    written(tmp_path, title="old")
    code = (
        "import os, signal, sys, pathlib; from andornot.evaluate.report import outcome, writing\n"
        "write = writing.write_text\n"
        "def dying(path, content):\n"
        "    if path.name == 'result.json': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(path, content)\n"
        "writing.write_text = dying\n"
        "new = outcome.Outcome('new', '', {}, {}, [])\n"
        "writing.write_outcome(pathlib.Path(sys.argv[1]), new, settings={}, seed=0, seconds=0)"
    )
    killed = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "new" in (tmp_path / "report.html").read_text()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        written(tmp_path / "file" / "out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_leaves_no_result(tmp_path):
    written(tmp_path)
    (tmp_path / "report.html.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as error:
        written(tmp_path)
    assert error.value.filename == str(tmp_path / "report.html")
    assert not (tmp_path / "result.json").exists()
