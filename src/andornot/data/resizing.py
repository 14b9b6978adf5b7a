"""From a picture of any shape to a square one."""

from typing import Final, Literal

from PIL import Image
from torch import Tensor

from ..errors import unknown
from .decoding import to_tensor
from .errors import DataError

Fit = Literal["crop", "squash"]
FITS: Final[tuple[Fit, ...]] = ("crop", "squash")


def check_fit(fit: str) -> None:
    """A DataError for anything but "crop" and "squash"."""
    if fit not in FITS:
        raise DataError(unknown("fit", fit, FITS))


def square_pixels(image: Image.Image, size: int, fit: Fit = "crop") -> Tensor:
    """A picture of mode L or RGB as a square, uint8 (C, size, size)."""
    return to_tensor(square(image, size, fit))


def square(image: Image.Image, size: int, fit: Fit = "crop") -> Image.Image:
    """The picture as `size` x `size`, antialiased: its centre ("crop") or all of it, distorted ("squash").

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
