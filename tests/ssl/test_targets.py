"""Targets: sharpened, centred, without gradient; the centre as DINO moves it, and steered to a prior."""

import math

import pytest
import torch

from andornot.logic import Representation
from andornot.ssl.targets import Centre, PriorCentre

N, M = 3, 4


def logits_with_a_mean(seed: int, count: int = 6) -> torch.Tensor:
    mean = torch.arange(N * M).view(N, M) - 4.0
    return torch.randn(count, N, M, generator=torch.Generator().manual_seed(seed)) + mean


# Eq. (z_2)


def test_a_target_is_the_softmax_of_the_centred_and_sharpened_logits():
    centre = Centre(N, M, temperature=0.5)
    centre.centre.normal_()
    logits = torch.randn(2, N, M)
    target = centre(logits)
    for i in range(2):
        for j in range(N):
            powers = [math.exp((logits[i, j, k].item() - centre.centre[j, k].item()) / 0.5) for k in range(M)]
            expected = [power / sum(powers) for power in powers]
            assert target.representation.probs[i, j].tolist() == pytest.approx(expected, rel=1e-4)
    assert torch.equal(target.logits, logits)


def test_temperature_and_momentum_are_dinos_by_default():
    centre = Centre(N, M)
    assert (centre.temperature, centre.momentum) == (0.04, 0.9)


def test_targets_carry_no_gradient():
    target = Centre(N, M)(torch.randn(2, N, M, requires_grad=True))
    assert not target.logits.requires_grad
    assert not target.representation.probs.requires_grad


def test_targets_of_half_precision_are_computed_in_float32():
    target = Centre(N, M)(torch.randn(2, N, M).bfloat16())
    assert target.representation.dtype == torch.float32
    Representation(target.representation.probs)  # validated: rows sum to 1 to 1e-5


# DINO's centre


def test_the_centre_starts_at_zero():
    assert torch.equal(Centre(N, M).centre, torch.zeros(N, M))


def test_the_centre_moves_as_dinos_formula_says():
    centre = Centre(N, M, momentum=0.8)
    slow = [[0.0] * M for _ in range(N)]
    for step in range(5):
        first, second = logits_with_a_mean(2 * step), logits_with_a_mean(2 * step + 1)
        centre.update(centre(first), centre(second))
        for j in range(N):
            for k in range(M):
                both = [*first[:, j, k].tolist(), *second[:, j, k].tolist()]
                slow[j][k] = 0.8 * slow[j][k] + (1 - 0.8) * sum(both) / len(both)
    torch.testing.assert_close(centre.centre, torch.tensor(slow))
    assert centre.centre.abs().mean() > 1  # the logits did have a mean


def test_both_views_move_the_centre_alike():
    first, second = logits_with_a_mean(0), logits_with_a_mean(1)
    one, other = Centre(N, M), Centre(N, M)
    one.update(one(first), one(second))
    other.update(other(second), other(first))
    torch.testing.assert_close(one.centre, other.centre)
    alone = Centre(N, M)
    alone.update(alone(first))
    assert not torch.allclose(alone.centre, one.centre)


def test_the_centre_goes_to_the_mean_of_the_logits_and_takes_it_out_of_the_targets():
    centre, logits = Centre(N, M), logits_with_a_mean(0)
    for _ in range(200):
        centre.update(centre(logits))
    torch.testing.assert_close(centre.centre, logits.mean(0), rtol=1e-4, atol=1e-4)


def test_the_centre_moves_only_when_it_is_told_to():
    centre = Centre(N, M)
    centre(logits_with_a_mean(0))
    assert not centre.centre.any()


@pytest.mark.parametrize("make", [Centre, PriorCentre])
def test_the_centre_is_in_the_checkpoint(make):
    centre = make(N, M)
    centre.update(centre(logits_with_a_mean(0)))
    assert list(centre.state_dict()) == ["centre"]
    again = make(N, M)
    again.load_state_dict(centre.state_dict())
    assert torch.equal(again.centre, centre.centre)
    assert not list(centre.parameters())


# Steered to a prior


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 1.0])
def test_the_prior_falls_exponentially(sparsity):
    weights = [math.exp(-sparsity * k) for k in range(M)]
    expected = [weight / sum(weights) for weight in weights]
    assert PriorCentre(N, M, sparsity=sparsity).prior.tolist() == pytest.approx(expected)


def test_the_prior_centre_moves_by_the_average_target_minus_the_prior():
    centre = PriorCentre(N, M, momentum=0.8, sparsity=0.3)
    first, second = centre(logits_with_a_mean(0)), centre(logits_with_a_mean(1))
    centre.update(first, second)
    for j in range(N):
        for k in range(M):
            both = [*first.representation.probs[:, j, k].tolist(), *second.representation.probs[:, j, k].tolist()]
            expected = (1 - 0.8) * (sum(both) / len(both) - centre.prior[k].item())
            assert centre.centre[j, k].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.6])
def test_a_few_hundred_updates_bring_the_average_target_to_the_prior(sparsity):
    generator = torch.Generator().manual_seed(0)
    offset = torch.randn(N, M, generator=generator)
    centre = PriorCentre(N, M, sparsity=sparsity)

    def draw() -> torch.Tensor:
        return torch.randn(256, N, M, generator=generator) + offset

    for _ in range(300):
        centre.update(centre(draw()), centre(draw()))
    average = torch.cat([centre(draw()).representation.probs for _ in range(20)]).mean(0)
    torch.testing.assert_close(average, centre.prior.expand(N, M), rtol=0, atol=0.03)
    if sparsity == 0:
        torch.testing.assert_close(average, torch.full((N, M), 1 / M), rtol=0, atol=0.03)


def test_a_higher_sparsity_gives_lower_degrees():
    logits = torch.randn(512, N, M, generator=torch.Generator().manual_seed(0))
    degrees = []
    for sparsity in (0.0, 0.3, 0.6):
        centre = PriorCentre(N, M, sparsity=sparsity)
        for _ in range(300):
            centre.update(centre(logits))
        degrees.append(centre(logits).representation.degrees.mean().item())
    assert degrees[0] == pytest.approx(0.5, abs=0.01)
    assert degrees == sorted(degrees, reverse=True)
