"""An outcome as a page: one HTML file that loads nothing and runs nothing, for a reader who does not know the code."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import resources
from io import BytesIO
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from PIL import Image

from ..errors import EvaluationError
from ..metrics.intervals import Interval, Spread
from .outcome import Cell, Link, Picture, Section, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI: Final = 160
_CSS_DPI: Final = 96  # what a browser takes for an inch

# Should a mistake ever let markup through, it still loads and runs nothing.
_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

# HTML has no place for control characters, nor for the halves of characters that names of files can have.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def make_page(result: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """The page of a result, as `result.json` has it, and of the sections that explain it."""
    style = _element("style")
    style.text = (resources.files("andornot.evaluate.report") / "page.css").read_text(encoding="utf-8")
    head = _element(
        "head",
        _element("meta", charset="utf-8"),
        _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _element("meta", name="color-scheme", content="light dark"),
        _element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        _element("title", result["title"]),
        _element("link", rel="icon", href="data:,"),  # or a browser asks the server for one
        style,
    )
    header = _element("header", _element("h1", result["title"]), *_paragraphs(result["summary"]))
    main = _element("main", header, *(_section(section) for section in sections), _measurement(result))
    page = _element("html", head, _element("body", main), lang="en")
    ElementTree.indent(page, space="")
    return "<!doctype html>\n" + ElementTree.tostring(page, encoding="unicode", method="html") + "\n"


def _element(tag: str, *content: Element | str, **attributes: str) -> Element:
    """An element with a text, or with other elements. All text of a page comes through here, and is escaped."""
    element = Element(tag, {name.strip("_").replace("_", "-"): _printable(text) for name, text in attributes.items()})
    for part in content:
        if isinstance(part, str):
            element.text = _printable(part)
        else:
            element.append(part)
    return element


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _paragraphs(text: str) -> list[Element]:
    return [_element("p", part.strip()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _section(section: Section) -> Element:
    content = [_table(part) if isinstance(part, Table) else _picture(part) for part in section.content]
    return _element("section", _element("h2", section.title), *_paragraphs(section.text), *content)


def _scroll(content: Element, label: str) -> Element:
    """A box in which something wide scrolls, so that the page does not."""
    return _element("div", content, class_="scroll", role="region", aria_label=label, tabindex="0")


# --- pictures -------------------------------------------------------------------------------------------------------


def _picture(picture: Picture) -> Element:
    width, height = (str(round(inches * _CSS_DPI)) for inches in picture.figure.get_size_inches())
    source = f"data:image/png;base64,{base64.b64encode(_png(picture.figure)).decode()}"
    image = _element("img", src=source, alt=picture.caption, width=width, height=height)
    return _element("figure", _scroll(image, picture.caption), _element("figcaption", picture.caption))


def _png(figure: Figure) -> bytes:
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    with Image.open(drawn) as image:
        image.convert("RGB").save(small, format="PNG", optimize=True)
    return small.getvalue()


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(table: Table) -> Element:
    _check(table)
    columns = [[row[index] for row in table.rows] for index in range(len(table.columns))]
    kinds = ["text" if any(isinstance(cell, str | Link) for cell in cells) else "number" for cells in columns]
    best = [
        _best(cells, table.best.get(name), table.digits) for name, cells in zip(table.columns, columns, strict=True)
    ]
    head = [_element("th", name, scope="col", class_=kind) for name, kind in zip(table.columns, kinds, strict=True)]
    body = []
    for row in table.rows:
        line = [_element("th", _linked(row[0], table.digits), scope="row", class_=kinds[0])]
        for cell, kind, figure in list(zip(row, kinds, best, strict=True))[1:]:
            text = _linked(cell, table.digits)
            marked = figure is not None and _rounded(cell, table.digits) == figure
            line.append(_element("td", _element("b", text) if marked else text, class_=kind))
        body.append(_element("tr", *line))
    grid = _element("table", _element("thead", _element("tr", *head)), _element("tbody", *body))
    content = [_element("figcaption", table.caption), _scroll(grid, table.caption)]
    if explained := _explained(table):
        content.append(_element("p", explained, class_="note"))
    return _element("figure", *content)


def _check(table: Table) -> None:
    name = f'the table "{table.caption}"'
    for row in table.rows:
        if len(row) != len(table.columns):
            raise EvaluationError(f"{name} has {len(table.columns)} columns, but a row of {len(row)} cells: {row!r}")
    for column, direction in table.best.items():
        if column not in table.columns[1:]:
            raise EvaluationError(f'{name} has no column of figures "{column}" to mark the best of')
        if direction not in ("high", "low"):
            raise EvaluationError(
                f'{name} marks the best of "{column}" by {direction!r}: "high" or "low" would be right'
            )


def _best(cells: Sequence[Cell], direction: str | None, digits: int) -> float | None:
    """The best figure of a column as it is shown, so that what looks equal is marked alike; None to mark none."""
    figures = [figure for cell in cells if (figure := _rounded(cell, digits)) is not None]
    if direction is None or len(figures) < 2:
        return None
    return max(figures) if direction == "high" else min(figures)


def _rounded(cell: Cell, digits: int) -> float | None:
    figure = cell.mean if isinstance(cell, Spread) else cell.value if isinstance(cell, Interval) else cell
    return round(float(figure), digits) if isinstance(figure, Real) and math.isfinite(figure) else None


def _linked(cell: Cell, digits: int) -> Element | str:
    return _element("a", cell.text, href=cell.href) if isinstance(cell, Link) else _shown(cell, digits)


def _shown(cell: Cell, digits: int) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, Link):
        return cell.text
    if isinstance(cell, Spread):
        return f"{_shown(cell.mean, digits)} ± {_shown(cell.deviation, digits)}"
    if isinstance(cell, Interval):
        return f"{_shown(cell.value, digits)} ({_shown(cell.low, digits)} to {_shown(cell.high, digits)})"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        return f"{cell:,}" if abs(cell) >= 10_000 else str(cell)  # a year has no comma
    return f"{cell:z.{digits}f}" if math.isfinite(cell) else "–"


def _explained(table: Table) -> str:
    """What the signs in a table mean."""
    cells = [cell for row in table.rows for cell in row]
    notes = [
        ("± is the standard deviation", any(isinstance(cell, Spread) for cell in cells)),
        ("in brackets the 95 % confidence interval", any(isinstance(cell, Interval) for cell in cells)),
        ("bold is the best of its column", bool(table.best)),
    ]
    text = "; ".join(note for note, needed in notes if needed)
    return f"{text[0].upper()}{text[1:]}." if text else ""


# --- how it was measured --------------------------------------------------------------------------------------------


def _measurement(result: Mapping[str, Any]) -> Element:
    """The last section: all that is needed to do it again."""
    settings = dict(result["settings"])
    command = settings.pop("command", None)
    content = [] if command is None else [_element("p", "The command:"), _element("pre", _inline(command))]
    bodies = []
    for title, facts in {"Protocol": result["protocol"], "Settings": settings, "This run": _run(result)}.items():
        lines = [
            _element("tr", _element("th", name, scope="row"), _element("td", text)) for name, text in _flattened(facts)
        ]
        if lines:
            heading = _element("tr", _element("th", title, colspan="2", scope="rowgroup"), class_="group")
            bodies.append(_element("tbody", heading, *lines))
    facts = _scroll(_element("table", *bodies, class_="facts"), "How this was measured")
    return _element("section", _element("h2", "How this was measured"), *content, facts)


def _run(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "date": f"{datetime.fromisoformat(result['date']):%Y-%m-%d %H:%M} UTC",
        "duration": None if result["seconds"] is None else _duration(result["seconds"]),
        "seed": result["seed"],
        "versions": [f"{name} {version}" for name, version in result["versions"].items()],
        "machine": result["machine"],
    }


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(4.26), _duration(192), _duration(7384)
    ('4.3 s', '3 min 12 s', '2 h 3 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{seconds:.1f} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _flattened(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested data as lines: `{"views": {"crop_scale": [0.2, 1]}}` is "views › crop scale" and "0.2, 1"."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value, 1)}
    if isinstance(value, dict) and (value or not name):
        for key, item in value.items():
            yield from _flattened(item, f"{name} › {key}" if name else key)
    else:
        yield name.replace("_", " "), _inline(value)


def _inline(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(f"({_inline(item)})" if isinstance(item, list) else _inline(item) for item in value)
    return str(value)
