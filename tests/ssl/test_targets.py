"""Targets: sharpened, centered, without gradient; the center as DINO moves it, and steered to a prior."""

import math

import pytest
import torch

from andornot.logic import Representation
from andornot.ssl.network import Projector
from andornot.ssl.targets import Center, PriorCenter

N, M = 3, 4


def logits_with_a_mean(seed: int, count: int = 6) -> torch.Tensor:
    mean = torch.arange(N * M).view(N, M) - 4.0
    return torch.randn(count, N, M, generator=torch.Generator().manual_seed(seed)) + mean


# Eq. (z_2)


def test_a_target_is_the_softmax_of_the_centered_and_sharpened_logits():
    center = Center(temperature=0.5)
    center.center = torch.randn(N, M)
    logits = torch.randn(2, N, M)
    target = center(logits)
    for i in range(2):
        for j in range(N):
            powers = [math.exp((logits[i, j, k].item() - center.center[j, k].item()) / 0.5) for k in range(M)]
            expected = [power / sum(powers) for power in powers]
            assert target.representation.probs[i, j].tolist() == pytest.approx(expected, rel=1e-4)
    assert torch.equal(target.logits, logits)


def test_temperature_and_momentum_are_dinos_by_default():
    center = Center()
    assert (center.temperature, center.momentum) == (0.04, 0.9)


def test_targets_carry_no_gradient():
    target = Center()(torch.randn(2, N, M, requires_grad=True))
    assert not target.logits.requires_grad
    assert not target.representation.probs.requires_grad


def test_targets_of_half_precision_are_computed_in_float32():
    target = Center()(torch.randn(2, N, M).bfloat16())
    assert target.representation.dtype == torch.float32
    Representation(target.representation.probs)  # validated: rows sum to 1 to 1e-5


# DINO's center


def test_the_center_starts_at_zero():
    assert not Center().center.any()


def test_the_center_moves_as_dinos_formula_says():
    center = Center(momentum=0.8)
    slow = [[0.0] * M for _ in range(N)]
    for step in range(5):
        first, second = logits_with_a_mean(2 * step), logits_with_a_mean(2 * step + 1)
        center.update(center(first), center(second))
        for j in range(N):
            for k in range(M):
                both = [*first[:, j, k].tolist(), *second[:, j, k].tolist()]
                slow[j][k] = 0.8 * slow[j][k] + (1 - 0.8) * sum(both) / len(both)
    torch.testing.assert_close(center.center, torch.tensor(slow))
    assert center.center.abs().mean() > 1  # the logits did have a mean


def test_both_views_move_the_center_alike():
    first, second = logits_with_a_mean(0), logits_with_a_mean(1)
    one, other = Center(), Center()
    one.update(one(first), one(second))
    other.update(other(second), other(first))
    torch.testing.assert_close(one.center, other.center)
    alone = Center()
    alone.update(alone(first))
    assert not torch.allclose(alone.center, one.center)


def test_the_center_goes_to_the_mean_of_the_logits_and_takes_it_out_of_the_targets():
    center, logits = Center(), logits_with_a_mean(0)
    for _ in range(200):
        center.update(center(logits))
    torch.testing.assert_close(center.center, logits.mean(0), rtol=1e-4, atol=1e-4)


def test_behind_the_projector_of_simsiam_the_center_stays_at_zero():
    projector, center = Projector(6, 8, N * M), Center()
    for seed in range(5):
        images = torch.randn(64, 6, generator=torch.Generator().manual_seed(seed)) + 3
        center.update(center(projector(images).view(-1, N, M)))
    assert center.center.abs().max() < 1e-6


def test_the_center_moves_only_when_it_is_told_to():
    center = Center()
    center(logits_with_a_mean(0))
    assert not center.center.any()


@pytest.mark.parametrize("make", [Center, PriorCenter])
def test_the_center_is_in_the_checkpoint(make):
    center = make()
    center.update(center(logits_with_a_mean(0)))
    assert list(center.state_dict()) == ["center"]
    again = make()
    again.load_state_dict(center.state_dict())
    assert torch.equal(again.center, center.center)
    assert not list(center.parameters())


# Steered to a prior


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 1.0])
def test_the_prior_falls_exponentially(sparsity):
    weights = [math.exp(-sparsity * k) for k in range(M)]
    expected = [weight / sum(weights) for weight in weights]
    assert PriorCenter(sparsity=sparsity).prior(M).tolist() == pytest.approx(expected)


def test_the_prior_center_moves_by_the_average_target_minus_the_prior():
    center = PriorCenter(momentum=0.8, sparsity=0.3)
    first, second = center(logits_with_a_mean(0)), center(logits_with_a_mean(1))
    center.update(first, second)
    for j in range(N):
        for k in range(M):
            both = [*first.representation.probs[:, j, k].tolist(), *second.representation.probs[:, j, k].tolist()]
            expected = (1 - 0.8) * (sum(both) / len(both) - center.prior(M)[k].item())
            assert center.center[j, k].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.6])
def test_a_few_hundred_updates_bring_the_average_target_to_the_prior(sparsity):
    generator = torch.Generator().manual_seed(0)
    offset = torch.randn(N, M, generator=generator)
    center = PriorCenter(sparsity=sparsity)

    def draw() -> torch.Tensor:
        return torch.randn(256, N, M, generator=generator) + offset

    for _ in range(300):
        center.update(center(draw()), center(draw()))
    average = torch.cat([center(draw()).representation.probs for _ in range(20)]).mean(0)
    torch.testing.assert_close(average, center.prior(M).expand(N, M), rtol=0, atol=0.03)
    if sparsity == 0:
        torch.testing.assert_close(average, torch.full((N, M), 1 / M), rtol=0, atol=0.03)


def test_a_higher_sparsity_gives_lower_degrees():
    logits = torch.randn(512, N, M, generator=torch.Generator().manual_seed(0))
    degrees = []
    for sparsity in (0.0, 0.3, 0.6):
        center = PriorCenter(sparsity=sparsity)
        for _ in range(300):
            center.update(center(logits))
        degrees.append(center(logits).representation.degrees.mean().item())
    assert degrees[0] == pytest.approx(0.5, abs=0.01)
    assert degrees == sorted(degrees, reverse=True)
