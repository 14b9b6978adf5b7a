"""From a file to a picture: upright, 8 bits, RGB or grey, whatever the file's own mode, or a BrokenImageError.

Transparent pictures are laid over white. 16-bit pictures are scaled to 8 bits, not cut. The picture formats are a
fixed list: Pillow would also hand PostScript to another program, which nobody wants of a file out of the wild.
"""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import BinaryIO, Final

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from PIL.Image import Transpose
from torch import Tensor

from ..files import open_regular
from .errors import BrokenImageError

MAX_PIXELS: Final = 200_000_000

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
    "HEIF": (".heic", ".heif"),  # only where a plugin for Pillow is registered
}
_ORIENTATION_TAG: Final = 0x0112
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


def decode(
    source: str | os.PathLike[str] | bytes,
    *,
    size: int | None = None,
    channels: int = 3,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Image.Image:
    """Reads a picture as mode RGB (`channels=3`) or L (`channels=1`), upright, from a path or from a file's bytes.

    With `size`, both sides may come out smaller than in the file, but not below twice that size where the file has
    it: big JPEGs are then decoded several times as fast. Pictures of more than `max_pixels` (at most twice
    `MAX_PIXELS`) are refused before anything is decoded. `name` stands in errors in place of the path.
    """
    label = name or ("<bytes>" if isinstance(source, bytes) else os.fspath(source))
    try:
        with quiet_pillow(), _opened(source) as file, Image.open(file, formats=_formats()) as image:
            if image.width * image.height > max_pixels:
                raise Image.DecompressionBombError(f"{image.width} x {image.height}")
            if size is not None:
                # Twice the size leaves the final, antialiased resizing enough to work with.
                image.draft(None, (2 * size, 2 * size))
            image.load()
            return plain(image, channels)
    except Exception as error:  # plugins raise anything, from SyntaxError to ZeroDivisionError, on hostile files
        raise BrokenImageError(label, _reason(error, max_pixels)) from error


def measure(source: str | os.PathLike[str] | bytes) -> tuple[int, int]:
    """Width and height of a picture as it stands upright; of its pixels nothing is decoded."""
    label = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
    try:
        with quiet_pillow(), _opened(source) as file, Image.open(file, formats=_formats()) as image:
            return image.size if _turn(image) not in _ON_ITS_SIDE else (image.height, image.width)
    except Exception as error:  # as in decode
        raise BrokenImageError(label, _reason(error, MAX_PIXELS)) from error


def plain(image: Image.Image, channels: int = 3) -> Image.Image:
    """An open picture as `decode` gives it: upright, 8 bits, RGB or grey, over white where it is transparent."""
    return _upright(_converted(image, "L" if channels == 1 else "RGB"), image)


def to_tensor(image: Image.Image) -> Tensor:
    """A picture of mode L or RGB as a uint8 tensor (1, H, W) or (3, H, W)."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


@cache
def picture_extensions() -> frozenset[str]:
    """The endings of file names, in lower case, that are taken for pictures."""
    return frozenset(extension for name in _formats() for extension in _EXTENSIONS[name])


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _EXTENSIONS if name in Image.OPEN)


@contextmanager
def _opened(source: str | os.PathLike[str] | bytes) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        if not source:
            raise EOFError("0 bytes")
        yield BytesIO(source)
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


def _converted(image: Image.Image, mode: str) -> Image.Image:
    """The picture in mode RGB or L."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    elif image.mode not in ("RGB", "L"):
        image = image.convert("RGB")
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(image: Image.Image) -> Image.Image:
    """A grey picture of 16 or 32 bits or of floats, scaled to 8 bits."""
    values = np.nan_to_num(np.asarray(image).astype(np.float64), nan=0.0)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I;16") or (image.mode == "I" and low >= 0 and high <= 65_535):
        low, high = 0.0, 65_535.0
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    return Image.fromarray(np.round((values - low) * (255 / ((high - low) or 1))).astype(np.uint8))


def _upright(image: Image.Image, original: Image.Image) -> Image.Image:
    """The picture turned as the camera noted it in the original's EXIF data."""
    turn = _turn(original)
    return image if turn is None else image.transpose(turn)


def _turn(image: Image.Image) -> Transpose | None:
    try:
        return _UPRIGHT.get(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # a damaged note does not make the picture unreadable
        return None


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
        case MemoryError():
            return "not enough memory to decode it"
        case OSError(strerror=str(reason)):
            return reason
    return " ".join(str(error).split())[:200] or type(error).__name__
