"""From a picture of any mode to 8 bits, RGB or grey: band by band, so that a large one is not there several times."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from PIL import Image

from .exif import turn_of

_BAND: Final = 1_000_000  # pixels that are converted at a time
_LARGE: Final = 40_000_000  # pixels from which a picture is made smaller on the way


def plain(image: Image.Image, channels: int = 3, size: int | None = None) -> Image.Image:
    """A loaded picture upright, in mode RGB or L, over white where it is transparent. To do it twice changes nothing.

    With `size` a large one comes out smaller, but with no side below twice that size.
    """
    converted = _converted(image, "L" if channels == 1 else "RGB", reduction(image.size, size))
    turn = turn_of(image)
    if turn is None:
        return converted
    upright = converted.transpose(turn)
    upright.info.clear()  # with the note that says how to turn it
    return upright


def reduction(size: tuple[int, int], wanted: int | None) -> int:
    """By how much `plain` makes a picture of that size smaller."""
    if wanted is None or size[0] * size[1] <= _LARGE:
        return 1
    return max(1, min(size) // (2 * wanted))


def _converted(image: Image.Image, mode: str, factor: int) -> Image.Image:
    if image.mode == mode and factor == 1 and not image.has_transparency_data:
        return image
    image.load()
    low, high = _range(image) if _is_deep(image) else (0.0, 255.0)
    result = Image.new(mode, (-(-image.width // factor), -(-image.height // factor)))
    for top, band in _bands(image, factor):
        flat = _eight_bits(band, low, high) if _is_deep(image) else _opaque(band, image)
        flat = flat if flat.mode == mode else flat.convert(mode)
        result.paste(flat.reduce(factor) if factor > 1 else flat, (0, top // factor))
    return result


def _bands(image: Image.Image, factor: int = 1) -> Iterator[tuple[int, Image.Image]]:
    """Parts of the picture from top to bottom, with where they begin, which is a multiple of the factor."""
    rows = max(1, _BAND // max(1, image.width) // factor) * factor
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _opaque(band: Image.Image, image: Image.Image) -> Image.Image:
    """The band of a picture of 8 bits in mode RGB or L."""
    if image.has_transparency_data:
        colours = band.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return band if band.mode in ("RGB", "L") else band.convert("RGB")


def _is_deep(image: Image.Image) -> bool:
    """Whether it is a grey picture of 16 or 32 bits or of floats."""
    return image.mode.startswith("I") or image.mode == "F"


def _range(image: Image.Image) -> tuple[float, float]:
    """The values that become 0 and 255."""
    if image.mode.startswith("I;16"):
        return 0.0, 65_535.0
    extremes = [(values.min(), values.max()) for _, band in _bands(image) for values in [_values(band)]]
    low, high = float(min(extremes)[0]), float(max(high for _, high in extremes))
    if low >= 0 and image.mode == "I" and high <= 65_535:
        return 0.0, 65_535.0
    for usual in (1.0, 255.0):
        if low >= 0 and high <= usual:
            return 0.0, usual
    return low, high


def _values(band: Image.Image) -> np.ndarray:
    return np.nan_to_num(np.asarray(band).astype(np.float64), nan=0.0)


def _eight_bits(band: Image.Image, low: float, high: float) -> Image.Image:
    return Image.fromarray(np.round((_values(band) - low) * (255 / ((high - low) or 1))).astype(np.uint8))
