"""Small galleries of real files."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from andornot.concepts import QuantizedClasses
from andornot.gallery import Gallery
from andornot.gallery.encoding import Extracted, classes_to_bytes, to_half
from andornot.gallery.records import ImageRecord
from andornot.gallery.rows import image_rows
from andornot.gallery.storage import Storage
from andornot.gallery.table import ImageTable
from andornot.gallery.writing import open_writer
from andornot.model import Model, new_backbone
from andornot.ssl.backbones import Backbone, registry
from andornot.ssl.backbones.backbone import Pretrained
from andornot.ssl.recipe import Recipe, make_recipe


def tiny_recipe(**changes: object) -> Recipe:
    settings = {"regime": "calibrated", "backbone": "conv5", "backbone_options": {"width": 16}, "num_values": 4}
    return make_recipe({**settings, "calibration": {"power": 4, "smoothing": 0.2}, **changes})


def _build_seeing(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """Return a backbone with ImageNet's classes; that called "seeing" has maps of 7 x 7 at its size of 28, too."""
    del pretrained
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(channels, 16, 4, stride=4), torch.nn.ReLU())
    if name != "seeing":
        network.append(torch.nn.AdaptiveAvgPool2d(1))
    classifier = torch.nn.Linear(16, 1000)
    for tensor in (*network.parameters(), *classifier.parameters()):
        tensor.data = torch.randn(tensor.shape, generator=generator)
    weights = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    return Backbone(
        network, name=name, width=16, size=28, channels=channels, pretrained=lambda: Pretrained(weights, classifier)
    )


registry._BUILDERS["seeing"] = registry._BUILDERS["naming"] = _build_seeing


def seeing_recipe(**changes: object) -> Recipe:
    return tiny_recipe(backbone="seeing", backbone_options={}, **changes)


def naming_recipe(**changes: object) -> Recipe:
    """Return a recipe with words and without regions."""
    return tiny_recipe(backbone="naming", backbone_options={}, **changes)


def tiny_model(seed: int = 0, recipe: Recipe | None = None) -> Model:
    """A calibrated model of 16 features, in a moment."""
    recipe = recipe or tiny_recipe(seed=seed)
    backbone = new_backbone(recipe, channels=3)
    images = torch.rand(30, 3, 28, 28, generator=torch.Generator().manual_seed(seed))
    features = Model(backbone, torch.nn.Identity(), recipe).activations(images)
    return Model.calibrated(backbone, features, recipe)


def pixels(seed: int, size: int = 28) -> np.ndarray:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC))


def save_image(path: Path, seed: int, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed)).save(path, **options)
    return path


def photos(folder: Path, count: int, start: int = 0) -> Path:
    """A folder of images 28 x 28, each different, `000.png` and so on."""
    for number in range(start, start + count):
        save_image(folder / f"{number:03}.png", number)
    return folder


def table_of(gallery: Gallery) -> ImageTable:
    """Return the version of the table of images that a gallery has open."""
    return ImageTable.open(Storage(gallery.address), gallery.version)


def contents(gallery: Gallery) -> dict[str, np.ndarray]:
    """Return the activations of each image by its path: they decide what is found."""
    table = table_of(gallery)
    return dict(zip(table.paths, table.activations(table.ids), strict=True))


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
    """Add images that have activations and no files, between those of real ones, by the thousand in a moment."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(60, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    base = gallery.model.activations(images)
    weights = (4 * torch.randn(count, len(base), generator=generator)).softmax(-1)
    first = max(gallery.ids, default=0) + 1
    paths = [f"/none/{number % 3}/{number:06}.png" for number in range(first, first + count)]
    add_without_files(gallery, paths, weights @ base)


def add_without_files(
    gallery: Gallery,
    paths: Sequence[str],
    activations: torch.Tensor | None = None,
    regions: torch.Tensor | None = None,
    classes: QuantizedClasses | None = None,
) -> None:
    """Add images that have no files."""
    if activations is None:
        generator = torch.Generator().manual_seed(0)
        activations = torch.rand(len(paths), gallery.model.backbone.width, generator=generator)
    extracted = Extracted(
        to_half(activations),
        None if regions is None else to_half(regions),
        None if classes is None else classes_to_bytes(classes),
    )
    with open_writer(Storage(gallery.address)) as writer:
        ids = [writer.new_id() for _ in paths]
        records = [
            ImageRecord(identity, path, 1, 1, identity.to_bytes(16, "big"), identity, False, 28, 28)
            for identity, path in zip(ids, paths, strict=True)
        ]
        writer.put(image_rows(records, extracted))
        writer.commit()
        if writer.needs_basis:
            writer.fit_basis(gallery.model)
        writer.encode_regions(gallery.model)
        writer.refit(gallery.model)
        writer.finish()
    gallery.refresh()
