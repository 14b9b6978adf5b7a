"""Intervals against other ways to compute them."""

from itertools import combinations

import numpy as np
import pytest
import torch

from andornot.evaluate.metrics.intervals import Interval, bootstrap, bootstrap_ratio, paired_difference, wilson


def test_bases_that_may_be_zero_have_no_ratio():
    values = torch.tensor([[0.1], [0.2], [0.3]])
    assert bootstrap_ratio(values, torch.tensor([[1.0], [1.0], [2.0]])).value == pytest.approx(0.15)
    assert bootstrap_ratio(values, torch.tensor([[1.0], [1.0], [-1.5]])) is None


@pytest.mark.parametrize("seed", range(5))
def test_an_interval_contains_the_mean_and_is_as_wide_as_the_normal_one(seed):
    values = torch.rand(45, 2, generator=torch.Generator().manual_seed(seed))
    found = bootstrap(values, seed)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(values.mean().item())
    error = values.mean(1).std(correction=0).item() / 45**0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_equal_values_have_an_interval_without_width():
    found = bootstrap(torch.full((7, 2), 0.3))
    assert found.high - found.low == pytest.approx(0, abs=1e-12)
    assert bootstrap(torch.tensor([[0.25, 0.75]])) == Interval(0.5, 0.5, 0.5)


def test_the_seed_decides_the_interval():
    values = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
    assert bootstrap(values, 1) == bootstrap(values, 1) != bootstrap(values, 2)


def slow_class_bootstrap(values: list[float], pairs: list[tuple[int, int]], rounds: int) -> tuple[float, float]:
    """Draws classes, and of each drawn class with each other drawn class the pair, as loops."""
    random = np.random.default_rng(0)
    classes = sorted({number for pair in pairs for number in pair})
    found = []
    for _ in range(rounds):
        drawn = random.choice(classes, len(classes))
        rows = [
            values[pairs.index((min(a, b), max(a, b)))]
            for place, a in enumerate(drawn)
            for b in drawn[place + 1 :]
            if (min(a, b), max(a, b)) in pairs
        ]
        if rows:
            found.append(sum(rows) / len(rows))
    low, high = np.quantile(found, [0.025, 0.975])
    return low, high


def test_pairs_of_classes_are_resampled_by_class():
    """The effect of a class is in all of its pairs, so that the interval is wider than that of independent pairs."""
    pairs = list(combinations(range(2, 12), 2))
    effects = torch.randn(12, generator=torch.Generator().manual_seed(1))
    values = torch.tensor([[float(effects[a] + effects[b])] for a, b in pairs])
    by_class, by_pair = bootstrap(values, pairs=pairs), bootstrap(values)
    assert by_class.value == by_pair.value
    expected = slow_class_bootstrap(values[:, 0].tolist(), pairs, 3000)
    assert (by_class.low, by_class.high) == pytest.approx(expected, abs=0.1)
    assert by_class.high - by_class.low > 1.4 * (by_pair.high - by_pair.low)


def test_a_resample_without_a_pair_does_not_count():
    assert bootstrap(torch.tensor([[0.5]]), pairs=[(3, 7)]) == Interval(0.5, 0.5, 0.5)


@pytest.mark.parametrize(("hits", "count"), [(0, 2), (0, 5), (10, 10), (3, 10), (90, 100)])
def test_the_ends_of_wilsons_interval_are_the_rates_that_just_allow_what_was_seen(hits, count):
    rate = hits / count
    interval = wilson(rate, count)
    assert 0 <= interval.low <= rate <= interval.high <= 1
    for end in {interval.low, interval.high} - {0.0, 1.0}:
        assert abs(rate - end) == pytest.approx(1.959964 * (end * (1 - end) / count) ** 0.5)


def test_the_interval_of_a_paired_difference_is_students():
    from scipy.stats import ttest_rel

    pairs = [(0.91, 0.9), (0.92, 0.93), (0.95, 0.92), (0.9, 0.9), (0.93, 0.9)]
    found, expected = paired_difference(pairs), ttest_rel(*zip(*pairs, strict=True)).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
