"""Figures of images and possession degrees. Each function returns a matplotlib `Figure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from ...logic import Representation

if TYPE_CHECKING:  # matplotlib takes most of a second to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#22313f"
FAINT: Final = "#8795a1"
PALETTE: Final = ("#3b7dd8", "#e08e2b", "#7d5bbe", "#2a9d74", "#c8553d", "#5b8c99", "#b0578d")

_MAX_COLUMNS: Final = 3


def literal(text: str) -> str:
    """Escape dollar signs, which matplotlib would interpret as formulas."""
    return text.replace("$", r"\$")


def draw_features(columns: Mapping[str, Representation], features: Sequence[str]) -> Figure:
    """Draw small bar charts: a column for each representation `(N, M)`, a row for each of its N features.

    A bar is the probability of a truth value; the number and the triangle show the possession degree.
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
                axes.set_title(literal(title), fontsize=10, fontweight="bold", color=INK)
            if column == 0:
                axes.set_ylabel(literal(name), fontsize=10, color=INK, rotation=0, ha="right", va="center", labelpad=8)
    return figure


class SearchRow(NamedTuple):
    """A query and its hits: images `(C, H, W)` of bytes, or floats from 0 to 1."""

    text: str
    queries: Sequence[Tensor]
    hits: Sequence[Tensor]


def draw_search(rows: Sequence[SearchRow]) -> Figure:
    """Draw a row for each search: the formula, its images, and its hits, nearest first."""
    from matplotlib.figure import Figure

    before, after = max(len(row.queries) for row in rows), max(len(row.hits) for row in rows)
    figure = Figure(figsize=(1.2 + 0.75 * (before + after), 0.85 * len(rows) + 0.3), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02)
    # The first column has the text, the one between queries and hits an arrow.
    grid = figure.subplots(
        len(rows), before + after + 2, squeeze=False, width_ratios=[0.9, *[1] * before, 0.4, *[1] * after]
    )
    for axes in grid.flat:
        axes.set_axis_off()
    for line, row in zip(grid, rows, strict=True):
        line[0].text(1, 0.5, literal(row.text), ha="right", va="center", fontsize=10, fontweight="bold", color=INK)
        line[before + 1].text(0.5, 0.5, "→", ha="center", va="center", fontsize=12, color=FAINT)
        for axes, image in [
            *zip(line[1 + before - len(row.queries) : 1 + before], row.queries, strict=True),
            *zip(line[before + 2 :], row.hits, strict=False),
        ]:
            _show(axes, image)
    return figure


def _show(axes: Axes, image: Tensor) -> None:
    bright = 255 if image.dtype == torch.uint8 else 1
    pixels = image.permute(1, 2, 0).squeeze(-1).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=bright)


class TopImagesRow(NamedTuple):
    """A feature, the images `(C, H, W)` with the highest degrees of it, and these degrees."""

    text: str
    images: Sequence[Tensor]
    degrees: Sequence[float]


def draw_top_images(rows: Sequence[TopImagesRow]) -> Figure:
    """Draw a row for each feature: its text, and its images with the degree below each."""
    from matplotlib.figure import Figure

    most = max(len(row.images) for row in rows)
    figure = Figure(figsize=(1.5 + 1.3 * most, 1.52 * len(rows)), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.03)
    grid = figure.subplots(len(rows), most + 1, squeeze=False, width_ratios=[1.15, *[1] * most])
    for axes in grid.flat:
        axes.set_axis_off()
    for line, row in zip(grid, rows, strict=True):
        line[0].text(1, 0.5, literal(row.text), ha="right", va="center", fontsize=9, color=INK, linespacing=1.5)
        for axes, image, degree in zip(line[1:], row.images, row.degrees, strict=False):
            _show(axes, image)
            axes.set_title(f"{degree:.2f}", y=-0.04, va="top", pad=0, fontsize=8, color=INK)
    return figure


class BoxPanel(NamedTuple):
    """A title, and the degrees of some groups of images."""

    title: str
    groups: Mapping[str, Sequence[float]]


def draw_boxes(panels: Sequence[BoxPanel]) -> Figure:
    """Draw a box plot for each panel with a box for each group: quartiles, median, and whiskers at 5 and 95 %."""
    from matplotlib.figure import Figure

    columns = min(_MAX_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(0.5 + 2.1 * columns, 2.1 * lines), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(grid.flat, panels, strict=False):
        drawn = axes.boxplot(
            [list(group) for group in panel.groups.values()],
            tick_labels=list(map(literal, panel.groups)),
            widths=0.55,
            whis=(5, 95),
            showfliers=False,
            patch_artist=True,
            medianprops={"color": INK, "linewidth": 1.5},
            whiskerprops={"color": INK, "linewidth": 0.8},
            capprops={"color": INK, "linewidth": 0.8},
        )
        for box, colour in zip(drawn["boxes"], (PALETTE[0], "#d5dade"), strict=False):
            box.set(facecolor=colour, edgecolor=INK, linewidth=0.8)
        axes.set_title(literal(panel.title), fontsize=9, color=INK)
        axes.set(ylim=(-0.02, 1.02), yticks=[0, 0.5, 1])
        _simplify(axes)
    for axes in grid[:, 0]:
        axes.set_ylabel("degree", fontsize=8, color=FAINT)
    return figure


class BarRow(NamedTuple):
    """Images `(C, H, W)` with titles, and by feature name the degrees in each image."""

    titles: Sequence[str]
    images: Sequence[Tensor]
    degrees: Mapping[str, Sequence[float]]


def draw_bars(rows: Sequence[BarRow]) -> Figure:
    """Draw for each row its images side by side, and below each image a bar for the degree of each feature."""
    from matplotlib.figure import Figure

    most = max(len(row.images) for row in rows)
    figure = Figure(figsize=(2.1 * most, 3.2 * len(rows)), dpi=160)
    figure.set_layout_engine("constrained", w_pad=0.05, h_pad=0.05)
    grid = figure.subplots(2 * len(rows), most, squeeze=False, height_ratios=[2, 0.8] * len(rows))
    for number, row in enumerate(rows):
        for column, (title, image) in enumerate(zip(row.titles, row.images, strict=True)):
            above, below = grid[2 * number][column], grid[2 * number + 1][column]
            _show(above, image)
            above.set_axis_off()
            above.set_title(literal(title), fontsize=9, color=INK)
            heights = [degrees[column] for degrees in row.degrees.values()]
            bars = below.bar(list(map(literal, row.degrees)), heights, width=0.6, color=PALETTE[: len(heights)])
            below.bar_label(bars, fmt="%.2f", fontsize=8, color=INK, padding=1)
            below.set(ylim=(0, 1.25), yticks=[0, 1], xlim=(-0.6, len(heights) - 0.4))
            _simplify(below)
    return figure


def _simplify(axes: Axes) -> None:
    """Keep only the left and bottom spines, in a faint colour."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
    axes.tick_params(axis="y", labelsize=7, labelcolor=FAINT)
