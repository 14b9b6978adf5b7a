"""Detect image formats: by file name extension when folders are scanned, by content when files are read.

The list of formats is fixed, because Pillow would also pass untrusted PostScript to another program. HEIC and camera
RAW need optional packages, which are imported when the first such file is read.
"""

import os
import struct
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any, BinaryIO, Final

from PIL import Image

from .converting import note

_EXTENSIONS: Final = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "MPO": (".mpo",),
    "PNG": (".png", ".apng"),
    "GIF": (".gif",),
    "BMP": (".bmp", ".dib"),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "AVIF": (".avif",),
    "JPEG2000": (".jp2", ".j2k", ".jpx"),
    "ICO": (".ico",),
    "HEIF": (".heic", ".heif", ".hif"),
    "RAW": (
        *(".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".raf", ".orf", ".rw2", ".pef", ".srw"),
        *(".3fr", ".iiq", ".erf", ".mrw", ".x3f", ".dcr", ".kdc"),
    ),
}
_VIDEOS: Final = frozenset(
    (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".3gp", ".3g2", ".mpg", ".mpeg", ".mts", ".m2ts", ".wmv", ".flv")
)
# Extensions of images that are not supported.
_OTHERS: Final = frozenset(
    (".psd", ".psb", ".xcf", ".svg", ".svgz", ".eps", ".ai", ".icns", ".tga", ".dds", ".exr", ".hdr", ".pcx", ".jxl")
)
HEAD: Final = 64  # number of bytes needed to detect the format

_STARTS: Final = (
    *(b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    *(b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
)
_RAW_STARTS: Final = (b"FUJIFILMCCD-RAW", b"IIRO", b"IIRS", b"MMOR", b"IIU\0", b"FOVb", b"\0MRM")
_HEIF_BRANDS: Final = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")
_AVIF_BRANDS: Final = (b"avif", b"avis")

# Tags of TIFF, which most RAW formats are based on, and the kinds of pixels that only sensors have.
_PHOTOMETRIC, _SUB_FOLDERS, _DNG_VERSION = 262, 330, 50706
_SENSOR: Final = (32803, 34892)
_MOST_FOLDERS: Final = 32


class UnsupportedError(Exception):
    """Raised for a file that is not an image, or for an image of an unsupported format."""


class MissingDecoderError(UnsupportedError):
    """Raised for an image that needs a package that is not installed."""


@cache
def image_extensions() -> frozenset[str]:
    """Return the file name extensions of images, in lower case."""
    return frozenset(extension for extensions in _EXTENSIONS.values() for extension in extensions)


def taken_for_images() -> str:
    """Return a sentence for a folder without images: some extensions, and how many more there are."""
    few = [_EXTENSIONS[kind][0] for kind in ("JPEG", "PNG", "WEBP", "TIFF", "HEIF")]
    more = len(image_extensions()) - len(few)
    return f"file names that end in {', '.join(few)}, or in one of {more} other ways, are taken for images"


def is_image(path: str) -> bool:
    """Return whether a file is an image: by its extension, or by its first bytes if it has none."""
    extension = os.path.splitext(path)[1].lower()  # noqa: PTH122 - creating a Path per file is slow for millions of files
    if extension:
        return extension in image_extensions()
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - reading from a pipe would block
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            return _starts_like_one(file.read(HEAD))
    except OSError:
        return False


def kind_not_supported(name: str) -> str | None:
    """Return "video" or the extension of an unsupported image format; None for any other file.

    >>> kind_not_supported("IMG_1.MOV"), kind_not_supported("layers.psd"), kind_not_supported("notes.txt")
    ('video', '.psd', None)
    """
    extension = os.path.splitext(name)[1].lower()  # noqa: PTH122
    if extension in _VIDEOS:
        return "video"
    return extension if extension in _OTHERS else None


@cache
def pillow_formats() -> tuple[str, ...]:
    """Return the formats that Pillow may detect."""
    Image.init()
    return tuple(name for name in _EXTENSIONS if name in Image.OPEN and name != "HEIF")


def formats_of(file: BinaryIO) -> tuple[str, ...]:
    """Return the possible formats of an open file: ("RAW",), ("HEIF",), or those of Pillow. Rewinds the file."""
    file.seek(0)
    head = file.read(HEAD)
    is_raw = _is_raw(file, head)
    file.seek(0)
    if is_raw:
        return ("RAW",)
    brands = _brands(head)
    if brands and not any(brand in _AVIF_BRANDS for brand in brands):
        if any(brand in _HEIF_BRANDS for brand in brands):
            package("pillow_heif", "HEIC", "heic").register_heif_opener()
            return ("HEIF",)
        raise UnsupportedError("a video, which is not supported")
    return pillow_formats()


def package(module: str, what: str, extra: str) -> Any:
    """Import a package of an optional extra."""
    if find_spec(module) is None:
        raise MissingDecoderError(f'{what} is not installed: pip install "andornot[{extra}]"')
    return import_module(module)


def _starts_like_one(head: bytes) -> bool:
    if head.startswith(b"RIFF"):
        return head[8:12] == b"WEBP"
    brands = _brands(head)
    if brands:
        return any(brand in (*_HEIF_BRANDS, *_AVIF_BRANDS, b"crx ") for brand in brands)
    return head.startswith((*_STARTS, *_RAW_STARTS))


def _brands(head: bytes) -> list[bytes]:
    """Return the brands of an ISO media file, such as HEIC, AVIF and most videos."""
    if head[4:8] != b"ftyp":
        return []
    box = head[8 : max(16, int.from_bytes(head[:4], "big"))]
    return [box[start : start + 4] for start in range(0, len(box), 4) if start != 4]  # the second item is a version


def _is_raw(file: BinaryIO, head: bytes) -> bool:
    if head.startswith(_RAW_STARTS) or b"crx " in _brands(head):
        return True
    if not head.startswith((b"II*\0", b"MM\0*")):
        return False
    return head[8:10] == b"CR" or any(
        tag == _DNG_VERSION or (tag == _PHOTOMETRIC and value in _SENSOR) for tag, value in _tiff_tags(file)
    )


def _tiff_tags(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield (tag, value or offset) of all directories of a TIFF file, as far as they can be read."""
    file.seek(0)
    order = "<" if file.read(2) == b"II" else ">"

    def number(form: str, at: int) -> int:
        file.seek(at)
        return int(struct.unpack(order + form, file.read(struct.calcsize(form)))[0])

    try:
        waiting, seen = [number("I", 4)], set[int]()
        while waiting and len(seen) < _MOST_FOLDERS:
            at = waiting.pop()
            if not at or at in seen:
                continue
            seen.add(at)
            count = number("H", at)
            file.seek(at + 2)
            for entry in struct.iter_unpack(f"{order}HHI4s", file.read(12 * count)):
                tag, kind, amount, field = entry
                value = struct.unpack(f"{order}H", field[:2])[0] if kind == 3 else struct.unpack(f"{order}I", field)[0]
                yield tag, value
                if tag == _SUB_FOLDERS:
                    waiting += [value] if amount == 1 else [number("I", value + 4 * n) for n in range(min(amount, 8))]
            waiting.append(number("I", at + 2 + 12 * count))
    except (struct.error, OSError, OverflowError, ValueError):
        return


_TURNS: Final = {3: 3, 5: 8, 6: 6}  # LibRaw's orientation to that of EXIF


def open_preview(file: BinaryIO) -> Image.Image:
    """Open the embedded preview of a RAW file, with its EXIF data; sensor data is not developed."""
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
