"""Words of captions as named features: which images mention them, and a linear head for each on the hidden features.

A word is shown by an image if at least two of its five captions mention it, not shown if none does; with one mention it
is left out of the figures, and counts little in training.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from .data import Labels
from .measures import average_precision

Floats = NDArray[np.float32]

ENOUGH: Final = 2
ONE_MENTION: Final = 0.25
FOLDS: Final = 5
LEAST_IMAGES: Final = 20
LEAST_PRECISION: Final = 0.4
# Strength of the penalty on weights: of 10, 30, 100 and 300 the one with the best mean average precision.
PENALTY: Final = 100.0

# What captions may call each. Things with a label of their own in COCO are not here.
MENTIONS: Final[dict[str, str]] = {
    "man": "man men guy guys gentleman male",
    "woman": "woman women lady ladies female",
    "child": "child children kid kids boy boys girl girls toddler",
    "boy": "boy boys",
    "girl": "girl girls",
    "baby": "baby babies infant",
    "people": "people persons group crowd men women kids children spectators",
    "crowd": "crowd crowds crowded",
    "couple": "couple",
    "beach": "beach beaches shore seashore",
    "ocean": "ocean sea",
    "water": "water ocean sea lake river pond",
    "lake": "lake pond",
    "river": "river stream",
    "snow": "snow snowy",
    "mountain": "mountain mountains",
    "hill": "hill hills hillside",
    "street": "street streets road roadway highway intersection",
    "sidewalk": "sidewalk",
    "city": "city downtown urban",
    "building": "building buildings",
    "house": "house houses home",
    "tower": "tower",
    "church": "church cathedral",
    "bridge": "bridge",
    "park": "park",
    "forest": "forest woods wooded",
    "tree": "tree trees",
    "field": "field fields",
    "grass": "grass grassy",
    "flower": "flower flowers",
    "plant": "plant plants",
    "sand": "sand sandy",
    "sky": "sky skies",
    "cloud": "cloud clouds cloudy",
    "sunset": "sunset",
    "night": "night nighttime",
    "rain": "rain rainy raining",
    "kitchen": "kitchen",
    "bathroom": "bathroom restroom",
    "bedroom": "bedroom",
    "living room": "living",
    "office": "office",
    "restaurant": "restaurant cafe diner",
    "room": "room",
    "desk": "desk desks",
    "window": "window windows",
    "door": "door doors doorway",
    "mirror": "mirror mirrors",
    "wall": "wall walls",
    "floor": "floor",
    "counter": "counter counters countertop",
    "cabinet": "cabinet cabinets",
    "shower": "shower",
    "bathtub": "tub bathtub",
    "curtain": "curtain curtains",
    "pillow": "pillow pillows",
    "lamp": "lamp lamps",
    "station": "station",
    "airport": "airport",
    "runway": "runway tarmac",
    "harbor": "harbor dock docked pier marina",
    "market": "market",
    "store": "store shop",
    "zoo": "zoo",
    "fence": "fence fenced",
    "tennis court": "court",
    "baseball": "baseball",
    "tennis": "tennis",
    "soccer": "soccer",
    "wave": "wave waves",
    "rock": "rock rocks rocky",
    "railroad tracks": "tracks track railroad",
    "parking lot": "parking",
    "plate": "plate plates",
    "food": "food meal lunch dinner breakfast dish",
    "meat": "meat chicken steak beef",
    "salad": "salad",
    "vegetable": "vegetable vegetables veggies",
    "fruit": "fruit fruits",
    "bread": "bread toast",
    "cheese": "cheese",
    "coffee": "coffee",
    "soup": "soup",
    "dessert": "dessert desserts",
    "box": "box boxes",
    "bag": "bag bags",
    "hat": "hat cap",
    "helmet": "helmet helmets",
    "glasses": "glasses sunglasses",
    "shirt": "shirt",
    "suit": "suit",
    "uniform": "uniform uniforms",
    "dress": "dress",
    "jacket": "jacket coat",
    "computer": "computer computers laptop",
    "camera": "camera",
    "toy": "toy toys",
    "sign": "sign signs",
    "statue": "statue sculpture",
    "painting": "painting paintings",
    "flag": "flag flags",
    "candle": "candle candles",
    "video game": "wii nintendo video",
    "graffiti": "graffiti",
    "herd": "herd",
    "flock": "flock",
    "animal": "animal animals",
    "red": "red",
    "blue": "blue",
    "green": "green",
    "yellow": "yellow",
    "white": "white",
    "black": "black",
    "brown": "brown",
    "pink": "pink",
    "purple": "purple",
    "wooden": "wooden wood",
    "old": "old vintage antique",
    "young": "young",
    "small": "small little",
    "large": "large big",
    "colorful": "colorful",
    "sunny": "sunny",
    "cloudy": "cloudy overcast",
    "dark": "dark",
    "sitting": "sitting sits seated",
    "standing": "standing stands",
    "riding": "riding rides ride",
    "playing": "playing plays play",
    "eating": "eating eats",
    "sleeping": "sleeping asleep laying lying lays",
    "smiling": "smiling smile",
    "walking": "walking walks",
    "flying": "flying flies",
    "jumping": "jumping jump jumps",
    "swimming": "swimming",
    "running": "running",
    "surfing": "surfing surfer surfers",
    "skiing": "skiing skier skiers",
    "skateboarding": "skateboarding skateboarder",
    "snowboarding": "snowboarding snowboarder",
    "cooking": "cooking preparing",
    "grazing": "grazing graze",
    "wedding": "wedding bride",
    "birthday": "birthday",
    "parade": "parade",
    "traffic": "traffic",
}


def count_mentions(captions: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return how many captions of each image mention each word, (images, words)."""
    spellings = [frozenset(words.split()) for words in MENTIONS.values()]
    counts = np.zeros((len(captions), len(spellings)), np.int64)
    for row, texts in enumerate(captions):
        for text in texts:
            tokens = set(re.findall(r"[a-z]+", text.lower()))
            counts[row] += [bool(tokens & spelling) for spelling in spellings]
    return counts


@dataclass(frozen=True)
class LinearHeads:
    """A weight for each feature and word, (features, words), and biases (words,)."""

    weight: Floats
    bias: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return logits (images, words)."""
        result: Floats = features @ self.weight + self.bias
        return result


def fit_linear(features: Floats, counts: NDArray[np.int64]) -> LinearHeads:
    """Fit logistic regressions with a penalty on weights. The scale of the features does not matter."""
    mean, scale = features.mean(0), float(features.std(0).mean())
    inputs = torch.from_numpy((features - mean) / scale)
    wanted = torch.from_numpy((counts > 0).astype(np.float32))
    importance = torch.from_numpy(np.where(counts == 1, ONE_MENTION, 1.0).astype(np.float32))
    weight = torch.zeros(features.shape[1], counts.shape[1], requires_grad=True)
    bias = torch.full((counts.shape[1],), -3.0, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=80, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        losses = binary_cross_entropy_with_logits(inputs @ weight + bias, wanted, importance, reduction="sum")
        total = losses + PENALTY / 2 * weight.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    fitted = weight.detach().numpy() / scale
    return LinearHeads(fitted.astype(np.float32), (bias.detach().numpy() - mean @ fitted).astype(np.float32))


def cross_validate(features: Floats, counts: NDArray[np.int64], seed: int) -> Floats:
    """Return the logits (images, words) of each image by heads that never saw it."""
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(features))
    logits = np.zeros(counts.shape, np.float32)
    for held_out in range(FOLDS):
        inside = fold != held_out
        logits[~inside] = fit_linear(features[inside], counts[inside])(features[~inside])
    return logits


def word_precisions(logits: Floats, counts: NDArray[np.int64]) -> dict[str, tuple[float, int]]:
    """Return the average precision of each word and the number of images that show it."""
    found = {}
    for column, word in enumerate(MENTIONS):
        asked = counts[:, column] != 1
        shown: Labels = counts[asked, column] >= ENOUGH
        found[word] = (average_precision(logits[asked, column], shown), int(shown.sum()))
    return found


def choose_words(precisions: Mapping[str, tuple[float, int]]) -> list[str]:
    """Return the words that enough images show and that reach the average precision that is asked of them."""
    return [w for w, (value, count) in precisions.items() if count >= LEAST_IMAGES and value >= LEAST_PRECISION]
