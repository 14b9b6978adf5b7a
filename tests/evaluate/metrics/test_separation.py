"""The area under the ROC curve against scikit-learn and a count of pairs; chosen on one half, measured on the other."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from andornot.errors import EvaluationError
from andornot.evaluate.metrics.ranking import MIN_IMAGES, best_features, random_halves, separation


def slow_area(degrees, members):
    """How often one of the class is above one outside of it."""
    inside = [degree for degree, member in zip(degrees, members, strict=True) if member]
    outside = [degree for degree, member in zip(degrees, members, strict=True) if not member]
    wins = sum((a > b) + (a == b) / 2 for a in inside for b in outside)
    return wins / (len(inside) * len(outside))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100), st.booleans()), min_size=2, max_size=30))
def test_the_area_is_the_count_of_pairs_with_ties_counted_half(rows):
    degrees = torch.tensor([[coarse / 4, fine / 100] for coarse, fine, _ in rows])
    members = torch.tensor([inside for _, _, inside in rows])
    areas = separation(degrees, torch.stack([members, ~members], dim=1))
    assert areas.shape == (2, 2)
    if members.all() or not members.any():
        assert areas.isnan().all()
        return
    expected = [slow_area(column.tolist(), members.tolist()) for column in degrees.T]
    assert areas[0].tolist() == pytest.approx(expected)
    assert areas[1].tolist() == pytest.approx([1 - area for area in expected])


def test_many_features_and_classes_at_once_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    degrees = (torch.rand(90, 70, generator=generator) * 20).round() / 20  # more features than fit in a block
    labels = torch.rand(90, 2, generator=generator) < 0.3
    areas = separation(degrees, labels)
    for number in range(2):
        expected = [roc_auc_score(labels[:, number], degrees[:, feature]) for feature in range(70)]
        torch.testing.assert_close(areas[number], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("shapes", [((5, 3), (4, 2)), ((5,), (5, 2)), ((5, 3), (5,))])
def test_degrees_and_labels_that_do_not_fit_are_refused(shapes):
    with pytest.raises(EvaluationError, match="do not match"):
        separation(torch.zeros(shapes[0]), torch.zeros(shapes[1], dtype=torch.bool))


def test_halves_are_all_images_once_and_depend_on_the_seed():
    one, other = random_halves(11, seed=3)
    assert (len(one), len(other)) == (5, 6)
    assert sorted([*one.tolist(), *other.tolist()]) == list(range(11))
    assert one.tolist() == sorted(one.tolist())
    assert torch.equal(random_halves(11, seed=3)[0], one)
    assert not torch.equal(random_halves(11, seed=4)[0], one)


def test_the_best_feature_is_chosen_on_one_half_and_measured_on_the_other():
    generator = torch.Generator().manual_seed(1)
    labels = torch.rand(200, 2, generator=generator) < 0.4
    degrees = torch.rand(200, 300, generator=generator)
    degrees[:, 70] = degrees[:, 70] / 2 + 0.4 * labels[:, 1]  # the only feature that means anything
    chosen_on, held_out = random_halves(200, seed=0)
    best, chance = best_features(degrees, labels, chosen_on, held_out)

    assert (best.class_number, best.feature) == (1, 70)
    inside = labels[held_out, 1]
    assert best.area_held_out == pytest.approx(roc_auc_score(inside, degrees[held_out, 70]))
    assert best.area_chosen == pytest.approx(roc_auc_score(labels[chosen_on, 1], degrees[chosen_on, 70]))
    assert best.median_inside == degrees[held_out, 70][inside].median()
    assert best.median_outside == degrees[held_out, 70][~inside].median()

    assert chance.class_number == 0
    assert chance.area_chosen > 0.65  # the best of 300 by chance,
    assert chance.area_held_out < 0.6  # which images that had no part in the choice show


@pytest.mark.parametrize("inside", [MIN_IMAGES, MIN_IMAGES - 1])
def test_classes_with_too_few_images_inside_or_outside_are_left_out(inside):
    count = 40
    one, other = torch.arange(count), torch.arange(count, 2 * count)
    few = torch.arange(2 * count) % count < inside
    labels = torch.stack([few, ~few], dim=1)
    found = best_features(torch.rand(2 * count, 3), labels, one, other)
    assert sorted(best.class_number for best in found) == ([0, 1] if inside == MIN_IMAGES else [])
    assert not any(math.isnan(best.area_held_out) for best in found)


def test_without_classes_there_is_nothing_to_separate():
    assert best_features(torch.rand(10, 3), torch.zeros(10, 0, dtype=torch.bool), *random_halves(10, seed=0)) == []
