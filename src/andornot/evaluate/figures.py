"""Figures of representations. Each function returns a matplotlib `Figure`; saving is the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..logic import Representation

if TYPE_CHECKING:  # matplotlib takes most of a second to load, and few need it
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
