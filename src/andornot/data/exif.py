"""EXIF data: orientation and date."""

from datetime import UTC, datetime
from typing import BinaryIO, Final

from PIL import Image
from PIL.Image import Transpose

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


def turn_of(image: Image.Image) -> Transpose | None:
    """Return the transposition that makes the image upright; None if it is."""
    try:
        return _UPRIGHT.get(_notes(image).get(ORIENTATION, 1))
    except Exception:  # a damaged note does not make the image unreadable
        return None


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Return width and height of the upright image."""
    width, height = image.size
    if image.format == "TIFF":  # Pillow has turned the size already, but not yet the image
        tags = image.tag_v2  # type: ignore[attr-defined]
        width, height = tags[_WIDTH], tags[_HEIGHT]
    return (height, width) if turn_of(image) in _ON_ITS_SIDE else (width, height)


def taken_at(image: Image.Image) -> int | None:
    """Return the date in the EXIF data, in seconds from 1970 of local time; None if there is none.

    Ask the image as it was opened: what is made of it has lost its notes.
    """
    try:
        text = _notes(image).get_ifd(_EXIF_FOLDER)[_TAKEN]
        return int(datetime.strptime(text.strip("\0 "), _FORMAT).replace(tzinfo=UTC).timestamp())
    except Exception:  # there is none, or it is damaged, in one of many ways
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
    return Image.Image.getexif(image)  # and not that of a PNG, which decodes the image first


def note(image: Image.Image, orientation: int, taken: datetime | None) -> None:
    """Add orientation and date to the EXIF data of an opened image that has none."""
    exif = _notes(image)
    exif.setdefault(ORIENTATION, orientation)
    if taken is not None:
        exif.get_ifd(_EXIF_FOLDER).setdefault(_TAKEN, taken.strftime(_FORMAT))
