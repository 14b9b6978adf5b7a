"""A report as a browser shows it: wide and narrow, light and dark."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from browser import NARROW, WIDE, Page
from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image

from andornot.evaluate.metrics.intervals import Interval
from andornot.evaluate.report.outcome import Figure, Outcome, Section, Table
from andornot.evaluate.report.writing import REPORT, write_outcome

pytestmark = pytest.mark.slow

_WIDTHS = "return [...document.querySelectorAll(arguments[0])].map(e => [e.scrollWidth, e.clientWidth])"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """With the widest of the usual tables: six columns, four of them with intervals; a chart, and photographs."""
    folder = tmp_path_factory.mktemp("report")
    cells = ["logic, sparse prior", "cosine of degrees", *[Interval(0.123, 0.111, 0.135)] * 4]
    columns = ["model", "compared by", "OR: a|b", "AND: ab&a", "NOT: ab&~b", "NOT, keeping what a shares"]
    chart, photographs = MatplotlibFigure(figsize=(4, 2)), MatplotlibFigure(figsize=(4, 2))
    chart.subplots().bar([0, 1], [1, 2])
    photographs.subplots().imshow(np.full((2, 2), 128), cmap="gray", vmin=0, vmax=255)
    images = [Figure("A chart.", chart), Figure("Photographs.", photographs)]
    sections = [Section("Operators", "A paragraph. " * 40, [Table("Differences.", columns, [cells]), *images])]
    write_outcome(folder, Outcome("A report", "Summary. " * 40, {}, {}, sections), settings={}, seed=0, seconds=1.0)
    return folder / REPORT


@pytest.fixture
def page(request, report, tmp_path) -> Iterator[Page]:
    page = Page(report.as_uri(), tmp_path, request.param)
    page.driver.get(page.address)
    yield page
    page.close()


@pytest.mark.parametrize("page", [WIDE], indirect=True)
def test_a_table_shows_all_of_its_columns_where_there_is_room(page):
    assert all(needed <= there for needed, there in page.run(_WIDTHS, ".scroll"))


@pytest.mark.parametrize("page", [NARROW], indirect=True)
def test_on_a_phone_tables_scroll_and_the_page_does_not(page):
    ((needed, there), *_) = page.run(_WIDTHS, ".scroll")
    assert needed > there
    assert all(needed <= there for needed, there in page.run(_WIDTHS, "html, main, p"))


@pytest.mark.parametrize("page", [WIDE], indirect=True)
def test_in_the_dark_charts_are_dark_and_photographs_are_not_turned(page):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    corner = {}
    for looks in ("chart", "photographs"):
        image = page.one(f"img.{looks}")
        page.run("arguments[0].scrollIntoView({block: 'center'})", image)
        box = page.run("return arguments[0].getBoundingClientRect().toJSON()", image)
        with Image.open(BytesIO(page.driver.get_screenshot_as_png())) as shot:
            corner[looks] = max(shot.convert("RGB").getpixel((round(box["x"]) + 3, round(box["y"]) + 3)))
    assert corner["chart"] < 60
    assert corner["photographs"] > 180
