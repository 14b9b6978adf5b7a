"""HTTP responses: models as JSON, and images as cached thumbnails or in full size."""

import json
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi.responses import Response
from PIL import Image
from pydantic import BaseModel

from ..data import BrokenImageError, decode
from ..data.decoding import is_turned
from ..files import open_regular
from ..gallery.records import ImageRecord, file_stamp
from .errors import RequestError, error_responses

# --- responses --------------------------------------------------------------------------------------------------------

_FOREVER: Final = "private, max-age=31536000, immutable"
_REVALIDATE: Final = "private, no-cache"


class EncodedImage(NamedTuple):
    """The bytes of an image file and their media type."""

    content: bytes
    media_type: str = "image/jpeg"


def json_response(answer: BaseModel) -> Response:
    """Return a model as JSON."""
    try:
        content = answer.model_dump_json(by_alias=True)
    except ValueError:  # pydantic stops at 255 levels; formulas, whose models have no aliases, may be nested deeper
        content = json.dumps(answer, default=dict, ensure_ascii=False, separators=(",", ":"))
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def image_responses(*types: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of images of these media types."""
    content = {name: {"schema": {"type": "string", "format": "binary"}} for name in types}
    return {
        200: {"description": "the image", "content": content},
        304: {"description": "not modified"},
        **error_responses(404),
    }


def image_response(image: EncodedImage, tag: str, is_immutable: bool) -> Response:
    """Return an image; `is_immutable` if a changed image would have another URL."""
    return Response(image.content, media_type=image.media_type, headers=_cache_headers(tag, is_immutable))


def not_modified(tag: str, is_immutable: bool) -> Response:
    """Return a 304 response."""
    return Response(status_code=304, headers=_cache_headers(tag, is_immutable))


def matches(tag: str, if_none_match: str) -> bool:
    """Return whether an ETag is listed in an `If-None-Match` header."""
    return tag in (one.strip().removeprefix("W/") for one in if_none_match.split(","))


def _cache_headers(tag: str, is_immutable: bool) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": _FOREVER if is_immutable else _REVALIDATE}


# --- images -----------------------------------------------------------------------------------------------------------

THUMBNAIL_SIZE: Final = 256
_LARGE_SIZE: Final = 2048
_MAX_FILE_BYTES: Final = 40_000_000
_QUALITY, _LARGE_QUALITY = 82, 90
_SIGNATURES: Final = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}
_SIGNATURE_BYTES: Final = 12


class Thumbnails:
    """The thumbnails of a gallery, by image digest; in a temporary folder if the gallery's cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._temporary: Path | None = None
        self._folder = folder
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self._folder).close()
        except OSError:
            self._folder = self._temporary = Path(tempfile.mkdtemp(prefix="andornot-"))

    def close(self) -> None:
        """Remove the temporary folder."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def get(self, image: ImageRecord) -> EncodedImage:
        """Return the thumbnail; it is not cached if the file has changed since it was indexed.

        The file is opened once and checked before and after decoding: it may be replaced or rewritten meanwhile.
        """
        with _opened(image) as file:
            if not _is_as_indexed(os.fstat(file.fileno()), image):
                return EncodedImage(encode_jpeg(decode(file, size=THUMBNAIL_SIZE)))
            name = image.digest.hex()
            cached = self._folder / name[:2] / f"{name}.jpg"
            with suppress(OSError), open_regular(cached) as thumbnail:
                if content := thumbnail.read():
                    return EncodedImage(content)
            content = encode_jpeg(decode(file, size=THUMBNAIL_SIZE))
            if _is_as_indexed(os.fstat(file.fileno()), image):
                with suppress(OSError):  # on a full disk it is not cached
                    _write(cached, content)
        return EncodedImage(content)


def etag(image: ImageRecord) -> str:
    """Return the ETag of the current file, or raise a RequestError if it is missing."""
    try:
        status = os.stat(image.path)  # noqa: PTH116
    except OSError:
        raise RequestError(404, "file-missing", "the file of this image is gone") from None
    return digest_tag(image) if _is_as_indexed(status, image) else f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def digest_tag(image: ImageRecord) -> str:
    """Return the ETag of the image as it was indexed."""
    return f'"{image.digest.hex()}"'


def _is_as_indexed(status: os.stat_result, image: ImageRecord) -> bool:
    return file_stamp(status) == (image.size, image.mtime_ns)


def _opened(image: ImageRecord) -> BufferedReader:
    """Open the file of an image, or raise a BrokenImageError."""
    try:
        return open_regular(image.path)
    except OSError as error:
        raise BrokenImageError(image.path, error.strerror or type(error).__name__) from None


def version_of(digest: bytes) -> str:
    """Return the version of an image, which changes with its content: half of its digest."""
    return digest[:8].hex()


def encode_jpeg(image: Image.Image, size: int = THUMBNAIL_SIZE, quality: int = _QUALITY) -> bytes:
    """Return the image as a JPEG of at most size x size pixels."""
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def encode_for_browser(image: ImageRecord) -> EncodedImage:
    """Return the file of an image if every browser can show it, else a JPEG."""
    with _opened(image) as file:
        media_type = _media_type(file.read(_SIGNATURE_BYTES))
        # Boxes refer to the upright image, and all browsers apply the EXIF orientation only to JPEGs.
        is_upright = media_type == "image/jpeg" or (media_type is not None and not is_turned(file))
        if media_type and is_upright and os.fstat(file.fileno()).st_size <= _MAX_FILE_BYTES:
            file.seek(0)
            return EncodedImage(file.read(), media_type)
        return EncodedImage(encode_jpeg(decode(file, size=_LARGE_SIZE), _LARGE_SIZE, _LARGE_QUALITY))


def _media_type(start: bytes) -> str | None:
    """Return the media type by the first bytes of a file."""
    if start.startswith(b"RIFF") and start[8:] == b"WEBP":
        return "image/webp"
    return next((media_type for known, media_type in _SIGNATURES.items() if start.startswith(known)), None)


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically: another thread or server may write it at the same time."""
    # Do not create the parents of the cache: a removed gallery would reappear as a folder of thumbnails.
    for folder in reversed(file.parents[:3]):
        folder.mkdir(exist_ok=True)
    partial = file.with_name(f"{file.stem}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
