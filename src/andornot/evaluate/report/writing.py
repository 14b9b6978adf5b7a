"""Write the report of an experiment: `report.html` for reading and `result.json` for programs."""

from __future__ import annotations

import base64
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from ...errors import EvaluationError
from ...files import write_text
from ...progress import format_duration
from ...version import __version__
from ..metrics.intervals import Interval, MeanStd
from .exporting import export_sections
from .outcome import Cell, Figure, Link, Outcome, Section, Table

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure as MatplotlibFigure

RESULT: Final = "result.json"
REPORT: Final = "report.html"

_DPI: Final = 160
_CSS_DPI: Final = 96
_SENTENCE: Final = 40  # longer texts are wrapped in tables

# HTML allows neither control characters nor unpaired surrogates, which file names may contain.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def write_outcome(
    folder: Path, outcome: Outcome, *, settings: Mapping[str, Any], seed: int | None, seconds: float
) -> None:
    """Write the folder `export`, `report.html`, and last `result.json`: if it exists, the others are complete.

    `settings` are those needed to repeat the experiment, with the "command" if there is one.
    """
    result = to_json_data(
        {
            "title": outcome.title,
            "verdict": outcome.verdict,
            "summary": outcome.summary,
            "metrics": outcome.metrics,
            "protocol": outcome.protocol,
            "settings": settings,
            "seed": seed,
            "seconds": seconds,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {
                "andornot": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "threads": torch.get_num_threads()},
        }
    )
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    page = make_page(result, outcome.sections)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    export_sections(folder, outcome.sections)
    write_text(folder / REPORT, page)
    write_text(folder / RESULT, text)


def to_json_data(value: Any, place: str = "") -> Any:
    """Return plain data for JSON: tensors become lists, dataclasses objects, paths texts, NaN and infinity None.

    `place` is the position of the value, for error messages.

    >>> from andornot.evaluate.metrics.intervals import MeanStd
    >>> to_json_data({"rate": MeanStd(0.5, math.nan), "counts": torch.tensor([1, 2])})
    {'rate': {'mean': 0.5, 'std': None}, 'counts': [1, 2]}
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)  # torch.__version__ is a subclass
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return to_json_data(value.tolist(), place)
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str | int):
                raise EvaluationError(f"{place or 'this'} has the key {key!r}, but keys in {RESULT} must be texts")
        return {str(key): to_json_data(item, f"{place}.{key}".lstrip(".")) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item, f"{place}[{index}]") for index, item in enumerate(value)]
    raise EvaluationError(
        f"{place or 'this'} is a {type(value).__name__}, which cannot be written to {RESULT}: "
        "use numbers, texts, lists, dicts, tensors or dataclasses"
    )


def make_page(result: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """Return one HTML page, without scripts or external resources, for the data of `result.json` and its sections."""
    settings = dict(result["settings"])
    command = settings.pop("command", None)
    facts = {"RetrievalConfig": result["protocol"], "Settings": settings, "This run": _run(result)}
    return _template().render(
        title=result["title"],
        summary=_paragraphs(f"{result.get('verdict', '')}\n\n{result['summary']}"),
        sections=[
            {
                "title": section.title,
                "paragraphs": _paragraphs(section.text),
                "content": [_table(part) if isinstance(part, Table) else _figure(part) for part in section.content],
            }
            for section in sections
        ],
        command=None if command is None else _inline(command),
        facts={name: list(_flattened(value)) for name, value in facts.items()},
    )


@cache
def _template() -> Template:
    """Return the template: all texts are escaped, and undefined names are errors."""
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
    if not isinstance(value, str) or isinstance(value, Markup):  # the output of a macro is already escaped
        return value
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _figure(figure: Figure) -> dict[str, Any]:
    width, height = (round(inches * _CSS_DPI) for inches in figure.figure.get_size_inches())
    # Dark mode inverts charts, but not photographs.
    photographs = any(axes.images for axes in figure.figure.axes)
    return {
        "kind": "image",
        "caption": figure.caption,
        "source": f"data:image/png;base64,{base64.b64encode(_png(figure.figure)).decode()}",
        "width": width,
        "height": height,
        "looks": "photographs" if photographs else "chart",
    }


def _png(figure: MatplotlibFigure) -> bytes:
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    with Image.open(drawn) as image:
        image.convert("RGB").save(small, format="PNG", optimize=True)
    return small.getvalue()


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
                    "text": format_cell(cell, table.digits),
                    "href": cell.href if isinstance(cell, Link) else None,
                    "class": kind,
                    "best": top is not None and _rounded(cell, table.digits) == top,
                }
                for cell, kind, top in zip(row, kinds, best, strict=True)
            ]
            for row in table.rows
        ],
        "note": _legend(table),
    }


def _kind(cells: Sequence[Cell]) -> str:
    """Return the CSS class of a column: numbers, words, or sentences, which are wrapped."""
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
            raise EvaluationError(f'{name} has no numeric column "{column}" to mark the best of')
        if direction not in ("high", "low"):
            raise EvaluationError(f'{name} marks the best of "{column}" by {direction!r}: use "high" or "low"')


def _best(cells: Sequence[Cell], direction: str | None, digits: int) -> float | None:
    """Return the best number of a column as shown (rounded), so that all ties are marked; None to mark none."""
    numbers = [number for cell in cells if (number := _rounded(cell, digits)) is not None]
    if direction is None or len(numbers) < 2:
        return None
    return max(numbers) if direction == "high" else min(numbers)


def _rounded(cell: Cell, digits: int) -> float | None:
    number = cell.mean if isinstance(cell, MeanStd) else cell.value if isinstance(cell, Interval) else cell
    return round(float(number), digits) if isinstance(number, Real) and math.isfinite(number) else None


def format_cell(cell: Cell, digits: int) -> str:
    """Return the text of a cell."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, Link):
        return cell.text
    if isinstance(cell, MeanStd):
        return f"{format_cell(cell.mean, digits)} ± {format_cell(cell.std, digits)}"
    if isinstance(cell, Interval):
        return (
            f"{format_cell(cell.value, digits)} ({format_cell(cell.low, digits)} to {format_cell(cell.high, digits)})"
        )
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        return f"{cell:,}" if abs(cell) >= 10_000 else str(cell)  # no comma in years
    return f"{cell:z.{digits}f}" if math.isfinite(cell) else "–"


def _legend(table: Table) -> str:
    """Return the legend of a table."""
    cells = [cell for row in table.rows for cell in row]
    notes = [
        ("± is the standard deviation", any(isinstance(cell, MeanStd) for cell in cells)),
        ("in parentheses the 95 % confidence interval", any(isinstance(cell, Interval) for cell in cells)),
        ("bold is the best of its column", bool(table.best)),
    ]
    text = "; ".join(note for note, needed in notes if needed)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _run(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "date": f"{datetime.fromisoformat(result['date']):%Y-%m-%d %H:%M} UTC",
        "duration": None if result["seconds"] is None else format_duration(result["seconds"]),
        "seed": result["seed"],
        "versions": [f"{name} {version}" for name, version in result["versions"].items()],
        "machine": result["machine"],
    }


def _flattened(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested data as lines: `{"views": {"crop_scale": [0.2, 1]}}` is "views › crop scale" and "0.2, 1"."""
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
