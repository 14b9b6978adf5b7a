"""Mixed images and the targets they get, against the paper's equations written as loops."""

import math
from functools import partial

import pytest
import torch
from steps import loss_of_views

from andornot.errors import AndornotError
from andornot.logic import Representation
from andornot.ssl.backbones import build_backbone
from andornot.ssl.losses import (
    SYNTHESES,
    SynthesisLoss,
    check_name,
    function_name,
    get_synthesis,
    logic,
    maximum,
    mean,
    mixup,
)
from andornot.ssl.network import Network
from andornot.ssl.targets import Center

B, N, M = 3, 2, 4
TEMPERATURE = 0.5


@pytest.fixture
def center():
    center = Center(TEMPERATURE)
    center.center = torch.randn(N, M, generator=torch.Generator().manual_seed(1))
    return center


@pytest.fixture
def targets(center):
    first, second = torch.randn(2, B, N, M, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return center(first), center(second)


def slow_softmax(row):
    powers = [math.exp(x) for x in row]
    return [power / sum(powers) for power in powers]


def of_each_feature(function, first, second):
    """`(B, N, M)`: the function of two rows over the truth values, for each image and feature."""
    rows = [[function(first[i][j].tolist(), second[i][j].tolist(), j) for j in range(N)] for i in range(B)]
    return torch.tensor(rows)


# Mixed images


@pytest.mark.parametrize("mixup_lambda", [0.0, 0.3, 0.5, 1.0])
def test_mixup_adds_images_pixel_by_pixel(mixup_lambda):
    first, second = torch.rand(2, 2, 1, 3, 3)
    mixed = mixup(first, second, mixup_lambda)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(1), torch.arange(3), torch.arange(3)).tolist():
        i, c, y, x = place
        expected = mixup_lambda * first[i, c, y, x].item() + (1 - mixup_lambda) * second[i, c, y, x].item()
        assert mixed[i, c, y, x].item() == pytest.approx(expected, abs=1e-6)


def test_mixup_takes_lambda_of_the_first_image():
    first, second = torch.rand(2, 2, 1, 3, 3)
    torch.testing.assert_close(mixup(first, second, 1.0), first)
    torch.testing.assert_close(mixup(first, second, 0.0), second)
    torch.testing.assert_close(mixup(first, second), (first + second) / 2)


# Their targets


@pytest.mark.parametrize("mixup_lambda", [0.0, 0.3, 0.5, 1.0])
def test_mean_averages_the_distributions_with_lambda(targets, center, mixup_lambda):
    def average(one, two, _):
        return [mixup_lambda * a + (1 - mixup_lambda) * b for a, b in zip(one, two, strict=True)]

    expected = of_each_feature(average, *(target.representation.probs for target in targets))
    torch.testing.assert_close(mean(*targets, mixup_lambda, center).probs, expected)


def test_maximum_sharpens_and_centers_the_larger_of_the_raw_logits(targets, center):
    def softmax_of_larger(one, two, j):
        larger = [max(a, b) for a, b in zip(one, two, strict=True)]
        return slow_softmax([(a - c) / TEMPERATURE for a, c in zip(larger, center.center[j].tolist(), strict=True)])

    expected = of_each_feature(softmax_of_larger, *(target.logits for target in targets))
    torch.testing.assert_close(maximum(*targets, 0.5, center).probs, expected)


def test_logic_is_or_by_enumeration_of_all_truth_values(targets, center):
    def either(one, two, _):
        distribution = [0.0] * M
        for k, a in enumerate(one):
            for l, b in enumerate(two):  # noqa: E741
                distribution[max(k, l)] += a * b
        return distribution

    expected = of_each_feature(either, *(target.representation.probs for target in targets))
    torch.testing.assert_close(logic(*targets, 0.5, center).probs, expected)


def test_logic_is_the_papers_equation(targets, center):
    def equation(one, two, _):
        return [one[k] * sum(two[: k + 1]) + two[k] * sum(one[: k + 1]) - one[k] * two[k] for k in range(M)]

    expected = of_each_feature(equation, *(target.representation.probs for target in targets))
    torch.testing.assert_close(logic(*targets, 0.5, center).probs, expected)


@pytest.mark.parametrize("synthesis", [maximum, logic])
def test_maximum_and_logic_do_not_depend_on_lambda_or_the_order(synthesis, targets, center):
    expected = synthesis(*targets, 0.5, center)
    assert synthesis(*targets, 0.9, center) == expected
    assert synthesis(*reversed(targets), 0.5, center).isclose(expected)


@pytest.mark.parametrize("synthesis", [mean, maximum, logic])
def test_a_synthesis_is_a_representation_without_gradient_and_leaves_the_center_alone(synthesis, targets, center):
    before = center.center.clone()
    made = synthesis(*targets, 0.3, center)
    Representation(made.probs)  # validated
    assert not made.probs.requires_grad
    assert torch.equal(center.center, before)


def test_there_are_the_four_methods_of_the_paper():
    assert list(SYNTHESES.items()) == [("vanilla", None), ("mean", mean), ("maximum", maximum), ("logic", logic)]


# One's own


def test_a_function_is_taken_as_it_is_and_a_name_looked_up():
    assert get_synthesis(mean) is get_synthesis("mean") is mean
    assert get_synthesis("vanilla") is None
    with pytest.raises(AndornotError, match='unknown synthesis "maen"; did you mean "mean"'):
        get_synthesis("maen")
    with pytest.raises(AndornotError, match=r"a function of your own: pretrain.* needs it again"):
        get_synthesis(function_name(mean))


def test_the_name_of_a_function_says_that_it_was_ones_own():
    assert function_name(mean) == "function:mean"
    assert function_name(partial(mean)) == "function:partial"
    check_name("function:mean")
    with pytest.raises(AndornotError, match="unknown synthesis"):
        check_name("min")


def test_a_loss_uses_the_function_that_it_is_given():
    network = Network(build_backbone("conv5", channels=1, width=8), N, M, 8, 8).eval()
    views = torch.rand(2, 4, 1, 28, 28)
    by_name, by_function = (
        loss_of_views(network, SynthesisLoss(synthesis, beta=0.6), *views) for synthesis in ("logic", logic)
    )
    assert torch.equal(by_name.total, by_function.total)
    assert SynthesisLoss(logic).beta == 0, "0.6 is the paper's for its own method"
