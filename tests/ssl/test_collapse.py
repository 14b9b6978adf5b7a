"""Health of targets against numbers by hand, and when it is a reason to warn."""

import math

import numpy as np
import pytest
import torch

from andornot.logic import Representation
from andornot.ssl.monitoring import PATIENCE, Health, collapse_warning, effective_rank, measure_health

N, M = 3, 4


def crisp(values: list[list[int]]) -> Representation:
    """Targets that are sure: the number of the truth value of each image's features."""
    return Representation(torch.nn.functional.one_hot(torch.tensor(values), M).float())


def slow_rank(rows: list[list[float]]) -> float:
    """exp(entropy) of the singular values, from the eigenvalues of the Gram matrix of the centered rows."""
    count, width = len(rows), len(rows[0])
    means = [sum(row[j] for row in rows) / count for j in range(width)]
    gram = [[sum((a[j] - means[j]) * (b[j] - means[j]) for j in range(width)) for b in rows] for a in rows]
    strengths = [math.sqrt(max(0.0, value)) for value in np.linalg.eigvalsh(gram)]
    shares = [strength / sum(strengths) for strength in strengths]
    return math.exp(-sum(share * math.log(share) for share in shares if share > 0))


def slow_health(probs: list[list[list[float]]]) -> tuple[float, float, float, float, float]:
    """The five figures of targets `(B, N, M)`, as loops."""

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
    rank = slow_rank([[sum(k / (values - 1) * p for k, p in enumerate(row)) for row in image] for image in probs])
    return sum(spreads) / features, sum(entropies) / len(entropies), sum(usages) / features, dead, rank


@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0])
def test_health_is_what_loops_find(sharpness):
    logits = torch.randn(7, N, M, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits[:, 0] = logits[0, 0]  # one dead feature
    targets = Representation.from_logits(logits * sharpness)
    assert measure_health(targets) == pytest.approx(slow_health(targets.probs.tolist()), rel=1e-6, abs=1e-6)


def test_collapsed_targets_are_crisp_and_all_alike():
    assert measure_health(crisp([[0, 1, 3]] * 5)) == Health(spread=0, entropy=0, usage=0, dead=1, effective_rank=0)


def test_even_targets_know_nothing():
    health = measure_health(Representation(torch.full((5, N, M), 1 / M)))
    assert health == pytest.approx(Health(spread=0, entropy=1, usage=1, dead=1, effective_rank=0), abs=1e-6)


def test_healthy_targets_are_crisp_and_use_all_truth_values():
    health = measure_health(crisp([[k, (k + 1) % M, (k + 2) % M] for k in range(M)]))
    spread = math.sqrt(sum((k / 3 - 0.5) ** 2 for k in range(4)) / 4)
    assert health == pytest.approx(
        Health(spread, entropy=0, usage=1, dead=0, effective_rank=health.effective_rank), abs=1e-6
    )
    assert 2 < health.effective_rank <= 3


def test_a_feature_that_is_always_the_same_is_dead():
    health = measure_health(crisp([[0, 2, 0], [0, 2, 3]]))
    assert health == pytest.approx(
        Health(spread=0.5 / 3, entropy=0, usage=0.5 / 3, dead=2 / 3, effective_rank=1), abs=1e-6
    )


COLLAPSED = Health(spread=0.001, entropy=0.0, usage=0.0, dead=1.0, effective_rank=0.0)
HALF_DEAD = Health(spread=0.2, entropy=0.1, usage=0.5, dead=0.6, effective_rank=30.0)
LONG = 100 * PATIENCE
DIRECTIONS = 63
HEALTHY = Health(spread=0.3, entropy=0.1, usage=0.9, dead=0.1, effective_rank=30.0)


def test_a_collapse_is_named_with_advice():
    message = collapse_warning(COLLAPSED, HEALTHY, PATIENCE, LONG, DIRECTIONS)
    assert message.startswith("collapsed: images get the same degrees (spread 0.001)")
    assert "learning_rate" in message


def test_many_dead_features_are_named_with_advice():
    message = collapse_warning(HALF_DEAD, HEALTHY, PATIENCE, LONG, DIRECTIONS)
    assert message.startswith("collapsing: 60% of the features do not tell images apart")
    assert "learning_rate" in message


def test_a_healthy_run_is_left_alone():
    assert collapse_warning(HEALTHY, HEALTHY, 10 * PATIENCE, LONG, DIRECTIONS) is None
    assert collapse_warning(HEALTHY, HEALTHY, 0, 1, DIRECTIONS) is None


def test_predictions_that_are_all_alike_are_named_with_advice():
    message = collapse_warning(HEALTHY, COLLAPSED, PATIENCE, LONG, DIRECTIONS)
    assert message.startswith("collapsed: the model predicts the same degrees for all images (spread 0.001)")
    assert "prediction_temperature" in message


@pytest.mark.parametrize(("targets", "predictions"), [(COLLAPSED, HEALTHY), (HEALTHY, COLLAPSED)])
def test_a_short_run_is_judged_at_its_end(targets, predictions):
    assert collapse_warning(targets, predictions, 3, 5, DIRECTIONS) is None
    assert collapse_warning(targets, predictions, 4, 5, DIRECTIONS).startswith("collapsed: ")


@pytest.mark.parametrize("health", [COLLAPSED, HALF_DEAD])
def test_the_first_steps_may_be_flat(health):
    assert collapse_warning(health, health, 0, LONG, DIRECTIONS) is None
    assert collapse_warning(health, health, PATIENCE - 1, LONG, DIRECTIONS) is None
    assert collapse_warning(health, health, PATIENCE, LONG, DIRECTIONS) is not None


def test_degrees_of_a_low_rank_are_named_with_advice():
    flat = HEALTHY._replace(effective_rank=6.2)
    message = collapse_warning(flat, HEALTHY, PATIENCE, LONG, DIRECTIONS)
    assert message.startswith("collapsing: the degrees have an effective rank of 6.2 of 63")
    assert "decorrelation" in message
    assert collapse_warning(flat._replace(effective_rank=6.4), HEALTHY, PATIENCE, LONG, DIRECTIONS) is None


def test_effective_rank_counts_directions():
    random = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
    assert effective_rank(torch.ones(5, 3)) == 0
    assert effective_rank(random[:, :1].expand(-1, 6) + 7) == pytest.approx(1, abs=1e-4)
    assert 5.9 < effective_rank(random) <= 6
    assert effective_rank(random @ torch.randn(6, 50)) <= 6
