"""Convert images of any mode to upright 8-bit RGB or grey, in bands to save memory, and resize them; EXIF data."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO, Final, Literal

import numpy as np
import torch
from PIL import Image
from PIL.Image import Transpose
from torch import Tensor

from ..errors import unknown
from .errors import DataError

_BAND: Final = 1_000_000  # pixels converted at a time
_LARGE: Final = 40_000_000  # pixels from which an image is shrunk during conversion

ORIENTATION: Final = 0x0112
_WIDTH, _HEIGHT = 0x0100, 0x0101
_EXIF_FOLDER, _TAKEN = 0x8769, 0x9003
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MOST_CHUNKS: Final = 100_000
_MOST_BYTES: Final = 2**20
_FORMAT: Final = "%Y:%m:%d %H:%M:%S"

_UPRIGHT: Final = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_ON_ITS_SIDE: Final = (Transpose.TRANSPOSE, Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90)


def to_rgb(image: Image.Image, channels: int = 3, size: int | None = None) -> Image.Image:
    """Return a loaded image upright, in mode RGB or L, with transparent parts over white. Idempotent.

    With `size`, a large image is shrunk, but no side below twice that size.
    """
    converted = _converted(image, "L" if channels == 1 else "RGB", reduction(image.size, size))
    turn = turn_of(image)
    if turn is None:
        return converted
    upright = converted.transpose(turn)
    upright.info.clear()  # including the EXIF orientation
    return upright


def reduction(size: tuple[int, int], wanted: int | None) -> int:
    """Return the factor by which `to_rgb` shrinks an image of this size."""
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
    """Return whether this is a grey image with 16 or 32 bits or floats."""
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
    """Raise a DataError unless `fit` is "crop" or "squash"."""
    if fit not in FITS:
        raise DataError(unknown("fit", fit, FITS))


def square_pixels(image: Image.Image, size: int, fit: Fit = "crop") -> Tensor:
    """Return an image of mode L or RGB as a square uint8 tensor (C, size, size)."""
    return to_tensor(square(image, size, fit))


def square(image: Image.Image, size: int, fit: Fit = "crop") -> Image.Image:
    """Resize an image to `size` x `size`, antialiased: the center ("crop"), or the distorted whole ("squash").

    >>> square(Image.new("RGB", (40, 20)), 8).size
    (8, 8)
    """
    if image.size == (size, size):
        return image
    left, top, width, height = 0.0, 0.0, float(image.width), float(image.height)
    if fit == "crop":
        side = min(width, height)
        left, top, width, height = (width - side) / 2, (height - side) / 2, side, side
    # Resize and crop in one call, so that pixels outside of the box are not computed.
    box = (left, top, left + width, top + height)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)


# Images with a higher aspect ratio are distorted.
_LONGEST: Final = 3


def choose_size(aspect: float, side: int = 224, stride: int = 32) -> tuple[int, int]:
    """Return the (width, height) to resize a whole image with this aspect ratio (width / height) to.

    Both are multiples of `stride`, that of the network's last feature map, with at most `side` x `side` pixels in all.

    >>> choose_size(4 / 3), choose_size(2 / 3), choose_size(1), choose_size(16 / 9)
    ((256, 192), (192, 256), (224, 224), (288, 160))
    """
    if not (math.isfinite(aspect) and aspect > 0):
        raise ValueError(f"the aspect ratio of an image must be a positive number, got {aspect}")
    return min(whole_sizes(side, stride), key=lambda size: abs(math.log(size[0] / size[1] / aspect)))


@cache
def whole_sizes(side: int, stride: int) -> tuple[tuple[int, int], ...]:
    """Return all sizes (width, height) that `choose_size` may return, narrowest first.

    >>> whole_sizes(224, 32)
    ((128, 384), (160, 288), (192, 256), (224, 224), (256, 192), (288, 160), (384, 128))
    """
    places = (side / stride) ** 2
    shortest = max(1, int(math.sqrt(places / _LONGEST)))
    high = [(short * stride, int(places / short) * stride) for short in range(shortest, int(math.sqrt(places)) + 1)]
    return (*high, *((height, width) for width, height in reversed(high) if width != height))


def whole_pixels(image: Image.Image, side: int, stride: int) -> Tensor:
    """Return a whole image of mode L or RGB as a uint8 tensor (C, height, width), at the size of `choose_size`."""
    size = choose_size(image.width / image.height, side, stride)
    fitting = image.size == size
    return to_tensor(image if fitting else image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))


def to_tensor(image: Image.Image) -> Tensor:
    """Return an image of mode L or RGB as a uint8 tensor (1, H, W) or (3, H, W)."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def turn_of(image: Image.Image) -> Transpose | None:
    """Return the transposition that makes the image upright; None if it already is."""
    try:
        return _UPRIGHT.get(_notes(image).get(ORIENTATION, 1))
    except Exception:  # an image with damaged EXIF data can still be read
        return None


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Return width and height of the upright image."""
    width, height = image.size
    if image.format == "TIFF":  # Pillow swaps the size on opening, before it rotates the image
        tags = image.tag_v2  # type: ignore[attr-defined]
        width, height = tags[_WIDTH], tags[_HEIGHT]
    return (height, width) if turn_of(image) in _ON_ITS_SIDE else (width, height)


def taken_at(image: Image.Image) -> int | None:
    """Return the date in the EXIF data, in seconds since 1970 in local time; None if there is none.

    Pass the image as opened: converted images have no EXIF data.
    """
    try:
        text = _notes(image).get_ifd(_EXIF_FOLDER)[_TAKEN]
        return int(datetime.strptime(text.strip("\0 "), _FORMAT).replace(tzinfo=UTC).timestamp())
    except Exception:  # missing, or damaged in one of many ways
        return None


def find_late_notes(image: Image.Image, file: BinaryIO) -> None:
    """Read the EXIF data of a PNG that follows its pixels; Pillow only finds it before them."""
    if image.format != "PNG" or "exif" in image.info:
        return
    place, at = file.tell(), len(_PNG)
    for _ in range(_MOST_CHUNKS):
        file.seek(at)
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            break
        size = int.from_bytes(head[:4], "big")
        if head[4:] == b"eXIf" and size <= _MOST_BYTES:
            image.info["exif"] = b"Exif\0\0" + file.read(size)
            break
        at += 12 + size
    file.seek(place)


def _notes(image: Image.Image) -> Image.Exif:
    return Image.Image.getexif(image)  # the override for PNG would decode the image first


def note(image: Image.Image, orientation: int, taken: datetime | None) -> None:
    """Add orientation and date to the EXIF data of an opened image that has none."""
    exif = _notes(image)
    exif.setdefault(ORIENTATION, orientation)
    if taken is not None:
        exif.get_ifd(_EXIF_FOLDER).setdefault(_TAKEN, taken.strftime(_FORMAT))
