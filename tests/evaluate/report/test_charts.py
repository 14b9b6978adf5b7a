"""Charts of rates: every number is where it says, and every word can be read."""

import math
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text
from matplotlib.colors import to_hex

from andornot.errors import EvaluationError
from andornot.evaluate.metrics.intervals import Interval
from andornot.evaluate.report.charts import BLUE, GREEN, ORANGE, BothRates, RateGroup, draw_both_rates, draw_rates

RATES = {
    "like ab": {"ab": 0.41, "a | b": 0.43},
    "like a": {"a": 0.97, "ab & a": 0.93, "ab & ~b": 0.55, "ab & (~b | (a & b))": 0.7},
    "like b": {"b": 0.01, "ab & b": 0.03, "ab & ~a": 0.2},
}
METHODS = [
    "logic, exact semantics, possession degrees",
    "logic, independent semantics, cross-entropy",
    "EfficientNet-Lite0, calibrated by ranks",
    *["mean", "maximum", "vanilla", "of $5 and $6", "random"],
]


def groups(series: int = 1, spread: float | None = None) -> list[RateGroup]:
    """The paper's groups, where each series is a bit worse than the one before."""

    def rate(value: float, index: int) -> float | Interval:
        value *= 0.95**index
        return value if spread is None else Interval(value, max(0, value - spread), min(1, value + spread))

    return [
        RateGroup(title, {text: [rate(value, index) for index in range(series)] for text, value in queries.items()})
        for title, queries in RATES.items()
    ]


def segments(axes) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """All lines that are no axes: their two ends."""
    return [tuple(map(tuple, path)) for lines in axes.collections for path in lines.get_segments()]


def assert_readable(figure) -> None:
    """All words are inside the figure, and no two numbers, nor two labels of an axis, touch."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legends = [legend.get_window_extent() for legend in figure.legends]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in legends)
    for axes in figure.axes:
        for texts in (axes.texts, axes.get_xticklabels(), axes.get_yticklabels()):
            assert not any(is_math_text(text.get_text()) for text in texts), "dollars are dollars"
            boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts if text.get_text()]
            assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
            assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes)
            assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_a_bar_is_a_rate_in_the_colour_of_its_group():
    figure = draw_rates(groups())
    for axes, (title, queries), colour in zip(figure.axes, RATES.items(), (BLUE, ORANGE, GREEN), strict=True):
        assert axes.get_title("left") == title
        assert [bar.get_height() for bar in axes.patches] == list(queries.values())
        assert {to_hex(bar.get_facecolor()) for bar in axes.patches} == {colour}
        assert [text.get_text() for text in axes.texts] == [f"{rate:.2f}" for rate in queries.values()]
        labels = [label.get_text().replace("\n", " ") for label in axes.get_xticklabels()]
        assert labels == list(queries)
    assert not figure.legends
    assert_readable(figure)


def test_the_first_rate_is_a_line_across_its_group():
    for axes, queries in zip(draw_rates(groups()).axes, RATES.values(), strict=True):
        reference = next(iter(queries.values()))
        assert segments(axes) == [((-0.5, reference), (len(queries) - 0.5, reference))]


def test_with_several_series_each_bar_has_the_reference_of_its_series():
    for axes, group in zip(draw_rates(groups(3), ["one", "two", "three"]).axes, groups(3), strict=True):
        references = next(iter(group.queries.values()))
        for index, reference in enumerate(references):
            bars = list(axes.containers[index])
            assert [bar.get_height() for bar in bars] == [rates[index] for rates in group.queries.values()]
            pieces = axes.collections[index].get_segments()
            assert len(pieces) == len(bars)
            for bar, ((left, y), (right, _)) in zip(bars, pieces, strict=True):
                assert y == reference
                assert left <= bar.get_x() <= bar.get_x() + bar.get_width() <= right


def test_series_look_different_and_the_legend_says_how():
    figure = draw_rates(groups(8), METHODS)
    (legend,) = figure.legends
    assert [text.get_text().replace("\\", "") for text in legend.get_texts()] == METHODS
    for axes in figure.axes:
        looks = [(bars[0].get_facecolor(), bars[0].get_hatch()) for bars in axes.containers]
        assert len(set(looks)) == 8


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 1), (4, 3), (8, 3)])
def test_groups_stand_abreast_while_there_is_room(count, rows):
    figure = draw_rates(groups(count), METHODS[:count])
    assert len({axes.get_subplotspec().rowspan.start for axes in figure.axes}) == rows


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_all_can_be_read_with_many_series_and_long_names(count):
    assert_readable(draw_rates(groups(count, 0.03), METHODS[:count], top=10))


def test_an_interval_has_a_whisker():
    (axes,) = draw_rates([RateGroup("one", {"a": [Interval(0.5, 0.4, 0.7)]})]).axes
    assert ((0, 0.4), (0, 0.7)) in segments(axes)
    assert [text.get_text() for text in axes.texts] == ["0.50"]


def test_what_was_not_measured_has_a_dash():
    (axes,) = draw_rates([RateGroup("one", {"a": [math.nan], "b": [0.5]})]).axes
    assert [text.get_text() for text in axes.texts] == ["–", "0.50"]
    assert_readable(axes.figure)


# --- two rates ------------------------------------------------------------------------------------------------------

TAKING_AWAY = {
    "ab & ~b": BothRates(0.55, 0.2),
    "not measured": BothRates(math.nan, 0.3),
    "ab - b, which leaves what both have and takes what only b has": BothRates(Interval(0.8, 0.75, 0.86), 0.1),
    "ab": BothRates(0.45, 0.45),
    "of $5 and $6": BothRates(0.2, Interval(0.6, 0.5, 0.7)),
}


def test_queries_are_sorted_by_what_they_win():
    (axes,) = draw_both_rates(TAKING_AWAY, BothRates(0.95, 0.02)).axes
    order = [2, 0, 3, 4, 1]
    expected = [list(TAKING_AWAY)[index] for index in order]
    labels = [label.get_text().replace("\n", " ").replace("\\", "") for label in axes.get_yticklabels()]
    assert labels == expected
    assert axes.yaxis_inverted(), "the first is on top"
    rates = [[bar.get_width() for bar in bars] for bars in axes.containers]
    assert rates[0] == pytest.approx([0.8, 0.55, 0.45, 0.2, math.nan], nan_ok=True)
    assert rates[1] == [0.1, 0.2, 0.45, 0.6, 0.3]
    texts = [text.get_text() for text in axes.texts]
    assert texts[-6:] == ["0.70", "0.35", "0.00", "-0.40", "–", "a - b"]


def test_the_rates_of_the_query_a_are_lines():
    (axes,) = draw_both_rates(TAKING_AWAY, BothRates(0.95, Interval(0.02, 0.01, 0.03))).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.95, 0.95], [0.02, 0.02]]
    whiskers = [(left[0], right[0]) for left, right in segments(axes)]
    assert whiskers == [(0.75, 0.86), (0.5, 0.7)]


def test_two_rates_can_be_read():
    assert_readable(draw_both_rates(TAKING_AWAY, BothRates(0.95, 0.02)))
    assert_readable(draw_both_rates({"ab & ~b": BothRates(1.0, 0.0)}, BothRates(math.nan, 0.0)))


# --- what cannot be drawn -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "series", "message"),
    [
        ([], [""], "needs at least one group"),
        ([RateGroup("g", {})], [""], "at least one group with a query"),
        ([RateGroup("g", {"a": []})], [], "and at least one series"),
        ([RateGroup("g", {"a": [0.5, 0.5]})], [""], '"a" has 2 rates for 1 series'),
        ([RateGroup("g", {"a": [50.0]})], [""], 'the rate 50.0 of "a" is not from 0 to 1'),
    ],
)
def test_groups_that_cannot_be_drawn_are_refused(groups, series, message):
    with pytest.raises(EvaluationError, match=message):
        draw_rates(groups, series)


def test_queries_that_cannot_be_drawn_are_refused():
    with pytest.raises(EvaluationError, match="needs at least one query"):
        draw_both_rates({}, BothRates(0.9, 0.1))
    with pytest.raises(EvaluationError, match=r'the rate -0\.1 of "the reference" is not from 0 to 1'):
        draw_both_rates({"a": BothRates(0.9, 0.1)}, BothRates(0.9, -0.1))
