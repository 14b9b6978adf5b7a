"""The outcome of an experiment: metrics as data, and sections of tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..metrics.intervals import Interval, MeanStd

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


@dataclass(frozen=True)
class Link:
    """A link to another file by its relative path."""

    text: str
    href: str


Cell = str | int | float | MeanStd | Interval | Link | None
"""A cell of a table; None is empty."""


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column is the name of the row. The best number is marked in the columns of `best`."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 3
    best: Mapping[str, str] = field(default_factory=dict)  # column -> "high" or "low"


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure with a caption."""

    caption: str
    figure: MatplotlibFigure


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text (separated by empty lines), tables and figures."""

    title: str
    text: str = ""
    content: Sequence[Table | Figure] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment. `metrics` and `protocol` are data for result.json, `sections` make the report.

    `verdict` is one sentence shown before the summary.
    """

    title: str
    summary: str
    metrics: Mapping[str, Any]
    protocol: Mapping[str, Any]
    sections: Sequence[Section]
    verdict: str = ""

    def _repr_html_(self) -> str:
        """Return the summary and all tables for a notebook."""
        from ...notebook import tables
        from .writing import format_cell

        content = [part for section in self.sections for part in section.content if isinstance(part, Table)]
        texts = [
            (table, [[format_cell(cell, table.digits) for cell in row] for row in table.rows]) for table in content
        ]
        return tables(self.title, [(table.caption, table.columns, rows) for table, rows in texts], self.summary)
