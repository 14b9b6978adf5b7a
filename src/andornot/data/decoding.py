"""Decode files to upright 8-bit RGB or grey images, or raise a BrokenImageError.

Transparent images are composited over white. 16-bit images are scaled to 8 bits, not clipped. Memory is estimated
before decoding: images that need too much are refused, and threads wait until enough is free.
"""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from PIL import Image, UnidentifiedImageError

from ..files import open_regular
from .converting import find_late_notes, reduction, taken_at, to_rgb, turn_of, upright_size
from .decode_budget import (
    MAX_BYTES,
    TooLargeError,
    budget,
    bytes_per_pixel,
    check_icon,
    coefficient_bytes,
    loading_bytes,
)
from .errors import BrokenImageCode, BrokenImageError
from .formats import MissingDecoderError, UnsupportedError, formats_of, open_preview

MAX_PIXELS: Final = 200_000_000
_ON_THE_WAY: Final = 32_000_000

Source = str | os.PathLike[str] | bytes | BinaryIO


class Photograph(NamedTuple):
    """A decoded image, the date it was taken (EXIF; seconds since 1970 in local time), and its full size.

    `size` is the width and height of the upright image in the file; `image` may be smaller.
    """

    image: Image.Image
    taken: int | None
    size: tuple[int, int]


def decode(
    source: Source,
    *,
    size: int | None = None,
    channels: int = 3,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Image.Image:
    """Read an upright image in mode RGB (`channels=3`) or L (`channels=1`) from a path, an open file or bytes.

    With `size`, the image may be shrunk, but no side below twice that size: large JPEGs are decoded several times as
    fast, and large images need less memory. Images with more than `max_pixels` pixels (at most twice `MAX_PIXELS`), or
    that need more than a gigabyte to decode, are refused before decoding. `name` replaces the path in error messages.
    """
    return read_photograph(source, size=size, channels=channels, max_pixels=max_pixels, name=name).image


def read_photograph(
    source: Source,
    *,
    size: int | None = None,
    channels: int = 3,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Photograph:
    """Read an image as `decode` does, with its date and full size."""
    with _broken(source, max_pixels, name), _open(source) as image:
        if image.width * image.height > max_pixels:
            raise Image.DecompressionBombError(f"{image.width} x {image.height}")
        taken, full_size, needed = taken_at(image), upright_size(image), coefficient_bytes(image)
        if size is not None:
            # Twice the size preserves the quality of the final, antialiased resize.
            image.draft(None, (2 * size, 2 * size))
        needed += loading_bytes(image)
        if needed > MAX_BYTES:
            raise TooLargeError(f"{image.width} x {image.height} pixels take {needed / 1e9:.1f} GB to decode")
        with budget.take(needed + _result_bytes(image, size)):
            image.load()
            return Photograph(to_rgb(image, channels, size), taken, full_size)


def measure(source: Source) -> tuple[int, int]:
    """Return width and height of the upright image, without decoding its pixels."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return upright_size(image)


def is_turned(source: Source) -> bool:
    """Return whether the EXIF orientation rotates or flips the image, without decoding its pixels."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return turn_of(image) is not None


def read_taken(source: Source) -> int | None:
    """Return the date in the image's EXIF data, without decoding its pixels."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return taken_at(image)


def _result_bytes(image: Image.Image, size: int | None) -> int:
    """Return the bytes for the converted image (twice if it is rotated) and for temporary bands."""
    pixels = image.width * image.height // reduction(image.size, size) ** 2
    return _ON_THE_WAY + pixels * bytes_per_pixel("RGB") * (1 if turn_of(image) is None else 2)


class _EmptyFileError(Exception):
    """A file of 0 bytes."""


@contextmanager
def _open(source: Source) -> Iterator[Image.Image]:
    """Open the image in a file, without decoding it."""
    with quiet_pillow(), _opened(source) as file:
        check_icon(file)
        formats = formats_of(file)
        with open_preview(file) if formats == ("RAW",) else Image.open(file, formats=formats) as image:
            find_late_notes(image, file)
            yield image


@contextmanager
def _broken(source: Source, max_pixels: int, name: str | None = None) -> Iterator[None]:
    """Raise any error as a BrokenImageError."""
    label = name or (os.fspath(source) if isinstance(source, str | os.PathLike) else "<bytes>")
    try:
        yield
    except Exception as error:  # plugins raise anything, even SyntaxError, for malformed files
        raise BrokenImageError(label, *_reason_and_code(error, max_pixels)) from error


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        if not source:
            raise _EmptyFileError
        yield BytesIO(source)
        return
    if not isinstance(source, str | os.PathLike):
        yield source
        return
    with open_regular(source) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise _EmptyFileError
        yield file


class _Quiet:
    """Suppress Pillow's warnings and set our pixel limit while any thread is decoding.

    `warnings.catch_warnings` is not thread-safe, so it is entered by the first thread and left by the last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._warnings = warnings.catch_warnings()
        self._max_pixels: int | None = None

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._warnings = warnings.catch_warnings()
                self._warnings.__enter__()
                for module in (r"PIL\.", __name__.replace(".", r"\.")):
                    warnings.filterwarnings("ignore", module=module)
                self._max_pixels = Image.MAX_IMAGE_PIXELS
                if self._max_pixels is not None:
                    Image.MAX_IMAGE_PIXELS = max(self._max_pixels, MAX_PIXELS)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                Image.MAX_IMAGE_PIXELS = self._max_pixels
                self._warnings.__exit__(None, None, None)


_quiet: Final = _Quiet()


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Suppress Pillow's warnings about damaged files, in any number of threads."""
    _quiet.enter()
    try:
        yield
    finally:
        _quiet.leave()


def _reason_and_code(error: Exception, max_pixels: int) -> tuple[str, BrokenImageCode]:
    match error:
        case UnidentifiedImageError():
            return "not an image of a known format", "unknown-format"
        case Image.DecompressionBombError():
            return f"more than {max_pixels:,} pixels", "too-large"
        case FileNotFoundError():
            return "no such file", "not-found"
        case PermissionError():
            return "no permission to read it", "no-permission"
        case MissingDecoderError():
            return str(error), "missing-package"
        case UnsupportedError():
            return str(error), "unsupported"
        case TooLargeError():
            return str(error), "too-large"
        case _EmptyFileError():
            return "0 bytes", "empty-file"
        case MemoryError():
            return "not enough memory to decode it", "out-of-memory"
        case OSError(strerror=str(reason)):
            return reason, "damaged"
    return " ".join(str(error).split())[:200] or type(error).__name__, "damaged"
