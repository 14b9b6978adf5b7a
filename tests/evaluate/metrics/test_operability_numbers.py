"""What sums a measurement up, by hand."""

import json
from dataclasses import replace

import pytest
import torch

from andornot.evaluate.metrics.intervals import Interval
from andornot.evaluate.metrics.operability import Key, Measurement, Rates, compare_rows, summarize_runs
from andornot.evaluate.report.writing import to_json_data


def hand_made(change: float = 0.0) -> Measurement:
    values = {
        Key("ab", "", "degrees"): [[[0.4, 0.4, 0.1], [0.4, 0.4, 0.1]], [[0.6, 0.2, 0.0], [0.2, 0.6, 0.0]]],
        Key("a", "", "degrees"): [[[0.9, 0.1, 0.0], [0.8, 0.1, 0.0]], [[1.0, 0.0, 0.0], [0.7, 0.2, 0.0]]],
        Key("a|b", "mine", "degrees"): [[[0.5, 0.3, 0.2], [0.3, 0.5, 0.2]], [[0.6, 0.3, 0.0], [0.3, 0.6, 0.0]]],
        Key("ab&~b", "mine", "degrees"): [[[0.9, 0.1, 0.0], [0.6, 0.3, 0.0]], [[0.5, 0.5, 0.0], [0.9, 0.2, 0.0]]],
    }
    rates = {
        key: Rates(torch.tensor(found) + (change if "|" in key.query else 0), (1.0, 2.0) if "&" in key.query else ())
        for key, found in values.items()
    }
    return Measurement(rates, torch.tensor([[0.1, 0.2], [0.3, 0.1]]), [(0, 1), (1, 2)])


def test_the_difference_is_that_of_each_ordered_pair_to_its_reference():
    rows = {row.query: row for row in summarize_runs([hand_made()])}
    either, without = rows["a|b"], rows["ab&~b"]
    assert either.difference.value == pytest.approx((0.1 + 0.1 + 0.0 + 0.1) / 4), "to ab"
    assert without.difference.value == pytest.approx((0.0 + 0.2 + 0.5 + 0.2) / 4), "to a"
    assert either.a.value == pytest.approx((0.5 + 0.3 + 0.6 + 0.3) / 4)
    assert either.both == pytest.approx((0.2 + 0.2) / 4)
    assert either.reference == pytest.approx((0.4 + 0.4 + 0.6 + 0.2) / 4)
    assert without.b.value == pytest.approx((0.1 + 0.3 + 0.5 + 0.2) / 4)
    assert without.reference == pytest.approx((0.9 + 0.8 + 1.0 + 0.7) / 4)
    assert (either.weights, without.weights) == ((), (1.0, 2.0))
    assert rows["a"].difference == Interval(0, 0, 0)


def test_measurements_survive_json():
    again = Measurement.from_data(json.loads(json.dumps(to_json_data(hand_made().to_data()))))
    assert summarize_runs([again]) == summarize_runs([hand_made()])


def test_the_relative_difference_is_a_part_of_what_the_reference_is_above_chance():
    rows = {row.query: row for row in summarize_runs([hand_made()])}
    chance = (0.1 + 0.2 + 0.3 + 0.1) / 4
    assert rows["a|b"].chance == pytest.approx(chance)
    for row in rows.values():
        assert row.relative.value == pytest.approx(row.difference.value / (row.reference - chance))
        assert row.relative.low <= row.relative.value <= row.relative.high


def test_a_model_at_chance_has_no_relative_difference():
    """It has no difference, which looks perfect, because there is nothing to be away from."""
    measured = hand_made()
    chance = torch.stack([measured.chance, measured.chance, measured.chance * 0], -1)
    rates = {key: Rates(chance, ()) for key in measured.rates}
    (either,) = [
        row for row in summarize_runs([Measurement(rates, measured.chance, measured.pairs)]) if row.query == "a|b"
    ]
    assert either.difference.value == 0
    assert either.relative is None


def test_several_runs_are_averaged_and_each_is_kept():
    (one,), (other,), (both,) = (
        [row for row in summarize_runs(runs) if row.query == "a|b"]
        for runs in ([hand_made()], [hand_made(0.1)], [hand_made(), hand_made(0.1)])
    )
    assert both.a.value == pytest.approx((one.a.value + other.a.value) / 2)
    assert both.difference.value == pytest.approx((one.difference.value + other.difference.value) / 2)
    assert [run.a for run in both.runs] == pytest.approx([one.a.value, other.a.value])
    assert both.over_runs("a").std == pytest.approx(0.1 / 2**0.5)
    assert one.over_runs("a").std == 0


def test_the_interval_is_that_of_pairs_drawn_again():
    """Two pairs: the mean is that of the first (1/4 of the draws), of both, or of the second."""
    row = next(row for row in summarize_runs([hand_made()]) if row.query == "ab&~b")
    assert (row.difference.low, row.difference.high) == pytest.approx((0.1, 0.35))
    assert (row.b.low, row.b.high) == pytest.approx((0.2, 0.35))


def test_models_are_compared_over_the_same_pairs():
    (one,), (other,) = (
        [row for row in summarize_runs([hand_made(change)]) if row.query == "a|b"] for change in (0.0, 0.1)
    )
    assert one.by_pair == pytest.approx([(0.1 + 0.1) / 2, (0.0 + 0.1) / 2])
    assert compare_rows(one, one) == Interval(0, 0, 0)
    found = compare_rows(other, one)
    assert found.value == pytest.approx(other.relative.value - one.relative.value)
    assert found.low <= found.value <= found.high
    assert compare_rows(replace(one, relative=None), one) is None
