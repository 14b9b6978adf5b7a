"""The preview that a camera puts into its RAW files: what it showed on its screen, mostly a JPEG of full size."""

from io import BytesIO
from typing import BinaryIO, Final

from PIL import Image

from .exif import note
from .formats import UnsupportedError, package

_TURNS: Final = {3: 3, 5: 8, 6: 6}  # LibRaw's numbers to those of EXIF


def open_preview(file: BinaryIO) -> Image.Image:
    """The preview, opened, with what the camera noted beside it. The sensor's own pixels are not developed."""
    rawpy = package("rawpy", "RAW", "raw")
    with rawpy.imread(file) as raw:
        orientation, taken = _TURNS.get(raw.sizes.flip, 1), raw.other.timestamp
        try:
            found = raw.extract_thumb()
        except (rawpy.LibRawNoThumbnailError, rawpy.LibRawUnsupportedThumbnailError):
            raise UnsupportedError("a RAW file without a preview that can be read") from None
    if found.format == rawpy.ThumbFormat.JPEG:
        image: Image.Image = Image.open(BytesIO(found.data), formats=("JPEG",))
    else:
        image = Image.fromarray(found.data)
    note(image, orientation, taken)
    return image
