"""What a camera noted in a picture: how it was held, and when."""

from datetime import UTC, datetime
from typing import BinaryIO, Final

from PIL import Image
from PIL.Image import Transpose

ORIENTATION: Final = 0x0112
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
    """What makes the picture stand upright; None where it does."""
    try:
        return _UPRIGHT.get(_notes(image).get(ORIENTATION, 1))
    except Exception:  # a damaged note does not make the picture unreadable
        return None


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of the picture when it stands upright."""
    return image.size if turn_of(image) not in _ON_ITS_SIDE else (image.height, image.width)


def taken_at(image: Image.Image) -> int | None:
    """When the camera took the picture: seconds from 1970 as the clock on the wall showed them; None if it is silent.

    Ask the picture as it was opened: what is made of it has lost its notes.
    """
    try:
        text = _notes(image).get_ifd(_EXIF_FOLDER)[_TAKEN]
        return int(datetime.strptime(text.strip("\0 "), _FORMAT).replace(tzinfo=UTC).timestamp())
    except Exception:  # there is none, or it is damaged, in one of many ways
        return None


def find_late_notes(image: Image.Image, file: BinaryIO) -> None:
    """Looks for the notes of a PNG behind its pixels, where they may be as well."""
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
    return Image.Image.getexif(image)  # and not that of a PNG, which decodes the picture first


def note(image: Image.Image, orientation: int, taken: datetime | None) -> None:
    """Adds notes to an opened picture, where it has none of its own."""
    exif = _notes(image)
    exif.setdefault(ORIENTATION, orientation)
    if taken is not None:
        exif.get_ifd(_EXIF_FOLDER).setdefault(_TAKEN, taken.strftime(_FORMAT))
