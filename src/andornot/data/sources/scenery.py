"""The grounds on which scenes stand: a sky that pales towards the horizon, hazy hills, and a floor; or a plain room."""

from typing import Final, NamedTuple

import numpy as np


class Palette(NamedTuple):
    """Colours from top to bottom: the sky's, the far and the near hills', the floor's."""

    sky: tuple[str, str]
    hills: tuple[str, str]
    floor: tuple[str, str]


PALETTES: Final = (
    Palette(("#7fc4ee", "#e6f5fb"), ("#b9dcd8", "#9ccb9e"), ("#a5d27f", "#7fb765")),  # a meadow at noon
    Palette(("#f7c6b4", "#fdf0dc"), ("#e3b9b8", "#c99fae"), ("#e0b78f", "#c99b74")),  # a warm evening
    Palette(("#9fd3e6", "#f5f6e8"), ("#c9dfd3", "#dccfa6"), ("#f3dfae", "#e3c78c")),  # a beach
    Palette(("#bcd4ec", "#f3f6fb"), ("#cfdcea", "#dfe8f1"), ("#f8fafc", "#dbe5ee")),  # snow
    Palette(("#a99ed6", "#f6dbe3"), ("#b7a6cf", "#9d97c0"), ("#a7b8a6", "#83998a")),  # lavender dusk
    Palette(("#86d0cf", "#f0f8ec"), ("#a9d9c3", "#8cc6a6"), ("#b9d98c", "#93bf72")),  # a valley in spring
    Palette(("#f6d98f", "#fdf6df"), ("#e9cfa0", "#d9b886"), ("#dcc48a", "#bfa56c")),  # fields in late summer
    Palette(("#93b3d9", "#dfe9f0"), ("#a3b9c9", "#8aa6ae"), ("#9dbf9f", "#7aa183")),  # hills after rain
)
ROOMS: Final = (
    Palette(("#f4e3d7", "#fbf1e9"), ("", ""), ("#e2c9b6", "#d2b39c")),
    Palette(("#dcebe4", "#eef7f2"), ("", ""), ("#bdd8cb", "#a5c6b7")),
    Palette(("#e1e4f4", "#f2f3fb"), ("", ""), ("#c6cae6", "#aeb4d8")),
    Palette(("#fbe7ea", "#fdf4f5"), ("", ""), ("#efc8cf", "#e2afb9")),
    Palette(("#dfeef5", "#f1f8fb"), ("", ""), ("#bcdae7", "#a2c8d9")),
    Palette(("#faf0cf", "#fdf8e6"), ("", ""), ("#eedc9f", "#e0c97f")),
)


def paint_ground(rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
    """A ground (size, size, 3) of floats from 0 to 255, and how far down its horizon is, from 0 to 1."""
    if rng.random() < 0.75:
        return _landscape(rng, size)
    return _room(rng, size)


def _landscape(rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
    palette = PALETTES[rng.integers(len(PALETTES))]
    horizon = rng.uniform(0.5, 0.64)
    down, across = _grid(size)
    ground = _gradient(palette.sky, down / horizon)
    # A soft light somewhere in the sky.
    light = np.exp(-(((across - rng.uniform(0.1, 0.9)) / 0.35) ** 2 + ((down - rng.uniform(0.05, 0.4)) / 0.28) ** 2))
    ground = ground + (255 - ground) * (0.35 * light)[..., None]
    for colour, rise in zip(palette.hills, (rng.uniform(0.09, 0.17), rng.uniform(0.03, 0.08)), strict=True):
        ridge = horizon - rise * _wave(rng, across[0], (1.0, 2.6))
        haze = np.clip((down - ridge) / 0.22, 0, 1)[..., None]
        hill = _rgb(colour) * (1 - 0.35 * haze) + _rgb(palette.sky[1]) * 0.35 * haze
        ground = _over(ground, hill, down - ridge, size)
    edge = horizon - 0.012 * _wave(rng, across[0], (0.6, 1.4))
    return _over(ground, _gradient(palette.floor, (down - horizon) / (1 - horizon)), down - edge, size), horizon


def _room(rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
    """A wall and a floor of one hue that melt into each other, lit from above."""
    palette = ROOMS[rng.integers(len(ROOMS))]
    horizon = rng.uniform(0.5, 0.64)
    down, across = _grid(size)
    wall = _gradient(palette.sky, down / horizon)
    floor = _gradient(palette.floor[::-1], (down - horizon) / (1 - horizon))
    share = 1 / (1 + np.exp(-(down - horizon) / 0.008))[..., None]
    ground = wall * (1 - share) + floor * share
    lamp = np.exp(-(((across - rng.uniform(0.3, 0.7)) / 0.5) ** 2 + ((down - 0.55) / 0.5) ** 2))[..., None]
    return ground * (0.93 + 0.07 * lamp) + 8 * lamp, horizon


def _grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    """How far down (size, 1) and across (1, size) each pixel is, from 0 to 1."""
    steps = np.arange(size, dtype=np.float32) / size
    return steps[:, None], steps[None]


def _over(below: np.ndarray, above: np.ndarray, depth: np.ndarray, size: int) -> np.ndarray:
    """Lays `above` where depth > 0, with an edge of about two pixels, so that it is not jagged."""
    share = np.clip(depth * size / 2 + 0.5, 0, 1)[..., None]
    return below * (1 - share) + above * share


def _wave(rng: np.random.Generator, across: np.ndarray, periods: tuple[float, float]) -> np.ndarray:
    """A smooth line in [0, 1]."""
    waves = sum(np.sin(2 * np.pi * (across * rng.uniform(0.7, 1.3) * period + rng.random())) for period in periods)
    line: np.ndarray = np.asarray(waves, np.float32) / (2 * len(periods)) + 0.5
    return line


def _gradient(colours: tuple[str, str], position: np.ndarray) -> np.ndarray:
    share = np.clip(position, 0, 1)[..., None]
    mixed: np.ndarray = _rgb(colours[0]) * (1 - share) + _rgb(colours[1]) * share
    return mixed


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)], dtype=np.float32)
