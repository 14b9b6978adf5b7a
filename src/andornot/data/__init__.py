"""Data sets of images: one class, `ImageSet`, and many sources."""

from .decoding import decode
from .errors import BrokenImageError, DataError
from .imageset import Box, ImageSet
from .resized import ResizedImages
from .sources import SOURCES, open_images, scenes, source_of
from .splits import Splits, train_split

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
