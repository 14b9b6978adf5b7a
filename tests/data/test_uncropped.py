"""What crops are cut from: all of each image."""

import numpy as np
import pytest
import torch
from makers import save_image, write_mnist
from PIL import Image

from andornot.data import open_images
from andornot.data.resized import open_uncropped


@pytest.fixture
def folder(tmp_path):
    for number, (height, width) in enumerate([(40, 80), (80, 40), (50, 50)]):
        save_image(tmp_path / f"{number}.png", number, height=height, width=width)
    return tmp_path


def test_shapes_are_those_of_the_upright_originals(folder):
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (30, 20)).save(folder / "3.jpg", exif=turned)
    assert open_images(folder).shapes().tolist() == [[40, 80], [80, 40], [50, 50], [30, 20]]


def test_all_of_an_image_is_kept_at_most_twice_as_large_as_a_view(folder):
    images, shapes = open_uncropped(open_images(folder), 16)
    assert images.shape == (3, 3, 32, 32)
    assert shapes.tolist() == [[40, 80], [80, 40], [50, 50]]
    expected = Image.open(folder / "0.png").resize((32, 32), Image.Resampling.BICUBIC, reducing_gap=3.0)
    assert np.array_equal(images[0].permute(1, 2, 0).numpy(), np.asarray(expected))


def test_no_image_is_made_larger_than_the_largest_original(folder, tmp_path):
    assert open_uncropped(open_images(folder), 224).images.size == 80
    write_mnist(tmp_path / "mnist")
    images = open_images(f"mnist:{tmp_path / 'mnist'}")
    resized, shapes = open_uncropped(images, 28)
    assert torch.equal(resized[:], images.resized(28)[:]), "as they are"
    assert set(map(tuple, shapes.tolist())) == {(28, 28)}


def test_shapes_are_of_the_readable_images(folder):
    (folder / "1.png").write_bytes(b"no image")
    images, shapes = open_uncropped(open_images(folder), 16)
    assert len(images) == 2
    assert shapes.tolist() == [[40, 80], [50, 50]]
