"""An outcome as a page: one HTML file that loads nothing and runs nothing, for a reader who does not know the code.

What stands where is in `templates/`; here is what is written there.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from io import BytesIO
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from ..errors import EvaluationError
from ..metrics.intervals import Interval, Spread
from .outcome import Cell, Link, Picture, Section, Table

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

_DPI: Final = 160
_CSS_DPI: Final = 96  # what a browser takes for an inch
_SENTENCE: Final = 40  # a text longer than this is broken into lines, in a table

# HTML has no place for control characters, nor for the halves of characters that names of files can have.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def make_page(result: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """The page of a result, as `result.json` has it, and of the sections that explain it."""
    settings = dict(result["settings"])
    command = settings.pop("command", None)
    facts = {"Protocol": result["protocol"], "Settings": settings, "This run": _run(result)}
    return _template().render(
        title=result["title"],
        summary=_paragraphs(f"{result.get('verdict', '')}\n\n{result['summary']}"),
        sections=[
            {
                "title": section.title,
                "paragraphs": _paragraphs(section.text),
                "content": [_table(part) if isinstance(part, Table) else _picture(part) for part in section.content],
            }
            for section in sections
        ],
        command=None if command is None else _inline(command),
        facts={name: list(_flattened(value)) for name, value in facts.items()},
    )


@cache
def _template() -> Template:
    """Every text is escaped, and one that is missing is an error."""
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html")


def _printable(value: object) -> object:
    if not isinstance(value, str) or isinstance(value, Markup):  # what a macro made is done already
        return value
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


# --- pictures -------------------------------------------------------------------------------------------------------


def _picture(picture: Picture) -> dict[str, Any]:
    width, height = (round(inches * _CSS_DPI) for inches in picture.figure.get_size_inches())
    # In the dark a chart is shown dark; photographs stay as they are.
    photographs = any(axes.images for axes in picture.figure.axes)
    return {
        "kind": "picture",
        "caption": picture.caption,
        "source": f"data:image/png;base64,{base64.b64encode(_png(picture.figure)).decode()}",
        "width": width,
        "height": height,
        "looks": "photographs" if photographs else "chart",
    }


def _png(figure: Figure) -> bytes:
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    with Image.open(drawn) as image:
        image.convert("RGB").save(small, format="PNG", optimize=True)
    return small.getvalue()


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(table: Table) -> dict[str, Any]:
    _check(table)
    columns = [[row[index] for row in table.rows] for index in range(len(table.columns))]
    kinds = [_kind(cells) for cells in columns]
    best = [
        _best(cells, table.best.get(name), table.digits) for name, cells in zip(table.columns, columns, strict=True)
    ]
    return {
        "kind": "table",
        "caption": table.caption,
        "columns": list(zip(table.columns, kinds, strict=True)),
        "rows": [
            [
                {
                    "text": shown(cell, table.digits),
                    "href": cell.href if isinstance(cell, Link) else None,
                    "class": kind,
                    "best": figure is not None and _rounded(cell, table.digits) == figure,
                }
                for cell, kind, figure in zip(row, kinds, best, strict=True)
            ]
            for row in table.rows
        ],
        "note": _explained(table),
    }


def _kind(cells: Sequence[Cell]) -> str:
    """How a column is set: figures, words, or sentences, which are broken into lines."""
    texts = [cell.text if isinstance(cell, Link) else cell for cell in cells if isinstance(cell, str | Link)]
    if not texts:
        return "number"
    return "text" if max(map(len, texts)) <= _SENTENCE else "text sentences"


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


def shown(cell: Cell, digits: int) -> str:
    """A cell as people read it."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, Link):
        return cell.text
    if isinstance(cell, Spread):
        return f"{shown(cell.mean, digits)} ± {shown(cell.deviation, digits)}"
    if isinstance(cell, Interval):
        return f"{shown(cell.value, digits)} ({shown(cell.low, digits)} to {shown(cell.high, digits)})"
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
