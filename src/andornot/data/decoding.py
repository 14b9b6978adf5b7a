"""From a file to a picture: upright, 8 bits, RGB or grey, whatever the file's own mode, or a BrokenImageError.

Transparent pictures are laid over white. 16-bit pictures are scaled to 8 bits, not cut. What a picture takes while it
is decoded is known beforehand: too large a one is refused, and threads wait for each other.
"""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ..files import open_regular
from .converting import plain, reduction
from .errors import BrokenImageError
from .exif import find_late_notes, taken_at, turn_of, upright_size
from .formats import UnsupportedError, formats_of
from .memory import MAX_BYTES, TooLargeError, budget, bytes_per_pixel, check_icon, coefficient_bytes, loading_bytes
from .raw import open_preview

MAX_PIXELS: Final = 200_000_000
_ON_THE_WAY: Final = 32_000_000

Source = str | os.PathLike[str] | bytes | BinaryIO


class Photograph(NamedTuple):
    """A decoded picture, and when its camera says that it was taken, in seconds from 1970 on the wall's clock."""

    image: Image.Image
    taken: int | None


def decode(
    source: Source,
    *,
    size: int | None = None,
    channels: int = 3,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Image.Image:
    """Reads a picture as mode RGB (`channels=3`) or L (`channels=1`), upright: from a path, an open file or its bytes.

    With `size`, both sides may come out smaller than in the file, but not below twice that size where the file has
    it: big JPEGs are then decoded several times as fast, and large pictures take less memory. Pictures of more than
    `max_pixels` (at most twice `MAX_PIXELS`), or that take more than a gigabyte to decode, are refused before anything
    is decoded. `name` stands in errors in place of the path.
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
    """`decode`, and when the picture was taken."""
    with _broken(source, max_pixels, name), _open(source) as image:
        if image.width * image.height > max_pixels:
            raise Image.DecompressionBombError(f"{image.width} x {image.height}")
        taken, needed = taken_at(image), coefficient_bytes(image)
        if size is not None:
            # Twice the size leaves the final, antialiased resizing enough to work with.
            image.draft(None, (2 * size, 2 * size))
        needed += loading_bytes(image)
        if needed > MAX_BYTES:
            raise TooLargeError(f"{image.width} x {image.height} pixels take {needed / 1e9:.1f} GB to decode")
        with budget.take(needed + _result_bytes(image, size)):
            image.load()
            return Photograph(plain(image, channels, size), taken)


def measure(source: Source) -> tuple[int, int]:
    """Width and height of a picture as it stands upright; of its pixels nothing is decoded."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return upright_size(image)


def is_turned(source: Source) -> bool:
    """Whether the picture stands upright only by what its camera noted; of its pixels nothing is decoded."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return turn_of(image) is not None


def read_taken(source: Source) -> int | None:
    """When the camera says that it took the picture; nothing is decoded."""
    with _broken(source, MAX_PIXELS), _open(source) as image:
        return taken_at(image)


def to_tensor(image: Image.Image) -> Tensor:
    """A picture of mode L or RGB as a uint8 tensor (1, H, W) or (3, H, W)."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def _result_bytes(image: Image.Image, size: int | None) -> int:
    """What the picture takes once it is plain, and once more where it is turned; and on the way there."""
    pixels = image.width * image.height // reduction(image.size, size) ** 2
    return _ON_THE_WAY + pixels * bytes_per_pixel("RGB") * (1 if turn_of(image) is None else 2)


@contextmanager
def _open(source: Source) -> Iterator[Image.Image]:
    """The picture in a file, of which nothing is decoded yet."""
    with quiet_pillow(), _opened(source) as file:
        check_icon(file)
        formats = formats_of(file)
        with open_preview(file) if formats == ("RAW",) else Image.open(file, formats=formats) as image:
            find_late_notes(image, file)
            yield image


@contextmanager
def _broken(source: Source, max_pixels: int, name: str | None = None) -> Iterator[None]:
    """Any error as the one of a picture that cannot be read."""
    label = name or (os.fspath(source) if isinstance(source, str | os.PathLike) else "<bytes>")
    try:
        yield
    except Exception as error:  # plugins raise anything, from SyntaxError to ZeroDivisionError, on hostile files
        raise BrokenImageError(label, _reason(error, max_pixels)) from error


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        if not source:
            raise EOFError("0 bytes")
        yield BytesIO(source)
        return
    if not isinstance(source, str | os.PathLike):
        yield source
        return
    with open_regular(source) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise EOFError("0 bytes")
        yield file


class _Quiet:
    """Pillow without warnings, and with our limit of pixels, as long as any thread is decoding.

    `warnings.catch_warnings` alone must not be entered by several threads at once: they would undo each other.
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
    """Keeps Pillow's warnings about damaged files from the user, in any number of threads."""
    _quiet.enter()
    try:
        yield
    finally:
        _quiet.leave()


def _reason(error: Exception, max_pixels: int) -> str:
    match error:
        case UnidentifiedImageError():
            return "not a picture of a known format"
        case Image.DecompressionBombError():
            return f"more than {max_pixels:,} pixels"
        case FileNotFoundError():
            return "no such file"
        case PermissionError():
            return "no permission to read it"
        case UnsupportedError() | TooLargeError():
            return str(error)
        case MemoryError():
            return "not enough memory to decode it"
        case OSError(strerror=str(reason)):
            return reason
    return " ".join(str(error).split())[:200] or type(error).__name__
