"""Where pictures come from: one `ImageSet`, many sources."""

from .decoding import decode
from .errors import BrokenImageError, DataError
from .imageset import Box, ImageSet
from .parts import Parts, training_part
from .pictures import Pictures
from .sources import SOURCES, open_images, scenes, source_of

__all__ = [
    "SOURCES",
    "Box",
    "BrokenImageError",
    "DataError",
    "ImageSet",
    "Parts",
    "Pictures",
    "decode",
    "open_images",
    "scenes",
    "source_of",
    "training_part",
]
