"""The network and one training step on it: three passes, the right pairs, and a gradient to the student path only."""

import copy
import math

import pytest
import torch
from steps import loss_of_views
from torch import Tensor, nn

from andornot.errors import AndornotError
from andornot.logic import Representation
from andornot.ssl.backbones import build_backbone, wrap_backbone
from andornot.ssl.losses import SYNTHESES, SynthesisLoss
from andornot.ssl.network import Network
from andornot.ssl.targets import Center

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
def images():
    """Two views of B images."""
    return torch.rand(2, B, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def loss_by(method: str) -> SynthesisLoss:
    center = Center(TAU_T)
    center.center = 0.1 * torch.randn(N, M, generator=torch.Generator().manual_seed(1))
    return SynthesisLoss(method, center=center, temperature=TAU_S, mixup_lambda=MIXING, alpha=ALPHA, beta=BETA)


# The slow version: rows over the truth values as lists.


def slow_softmax(row: list[float]) -> list[float]:
    highest = max(row)
    powers = [math.exp(x - highest) for x in row]
    return [power / sum(powers) for power in powers]


def slow_target(logits: list[float], center: list[float]) -> list[float]:
    return slow_softmax([(x - c) / TAU_T for x, c in zip(logits, center, strict=True)])


def slow_synthesis(method: str, one: list[float], two: list[float], center: list[float]) -> list[float]:
    """z_c of one feature, from the raw logits of two images."""
    if method == "maximum":
        return slow_target([max(a, b) for a, b in zip(one, two, strict=True)], center)
    z_1, z_2 = slow_target(one, center), slow_target(two, center)
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


def slow_step(
    network: Network, center: Tensor, method: str, first: Tensor, second: Tensor, partners: list[int]
) -> float:
    """L_prop of a batch; the network itself is torch's."""
    network = copy.deepcopy(network)
    mixed_images = torch.stack([MIXING * first[i] + (1 - MIXING) * first[partners[i]] for i in range(B)])
    with torch.no_grad():
        one, other, mixed = ((out.z.tolist(), out.p.tolist()) for out in map(network, (first, second, mixed_images)))
    center = center.tolist()
    total = 0.0
    for i in range(B):
        for j in range(N):
            z, z_other = slow_target(one[0][i][j], center[j]), slow_target(other[0][i][j], center[j])
            views = slow_terms(one[1][i][j], z_other), slow_terms(other[1][i][j], z)
            plain, expected = ((a + b) / 2 for a, b in zip(*views, strict=True))
            if method != "vanilla":
                z_c = slow_synthesis(method, one[0][i][j], one[0][partners[i]][j], center[j])
                mix, expected_mix = slow_terms(mixed[1][i][j], z_c)
                plain, expected = ALPHA * plain + (1 - ALPHA) * mix, ALPHA * expected + (1 - ALPHA) * expected_mix
            total += BETA * expected + (1 - BETA) * plain
    return total / (N * B)


# The network


def test_the_network_is_backbone_projector_predictor(network, images):
    network.eval()
    features, z, p = network(images[0])
    assert torch.equal(features, network.backbone(images[0]))
    assert torch.equal(z, network.projector(features).view(B, N, M))
    assert torch.equal(p, network.predictor(z.flatten(1)).view(B, N, M))


def test_heads_can_be_run_on_features_alone(network, images):
    network.eval()
    expected = network(images[0])
    for ours, theirs in zip(network.project(expected.activations), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_the_hidden_widths_are_simsiams_by_default():
    network = Network(build_backbone("conv5", channels=1, width=24), N, M)
    assert [layer.out_features for layer in network.projector if isinstance(layer, nn.Linear)] == [24, 24, N * M]
    assert [layer.out_features for layer in network.predictor if isinstance(layer, nn.Linear)] == [512, N * M]


# A step


@every_method
def test_a_step_is_what_the_equations_say(network, images, method):
    loss = loss_by(method)
    partners = torch.tensor([3, 5, 0, 1, 2, 4])
    expected = slow_step(network, loss.center.center, method, *images, partners.tolist())
    result = loss_of_views(network, loss, *images, partners)
    assert result.total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", METHODS[1:])
def test_the_partner_is_the_neighbour_in_the_batch_by_default(network, images, method):
    loss = loss_by(method)
    expected = slow_step(network, loss.center.center, method, *images, [B - 1, *range(B - 1)])
    assert loss_of_views(network, loss, *images).total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", METHODS[1:])
def test_a_synthesis_needs_mixed_images(network, images, method):
    with pytest.raises(ValueError, match="needs the outputs of mixed images"):
        loss_by(method)(network(images[0]), network(images[1]))


def test_a_synthesis_gets_the_targets_of_exactly_the_two_views_that_were_mixed(network, images):
    calls = []

    def spy(first, second, mixup_lambda, center):
        calls.append((first, second, mixup_lambda, center))
        return first.representation

    loss = loss_by(spy)
    partners = torch.tensor([3, 5, 0, 1, 2, 4])
    targets = loss_of_views(network, loss, *images, partners).targets
    ((first, second, mixup_lambda, center),) = calls
    assert torch.equal(first.logits, targets[0].logits)
    assert torch.equal(second.logits, targets[0].logits[partners])
    assert second.representation == targets[0].representation[partners]
    assert (mixup_lambda, center) == (MIXING, loss.center)


def test_an_unknown_synthesis_is_an_error():
    with pytest.raises(AndornotError, match='unknown synthesis "median"; did you mean "mean"'):
        loss_by("median")


@every_method
def test_the_loss_returns_the_targets_of_both_views_and_moves_its_center(network, images, method):
    loss = loss_by(method)
    before = loss.center.center.clone()
    expected = [copy.deepcopy(network)(view).z for view in images]
    targets = loss_of_views(network, loss, *images).targets
    for target, logits in zip(targets, expected, strict=True):
        torch.testing.assert_close(target.logits, logits.detach())
    mean = (expected[0].mean(0) + expected[1].mean(0)) / 2
    torch.testing.assert_close(loss.center.center, 0.9 * before + 0.1 * mean.detach())


def test_the_center_stays_in_eval_mode(network, images):
    loss = loss_by("logic").eval()
    before = loss.center.center.clone()
    loss_of_views(network, loss, *images)
    assert torch.equal(loss.center.center, before)


def test_accumulated_batches_move_the_center_once_and_together(network, images):
    first, second = images
    halves = SynthesisLoss("vanilla", accumulate=2)
    whole = SynthesisLoss("vanilla")
    network.eval()
    for part in (slice(0, B // 2), slice(B // 2, B)):
        assert not halves.center.center.any()
        halves(network(first[part]), network(second[part]))
    whole(network(first), network(second))
    torch.testing.assert_close(halves.center.center, whole.center.center)


def test_the_center_is_part_of_the_state_of_the_loss():
    assert list(loss_by("logic").state_dict()) == ["center.center"]


# The gradient


def gradients(loss: Tensor, network: Network) -> dict[str, Tensor]:
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@every_method
def test_the_gradient_is_that_of_a_loss_with_constant_targets(network, images, method):
    """Targets are computed first, by a copy of the network, as numbers; then the loss, in plain torch."""
    loss = loss_by(method)
    partners = [3, 5, 0, 1, 2, 4]
    first, second = images
    with torch.no_grad():
        copied = copy.deepcopy(network)
        z_1, z_2 = copied(first).z, copied(second).z
    center = loss.center.center
    rows = [
        [slow_synthesis(method, z_1[i, j].tolist(), z_1[partners[i], j].tolist(), center[j].tolist()) for j in range(N)]
        for i in range(B)
    ]
    constants = [((z - center) / TAU_T).softmax(-1) for z in (z_2, z_1)] + [torch.tensor(rows)]
    values = torch.arange(M) / (M - 1)

    def loss_of(view: Tensor, target: Tensor) -> Tensor:
        logits = network(view).p / TAU_S
        e_p, e_z = logits.softmax(-1) @ values, target @ values
        bce = -e_z * e_p.log() - (1 - e_z) * (1 - e_p).log()
        return BETA * bce.mean() - (1 - BETA) * (target * logits.log_softmax(-1)).sum(-1).mean()

    mixed = MIXING * first + (1 - MIXING) * first[partners]
    by_view = [loss_of(view, target) for view, target in zip((first, second, mixed), constants, strict=True)]
    weights = (0.5, 0.5, 0) if method == "vanilla" else (ALPHA / 2, ALPHA / 2, 1 - ALPHA)
    expected = gradients(sum(w * part for w, part in zip(weights, by_view, strict=True)), network)
    ours = gradients(loss_of_views(network, loss, *images, torch.tensor(partners)).total, network)
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5, msg=name)
        assert gradient.any(), name


@every_method
def test_all_of_the_gradient_passes_through_the_predictor(network, images, method):
    """With a last layer of zeros nothing comes back through it: what else arrives would have come through targets."""
    nn.init.zeros_(network.predictor[-1].weight)
    result = loss_of_views(network, loss_by(method), *images)
    received = gradients(result.total, network)
    assert received["predictor.3.weight"].any()
    assert not any(gradient.any() for name, gradient in received.items() if not name.startswith("predictor.3."))


@every_method
def test_targets_do_not_require_a_gradient(network, images, method):
    made: list[Representation] = []

    def noted(*arguments):
        made.append(SYNTHESES[method](*arguments))
        return made[-1]

    targets = loss_of_views(network, loss_by(method if method == "vanilla" else noted), *images).targets
    assert len(made) == (0 if method == "vanilla" else 1)
    assert not any(target.probs.requires_grad for target in [*made, *(target.representation for target in targets)])


@every_method
def test_a_few_steps_lower_the_loss(network, images, method):
    loss = loss_by(method)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(15):
        result = loss_of_views(network, loss, *images)
        optimiser.zero_grad()
        result.total.backward()
        optimiser.step()
        losses.append(result.total.item())
    assert losses[-1] < 0.8 * losses[0]


def test_a_step_in_half_precision_computes_targets_and_losses_in_float32(network, images):
    with torch.autocast("cpu", torch.bfloat16):
        result = loss_of_views(network, loss_by("logic"), *images)
    assert result.losses.total.dtype == torch.float32
    assert result.losses.total.isfinite()
    assert result.targets[0].representation.dtype == torch.float32
