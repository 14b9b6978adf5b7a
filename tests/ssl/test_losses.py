"""The losses against the paper's equations, written out as loops over images, features and truth values."""

import math

import pytest
import torch
from torch import Tensor

from andornot.logic import Representation
from andornot.ssl.losses import (
    TargetPair,
    decorrelation_loss,
    divergence,
    expected_mix_loss,
    expected_normal_loss,
    mix_loss,
    normal_loss,
    proposed_loss,
)

B, N, M = 3, 4, 5


@pytest.fixture
def views():
    """p, z', p', z, p_mix, z_c: random and sharp, as in a training."""
    generator = torch.Generator().manual_seed(0)
    return [
        Representation.from_logits(torch.randn(B, N, M, generator=generator, dtype=torch.float64), 0.4)
        for _ in range(6)
    ]


def pairs(views):
    p, z_other, p_other, z, p_mix, z_c = views
    return TargetPair(p, z_other), TargetPair(p_other, z), TargetPair(p_mix, z_c)


# The slow versions: p and z are nested lists (B, N, M).


def slow_divergence(p, z):
    total = 0.0
    for p_i, z_i in zip(p, z, strict=True):
        for p_ij, z_ij in zip(p_i, z_i, strict=True):
            for p_ijk, z_ijk in zip(p_ij, z_ij, strict=True):
                total -= z_ijk * math.log(p_ijk)
    return total / N / B


def slow_expectation(distribution):
    return sum(k / (M - 1) * probability for k, probability in enumerate(distribution))


def slow_bce(p, z):
    total = 0.0
    for p_i, z_i in zip(p, z, strict=True):
        for p_ij, z_ij in zip(p_i, z_i, strict=True):
            expected_p, expected_z = slow_expectation(p_ij), slow_expectation(z_ij)
            total -= expected_z * math.log(expected_p) + (1 - expected_z) * math.log(1 - expected_p)
    return total / N / B


def slow_losses(views):
    """L_normal, L_mix, L_1, L_2."""
    p, z_other, p_other, z, p_mix, z_c = (view.probs.tolist() for view in views)
    return (
        slow_divergence(p, z_other) / 2 + slow_divergence(p_other, z) / 2,
        slow_divergence(p_mix, z_c),
        (slow_bce(p, z_other) + slow_bce(p_other, z)) / 2,
        slow_bce(p_mix, z_c),
    )


# Each loss alone


def test_the_divergence_is_the_cross_entropy_over_n_features_averaged_over_images(views):
    p, z, *_ = views
    assert divergence(TargetPair(p, z)).item() == pytest.approx(slow_divergence(p.probs.tolist(), z.probs.tolist()))


def test_normal_mix_and_expected_losses_are_the_papers(views):
    one, other, mixed = pairs(views)
    ours = normal_loss(one, other), mix_loss(mixed), expected_normal_loss(one, other), expected_mix_loss(mixed)
    assert [loss.item() for loss in ours] == pytest.approx(slow_losses(views))


def test_only_the_expected_value_losses_see_how_far_apart_truth_values_are():
    """The example of the paper's section on the expected value loss."""
    z = Representation([[[0.8, 0.1, 0.1]]])
    near, far = Representation([[[0.1, 0.8, 0.1]]]), Representation([[[0.1, 0.1, 0.8]]])
    assert mix_loss(TargetPair(near, z)).item() == pytest.approx(mix_loss(TargetPair(far, z)).item())
    assert expected_mix_loss(TargetPair(near, z)) < expected_mix_loss(TargetPair(far, z))
    expected = -0.15 * math.log(0.85) - 0.85 * math.log(0.15)
    assert expected_mix_loss(TargetPair(far, z)).item() == pytest.approx(expected)


def test_losses_of_crisp_wrong_predictions_are_finite():
    crisp = Representation([[[1.0, 0.0], [0.0, 1.0]]])
    losses = proposed_loss(*[TargetPair(crisp, ~crisp)] * 3)
    assert all(loss.isfinite() for loss in losses[:-1])  # all but decorrelation, which is not the paper's


def test_the_gradient_of_the_divergence_is_prediction_minus_target(views):
    """d𝒟/dp̃ = (p - z) / (τ·N·B), also where p is so sharp that it has no logarithm."""
    logits = torch.tensor([[[40.0, 0.0, -40.0]]], requires_grad=True)
    z = Representation([[[0.0, 0.0, 1.0]]])
    divergence(TargetPair(Representation.from_logits(logits, 0.1), z)).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[[10.0, 0.0, -10.0]]]))
    logits = torch.randn(B, N, M, dtype=torch.float64, requires_grad=True)
    prediction = Representation.from_logits(logits, 0.1)
    divergence(TargetPair(prediction, views[1])).backward()
    torch.testing.assert_close(logits.grad, (prediction.probs.detach() - views[1].probs) / (0.1 * N * B))


# Their weighted average


@pytest.mark.parametrize("alpha", [0, 0.3, 0.5, 1])
@pytest.mark.parametrize("beta", [0, 0.6, 1])
def test_the_total_is_beta_of_the_expected_and_the_rest_of_the_plain_loss(views, alpha, beta):
    normal, mix, expected_normal, expected_mix = slow_losses(views)
    plain = alpha * normal + (1 - alpha) * mix
    expected = alpha * expected_normal + (1 - alpha) * expected_mix
    ours = proposed_loss(*pairs(views), alpha, beta)
    assert ours.total.item() == pytest.approx(beta * expected + (1 - beta) * plain)
    assert (ours.normal.item(), ours.mix.item()) == pytest.approx((normal, mix))
    if beta:
        assert (ours.expected_normal.item(), ours.expected_mix.item()) == pytest.approx((expected_normal, expected_mix))


def test_alpha_and_beta_are_the_papers_by_default(views):
    torch.testing.assert_close(proposed_loss(*pairs(views)), proposed_loss(*pairs(views), alpha=0.5, beta=0.6))


def test_beta_0_does_not_compute_the_expected_value_losses(views):
    losses = proposed_loss(*pairs(views), beta=0)
    assert losses.expected_normal is None
    assert losses.expected_mix is None


@pytest.mark.parametrize("alpha", [0, 0.5, 1])
@pytest.mark.parametrize("beta", [0, 0.6, 1])
def test_without_mixed_images_the_two_views_are_all_there_is(views, alpha, beta):
    one, other, _ = pairs(views)
    normal, _, expected_normal, _ = slow_losses(views)
    losses = proposed_loss(one, other, None, alpha, beta)
    assert losses.total.item() == pytest.approx(beta * expected_normal + (1 - beta) * normal)
    assert losses.mix is None
    assert losses.expected_mix is None


def gradient_sources(views, alpha: float, beta: float) -> list[bool]:
    """Which of p, p' and p_mix the total sends a gradient other than zero to."""
    logits = [torch.randn(B, N, M, requires_grad=True) for _ in range(3)]
    made = [TargetPair(Representation.from_logits(x), z) for x, z in zip(logits, views[1::2], strict=True)]
    proposed_loss(*made, alpha, beta).total.backward()
    return [isinstance(x.grad, Tensor) and bool(x.grad.any()) for x in logits]


def test_the_extremes_of_alpha_learn_from_the_views_or_from_the_mixed_image_alone(views):
    views = [view.to(torch.float32) for view in views]
    for beta in (0, 0.6, 1):
        assert gradient_sources(views, 1, beta) == [True, True, False]
        assert gradient_sources(views, 0, beta) == [False, False, True]
        assert gradient_sources(views, 0.5, beta) == [True, True, True]


def slow_decorrelation(batch):
    """The squared correlation of each two features over the images, averaged."""
    degrees = [[slow_expectation(feature) for feature in image] for image in batch]
    squares = []
    for j in range(N):
        for k in range(N):
            if j != k:
                x, y = ([image[f] for image in degrees] for f in (j, k))
                mean_x, mean_y = sum(x) / B, sum(y) / B
                covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
                squares.append(covariance**2 / sum((a - mean_x) ** 2 for a in x) / sum((b - mean_y) ** 2 for b in y))
    return sum(squares) / len(squares)


def test_decorrelation_is_the_mean_squared_correlation_of_features(views):
    assert decorrelation_loss(views[0]).item() == pytest.approx(slow_decorrelation(views[0].probs.tolist()), rel=1e-4)


def test_a_feature_that_is_always_the_same_has_no_correlation_and_a_finite_gradient():
    logits = torch.zeros(B, N, M, requires_grad=True)
    loss = decorrelation_loss(Representation.from_logits(logits, 0.1))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-9)
    assert bool(logits.grad.isfinite().all())
