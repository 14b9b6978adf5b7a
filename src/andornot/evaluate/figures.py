"""Figures of representations. Each function returns a matplotlib `Figure`; saving is the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from ..logic import Representation

if TYPE_CHECKING:  # matplotlib takes most of a second to load, and few need it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#22313f"
FAINT: Final = "#8795a1"
PALETTE: Final = ("#3b7dd8", "#e08e2b", "#7d5bbe", "#2a9d74", "#c8553d", "#5b8c99", "#b0578d")


def draw_features(columns: Mapping[str, Representation], features: Sequence[str]) -> Figure:
    """Small bar charts: a column for each representation `(N, M)`, a row for each of its N features.

    A bar is the probability of a truth value; the number is the possession degree, and the triangle points at it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.5 + 1.5 * len(columns), 0.5 + 1.05 * len(features)), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    grid = figure.subplots(len(features), len(columns), squeeze=False, sharex=True, sharey=True)
    for column, (title, representation) in enumerate(columns.items()):
        colour = PALETTE[column % len(PALETTE)]
        m = representation.num_values
        values = [k / (m - 1) for k in range(m)]
        degrees = representation.degrees.tolist()
        for row, name in enumerate(features):
            axes = grid[row][column]
            axes.bar(values, representation.probs[row].tolist(), width=0.75 / (m - 1), color=colour)
            axes.plot(degrees[row], -0.07, marker="^", markersize=5, color=INK, clip_on=False)
            axes.text(0.5, 1.0, f"{degrees[row]:.2f}", ha="center", va="top", fontsize=8, color=INK)
            axes.set(ylim=(0, 1.05), xlim=(-0.2, 1.2), yticks=[], xticks=[0, 1])
            axes.tick_params(length=0, labelsize=7, labelcolor=FAINT, pad=9)
            axes.spines[["left", "top", "right"]].set_visible(False)
            axes.spines["bottom"].set_color(FAINT)
            if row == 0:
                axes.set_title(title, fontsize=10, fontweight="bold", color=INK)
            if column == 0:
                axes.set_ylabel(name, fontsize=10, color=INK, rotation=0, ha="right", va="center", labelpad=8)
    return figure


class SearchRow(NamedTuple):
    """A query and what it found: pictures `(C, H, W)` of bytes or of floats from 0 to 1."""

    text: str
    queries: Sequence[Tensor]
    hits: Sequence[Tensor]


def draw_search(rows: Sequence[SearchRow]) -> Figure:
    """A line for each search: the formula, the pictures in it, and its hits from near to far."""
    from matplotlib.figure import Figure

    before, after = max(len(row.queries) for row in rows), max(len(row.hits) for row in rows)
    figure = Figure(figsize=(1.2 + 0.75 * (before + after), 0.85 * len(rows) + 0.3), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02)
    # The first column is for the text, one between queries and hits for an arrow.
    grid = figure.subplots(
        len(rows), before + after + 2, squeeze=False, width_ratios=[0.9, *[1] * before, 0.4, *[1] * after]
    )
    for axes in grid.flat:
        axes.set_axis_off()
    for line, row in zip(grid, rows, strict=True):
        line[0].text(1, 0.5, row.text, ha="right", va="center", fontsize=10, fontweight="bold", color=INK)
        line[before + 1].text(0.5, 0.5, "→", ha="center", va="center", fontsize=12, color=FAINT)
        for axes, picture in [
            *zip(line[1 + before - len(row.queries) : 1 + before], row.queries, strict=True),
            *zip(line[before + 2 :], row.hits, strict=False),
        ]:
            _show(axes, picture)
    return figure


def _show(axes: Axes, picture: Tensor) -> None:
    bright = 255 if picture.dtype == torch.uint8 else 1
    pixels = picture.permute(1, 2, 0).squeeze(-1).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=bright)
