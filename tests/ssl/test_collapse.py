"""Health of targets against numbers by hand, and when it is a reason to warn."""

import math

import pytest
import torch

from andornot.logic import Representation
from andornot.ssl.monitoring import PATIENCE, Health, collapse_warning, measure_health

N, M = 3, 4


def crisp(values: list[list[int]]) -> Representation:
    """Targets that are sure: the number of the truth value of each image's features."""
    return Representation(torch.nn.functional.one_hot(torch.tensor(values), M).float())


def slow_health(probs: list[list[list[float]]]) -> tuple[float, float, float, float]:
    """The four figures of targets `(B, N, M)`, as loops."""

    def entropy(distribution):
        return -sum(p * math.log(p) for p in distribution if p > 0) / math.log(len(distribution))

    count, features, values = len(probs), len(probs[0]), len(probs[0][0])
    spreads, usages = [], []
    for j in range(features):
        degrees = [sum(k / (values - 1) * image[j][k] for k in range(values)) for image in probs]
        mean = sum(degrees) / count
        spreads.append(math.sqrt(sum((degree - mean) ** 2 for degree in degrees) / count))
        usages.append(entropy([sum(image[j][k] for image in probs) / count for k in range(values)]))
    entropies = [entropy(row) for image in probs for row in image]
    dead = sum(spread < 0.01 for spread in spreads) / features
    return sum(spreads) / features, sum(entropies) / len(entropies), sum(usages) / features, dead


@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0])
def test_health_is_what_loops_find(sharpness):
    logits = torch.randn(7, N, M, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits[:, 0] = logits[0, 0]  # one dead feature
    targets = Representation.from_logits(logits * sharpness)
    assert measure_health(targets) == pytest.approx(slow_health(targets.probs.tolist()), rel=1e-6, abs=1e-9)


def test_collapsed_targets_are_crisp_and_all_alike():
    assert measure_health(crisp([[0, 1, 3]] * 5)) == Health(spread=0, entropy=0, usage=0, dead=1)


def test_even_targets_know_nothing():
    health = measure_health(Representation(torch.full((5, N, M), 1 / M)))
    assert health == pytest.approx(Health(spread=0, entropy=1, usage=1, dead=1), abs=1e-6)


def test_healthy_targets_are_crisp_and_use_all_truth_values():
    health = measure_health(crisp([[k, (k + 1) % M, (k + 2) % M] for k in range(M)]))
    spread = math.sqrt(sum((k / 3 - 0.5) ** 2 for k in range(4)) / 4)
    assert health == pytest.approx(Health(spread=spread, entropy=0, usage=1, dead=0), abs=1e-6)


def test_a_feature_that_is_always_the_same_is_dead():
    health = measure_health(crisp([[0, 2, 0], [0, 2, 3]]))
    assert health == pytest.approx(Health(spread=0.5 / 3, entropy=0, usage=0.5 / 3, dead=2 / 3), abs=1e-6)


COLLAPSED = Health(spread=0.001, entropy=0.0, usage=0.0, dead=1.0)
HALF_DEAD = Health(spread=0.2, entropy=0.1, usage=0.5, dead=0.6)
LONG = 100 * PATIENCE
HEALTHY = Health(spread=0.3, entropy=0.1, usage=0.9, dead=0.1)


def test_a_collapse_is_named_with_advice():
    message = collapse_warning(COLLAPSED, HEALTHY, PATIENCE, LONG)
    assert message.startswith("collapsed: images get the same degrees (spread 0.001)")
    assert "learning_rate" in message


def test_many_dead_features_are_named_with_advice():
    message = collapse_warning(HALF_DEAD, HEALTHY, PATIENCE, LONG)
    assert message.startswith("collapsing: 60% of the features do not tell images apart")
    assert "learning_rate" in message


def test_a_healthy_run_is_left_alone():
    assert collapse_warning(HEALTHY, HEALTHY, 10 * PATIENCE, LONG) is None
    assert collapse_warning(HEALTHY, HEALTHY, 0, 1) is None


def test_predictions_that_are_all_alike_are_named_with_advice():
    message = collapse_warning(HEALTHY, COLLAPSED, PATIENCE, LONG)
    assert message.startswith("collapsed: the model predicts the same degrees for all images (spread 0.001)")
    assert "prediction_temperature" in message


@pytest.mark.parametrize(("targets", "predictions"), [(COLLAPSED, HEALTHY), (HEALTHY, COLLAPSED)])
def test_a_short_run_is_judged_at_its_end(targets, predictions):
    assert collapse_warning(targets, predictions, 3, 5) is None
    assert collapse_warning(targets, predictions, 4, 5).startswith("collapsed: ")


@pytest.mark.parametrize("health", [COLLAPSED, HALF_DEAD])
def test_the_first_steps_may_be_flat(health):
    assert collapse_warning(health, health, 0, LONG) is None
    assert collapse_warning(health, health, PATIENCE - 1, LONG) is None
    assert collapse_warning(health, health, PATIENCE, LONG) is not None
