"""The network and one training step on it: three passes, the right pairs, and a gradient to the student path only."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from andornot.errors import AndornotError
from andornot.logic import Representation
from andornot.ssl import network as network_module
from andornot.ssl.backbones import build_backbone, wrap_backbone
from andornot.ssl.network import Network, Objective
from andornot.ssl.synthesis import SYNTHESES
from andornot.ssl.targets import Centre

B, N, M = 6, 3, 4
TAU_S, TAU_T = 0.1, 0.04
MIXING, ALPHA, BETA = 0.3, 0.4, 0.7
METHODS = ("vanilla", "mean", "maximum", "logic")
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture
def network():
    torch.manual_seed(0)
    backbone = wrap_backbone(nn.Sequential(nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()), 6, 8, 1)
    return Network(backbone, N, M, projector_hidden=7, predictor_hidden=5)


@pytest.fixture
def pictures():
    """Two views of B pictures."""
    return torch.rand(2, B, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def objective_of(network: Network, method: str) -> Objective:
    centre = Centre(N, M, TAU_T)
    centre.centre.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return Objective(network, centre, method, temperature=TAU_S, mixing=MIXING, alpha=ALPHA, beta=BETA)


# The slow version: rows over the truth values as lists.


def slow_softmax(row: list[float]) -> list[float]:
    highest = max(row)
    powers = [math.exp(x - highest) for x in row]
    return [power / sum(powers) for power in powers]


def slow_target(logits: list[float], centre: list[float]) -> list[float]:
    return slow_softmax([(x - c) / TAU_T for x, c in zip(logits, centre, strict=True)])


def slow_synthesis(method: str, one: list[float], two: list[float], centre: list[float]) -> list[float]:
    """z_c of one feature, from the raw logits of two pictures."""
    if method == "maximum":
        return slow_target([max(a, b) for a, b in zip(one, two, strict=True)], centre)
    z_1, z_2 = slow_target(one, centre), slow_target(two, centre)
    if method == "mean":
        return [MIXING * a + (1 - MIXING) * b for a, b in zip(z_1, z_2, strict=True)]
    distribution = [0.0] * M
    for k, a in enumerate(z_1):
        for l, b in enumerate(z_2):  # noqa: E741
            distribution[max(k, l)] += a * b
    return distribution


def slow_terms(p_logits: list[float], z: list[float]) -> tuple[float, float]:
    """Cross-entropy, and binary cross-entropy of the expectations, of one feature."""
    p = slow_softmax([x / TAU_S for x in p_logits])
    e_p, e_z = (sum(k / (M - 1) * row[k] for k in range(M)) for row in (p, z))
    plain = -sum(z[k] * math.log(p[k]) for k in range(M))
    return plain, -e_z * math.log(e_p) - (1 - e_z) * math.log(1 - e_p)


def slow_step(objective: Objective, method: str, first: Tensor, second: Tensor, partners: list[int]) -> float:
    """L_prop of a batch; the network itself is torch's."""
    network = copy.deepcopy(objective.network)
    mixed_pictures = torch.stack([MIXING * first[i] + (1 - MIXING) * first[partners[i]] for i in range(B)])
    with torch.no_grad():
        one, other, mixed = ((out.z.tolist(), out.p.tolist()) for out in map(network, (first, second, mixed_pictures)))
    centre = objective.centre.centre.tolist()
    total = 0.0
    for i in range(B):
        for j in range(N):
            z, z_other = slow_target(one[0][i][j], centre[j]), slow_target(other[0][i][j], centre[j])
            views = slow_terms(one[1][i][j], z_other), slow_terms(other[1][i][j], z)
            plain, expected = ((a + b) / 2 for a, b in zip(*views, strict=True))
            if method != "vanilla":
                z_c = slow_synthesis(method, one[0][i][j], one[0][partners[i]][j], centre[j])
                mix, expected_mix = slow_terms(mixed[1][i][j], z_c)
                plain, expected = ALPHA * plain + (1 - ALPHA) * mix, ALPHA * expected + (1 - ALPHA) * expected_mix
            total += BETA * expected + (1 - BETA) * plain
    return total / (N * B)


# The network


def test_the_network_is_backbone_projector_predictor(network, pictures):
    network.eval()
    features, z, p = network(pictures[0])
    assert torch.equal(features, network.backbone(pictures[0]))
    assert torch.equal(z, network.projector(features).view(B, N, M))
    assert torch.equal(p, network.predictor(z.flatten(1)).view(B, N, M))


def test_heads_can_be_run_on_features_alone(network, pictures):
    network.eval()
    expected = network(pictures[0])
    for ours, theirs in zip(network.project(expected.activations), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_the_hidden_widths_are_simsiams_by_default():
    network = Network(build_backbone("conv5", channels=1, width=24), N, M)
    assert [layer.out_features for layer in network.projector if isinstance(layer, nn.Linear)] == [24, 24, N * M]
    assert [layer.out_features for layer in network.predictor if isinstance(layer, nn.Linear)] == [512, N * M]


# A step


@every_method
def test_a_step_is_what_the_equations_say(network, pictures, method):
    objective = objective_of(network, method)
    partners = torch.tensor([3, 5, 0, 1, 2, 4])
    result = objective(*pictures, partners)
    expected = slow_step(objective, method, *pictures, partners.tolist())
    assert result.losses.total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", METHODS[1:])
def test_the_partner_is_the_neighbour_in_the_batch_by_default(network, pictures, method):
    objective = objective_of(network, method)
    expected = slow_step(objective, method, *pictures, [B - 1, *range(B - 1)])
    assert objective(*pictures).losses.total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("method", "passes"), [("vanilla", 2), ("mean", 3), ("maximum", 3), ("logic", 3)])
def test_mixed_pictures_cost_a_third_pass_and_vanilla_has_none(network, pictures, method, passes):
    seen: list[Tensor] = []
    network.backbone.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    objective_of(network, method)(*pictures)
    assert len(seen) == passes
    assert torch.equal(torch.stack(seen[:2]), pictures)
    if passes == 3:
        first = pictures[0]
        torch.testing.assert_close(seen[2], MIXING * first + (1 - MIXING) * first[[B - 1, *range(B - 1)]])


def test_a_synthesis_gets_the_targets_of_exactly_the_two_views_that_were_mixed(network, pictures, monkeypatch):
    """Adding one is a function and a line in the registry."""
    calls = []

    def spy(first, second, mixing, centre):
        calls.append((first, second, mixing, centre))
        return first.representation

    monkeypatch.setitem(SYNTHESES, "spy", spy)
    objective = objective_of(network, "spy")
    partners = torch.tensor([3, 5, 0, 1, 2, 4])
    targets = objective(*pictures, partners).targets
    ((first, second, mixing, centre),) = calls
    assert torch.equal(first.logits, targets[0].logits)
    assert torch.equal(second.logits, targets[0].logits[partners])
    assert second.representation == targets[0].representation[partners]
    assert (mixing, centre) == (MIXING, objective.centre)


def test_an_unknown_synthesis_is_an_error(network):
    with pytest.raises(AndornotError, match='unknown synthesis "median"; did you mean "mean"'):
        objective_of(network, "median")


@every_method
def test_a_step_returns_the_targets_of_both_views_and_leaves_the_centre_to_its_update(network, pictures, method):
    objective = objective_of(network, method)
    before = objective.centre.centre.clone()
    expected = [copy.deepcopy(network)(view).z for view in pictures]
    targets = objective(*pictures).targets
    assert torch.equal(objective.centre.centre, before)
    for target, logits in zip(targets, expected, strict=True):
        torch.testing.assert_close(target.logits, logits.detach())
    objective.centre.update(*targets)
    mean = (expected[0].mean(0) + expected[1].mean(0)) / 2
    torch.testing.assert_close(objective.centre.centre, 0.9 * before + 0.1 * mean.detach())


def test_the_centre_is_part_of_the_objectives_state(network):
    assert "centre.centre" in objective_of(network, "logic").state_dict()


# The gradient


def gradients(loss: Tensor, network: Network) -> dict[str, Tensor]:
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@every_method
def test_the_gradient_is_that_of_a_loss_with_constant_targets(network, pictures, method):
    """Targets are computed first, by a copy of the network, as numbers; then the loss, in plain torch."""
    objective = objective_of(network, method)
    partners = [3, 5, 0, 1, 2, 4]
    first, second = pictures
    with torch.no_grad():
        copied = copy.deepcopy(network)
        z_1, z_2 = copied(first).z, copied(second).z
    centre = objective.centre.centre
    rows = [
        [slow_synthesis(method, z_1[i, j].tolist(), z_1[partners[i], j].tolist(), centre[j].tolist()) for j in range(N)]
        for i in range(B)
    ]
    constants = [((z - centre) / TAU_T).softmax(-1) for z in (z_2, z_1)] + [torch.tensor(rows)]
    values = torch.arange(M) / (M - 1)

    def loss_of(view: Tensor, target: Tensor) -> Tensor:
        logits = network(view).p / TAU_S
        e_p, e_z = logits.softmax(-1) @ values, target @ values
        bce = -e_z * e_p.log() - (1 - e_z) * (1 - e_p).log()
        return BETA * bce.mean() - (1 - BETA) * (target * logits.log_softmax(-1)).sum(-1).mean()

    mixed = MIXING * first + (1 - MIXING) * first[partners]
    by_view = [loss_of(view, target) for view, target in zip((first, second, mixed), constants, strict=True)]
    weights = (0.5, 0.5, 0) if method == "vanilla" else (ALPHA / 2, ALPHA / 2, 1 - ALPHA)
    expected = gradients(sum(w * loss for w, loss in zip(weights, by_view, strict=True)), network)
    ours = gradients(objective(*pictures, torch.tensor(partners)).losses.total, network)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5, msg=name)
        assert gradient.any(), name


@every_method
def test_all_of_the_gradient_passes_through_the_predictor(network, pictures, method):
    """With a last layer of zeros nothing comes back through it: what else arrives would have come through targets."""
    nn.init.zeros_(network.predictor[-1].weight)
    result = objective_of(network, method)(*pictures)
    received = gradients(result.losses.total, network)
    assert received["predictor.3.weight"].any()
    assert not any(gradient.any() for name, gradient in received.items() if not name.startswith("predictor.3."))


@every_method
def test_targets_do_not_require_a_gradient(network, pictures, method, monkeypatch):
    seen: list[Representation] = []

    def spy(*pairs):
        seen.extend(pair.target for pair in pairs[:3] if pair is not None)
        return real(*pairs)

    real = network_module.proposed_loss
    monkeypatch.setattr(network_module, "proposed_loss", spy)
    objective_of(network, method)(*pictures)
    assert len(seen) == (2 if method == "vanilla" else 3)
    assert not any(target.probs.requires_grad for target in seen)


@every_method
def test_a_few_steps_lower_the_loss(network, pictures, method):
    objective = objective_of(network, method)
    optimiser = torch.optim.SGD(objective.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(15):
        result = objective(*pictures)
        optimiser.zero_grad()
        result.losses.total.backward()
        optimiser.step()
        objective.centre.update(*result.targets)
        losses.append(result.losses.total.item())
    assert losses[-1] < 0.8 * losses[0]


def test_a_step_in_half_precision_computes_targets_and_losses_in_float32(network, pictures):
    objective = objective_of(network, "logic")
    with torch.autocast("cpu", torch.bfloat16):
        result = objective(*pictures)
    assert result.losses.total.dtype == torch.float32
    assert result.losses.total.isfinite()
    assert result.targets[0].representation.dtype == torch.float32
