"""Roughly how long an experiment takes, from what it trains and measures; rates of two cores, measured in 2026."""

from __future__ import annotations

from math import comb
from typing import Final

from ..data import ImageSet
from ..evaluate.experiments.compared_operators import OPERATORS
from ..evaluate.experiments.protocol import Protocol
from ..ssl.recipe import Recipe

# Pictures a second: two views of each through network and heads, forwards and back; heads alone; and views through a
# pretrained backbone.
_TRAINED: Final = {"conv5": 500.0}
_LARGE_TRAINED: Final = 8.0
_HEADS: Final = 1000.0
_FEATURES: Final = 50.0
# Rows a second: features through a linear layer in training, and products of a query with a picture of the gallery.
_LINEAR: Final = 150_000.0
_PRODUCTS: Final = 1e8
_LINEAR_EPOCHS: Final = 100


def training_seconds(recipe: Recipe, pictures: int, runs: int) -> float:
    """Of all runs of one model."""
    if recipe.regime == "calibrated":
        return pictures / _FEATURES
    if recipe.regime == "frozen":
        return runs * pictures * recipe.epochs / _HEADS
    return runs * pictures * recipe.epochs / _TRAINED.get(recipe.backbone, _LARGE_TRAINED)


def features_seconds(recipe: Recipe, pictures: int) -> float:
    """Of the views that all heads on one backbone share: plain ones and mixed ones."""
    return 2 * recipe.cached_views * pictures / _FEATURES if recipe.regime == "frozen" else 0.0


def probe_seconds(pictures: int, runs: int) -> float:
    """Of linear layers on cached features."""
    return runs * (pictures * _LINEAR_EPOCHS / _LINEAR + pictures / _TRAINED["conv5"])


def search_seconds(gallery: ImageSet, protocol: Protocol, runs: int) -> float:
    """Of all combinations of all operators, over all pairs of classes."""
    pairs = 2 * comb(len(gallery.class_names), 2)
    ways = sum(len(operator.distances) for operator in OPERATORS)
    return runs * pairs * ways * protocol.pictures**2 * len(gallery) / _PRODUCTS


def in_words(seconds: float) -> str:
    """A rough time as people say it.

    >>> in_words(40), in_words(1100), in_words(20_000), in_words(400_000)
    ('a minute', '18 minutes', '6 hours', '5 days')
    """
    if seconds < 90:
        return "a minute"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"
