"""LARS against its formula, step by step in plain numbers."""

import math

import pytest
import torch

from andornot.evaluate.experiments.linear import LARS

WEIGHTS = [[0.5, -1.0, 0.25], [2.0, 0.0, -0.75]]
BIAS = [0.3, -0.2]
# Gradients of three steps.
GRADIENTS = [
    ([[0.1, 0.2, -0.3], [0.0, 0.5, 0.4]], [0.7, -0.1]),
    ([[-0.6, 0.1, 0.2], [0.3, -0.2, 0.1]], [0.0, 0.4]),
    ([[0.05, 0.0, 0.0], [0.0, 0.0, -0.01]], [-0.5, 0.5]),
]
RATES = [1.6, 1.2, 0.4]


def norm(values):
    return math.sqrt(sum(value**2 for value in values))


def slow_lars(momentum, decay, trust):
    """Weights and bias after the three steps, with lists instead of tensors."""
    weights, bias = [value for row in WEIGHTS for value in row], list(BIAS)
    velocity, bias_velocity = [0.0] * len(weights), [0.0] * len(bias)
    for (rows, bias_gradient), rate in zip(GRADIENTS, RATES, strict=True):
        gradient = [value for row in rows for value in row]
        local = trust * norm(weights) / (norm(gradient) + decay * norm(weights))
        for i, w in enumerate(weights):
            velocity[i] = momentum * velocity[i] + rate * local * (gradient[i] + decay * w)
        for i in range(len(bias)):
            bias_velocity[i] = momentum * bias_velocity[i] + rate * bias_gradient[i]
        weights = [w - v for w, v in zip(weights, velocity, strict=True)]
        bias = [b - v for b, v in zip(bias, bias_velocity, strict=True)]
    return weights, bias


def run(optimiser_of, weights, bias):
    optimiser = optimiser_of([weights, bias])
    for (gradient, bias_gradient), rate in zip(GRADIENTS, RATES, strict=True):
        optimiser.param_groups[0]["lr"] = rate
        weights.grad = torch.tensor(gradient, dtype=weights.dtype)
        bias.grad = torch.tensor(bias_gradient, dtype=bias.dtype)
        optimiser.step()


def parameters(dtype=torch.float64):
    return [torch.nn.Parameter(torch.tensor(values, dtype=dtype)) for values in (WEIGHTS, BIAS)]


@pytest.mark.parametrize("momentum", [0, 0.9])
@pytest.mark.parametrize("decay", [0, 0.01])
@pytest.mark.parametrize("trust", [0.001, 0.02])
def test_three_steps_are_the_formulas(momentum, decay, trust):
    weights, bias = parameters()
    run(lambda both: LARS(both, 1.0, momentum, decay, trust), weights, bias)
    expected_weights, expected_bias = slow_lars(momentum, decay, trust)
    assert weights.flatten().tolist() == pytest.approx(expected_weights)
    assert bias.tolist() == pytest.approx(expected_bias)


def test_without_weight_decay_a_step_is_still_as_long_as_the_weights_allow():
    """Whatever the length of the gradient, the first step has the length lr · 0.001 · ‖w‖."""
    for size in (1e-6, 1.0, 1e6):
        weights, _ = parameters()
        before = weights.detach().clone()
        weights.grad = size * torch.tensor(GRADIENTS[0][0], dtype=torch.float64)
        LARS([weights], 1.6).step()
        assert (weights - before).norm().item() == pytest.approx(1.6 * 0.001 * before.norm().item())


def test_weights_of_zero_take_a_plain_step_and_gradients_of_zero_none():
    weights = torch.nn.Parameter(torch.zeros(2, 2))
    weights.grad = torch.ones(2, 2)
    LARS([weights], 0.5).step()
    assert weights.tolist() == [[-0.5, -0.5], [-0.5, -0.5]]
    weights.grad = torch.zeros(2, 2)
    LARS([weights], 0.5).step()
    assert weights.tolist() == [[-0.5, -0.5], [-0.5, -0.5]]


def test_biases_are_those_of_momentum_sgd():
    bias, same = (torch.nn.Parameter(torch.tensor(BIAS)) for _ in range(2))
    optimisers = LARS([bias], 0.4, 0.9, weight_decay=0.1), torch.optim.SGD([same], 0.4, 0.9)
    for _, gradient in GRADIENTS:
        bias.grad, same.grad = torch.tensor(gradient), torch.tensor(gradient)
        for optimiser in optimisers:
            optimiser.step()
    torch.testing.assert_close(bias, same)


def test_a_parameter_without_a_gradient_stays_and_a_closure_gives_the_loss():
    weights, bias = parameters()
    optimiser = LARS([weights, bias], 1.0)

    def closure() -> float:
        loss = weights.square().sum()
        loss.backward()
        return loss.item()

    before = weights.detach().square().sum().item()
    assert optimiser.step(closure) == before
    assert weights.square().sum().item() < before
    assert bias.tolist() == BIAS


def test_a_saved_state_goes_on_where_it_was():
    ours, others = parameters(), parameters()
    run(with_decay, *ours)
    first = with_decay(others)
    for (gradient, bias_gradient), rate in zip(GRADIENTS, RATES, strict=True):
        again = with_decay(others)
        again.load_state_dict(first.state_dict())
        again.param_groups[0]["lr"] = rate
        others[0].grad = torch.tensor(gradient, dtype=torch.float64)
        others[1].grad = torch.tensor(bias_gradient, dtype=torch.float64)
        again.step()
        first = again
    assert torch.equal(ours[0], others[0])
    assert torch.equal(ours[1], others[1])


def with_decay(params):
    return LARS(params, 1.0, 0.9, 0.01)


def test_settings_that_cannot_be_are_refused():
    for wrong in (
        {"lr": -1},
        {"lr": 1, "momentum": 1},
        {"lr": 1, "weight_decay": -0.1},
        {"lr": 1, "trust_coefficient": 0},
    ):
        with pytest.raises(ValueError, match="lr and weight_decay must be 0 or more"):
            LARS(parameters(), **wrong)
