"""What commands are tried on, and what they say of a mistake."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe


def make_sets(folder: Path) -> None:
    """Folders `two` (classes, in train and test), `bare` (without labels) and `model`."""
    random = np.random.default_rng(0)
    places = [folder / "two" / split / name for split in ("train", "test") for name in ("dark", "light")]
    for place in (*places, folder / "bare"):
        place.mkdir(parents=True)
        for number in range(8):
            pixels = random.integers(0, 99, (28, 28), dtype=np.uint8) + 120 * (place.name == "light")
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    Model.from_network(new_network(recipe, 3), recipe).save(folder / "model")


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr, without the program's name; and nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("andornot: ")
    return line.removeprefix("andornot: ")
