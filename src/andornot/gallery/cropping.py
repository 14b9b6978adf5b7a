"""Crops of pictures in formulas: `a.jpg[left, top, right, bottom]`."""

import os

from PIL import Image

from ..data import BrokenImageError, decode
from ..errors import printable
from ..logic import Crop
from .errors import QueryError


def cut(path: str, crop: Crop) -> Image.Image:
    """That part of the picture in a file. A QueryError if there is no file, or nothing of the picture in the part."""
    name = printable(os.path.basename(path))  # noqa: PTH119 - those who ask over the network are told no paths
    if not os.path.isfile(path):  # noqa: PTH113
        raise QueryError(f"{name}{crop} needs the file of the picture, which is gone")
    try:
        picture = decode(path)
    except BrokenImageError as error:
        raise QueryError(f"{name}{crop} cannot be cut out, because {name} cannot be read: {error.reason}") from None
    width, height = picture.size
    across, down = (1, 1) if crop.in_pixels else (width, height)
    left, top, right, bottom = (
        round(edge * scale) for edge, scale in zip(crop, (across, down, across, down), strict=True)
    )
    if right > width or bottom > height:
        raise QueryError(f"{name}{crop} reaches beyond the picture, which has {width} x {height} pixels")
    if left >= right or top >= bottom:
        raise QueryError(f"{name}{crop} is less than a pixel of the picture, which has {width} x {height}")
    return picture.crop((left, top, right, bottom))
