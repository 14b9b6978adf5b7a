"""Convert images of any mode to 8-bit RGB or grey, in bands to save memory, and resize them to squares."""

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..errors import unknown
from .errors import DataError
from .exif import turn_of

_BAND: Final = 1_000_000  # pixels that are converted at a time
_LARGE: Final = 40_000_000  # pixels from which an image is made smaller on the way


def to_rgb(image: Image.Image, channels: int = 3, size: int | None = None) -> Image.Image:
    """Return a loaded image upright, in mode RGB or L, transparent parts over white. Idempotent.

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
    """Return the factor by which `to_rgb` shrinks an image of that size."""
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
    """Yield bands of the image from top to bottom with their first row, a multiple of the factor."""
    rows = max(1, _BAND // max(1, image.width) // factor) * factor
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _opaque(band: Image.Image, image: Image.Image) -> Image.Image:
    """Return a band of an 8-bit image in mode RGB or L."""
    if image.has_transparency_data:
        colours = band.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return band if band.mode in ("RGB", "L") else band.convert("RGB")


def _is_deep(image: Image.Image) -> bool:
    """Return whether it is a grey image of 16 or 32 bits or of floats."""
    return image.mode.startswith("I") or image.mode == "F"


def _range(image: Image.Image) -> tuple[float, float]:
    """Return the values that become 0 and 255."""
    if image.mode.startswith("I;16"):
        return 0.0, 65_535.0
    finite = (values[np.isfinite(values)] for _, band in _bands(image) for values in [_values(band)])
    extremes = [(values.min(), values.max()) for values in finite if len(values)]
    if not extremes:
        raise ValueError("no pixel of it is a finite number")
    low, high = float(min(extremes)[0]), float(max(high for _, high in extremes))
    if low >= 0 and image.mode == "I" and high <= 65_535:
        return 0.0, 65_535.0
    for usual in (1.0, 255.0):
        if low >= 0 and high <= usual:
            return 0.0, usual
    return low, high


def _values(band: Image.Image) -> np.ndarray:
    return np.asarray(band).astype(np.float64)


def _eight_bits(band: Image.Image, low: float, high: float) -> Image.Image:
    """Scale values to 8 bits. Infinite values become black or white, NaN black."""
    values = np.nan_to_num(_values(band), nan=low, posinf=high, neginf=low)
    return Image.fromarray(np.round((values - low) * (255 / ((high - low) or 1))).astype(np.uint8))


Fit = Literal["crop", "squash"]
FITS: Final[tuple[Fit, ...]] = ("crop", "squash")


def check_fit(fit: str) -> None:
    """Raise a DataError for anything but "crop" and "squash"."""
    if fit not in FITS:
        raise DataError(unknown("fit", fit, FITS))


def square_pixels(image: Image.Image, size: int, fit: Fit = "crop") -> Tensor:
    """Return an image of mode L or RGB as a square uint8 tensor (C, size, size)."""
    return to_tensor(square(image, size, fit))


def square(image: Image.Image, size: int, fit: Fit = "crop") -> Image.Image:
    """Resize an image to `size` x `size`, antialiased: its center ("crop") or all of it, distorted ("squash").

    >>> square(Image.new("RGB", (40, 20)), 8).size
    (8, 8)
    """
    if image.size == (size, size):
        return image
    left, top, width, height = 0.0, 0.0, float(image.width), float(image.height)
    if fit == "crop":
        side = min(width, height)
        left, top, width, height = (width - side) / 2, (height - side) / 2, side, side
    # One call resizes and crops: what falls outside of the box is never computed.
    box = (left, top, left + width, top + height)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)


def to_tensor(image: Image.Image) -> Tensor:
    """Return an image of mode L or RGB as a uint8 tensor (1, H, W) or (3, H, W)."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()
