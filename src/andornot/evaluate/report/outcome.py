"""What an experiment hands over: figures for programs, and tables and pictures for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..metrics.intervals import Interval, Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Link:
    """A text that leads to another file, by its relative path."""

    text: str
    href: str


Cell = str | int | float | Spread | Interval | Link | None
"""What stands in a table; None for nothing."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under their columns; the first column names the row. `best` marks the best figure of a column."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 3
    best: Mapping[str, str] = field(default_factory=dict)  # column -> "high" or "low"


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib, and what it shows, in words."""

    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A heading, some paragraphs of plain text (empty lines between them), tables and pictures."""

    title: str
    text: str = ""
    content: Sequence[Table | Picture] = ()


@dataclass(frozen=True)
class Outcome:
    """All of an experiment. `figures` and `protocol` are plain data for result.json, `sections` are the report.

    `verdict` is one plain sentence before the summary, where that is full of figures.
    """

    title: str
    summary: str
    figures: Mapping[str, Any]
    protocol: Mapping[str, Any]
    sections: Sequence[Section]
    verdict: str = ""

    def _repr_html_(self) -> str:
        """In a notebook: the summary and all tables."""
        from ...notebook import tables
        from .page import shown

        content = [part for section in self.sections for part in section.content if isinstance(part, Table)]
        texts = [(table, [[shown(cell, table.digits) for cell in row] for row in table.rows]) for table in content]
        return tables(self.title, [(table.caption, table.columns, rows) for table, rows in texts], self.summary)
