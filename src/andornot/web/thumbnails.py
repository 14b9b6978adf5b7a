"""Pictures as a browser can show them: small ones, made once and kept in the gallery, and the pictures themselves."""

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image

from ..data import decode
from ..data.decoding import is_turned
from ..files import open_regular
from ..gallery.records import Picture
from .problems import RequestError

SIDE: Final = 256
_LARGE_SIDE: Final = 2048
_LARGEST_FILE: Final = 40_000_000
_QUALITY, _LARGE_QUALITY = 82, 90
_STARTS: Final = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}
_START: Final = 12  # bytes that tell what a file is
_GONE: Final = "the file of this picture is gone"


class Shown(NamedTuple):
    """A picture's bytes, and what they are."""

    content: bytes
    media_type: str = "image/jpeg"


class Thumbnails:
    """The thumbnails of a gallery, by the digests of the pictures; in another folder where that cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._temporary: Path | None = None
        self._folder = folder
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self._folder).close()
        except OSError:
            self._folder = self._temporary = Path(tempfile.mkdtemp(prefix="andornot-"))

    def close(self) -> None:
        """Removes what would be of no use to the next server."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def get(self, picture: Picture) -> Shown:
        """The thumbnail. A file that has changed since it was indexed is shown as it is, and not kept."""
        if not is_as_indexed(picture):
            return Shown(as_jpeg(decode(picture.path, size=SIDE)))
        name = picture.digest.hex()
        kept = self._folder / name[:2] / f"{name}.jpg"
        with suppress(OSError), open_regular(kept) as file:
            if content := file.read():
                return Shown(content)
        content = as_jpeg(decode(picture.path, size=SIDE))
        with suppress(OSError):  # on a full disk it is made anew each time
            _write(kept, content)
        return Shown(content)


def is_as_indexed(picture: Picture) -> bool:
    """Whether the file is what the gallery knows; a RequestError if it is gone."""
    try:
        status = os.stat(picture.path)  # noqa: PTH116
    except OSError:
        raise RequestError(404, _GONE) from None
    return (status.st_size, status.st_mtime_ns) == (picture.size, picture.mtime_ns)


def tag_of(picture: Picture) -> str:
    """The ETag of what the file is now."""
    if is_as_indexed(picture):
        return f'"{picture.digest.hex()}"'
    status = os.stat(picture.path)  # noqa: PTH116
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def version_of(digest: bytes) -> str:
    """What tells a picture from what it was before: half of its digest is enough."""
    return digest[:8].hex()


def as_jpeg(picture: Image.Image, side: int = SIDE, quality: int = _QUALITY) -> bytes:
    """The picture with no side longer than that."""
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def show(picture: Picture) -> Shown:
    """The picture itself: its file as it is where every browser can show that, else a JPEG."""
    with suppress(OSError), open_regular(picture.path) as file:  # what cannot be opened, `decode` tells why
        media_type = _media_type(file.read(_START))
        # Of a JPEG all browsers know how the camera was held, and boxes are those of the upright picture.
        is_upright = media_type == "image/jpeg" or (media_type is not None and not is_turned(picture.path))
        if media_type and is_upright and os.fstat(file.fileno()).st_size <= _LARGEST_FILE:
            file.seek(0)
            return Shown(file.read(), media_type)
    return Shown(as_jpeg(decode(picture.path, size=_LARGE_SIDE), _LARGE_SIDE, _LARGE_QUALITY))


def _media_type(start: bytes) -> str | None:
    """What the first bytes say, whatever the name of the file."""
    if start.startswith(b"RIFF") and start[8:] == b"WEBP":
        return "image/webp"
    return next((media_type for known, media_type in _STARTS.items() if start.startswith(known)), None)


def _write(file: Path, content: bytes) -> None:
    """Another thread or server may write the same at the same time: each its own file, and the last one stays."""
    # Not their parents: a gallery that was removed is not to come back as a folder of thumbnails.
    for folder in reversed(file.parents[:3]):
        folder.mkdir(exist_ok=True)
    partial = file.with_name(f"{file.stem}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
