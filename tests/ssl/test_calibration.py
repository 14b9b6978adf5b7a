"""Calibrated heads: ranks among the images they were fitted on, and the distributions made of them."""

import math
import warnings
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import Tensor

from andornot.logic import Representation
from andornot.ssl.calibration import CalibratedHead, _quantiles
from andornot.ssl.recipe import Calibration

C, M = 5, 6


def head_of(features: Tensor, **settings: float) -> CalibratedHead:
    return CalibratedHead(features.shape[1], M, Calibration(**settings)).fit(features)


def exponential(count: int, seed: int = 0) -> Tensor:
    """Rectified activations of C channels, each with a scale of its own."""
    uniform = torch.rand(count, C, generator=torch.Generator().manual_seed(seed))
    return -torch.log1p(-uniform) * torch.tensor([0.3, 0.5, 1.0, 2.0, 4.0])


def with_quantiles(*rows: list[float]) -> CalibratedHead:
    """A head whose quantiles are given instead of fitted."""
    head = CalibratedHead(len(rows), M, Calibration(levels=len(rows[0])))
    head.quantiles.copy_(torch.tensor(rows))
    return head


def slow_rank(quantiles: list[float], value: float) -> float:
    """The place of a value among quantiles, from 0 to 1: between two of them linear, among equal ones the middle."""
    last = len(quantiles) - 1
    if value < quantiles[0]:
        return 0.0
    if value > quantiles[-1]:
        return 1.0
    equal = [place for place, quantile in enumerate(quantiles) if quantile == value]
    if equal:
        return (equal[0] + equal[-1]) / 2 / last
    above = next(place for place, quantile in enumerate(quantiles) if quantile > value)
    low, high = quantiles[above - 1], quantiles[above]
    return (above - 1 + (value - low) / (high - low)) / last


# Quantiles


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_quantiles_are_numpys(count):
    features = torch.randn(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ranks = torch.linspace(0, 1, 11, dtype=torch.float64)
    expected = np.quantile(features.numpy(), ranks.numpy(), axis=0).T
    np.testing.assert_allclose(_quantiles(features, ranks).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_many_images_speak_for_themselves():
    features = exponential(20_000)
    expected = np.quantile(features.numpy(), np.linspace(0, 1, 129), axis=0).T
    inner = slice(1, -1)  # the lowest and the highest of so many are a matter of luck
    np.testing.assert_allclose(head_of(features).quantiles.numpy()[:, inner], expected[:, inner], rtol=0.01)


def blended(count: int, alone: np.ndarray, common: np.ndarray) -> np.ndarray:
    """What n images say counts n times, what is assumed of them 20 times."""
    return (count * alone + 20 * common) / (count + 20)


RANKS = np.linspace(0, 1, 129)
INNER = np.clip(RANKS, 0.5 / 129, 1 - 0.5 / 129)


@pytest.mark.parametrize("count", [1, 5, 60])
def test_few_images_are_blended_with_an_exponential_whose_mean_leans_to_that_of_all_channels(count):
    features = exponential(count).double().numpy()
    expected = []
    for channel in features.T:
        mean = blended(count, channel.mean(), features.mean())
        # The quantile of rank r of an exponential distribution with mean μ: -μ·log(1 - r).
        expected.append(blended(count, np.quantile(channel, RANKS), -mean * np.log(1 - INNER)))
    np.testing.assert_allclose(head_of(torch.from_numpy(features)).quantiles.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 60])
def test_where_activations_are_negative_they_are_blended_with_a_normal_distribution(count):
    features = torch.randn(count, C, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).numpy() * 3 + 1
    expected = []
    for channel in features.T:
        mean, variance = blended(count, channel.mean(), features.mean()), blended(count, channel.var(), features.var())
        normal = NormalDist(mean, math.sqrt(variance))
        assumed = np.array([normal.inv_cdf(rank) for rank in INNER])
        expected.append(blended(count, np.quantile(channel, RANKS), assumed))
    ours = head_of(torch.from_numpy(features)).quantiles.numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


# Ranks


def test_ranks_are_places_among_the_quantiles():
    head = head_of(exponential(300))
    features = exponential(50, seed=1)
    features[0], features[1] = 0, 1e6
    features[2] = head.quantiles[:, 17]
    ranks = head.ranks(features)
    for i in range(50):
        for j in range(C):
            expected = slow_rank(head.quantiles[j].tolist(), features[i, j].item())
            assert ranks[i, j].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_ranks_of_many_fitted_images_are_uniform(shift):
    features = exponential(4000) + shift
    ranks = head_of(features).ranks(features).sort(0).values
    uniform = (torch.arange(4000) + 0.5) / 4000
    assert (ranks - uniform.unsqueeze(1)).abs().max() < 0.02


@pytest.mark.parametrize("count", [1, 5, 300])
@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_ranks_rise_from_0_below_all_to_1_above_all(count, shift):
    fitted = exponential(count) + shift
    head = head_of(fitted)
    steps = torch.cat([torch.tensor([-1e9]), torch.linspace(-2, 3000, 5001), torch.tensor([1e9])])
    ranks = head.ranks(steps.unsqueeze(1).expand(-1, C))
    assert (ranks.diff(dim=0) >= 0).all()
    assert torch.equal(ranks[0], torch.zeros(C))
    assert torch.equal(ranks[-1], torch.ones(C))
    assert torch.equal(head.ranks(head.quantiles[:, :1].T - 1e-3), torch.zeros(1, C))
    assert torch.equal(head.ranks(head.quantiles[:, -1:].T + 1e-3), torch.ones(1, C))


def test_among_equal_quantiles_the_middle_counts():
    """A channel that is silent in 5 of 9 images: silence is in the middle of their ranks."""
    head = with_quantiles([0.0] * 5 + [1.0, 2.0, 3.0, 4.0])
    features = torch.tensor([[-1.0], [0.0], [0.5], [1.0], [1.5], [4.0], [5.0]])
    expected = [0, 2 / 8, 4.5 / 8, 5 / 8, 5.5 / 8, 1, 1]
    assert head.ranks(features).flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_where_all_images_are_the_same_each_is_in_the_middle_of_itself(value):
    features = torch.full((50, C), -value)
    assert torch.equal(head_of(features).ranks(features), torch.full((50, C), 0.5))


@pytest.mark.parametrize("sign", [1, -1], ids=["rectified", "beside-negative"])
def test_a_constant_channel_has_one_finite_rank(sign):
    features = sign * exponential(50)
    features[:, 2] = 0.9
    ranks = head_of(features).ranks(features)[:, 2]
    assert (ranks == ranks[0]).all()
    assert 0 < ranks[0] < 1


def test_a_channel_that_is_always_silent_is_a_feature_of_no_image():
    features = exponential(50)
    features[:, 2] = 0
    assert not head_of(features).ranks(features)[:, 2].any()


def test_silence_in_a_channel_that_is_mostly_silent_is_the_lowest_rank():
    """The assumed distribution is never silent, however little it counts, so there are no ties at 0."""
    features = exponential(1000) + exponential(1000).mean(0)
    features[:700] = 0
    ranks = head_of(features).ranks(features)
    assert not ranks[:700].any()
    assert (ranks[700:] > 0.69).all()


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_a_folder_of_few_images_works(count, shift):
    features = exponential(count) + shift
    head = head_of(features)
    ranks = head.ranks(features)
    order = features.argsort(0)
    assert (ranks.gather(0, order).diff(dim=0) > 0).all()  # the same order
    assert ((ranks >= 0) & (ranks <= 1)).all()
    Representation(head(features))  # validated


@pytest.mark.parametrize("values", [exponential(20, seed=3), exponential(20, seed=3) - 1, torch.zeros(2, C)])
def test_ranks_exported_by_tracing_are_those_of_the_head(values):
    head = head_of(exponential(100))
    head.quantiles[0, :60] = 0  # with ties
    head.quantiles[3] = 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is how torch exports to ONNX, and warns that it is old
        traced = torch.jit.trace(lambda given: head.ranks(given), (values,))
    assert torch.equal(traced(values), head.ranks(values))


# Distributions


@pytest.mark.parametrize("power", [1.0, 4.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.5])
def test_the_degree_is_the_rank_to_a_power_and_the_doubt_is_even(power, smoothing):
    head = head_of(exponential(100), power=power, smoothing=smoothing)
    features = exponential(40, seed=1)
    made = Representation(head(features))  # validated
    assert made.probs.shape == (40, C, M)
    degrees = head.ranks(features) ** power
    torch.testing.assert_close(made.degrees, (1 - smoothing) * degrees + smoothing / 2, rtol=0, atol=1e-5)


def test_a_degree_is_shared_by_the_two_truth_values_next_to_it():
    head = with_quantiles([0.0, 1.0])
    head.settings = Calibration(levels=2, power=1, smoothing=0.1)
    probs = head(torch.tensor([[0.0], [0.3], [0.4], [1.0]]))
    even = 0.1 / M
    expected = [[1, 0, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    torch.testing.assert_close(probs[:, 0], 0.9 * torch.tensor(expected) + even)


def test_quantiles_are_all_of_the_state():
    head = head_of(exponential(30))
    again = CalibratedHead(C, M, Calibration())
    again.load_state_dict(head.state_dict())
    assert list(head.state_dict()) == ["quantiles"]
    assert torch.equal(again(exponential(5)), head(exponential(5)))


def test_half_precision_features_are_taken():
    head = head_of(exponential(30))
    features = exponential(5).clamp(max=1000).half()
    torch.testing.assert_close(head(features), head(features.float()))
