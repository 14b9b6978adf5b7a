"""Encoding by ONNX Runtime: torch's numbers, or torch itself; and a cache that nobody has to trust."""

import hashlib
import io
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from andornot.model import Model, new_backbone
from andornot.ssl.backbones import accelerate, acceleration, build_backbone, is_worthwhile, wrap_backbone
from andornot.ssl.batches import cache_activations
from andornot.ssl.network import Network
from andornot.ssl.recipe import make_recipe
from andornot.ssl.views import Views, ViewSettings


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANDORNOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "networks"


@pytest.fixture
def exports(monkeypatch):
    """The names of the backbones that are exported."""
    names = []
    original = acceleration._export
    monkeypatch.setattr(
        acceleration, "_export", lambda backbone, size: (names.append(backbone.name), original(backbone, size))[1]
    )
    return names


def small() -> nn.Module:
    torch.manual_seed(0)
    return wrap_backbone(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), size=12).eval()


def files(folder, ending=".network"):
    return sorted(path for path in folder.iterdir() if path.suffix == ending)


class Attention(nn.Module):
    """As a transformer of a zoo: tokens, a layer of attention, their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, stride=4)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x):
        return self.layer(self.embed(x).flatten(2).transpose(1, 2)).mean(1)


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: build_backbone("conv5", channels=1), 28),
        (lambda: build_backbone("resnet18", stem="cifar"), 32),
        (lambda: build_backbone("resnet50"), 64),
        (lambda: build_backbone("efficientnet-lite0"), 96),
        (small, 12),
        (lambda: wrap_backbone(Attention(), size=16), 16),
    ],
    ids=["conv5", "resnet18", "resnet50", "efficientnet-lite0", "module with a map", "transformer"],
)
def test_maps_are_those_of_torch(make, size):
    torch.manual_seed(0)
    backbone = make().eval()
    fast = accelerate(backbone, size)
    with torch.no_grad():
        for count in (1, 5):
            images = torch.rand(count, backbone.channels, size, size)
            wanted = backbone.maps(images)
            assert fast(images).shape == wanted.shape
            assert (fast(images) - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_a_model_of_timm_is_exported_as_it_is_built(install):
    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward_features(self, x):
            return nn.functional.gelu(self.conv(x))

        def forward_head(self, x):
            return x.amax((2, 3))

        def forward(self, x):
            return self.forward_head(self.forward_features(x))

    data = SimpleNamespace(resolve_model_data_config=lambda _: {"input_size": (3, 16, 16), "mean": (0,), "std": (1,)})
    install("timm", SimpleNamespace(create_model=lambda *_, **__: Convolutions(), data=data))
    backbone = build_backbone("timm:tiny").eval()
    images = torch.rand(3, 3, 16, 16)
    pooled = backbone.pool(accelerate(backbone, 16)(images))
    torch.testing.assert_close(pooled, backbone.network(images), rtol=1e-4, atol=1e-5)


def test_grey_images_are_repeated_and_wrong_ones_refused():
    backbone = small()
    fast, grey = accelerate(backbone, 12), torch.rand(2, 1, 12, 12)
    torch.testing.assert_close(fast(grey), backbone.maps(grey), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="takes images with 3 channels"):
        fast(torch.rand(2, 2, 12, 12))


def test_the_backbone_stays_as_it_was():
    backbone = build_backbone("efficientnet-lite0", pretrained=False).eval()
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    accelerate(backbone, 64)
    assert not any(module.training for module in backbone.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in backbone.state_dict().items())


# The cache


def test_a_backbone_in_training_is_computed_as_it_will_be_used_and_learns_nothing_from_it():
    backbone, images = small(), torch.rand(3, 3, 12, 12)
    wanted = backbone.maps(images)
    before = {name: value.clone() for name, value in backbone.train().state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = accelerate(backbone, 12)(images)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert backbone.training
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_an_export_is_made_once(exports, cache):
    for _ in range(3):
        accelerate(small(), 12)
    assert len(exports) == len(files(cache)) == 1
    accelerate(small(), 14)
    changed = small()
    changed.network[0].weight.data += 0.01
    accelerate(changed, 12)
    assert len(exports) == len(files(cache)) == 3


@pytest.mark.parametrize("part", [slice(-100), slice(0), slice(32)], ids=["most", "nothing", "its digest"])
def test_a_damaged_file_is_made_anew(exports, cache, part):
    accelerate(small(), 12)
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(whole[part])
    accelerate(small(), 12)
    assert len(exports) == 2
    assert file.read_bytes() == whole


def test_a_single_wrong_bit_is_noticed(exports, cache):
    accelerate(small(), 12)
    (file,) = files(cache)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    accelerate(small(), 12)
    assert len(exports) == 2


def test_code_that_changed_under_the_same_weights_is_noticed(exports):
    class Mine(nn.Conv2d):
        step = staticmethod(torch.relu)

        def forward(self, x):
            return self.step(super().forward(x))

    torch.manual_seed(0)
    backbone = wrap_backbone(Mine(3, 8, 3), size=12).eval()
    accelerate(backbone, 12)
    Mine.step = staticmethod(torch.tanh)
    images = torch.rand(2, 3, 12, 12)
    torch.testing.assert_close(accelerate(backbone, 12)(images), backbone.maps(images), rtol=1e-4, atol=1e-4)
    assert len(exports) == 2


@pytest.mark.parametrize("place", ["a file", "dev/full"])
def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path, place, exports):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("ANDORNOT_CACHE", str(tmp_path / "a file") if place == "a file" else "/dev/full")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accelerate(small(), 12)
        accelerate(small(), 12)
    assert len(exports) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_done_without(exports, cache):
    accelerate(small(), 12)
    (file,) = files(cache)
    file.unlink()
    Path(f"{file}.partial").symlink_to("/dev/full")
    accelerate(small(), 12)
    assert not file.exists()
    assert len(exports) == 2


def test_a_cache_for_reading_only_is_read(monkeypatch, exports):
    accelerate(small(), 12)

    class Refusing:
        def __init__(self, *_, **__) -> None:
            pass

        def acquire(self):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(acceleration, "FileLock", Refusing)
    accelerate(small(), 12)
    assert len(exports) == 1


def exported(module: nn.Module) -> bytes:
    """What the cache holds of a network that takes what `small()` takes."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            (torch.zeros(2, 3, 16, 16),),
            file,
            dynamo=False,
            input_names=["images"],
            output_names=["maps"],
            dynamic_axes={"images": {0: "batch"}, "maps": {0: "batch"}},
        )
    content = file.getvalue()
    return hashlib.sha256(content).digest() + content


class OnlyNoise(nn.Module):
    """Right for noise, and for nothing else: what is smooth gets the wrong numbers."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images):
        right = self.backbone.maps(images)
        change = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3), keepdim=True)
        return torch.where(change > 0.25, right, right * 0.5)


def test_a_file_in_the_cache_that_is_right_for_noise_alone_is_not_used(cache, exports):
    backbone = small()
    accelerate(backbone, 16)
    (file,) = files(cache)
    file.write_bytes(exported(OnlyNoise(backbone)))
    maps = accelerate(backbone, 16)
    images = torch.full((2, 3, 16, 16), 0.5)
    torch.testing.assert_close(maps(images), backbone.maps(images), rtol=1e-4, atol=1e-5)
    assert len(exports) == 2


def test_activations_that_are_all_zero_are_never_taken_for_the_same(cache):
    backbone = wrap_backbone(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Threshold(1e9, 0)), size=16).eval()
    with pytest.warns(UserWarning, match="its activations are all zero"):
        accelerate(backbone, 16)
    assert not cache.exists()


def test_the_folder_of_networks_is_the_users_alone(cache):
    before = os.umask(0o002)
    try:
        accelerate(small(), 16)
        folder = cache
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        folder.chmod(0o777)  # as somebody may have made it
        accelerate(small(), 16)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("whose", ["folder", "file"])
def test_what_somebody_else_owns_is_not_used(cache, exports, whose):
    backbone = small()
    accelerate(backbone, 16)
    (file,) = files(cache)
    os.chown(file if whose == "file" else file.parent, 12345, 12345)
    accelerate(backbone, 16)
    assert len(exports) == 2


def test_the_least_recently_used_make_room(monkeypatch, cache):
    accelerate(small(), 12)
    (first,) = files(cache)
    monkeypatch.setattr(acceleration, "_CACHE_BYTES", int(2.5 * first.stat().st_size))
    os.utime(first, (0, 0))
    for size in (13, 14):
        accelerate(small(), size)
    left = files(cache)
    assert len(left) == 2
    assert first not in left


def test_two_processes_at_once_export_one_file(cache):
    code = (
        "import torch; from torch import nn; from andornot.ssl.backbones import accelerate, wrap_backbone\n"
        "torch.manual_seed(0); torch.set_num_threads(1)\n"
        "backbone = wrap_backbone(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), size=12).eval()\n"
        "x = torch.rand(2, 3, 12, 12)\n"
        "assert torch.allclose(accelerate(backbone, 12)(x), backbone.maps(x), atol=1e-4)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-W", "error::UserWarning", "-c", code]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(files(cache)) == 1
    assert files(cache, ".partial") == []


# Where it does not work


def test_a_network_that_cannot_be_exported_is_computed_by_torch_with_one_line(capfd):
    class Fourier(nn.Module):
        def forward(self, x):
            return torch.fft.fft2(x).abs()

    backbone = wrap_backbone(Fourier(), size=8)
    with pytest.warns(UserWarning, match=r"^module:Fourier is computed by torch, not by ONNX Runtime: [^\n]+$") as told:
        fast = accelerate(backbone, 8)
    assert len(told) == 1
    assert capfd.readouterr() == ("", "")
    images = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(fast(images), backbone.maps(images))


def test_numbers_that_differ_are_not_used(cache):
    class Remembering(nn.Module):
        """Counts its calls, which an export cannot know of."""

        calls = 0

        def forward(self, x):
            Remembering.calls += 1
            return x * Remembering.calls

    with pytest.warns(UserWarning, match="not by ONNX Runtime: ONNX output differs from PyTorch"):
        accelerate(wrap_backbone(Remembering(), size=8), 8)
    assert files(cache) == []


def test_without_the_package_torch_is_used(install):
    install("onnxruntime", None)
    with pytest.warns(UserWarning, match="computed by torch"):
        accelerate(small(), 12)


# Who uses it


def test_few_images_are_computed_by_torch_and_many_are_not(exports):
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated", "size": 64})
    model = Model.calibrated(new_backbone(recipe, 3), torch.rand(20, 1280), recipe)
    images = torch.rand(4, 3, 64, 64)
    by_torch = model.activations(images)
    assert exports == []
    model._seen = 10**9
    torch.testing.assert_close(model.activations(images), by_torch, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.backbone.pool(model.maps(images)), by_torch, rtol=1e-4, atol=1e-4)
    assert exports == ["efficientnet-lite0"]


def test_what_is_worthwhile_grows_with_the_images():
    assert not is_worthwhile(255, 224)
    assert is_worthwhile(256, 224)
    assert not is_worthwhile(10_000, 28)
    assert is_worthwhile(20_000, 28)


def test_cached_activations_of_views_go_through_it(monkeypatch, exports):
    from andornot.data import open_images
    from andornot.ssl import batches

    images = open_images("digits", split="train").subset(range(8)).resized(28)
    network = Network(build_backbone("conv5", channels=1), 4, 4).eval()
    views = Views(ViewSettings.digits())

    def made():
        return cache_activations(network, images, views, count=2, mixup_lambda=0.5, seed=0)

    by_torch = made()
    assert exports == []
    monkeypatch.setattr(batches, "is_worthwhile", lambda *_: True)
    by_runtime = made()
    assert exports == ["conv5"]
    torch.testing.assert_close(by_runtime.views, by_torch.views, rtol=2e-3, atol=1e-3)
