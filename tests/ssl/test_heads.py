"""SimSiam's heads, layer by layer."""

import pytest
import torch
from torch import Tensor, nn

from andornot.ssl.network import Predictor, Projector, fused
from andornot.ssl.runtime import synchronise_batch_norms


def normalised(x: Tensor) -> Tensor:
    """Batch norm in its plain form, without an affine part."""
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def shift_norms(head: nn.Module) -> None:
    """Gives every affine batch norm a weight and bias that show when they are left out."""
    for module in head.modules():
        if isinstance(module, nn.BatchNorm1d) and module.affine:
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.uniform_(module.bias, -1, 1)


def test_projector_is_three_times_linear_and_norm():
    torch.manual_seed(0)
    projector, x = Projector(6, 8, 10), torch.randn(32, 6)
    shift_norms(projector)
    weights = dict(projector.named_parameters())
    h = (normalised(x @ weights["0.weight"].T) * weights["1.weight"] + weights["1.bias"]).relu()
    h = (normalised(h @ weights["3.weight"].T) * weights["4.weight"] + weights["4.bias"]).relu()
    expected = normalised(h @ weights["6.weight"].T)
    torch.testing.assert_close(projector(x), expected, rtol=1e-4, atol=1e-5)


def test_projector_has_no_bias_and_no_affine_part_at_its_end():
    shapes = {name: tuple(p.shape) for name, p in Projector(6, 8, 10).named_parameters()}
    norms = {"1.weight": (8,), "1.bias": (8,), "4.weight": (8,), "4.bias": (8,)}
    assert shapes == {"0.weight": (8, 6), "3.weight": (8, 8), "6.weight": (10, 8), **norms}


@pytest.mark.parametrize(("layers", "widths"), [(1, [10]), (2, [8, 10]), (3, [8, 8, 10])])
def test_projector_has_so_many_layers(layers, widths):
    projector = Projector(6, 8, 10, layers)
    assert [m.out_features for m in projector if isinstance(m, nn.Linear)] == widths
    assert projector(torch.randn(4, 6)).shape == (4, 10)


def test_projected_logits_have_mean_0_and_variance_1_in_a_batch():
    z = Projector(6, 8, 10)(torch.randn(256, 6))
    torch.testing.assert_close(z.mean(0), torch.zeros(10), rtol=0, atol=1e-5)
    torch.testing.assert_close(z.var(0, unbiased=False), torch.ones(10), rtol=0, atol=1e-2)


def test_projector_hidden_width_is_the_backbone_width_by_default():
    projector = Projector(6, None, 10)
    assert [m.out_features for m in projector if isinstance(m, nn.Linear)] == [6, 6, 10]


def test_predictor_is_linear_norm_relu_linear():
    torch.manual_seed(0)
    predictor, z = Predictor(10, 7), torch.randn(32, 10)
    shift_norms(predictor)
    weights = dict(predictor.named_parameters())
    h = (normalised(z @ weights["0.weight"].T) * weights["1.weight"] + weights["1.bias"]).relu()
    torch.testing.assert_close(predictor(z), h @ weights["3.weight"].T + weights["3.bias"], rtol=1e-4, atol=1e-5)


def test_predictor_has_a_bias_in_its_last_layer_only_and_512_hidden():
    shapes = {name: tuple(p.shape) for name, p in Predictor(10).named_parameters()}
    norm = {"1.weight": (512,), "1.bias": (512,)}
    assert shapes == {"0.weight": (512, 10), "3.weight": (10, 512), "3.bias": (10,), **norm}


def test_gradients_reach_every_parameter_and_the_input():
    x = torch.randn(16, 6, requires_grad=True)
    heads = nn.Sequential(Projector(6, None, 10), Predictor(10, 4))
    heads(x).square().sum().backward()
    assert x.grad is not None
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in heads.parameters())


@pytest.mark.parametrize("make", [lambda: Projector(0, None, 10), lambda: Projector(6, 8, 0), lambda: Predictor(10, 0)])
def test_a_width_below_1_is_an_error(make):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        make()


def test_fused_heads_compute_the_same_with_fewer_layers():
    torch.manual_seed(0)
    projector, predictor = Projector(20, 30, 24), Predictor(24, 16)
    for _ in range(3):  # running statistics of their own
        predictor(projector(3 * torch.randn(64, 20) + 1))
    heads = nn.Sequential(*projector, *predictor).eval()
    fast = fused(heads)
    assert [type(layer).__name__ for layer in fast] == ["Linear", "ReLU", "Linear", "ReLU", "Linear", "ReLU", "Linear"]
    features = torch.randn(50, 20)
    torch.testing.assert_close(fast(features), heads(features), rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="cannot fuse a Dropout"):
        fused([nn.Dropout()])


def test_synchronised_batch_norms_can_be_fused():
    projector = synchronise_batch_norms(Projector(6, 8, 10)).eval()
    x = torch.randn(4, 6)
    torch.testing.assert_close(fused(projector)(x), projector(x), rtol=1e-4, atol=1e-5)
