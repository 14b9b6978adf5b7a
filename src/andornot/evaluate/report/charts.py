"""Charts of retrieval rates and accuracy curves. Each function returns a matplotlib `Figure`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import EvaluationError
from ..metrics.intervals import Interval
from .figures import FAINT, INK, PALETTE, literal

if TYPE_CHECKING:  # matplotlib takes most of a second to load
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure

Rate = float | Interval
"""Fraction of the top hits that show a class, from 0 to 1; NaN if unknown."""

BLUE, ORANGE, GREEN = PALETTE[0], PALETTE[1], PALETTE[3]  # the paper's colours for queries like ab, a and b

_WIDTH: Final = 10.0  # of a chart, in inches
_LETTER: Final = 0.085  # about the width of a letter of a label, in inches
_MAX_SIDE_BY_SIDE: Final = 3  # with more series, each group has its own row
_SHADES: Final = (1.0, 0.65, 0.4, 0.2)
_HATCHES: Final = ("", "////", "....")
_NUMBER: Final[dict[str, Any]] = {
    "textcoords": "offset points",
    "fontsize": 7,
    "color": INK,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.4},  # hide lines behind the text
}


class RateGroup(NamedTuple):
    """Queries that should have the same rates, with a rate for each series; the first query is the reference."""

    title: str
    queries: Mapping[str, Sequence[Rate]]


class BothRates(NamedTuple):
    """Rates of class a, which should be high, and of class b, which should be low."""

    a: Rate
    b: Rate

    @property
    def difference(self) -> float:
        """Return the rate of a minus the rate of b."""
        return _value(self.a) - _value(self.b)


def draw_rates(groups: Sequence[RateGroup], series: Sequence[str] = ("",), *, top: int = 50) -> Figure:
    """Draw the paper's chart: the rate of class a in the top hits of each query, with a bar for each series (method).

    Each group has a colour, and a dashed line at the rate of its first query, which the others should be close to. With
    several series, each bar has its own dashed line. An `Interval` is drawn with a whisker.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    _check_groups(groups, series)
    sizes = [len(group.queries) for group in groups]
    figure = Figure(dpi=160, layout="constrained")
    if len(series) <= _MAX_SIDE_BY_SIDE:
        figure.set_size_inches(_WIDTH, 3.4)
        grid = figure.subplots(1, len(groups), squeeze=False, sharey=True, width_ratios=sizes)
        slot = 0.92 * _WIDTH / sum(sizes)
    else:
        figure.set_size_inches(_WIDTH, 0.7 + 2.2 * len(groups))
        grid = figure.subplots(len(groups), 1, squeeze=False)
        sizes = [max(sizes)] * len(groups)  # the same bar width in every row
        slot = 0.92 * _WIDTH / sizes[0]
    for number, (axes, group, size) in enumerate(zip(grid.flat, groups, sizes, strict=True)):
        colour = (BLUE, ORANGE, GREEN)[number % 3]
        _draw_group(axes, group, colour, slot)
        axes.set(xlim=(-0.5, size - 0.5), ylim=(0, 1.2), yticks=[0, 0.5, 1])
        axes.set_title(literal(group.title), fontsize=10, fontweight="bold", color=colour, loc="left")
    figure.supylabel(f"rate of class a in the top {top}", fontsize=9, color=INK)
    if len(series) > 1:
        patches = [Patch(**_style(FAINT, index), label=literal(name)) for index, name in enumerate(series)]
        columns = int(_WIDTH / (0.7 + _LETTER * max(map(len, series))))
        _add_legend(figure, max(1, min(columns, len(series), 4)), patches)
    return figure


def draw_both_rates(queries: Mapping[str, BothRates], reference: BothRates, *, top: int = 50) -> Figure:
    """Draw the rates of a and b for each query that removes b from ab, sorted by difference.

    The dashed lines are the rates of the query a, which the others should be close to.
    """
    from matplotlib.figure import Figure

    if not queries:
        raise EvaluationError("a chart of rates needs at least one query")
    for text, both in [*queries.items(), ("the reference", reference)]:
        _check_rates(text, both)
    # NaN last.
    ranked = sorted(queries.items(), key=lambda item: (math.isnan(item[1].difference), -item[1].difference))
    figure = Figure(figsize=(8.5, 1.2 + 0.5 * len(ranked)), dpi=160, layout="constrained")
    axes = figure.subplots()
    handles: list[Artist | Container] = []
    for part, (name, wish, colour) in enumerate((("a", "stay", ORANGE), ("b", "go", GREEN))):
        places = [row + 0.38 * (part - 0.5) for row in range(len(ranked))]
        rates = [both[part] for _, both in ranked]
        values = [_value(rate) for rate in rates]
        bars = axes.barh(places, values, height=0.36, color=colour, label=f"class {name}, which should {wish}")
        for place, rate in zip(places, rates, strict=True):
            if isinstance(rate, Interval):
                axes.hlines(place, rate.low, rate.high, color=INK, linewidth=1)
            axes.annotate(_text(_value(rate)), (_end(rate), place), (4, 0), va="center_baseline", **_NUMBER)
        mark, dark = _value(reference[part]), _darker(colour)
        label = f"class {name} in a search for a"
        handles += [bars, axes.axvline(mark, color=dark, linestyle="--", linewidth=1.2, label=label)]
        axes.annotate(_text(mark), (mark, -0.75), (4, 0), va="center_baseline", **{**_NUMBER, "color": dark})
    for row, (_, both) in enumerate(ranked):
        axes.text(1.2, row, _text(both.difference), ha="right", va="center_baseline", fontsize=8, color=INK)
    axes.text(1.2, -0.75, "a - b", ha="right", va="center_baseline", fontsize=8, color=FAINT)
    axes.set(xlim=(0, 1.2), ylim=(len(ranked) - 0.5, -1), xticks=[0, 0.5, 1])
    axes.set_yticks(range(len(ranked)), [literal(fill(text, 32)) for text, _ in ranked])
    axes.set_xlabel(f"rate in the top {top}", fontsize=9, color=INK)
    _simplify(axes)
    _add_legend(figure, 2, handles)
    return figure


def draw_curve(curve: Sequence[float], best_epoch: int) -> Figure:
    """Draw validation accuracy over epochs, with a mark at the tested epoch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 2.6), dpi=160, layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(curve) + 1), curve, color=PALETTE[0], linewidth=1.5)
    axes.plot(best_epoch, curve[best_epoch - 1], marker="o", color=PALETTE[1])
    axes.set_xlabel("epoch", color=INK)
    axes.set_ylabel("validation accuracy", color=INK)
    axes.tick_params(labelcolor=FAINT, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    return figure


def _draw_group(axes: Axes, group: RateGroup, colour: str, slot: float) -> None:
    """Draw bars, numbers and reference of a group; `slot` is the width of a query, in inches."""
    columns = list(zip(*group.queries.values(), strict=True))  # the rates of each series
    width = 0.84 / len(columns)
    rotation = 0 if slot * width > 0.3 else 90  # a number is 0.3 inches wide
    for index, rates in enumerate(columns):
        places = [query + width * (index - (len(columns) - 1) / 2) for query in range(len(rates))]
        axes.bar(places, [_value(rate) for rate in rates], width=0.9 * width, **_style(colour, index))
        for place, rate in zip(places, rates, strict=True):
            if isinstance(rate, Interval):
                axes.vlines(place, rate.low, rate.high, color=INK, linewidth=1)
            end = place, _end(rate)
            axes.annotate(_text(_value(rate)), end, (0, 3), ha="center", va="bottom", rotation=rotation, **_NUMBER)
        lefts = [-0.5] if len(columns) == 1 else [place - width / 2 for place in places]
        rights = [len(rates) - 0.5] if len(columns) == 1 else [place + width / 2 for place in places]
        axes.hlines([_value(rates[0])] * len(lefts), lefts, rights, color=INK, linestyle=(0, (3, 2)), linewidth=0.9)
    labels = [literal(fill(text, max(8, int(slot / _LETTER)))) for text in group.queries]
    axes.set_xticks(range(len(labels)), labels)
    _simplify(axes)
    axes.spines["bottom"].set_bounds(-0.5, len(labels) - 0.5)


def _style(colour: str, index: int) -> dict[str, Any]:
    """Return the style of the bars of a series: lighter for each series, then hatched."""
    from matplotlib.colors import to_rgb

    shade = _SHADES[index % len(_SHADES)]
    face = tuple(1 - shade * (1 - channel) for channel in to_rgb(colour))
    hatch = _HATCHES[index // len(_SHADES) % len(_HATCHES)]
    return {"facecolor": face, "hatch": hatch, "edgecolor": _darker(colour), "linewidth": 0.5}


def _darker(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(0.6 * channel for channel in to_rgb(colour))


def _add_legend(figure: Figure, columns: int, handles: Sequence[Artist | Container]) -> None:
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, fontsize=8, labelcolor=INK, frameon=False)


def _simplify(axes: Axes) -> None:
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _value(rate: Rate) -> float:
    return rate.value if isinstance(rate, Interval) else rate


def _end(rate: Rate) -> float:
    """Return the end of a bar with its whisker, where its number is drawn."""
    if math.isnan(_value(rate)):
        return 0.0
    return rate.high if isinstance(rate, Interval) else rate


def _text(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:z.2f}"


def _check_groups(groups: Sequence[RateGroup], series: Sequence[str]) -> None:
    if not groups or not series or not all(group.queries for group in groups):
        raise EvaluationError("a chart of rates needs at least one group with a query, and at least one series")
    for group in groups:
        for text, rates in group.queries.items():
            if len(rates) != len(series):
                raise EvaluationError(f'"{text}" has {len(rates)} rates for {len(series)} series: give one each')
            _check_rates(text, rates)


def _check_rates(text: str, rates: Iterable[Rate]) -> None:
    for rate in rates:
        if not (math.isnan(_value(rate)) or 0 <= _value(rate) <= 1):
            raise EvaluationError(f'the rate {_value(rate)} of "{text}" is not from 0 to 1')
