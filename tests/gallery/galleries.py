"""Small galleries of real files."""

import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from andornot.gallery import Gallery
from andornot.gallery.database import Picture
from andornot.gallery.feature_store import as_rows, checksum
from andornot.gallery.writer import open_writer
from andornot.model import Model, new_backbone
from andornot.ssl.backbones import Backbone, registry
from andornot.ssl.backbones.backbone import Pretrained
from andornot.ssl.recipe import Recipe, make_recipe


def tiny_recipe(**changes: object) -> Recipe:
    settings = {"regime": "calibrated", "backbone": "conv5", "backbone_options": {"width": 16}, "num_values": 4}
    return make_recipe({**settings, "calibration": {"power": 4, "doubt": 0.2}, **changes})


def _build_seeing(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """A backbone with all that can be seen in one pass: maps of 7 x 7 at its size of 28, and ImageNet's classes."""
    del pretrained
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(channels, 16, 4, stride=4), torch.nn.ReLU())
    classifier = torch.nn.Linear(16, 1000)
    for tensor in (*network.parameters(), *classifier.parameters()):
        tensor.data = torch.randn(tensor.shape, generator=generator)
    weights = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    return Backbone(
        network, name=name, width=16, size=28, channels=channels, pretrained=lambda: Pretrained(weights, classifier)
    )


registry._BUILDERS["seeing"] = _build_seeing


def seeing_recipe(**changes: object) -> Recipe:
    return tiny_recipe(backbone="seeing", backbone_options={}, **changes)


def tiny_model(seed: int = 0) -> Model:
    """A calibrated model of 16 features, in a moment."""
    recipe = tiny_recipe(seed=seed)
    backbone = new_backbone(recipe, channels=3)
    pictures = torch.rand(30, 3, 28, 28, generator=torch.Generator().manual_seed(seed))
    features = Model(backbone, torch.nn.Identity(), recipe).activations(pictures)
    return Model.calibrated(backbone, features, recipe)


def pixels(seed: int, size: int = 28) -> np.ndarray:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC))


def save_picture(path: Path, seed: int, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed)).save(path, **options)
    return path


def photos(folder: Path, count: int, start: int = 0) -> Path:
    """A folder of pictures 28 x 28, each different, `000.png` and so on."""
    for number in range(start, start + count):
        save_picture(folder / f"{number:03}.png", number)
    return folder


def contents(gallery: Gallery) -> dict[str, np.ndarray]:
    """The features of each picture, by its path: all that decides about results."""
    snapshot = gallery._snapshot
    return dict(zip(gallery.paths, gallery._features.read(snapshot.rows), strict=True))


def assert_same_contents(one: Gallery, other: Gallery) -> None:
    mine, theirs = contents(one), contents(other)
    assert mine.keys() == theirs.keys()
    for path, features in mine.items():
        # Batches of another size are added up in another order.
        np.testing.assert_allclose(features, theirs[path], rtol=2e-3, atol=1e-3, err_msg=path)


def touch_later(path: Path) -> None:
    """Another time of change, whatever the clock's resolution."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def grow_without_files(gallery: Gallery, count: int, seed: int = 0) -> None:
    """Adds pictures that have features and no files, between those of real ones, by the thousand in a moment."""
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.rand(60, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    base = gallery.model.activations(pictures)
    weights = (4 * torch.randn(count, len(base), generator=generator)).softmax(-1)
    features = weights @ base
    with open_writer(gallery.folder) as writer:
        rows = as_rows(features)
        first = writer.features.append(rows)
        for row, own in enumerate(rows, first):
            digest = row.to_bytes(32, "big")
            path = f"/none/{row % 3}/{row:06}.png"
            writer.database.insert(Picture(writer.new_id(), path, 1, 1, digest, row, row, checksum(own)))
        writer.commit()
    gallery.refresh()
