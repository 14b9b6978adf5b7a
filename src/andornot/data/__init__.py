"""Data sets of images: `ImageSet`, and the sources it can be opened from."""

from .decoding import decode
from .errors import BrokenImageError, DataError
from .imageset import Box, ImageSet
from .resized import ResizedImages
from .sources import SOURCES, Splits, open_images, scenes, source_of, train_split

__all__ = [
    "SOURCES",
    "Box",
    "BrokenImageError",
    "DataError",
    "ImageSet",
    "ResizedImages",
    "Splits",
    "decode",
    "open_images",
    "scenes",
    "source_of",
    "train_split",
]
