"""Looks at files: what they are, whether they are known, and their pixels if not. By threads, ahead of the backbone."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image
from torch import Tensor

from ..data import BrokenImageError, decode
from ..data.decoding import quiet_pillow, to_tensor
from ..data.loading import default_workers
from ..data.resizing import square
from ..files import open_regular
from ..model import Model

_AHEAD: Final = 256  # pictures under way: bounds what waits in memory, and hides that some take longer
_EXIF_FOLDER, _EXIF_TAKEN = 0x8769, 0x9003


class Examined(NamedTuple):
    """A file: `pixels` for one that must be encoded, `reason` for one that cannot be read."""

    path: str
    size: int
    mtime_ns: int
    digest: bytes = b""
    taken: int = 0
    pixels: Tensor | None = None
    reason: str = ""

    @property
    def is_out_of_reach(self) -> bool:
        """Whether not even its bytes could be read: no permission, or a disk with errors."""
        return bool(self.reason) and not self.digest and self.size != 0


def examine_all(paths: Iterable[str], model: Model, is_known: Callable[[bytes], bool]) -> Iterator[Examined]:
    """Every file in order. What `is_known` by the digest of its content is not decoded."""
    waiting: deque[Future[Examined]] = deque()
    with ThreadPoolExecutor(default_workers(), "andornot-examining") as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(_examine, path, model, is_known))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # stopped by an error or by Ctrl-C: nobody wants the rest
                future.cancel()


def digest_of(path: str | Path) -> bytes:
    """A hash of a file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()


def _examine(path: str, model: Model, is_known: Callable[[bytes], bool]) -> Examined:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        return Examined(path, -1, -1, reason=error.strerror or str(error))
    seen = Examined(path, status.st_size, status.st_mtime_ns)
    try:
        if status.st_size == 0:
            raise BrokenImageError(path, "0 bytes")
        # The digest comes first: of a file that changes meanwhile it is the old one, and the next look finds that out.
        seen = seen._replace(digest=digest_of(path))
        if is_known(seen.digest):
            return seen._replace(taken=_clock(status.st_mtime))
        image = decode(path, size=model.size, channels=model.channels)
        pixels = to_tensor(square(image, model.size, model.recipe.fit))
        return seen._replace(pixels=pixels, taken=_taken(image, status.st_mtime))
    except BrokenImageError as error:
        return seen._replace(reason=error.reason)
    except OSError as error:
        return seen._replace(reason=error.strerror or str(error))


def _taken(image: Image.Image, mtime: float) -> int:
    """When the camera says it took the picture, else when the file was changed last."""
    try:
        with quiet_pillow():
            text = image.getexif().get_ifd(_EXIF_FOLDER)[_EXIF_TAKEN]
        return int(datetime.strptime(text.strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC).timestamp())
    except Exception:  # there is none, or it is damaged, in one of many ways
        return _clock(mtime)


def _clock(mtime: float) -> int:
    """Seconds from 1970 as the clock on the wall showed them."""
    try:
        return int(datetime.fromtimestamp(mtime).replace(tzinfo=UTC).timestamp())
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return 0
