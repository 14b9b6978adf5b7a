"""Made-up images with a bright square in one or several corners, and small models to look at them."""

import numpy as np
import torch
from torch import nn

from andornot.data import ImageSet
from andornot.data.imageset import multi_hot
from andornot.data.readers import ArrayReader
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

CORNERS = ("top left", "top right", "bottom left", "bottom right")


def squares(count, *, seed=0, side=16, channels=1, several=False, labels=True) -> ImageSet:
    """Noise with bright corners; the classes are the corners, one each or any number of them."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((count, 4)) < 0.4 if several else np.eye(4, dtype=bool)[np.arange(count) % 4]
    pixels = rng.integers(0, 60, (count, side, side, channels), dtype=np.uint8)
    half = side // 2
    for corner in range(4):
        top, left = half * (corner // 2), half * (corner % 2)
        pixels[chosen[:, corner], top : top + half, left : left + half] += 180
    return ImageSet(
        ArrayReader(pixels.squeeze(-1) if channels == 1 else pixels),
        [f"squares/{number}" for number in range(count)],
        labels=multi_hot([np.flatnonzero(row).tolist() for row in chosen], 4) if labels else None,
        class_names=CORNERS,
        channels=channels,
    )


def small_model(channels=1, size=16, images=None, **changes) -> Model:
    """A random network whose norms have seen images, so that its features are of the usual scale."""
    recipe = make_recipe(
        {
            "backbone": "conv5",
            "backbone_options": {"width": 64},
            "num_features": 6,
            "num_values": 4,
            "predictor_hidden": 8,
            "size": size,
            **changes,
        }
    )
    network = new_network(recipe, channels).train()
    resized = (images or squares(64, side=size, channels=channels, several=True)).resized(size)[:64].float() / 255
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = 1.0  # one look is enough
    with torch.no_grad():
        network(resized)
    return Model.from_network(network, recipe)
