"""Export the tables of a report as CSV and LaTeX (booktabs), and its charts as SVG and PDF."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...files import write_atomically, write_text
from ..metrics.intervals import Interval, MeanStd
from .outcome import Cell, Link, Section, Table

EXPORT: Final = "export"
_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def export_sections(folder: Path, sections: Sequence[Section]) -> None:
    """Write the tables and charts of a report to the folder `export`, numbered, replacing earlier files.

    Figures with photographs are left out; they are in report.html.
    """
    from .writing import format_cell

    content = [part for section in sections for part in section.content]
    for earlier in (folder / EXPORT).glob("[0-9][0-9]-*"):
        earlier.unlink()
    if content:
        (folder / EXPORT).mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(content, 1):
        words = re.sub(r"[^a-z0-9]+", "-", part.caption.lower()).strip("-")
        path = folder / EXPORT / f"{number:02}-{words[:40].rstrip('-')}"
        if isinstance(part, Table):
            write_text(path.with_name(f"{path.name}.csv"), _csv(part))
            rows = [[format_cell(cell, part.digits) for cell in row] for row in part.rows]
            write_text(path.with_name(f"{path.name}.tex"), _latex(part, rows))
        elif not any(axes.images for axes in part.figure.axes):
            for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                _save(part.figure, path.with_name(f"{path.name}.{kind}"), kind, metadata)


def _save(figure: Any, path: Path, kind: str, metadata: dict[str, None]) -> None:
    write_atomically(path, lambda partial: figure.savefig(partial, format=kind, metadata=metadata))


def _csv(table: Table) -> str:
    """Return a table as CSV with unrounded numbers; those with an uncertainty take several columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [list(_names(name, [row[i] for row in table.rows])) for i, name in enumerate(table.columns)]
    writer.writerow([name for part in names for name in part])
    for row in table.rows:
        writer.writerow(
            [value for cell, part in zip(row, names, strict=True) for value in _values(cell, len(part))],
        )
    return text.getvalue()


def _names(name: str, cells: Sequence[Cell]) -> Iterator[str]:
    yield name
    if any(isinstance(cell, Interval) for cell in cells):
        yield from (f"{name} low", f"{name} high")
    elif any(isinstance(cell, MeanStd) for cell in cells):
        yield f"{name} std"


def _values(cell: Cell, count: int) -> list[Any]:
    values: list[Any] = [cell]
    if isinstance(cell, Interval):
        values = [cell.value, cell.low, cell.high]
    elif isinstance(cell, MeanStd):
        values = [cell.mean, cell.std]
    elif isinstance(cell, Link):
        values = [cell.text]
    return values + [None] * (count - len(values))


def _latex(table: Table, rows: Sequence[Sequence[str]]) -> str:
    lines = [
        f"% {table.caption}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"\toprule",
        " & ".join(name.translate(_LATEX) for name in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(text.translate(_LATEX) for text in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
