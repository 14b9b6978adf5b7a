"""Average precision against scikit-learn, and against the definitions written out as loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from andornot.errors import EvaluationError
from andornot.evaluate.metrics.ranking import VARIANTS, average_precision, mean_average_precision

# Few different scores, so that many are equal; most of them are not above 0.
rankings = st.lists(
    st.tuples(st.integers(-6, 2).map(lambda number: number / 2), st.booleans()), min_size=1, max_size=40
).filter(lambda rows: any(true for _, true in rows))


def as_tensors(rows):
    return torch.tensor([score for score, _ in rows]), torch.tensor([true for _, true in rows])


def slow_points(rows):
    """(recall, precision) as fractions, at each threshold."""
    points = []
    for threshold in sorted({score for score, _ in rows}, reverse=True):
        found = [true for score, true in rows if score >= threshold]
        points.append((sum(found), sum(true for _, true in rows), len(found)))
    return points


def slow_best_precision(points, wanted_hits):
    """The best precision of all thresholds that find at least so many."""
    return max(hits / found for hits, _, found in points if hits >= wanted_hits)


def slow_interpolated(rows):
    points = slow_points(rows)
    positives = points[0][1]
    return sum(slow_best_precision(points, number) for number in range(1, positives + 1)) / positives


def slow_11_point(rows):
    points = slow_points(rows)
    positives = points[0][1]
    return sum(slow_best_precision(points, math.ceil(tenths * positives / 10)) for tenths in range(11)) / 11


@given(rankings)
def test_plain_is_scikit_learns_with_ties_and_scores_below_zero(rows):
    scores, truth = as_tensors(rows)
    expected = average_precision_score(truth.numpy(), scores.numpy())
    assert average_precision(scores, truth) == pytest.approx(expected)


@given(rankings)
def test_interpolated_is_the_mean_of_the_best_precision_from_each_hit_on(rows):
    assert average_precision(*as_tensors(rows), "interpolated") == pytest.approx(slow_interpolated(rows))


@given(rankings)
def test_11_point_is_the_mean_of_the_best_precisions_at_tenths_of_the_recall(rows):
    assert average_precision(*as_tensors(rows), "11-point") == pytest.approx(slow_11_point(rows))


def test_a_recall_of_exactly_three_tenths_counts_for_the_third_point():
    """3 of 10 is 0.3, and 0.1 * 3 is more than that in floats: the precision after three hits must count there."""
    truth = torch.tensor([True] * 3 + [False] * 10 + [True] * 7)
    scores = -torch.arange(20.0)
    assert average_precision(scores, truth, "11-point") == pytest.approx((4 * 1 + 7 * 10 / 20) / 11)


@given(rankings, st.sampled_from(VARIANTS))
def test_the_order_in_memory_and_the_scale_of_scores_do_not_matter(rows, variant):
    scores, truth = as_tensors(rows)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    moved = average_precision(scores[order] * 100 - 1e4, truth[order], variant)
    assert moved == pytest.approx(average_precision(scores, truth, variant))


@given(rankings, st.sampled_from(VARIANTS), st.data())
def test_what_is_ignored_might_as_well_not_be_there(rows, variant, data):
    ignored = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    scores, truth = as_tensors(rows)
    ignore = torch.tensor(ignored)
    kept = average_precision(scores[~ignore], truth[~ignore], variant)
    assert average_precision(scores, truth, variant, ignore) == pytest.approx(kept, nan_ok=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_extremes(variant):
    truth = torch.tensor([True, True, False, False])
    assert average_precision(torch.tensor([4.0, 3.0, -math.inf, -math.inf]), truth, variant) == 1
    for equal in (0.0, -math.inf):  # the logarithm of nothing is a score too
        assert average_precision(torch.full((4,), equal), truth, variant) == 0.5
    assert math.isnan(average_precision(torch.zeros(4), ~torch.ones(4, dtype=torch.bool), variant))
    assert math.isnan(average_precision(torch.zeros(0), torch.zeros(0, dtype=torch.bool), variant))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_mean_is_over_the_classes_that_are_true_somewhere(variant):
    rng = np.random.default_rng(0)
    scores, truth = torch.from_numpy(rng.normal(size=(50, 5))), torch.from_numpy(rng.random((50, 5)) < 0.3)
    truth[:, 3] = False
    ignore = torch.from_numpy(rng.random((50, 5)) < 0.2)
    ignore[truth[:, 1], 1] = True  # all that is true of class 1
    result = mean_average_precision(scores, truth, variant, ignore)
    expected = [average_precision(scores[:, c], truth[:, c], variant, ignore[:, c]) for c in (0, 2, 4)]
    assert result.skipped == (1, 3)
    assert result.by_class == (expected[0], None, expected[1], None, expected[2])
    assert result.mean == pytest.approx(sum(expected) / 3)
    assert mean_average_precision(scores, truth, variant).skipped == (3,)


def test_bad_input_is_one_clear_line():
    scores, truth = torch.zeros(3), torch.tensor([True, False, True])
    with pytest.raises(EvaluationError, match=r'unknown average precision "voc" \(choose from plain, interpolated'):
        average_precision(scores, truth, "voc")
    with pytest.raises(EvaluationError, match=r"truth must be bool \(n,\), like the scores; got torch.int64 \(3,\)"):
        average_precision(scores, truth.long())
    with pytest.raises(EvaluationError, match=r"ignore must be bool .* \(2,\) for scores \(3,\)"):
        average_precision(scores, truth, ignore=truth[:2])
    with pytest.raises(EvaluationError, match=r"truth must be bool \(n, C\)"):
        mean_average_precision(scores, truth)
    with pytest.raises(EvaluationError, match="NaN"):
        average_precision(torch.tensor([math.nan, 0, 1]), truth)
    with pytest.raises(EvaluationError, match="no class has one"):
        mean_average_precision(torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool))
