"""`scenes`: synthetic images of emoji on a landscape (sky, hills, floor) or in a plain room, with labels and boxes."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

from ...errors import unknown
from ..errors import DataError
from ..imageset import Box, ImageSet, multi_hot
from ..specs import check_split


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
    """Return a background (size, size, 3) of floats from 0 to 255, and its horizon (0: top, 1: bottom)."""
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
    """Return a wall and a floor of one hue with a soft transition, lit from above."""
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
    """Return the relative row (size, 1) and column (1, size) of each pixel, from 0 to 1."""
    steps = np.arange(size, dtype=np.float32) / size
    return steps[:, None], steps[None]


def _over(below: np.ndarray, above: np.ndarray, depth: np.ndarray, size: int) -> np.ndarray:
    """Draw `above` where depth > 0, with an antialiased edge of about two pixels."""
    share = np.clip(depth * size / 2 + 0.5, 0, 1)[..., None]
    return below * (1 - share) + above * share


def _wave(rng: np.random.Generator, across: np.ndarray, periods: tuple[float, float]) -> np.ndarray:
    """Return a smooth line in [0, 1]."""
    waves = sum(np.sin(2 * np.pi * (across * rng.uniform(0.7, 1.3) * period + rng.random())) for period in periods)
    line: np.ndarray = np.asarray(waves, np.float32) / (2 * len(periods)) + 0.5
    return line


def _gradient(colours: tuple[str, str], position: np.ndarray) -> np.ndarray:
    share = np.clip(position, 0, 1)[..., None]
    mixed: np.ndarray = _rgb(colours[0]) * (1 - share) + _rgb(colours[1]) * share
    return mixed


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)], dtype=np.float32)


ATTRIBUTION: Final = (
    "Twemoji graphics by Twitter, Inc. and other contributors, CC-BY 4.0: https://github.com/jdecked/twemoji"
)
SPLITS: Final = ("train", "test")
MAX_COUNT: Final = 10_000_000
MAX_OBJECTS: Final = 3
_MARGIN: Final = 0.02
_VISIBLE: Final = [0] * 24 + [255] * 232  # pixels with an alpha below 24 count as invisible
_VERSION: Final = 1  # part of cache keys: increase it when the drawing changes


class Thing(NamedTuple):
    """A class: the code of its emoji, whether it flies, and its relative height."""

    code: str
    flies: bool = False
    scale: float = 1.0


THINGS: Final[dict[str, Thing]] = {
    "dog": Thing("1f415"),
    "cat": Thing("1f408"),
    "horse": Thing("1f40e", scale=1.15),
    "cow": Thing("1f404", scale=1.15),
    "elephant": Thing("1f418", scale=1.2),
    "rabbit": Thing("1f407", scale=0.9),
    "penguin": Thing("1f427"),
    "turtle": Thing("1f422", scale=0.85),
    "bird": Thing("1f426", scale=0.85),
    "butterfly": Thing("1f98b", flies=True, scale=0.8),
    "car": Thing("1f697", scale=1.15),
    "bus": Thing("1f68c", scale=1.2),
    "bicycle": Thing("1f6b2", scale=1.1),
    "tractor": Thing("1f69c", scale=1.15),
    "airplane": Thing("2708", flies=True),
    "tree": Thing("1f333", scale=1.25),
    "flower": Thing("1f33b", scale=0.95),
    "mushroom": Thing("1f344", scale=0.85),
    "house": Thing("1f3e0", scale=1.25),
    "ball": Thing("26bd", scale=0.8),
    "apple": Thing("1f34e", scale=0.8),
    "umbrella": Thing("2602"),
    "balloon": Thing("1f388", flies=True),
    "sun": Thing("2600", flies=True),
}


class Placed(NamedTuple):
    """An object in a scene: its class, its image (RGBA, cropped to visible pixels), and its top left corner."""

    number: int
    sprite: Image.Image
    left: int
    top: int
    flies: bool

    @property
    def box(self) -> tuple[float, float, float, float]:
        """(x0, y0, x1, y1), the tight bounding box of the visible pixels."""
        return (self.left, self.top, self.left + self.sprite.width, self.top + self.sprite.height)


def open_scenes(
    split: str | None = None,
    *,
    count: int = 1000,
    seed: int = 0,
    size: int = 224,
    classes: Sequence[str] | None = None,
) -> ImageSet:
    """Open `count` scenes. Image i depends on the seed, the split, the size and the classes, not on the count."""
    check_split(split, SPLITS, "scenes")
    names = tuple(THINGS) if classes is None else tuple(classes)
    for name in names:
        if name not in THINGS:
            raise DataError(unknown("class of scenes", name, THINGS))
    if not 1 <= count <= MAX_COUNT or not 32 <= size <= 1024:
        raise DataError(f"scenes?count={count}&size={size}: count goes from 1 to {MAX_COUNT:,}, size from 32 to 1,024")
    scenes = _Scenes(count, (seed, SPLITS.index(split or "train")), size, names)
    return ImageSet(
        scenes,
        [f"scenes/{index}" if split != "test" else f"scenes/test/{index}" for index in range(count)],
        labels=multi_hot([scenes.chosen(index) for index in range(count)], len(names)),
        class_names=names,
        boxes=_Boxes(scenes),
        split=split,
        splits=SPLITS,
    )


class _Scenes:
    """An image reader that draws scenes."""

    def __init__(self, count: int, key: tuple[int, int], size: int, names: tuple[str, ...]) -> None:
        self._count = count
        self._key = key
        self._size = size
        self._names = names

    def __len__(self) -> int:
        return self._count

    def chosen(self, index: int) -> list[int]:
        """Return the indices of the classes in a scene."""
        rng = self._rng(index, 0)
        count = min(int(rng.integers(1, MAX_OBJECTS + 1)), len(self._names))
        return sorted(rng.choice(len(self._names), count, replace=False).tolist())

    def placed(self, index: int) -> list[Placed]:
        """Return the objects in a scene, from back to front."""
        ground_rng = self._rng(index, 1)
        things = [(number, THINGS[self._names[number]]) for number in self.chosen(index)]
        return _arrange(self._rng(index, 2), things, paint_ground(ground_rng, 8)[1], self._size)

    def read(self, index: int, size: int | None = None) -> Image.Image:  # noqa: ARG002
        """Draw the scene."""
        ground, _ = paint_ground(self._rng(index, 1), self._size)
        placed = self.placed(index)
        for thing in placed:
            if not thing.flies:
                _shade(ground, thing)
        # Invisible noise prevents banding of the gradients.
        ground += self._rng(index, 3).uniform(-1.2, 1.2, ground.shape[:2]).astype(np.float32)[..., None]
        image = Image.fromarray(np.clip(np.round(ground), 0, 255).astype(np.uint8))
        for thing in placed:
            image.paste(thing.sprite, (thing.left, thing.top), thing.sprite)
        return image

    def measure(self, index: int) -> tuple[int, int]:  # noqa: ARG002
        """Return width and height, the same for all scenes."""
        return self._size, self._size

    def key(self, index: int) -> str:
        """Return all parameters that the drawing depends on."""
        return f"scenes|{_VERSION}|{self._key}|{self._size}|{self._names}|{index}"

    def pixels(self, indices: np.ndarray) -> None:  # noqa: ARG002
        """Return None: scenes are not in memory."""
        return

    def _rng(self, index: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self._key, index, purpose])


class _Boxes(Sequence[list[Box]]):
    def __init__(self, scenes: _Scenes) -> None:
        self._scenes = scenes

    def __len__(self) -> int:
        return len(self._scenes)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} scenes")
        return sorted((thing.number, thing.box) for thing in self._scenes.placed(index % len(self)))


def _arrange(rng: np.random.Generator, things: list[tuple[int, Thing]], horizon: float, size: int) -> list[Placed]:
    """Place objects with almost no overlap: try random positions, then again with smaller objects."""
    scale = (0.46, 0.38, 0.34)[len(things) - 1]
    while True:
        made = [(number, *_make(rng, thing, scale, horizon, size)) for number, thing in things]
        for _ in range(20):
            placed = [
                Placed(number, sprite, *_corner(rng, sprite, bottom, horizon, size), bottom is None)
                for number, sprite, bottom in made
            ]
            if all(_overlap(a.box, b.box) <= 0.04 for i, a in enumerate(placed) for b in placed[:i]):
                return sorted(placed, key=lambda thing: (not thing.flies, thing.top + thing.sprite.height))
        scale *= 0.95


def _make(
    rng: np.random.Generator, thing: Thing, scale: float, horizon: float, size: int
) -> tuple[Image.Image, float | None]:
    """Return an object's image, and the height of its base from the top in [0, 1]; None if it flies."""
    scale *= thing.scale * rng.uniform(0.85, 1.12)
    turn = rng.uniform(-14, 14) if thing.flies else rng.uniform(-5, 5)
    bottom = None
    if not thing.flies:
        # Nearer objects are lower and larger.
        depth = rng.uniform(0.15, 1)
        bottom = horizon + depth * (0.96 - horizon)
        scale *= 0.86 + 0.22 * depth
    return _sprite(thing.code, max(6, min(scale, 0.62) * size), turn, rng.random() < 0.5), bottom


def _corner(
    rng: np.random.Generator, sprite: Image.Image, bottom: float | None, horizon: float, size: int
) -> tuple[int, int]:
    """Return the left and top of a sprite: a random column, on the ground or in the sky."""
    room_x, room_y, margin = size - sprite.width, size - sprite.height, _MARGIN * size
    left = rng.uniform(margin, max(margin, room_x - margin))
    if bottom is None:
        top = rng.uniform(margin, max(margin, (horizon - 0.03) * size - sprite.height))
    else:
        top = bottom * size - sprite.height
    return min(max(round(left), 0), room_x), min(max(round(top), 0), room_y)


def _shade(ground: np.ndarray, thing: Placed) -> None:
    """Draw a soft shadow on the ground below the object."""
    x0, _, x1, y1 = thing.box
    wide, high = 0.46 * (x1 - x0), 0.085 * (x1 - x0)
    top = max(0, int(y1 - 3 * high))  # the shadow is invisible above this row
    down = (np.arange(top, min(len(ground), int(y1 + 3 * high)), dtype=np.float32) + 0.5 - (y1 - 0.25 * high)) / high
    across = (np.arange(len(ground), dtype=np.float32) + 0.5 - (x0 + x1) / 2) / wide
    shadow = np.exp(-((down[:, None] ** 2 + across[None] ** 2) ** 1.4))[..., None]
    ground[top : top + len(down)] *= 1 - 0.34 * shadow * np.array([1.0, 0.94, 0.82], np.float32)


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Return the intersection as a fraction of the smaller box."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return max(width, 0) * max(height, 0) / smaller


def _sprite(code: str, side: float, turn: float, mirrored: bool) -> Image.Image:
    """Return the emoji `side` pixels wide, rotated by `turn` degrees, cropped to its visible pixels."""
    emoji = _emoji(code)
    factor = side / emoji.width
    if mirrored:
        emoji = emoji.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    emoji = emoji.rotate(turn, Image.Resampling.BILINEAR, expand=True)
    width, height = (max(2, round(length * factor)) for length in emoji.size)
    emoji = emoji.resize((width, height), Image.Resampling.HAMMING)
    return emoji.crop(emoji.getchannel("A").point(_VISIBLE).getbbox())


@lru_cache(maxsize=len(THINGS))
def _emoji(code: str) -> Image.Image:
    with Image.open(Path(__file__).with_name("twemoji") / f"{code}.png") as image:
        # Enlarge before rotation, for smooth edges.
        return image.convert("RGBA").resize((104, 104), Image.Resampling.BICUBIC)
