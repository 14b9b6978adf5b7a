"""Reading files: digest, date, and pixels if the content is not known. By threads, ahead of the backbone.

Digest, pixels and date are those of the same bytes, even if the file is replaced or rewritten meanwhile.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import BinaryIO, Final, NamedTuple

from torch import Tensor

from ..data import BrokenImageError
from ..data.decoding import read_photograph, read_taken
from ..data.readers import default_workers
from ..files import open_regular
from ..model import Model
from .records import digest_of, file_stamp

_AHEAD: Final = 256  # files under way: bounds what waits in memory, and hides that some take longer
_IN_MEMORY: Final = 32_000_000  # bytes of a file that is read as a whole
_TRIES: Final = 3


class ScannedFile(NamedTuple):
    """A file: `pixels` for one that must be encoded, `reason` and its `code` for one that cannot be read.

    `taken`: when the image was taken if the camera noted that (`by_camera`), else when the file was modified. `width`
    and `height` are those of the upright image, known where it was decoded.
    """

    path: str
    size: int
    mtime_ns: int
    digest: bytes = b""
    taken: int = 0
    by_camera: bool = False
    width: int = 0
    height: int = 0
    pixels: Tensor | None = None
    reason: str = ""
    code: str = ""

    @property
    def is_out_of_reach(self) -> bool:
        """Whether its bytes could not be read: no permission, or a disk with errors."""
        return bool(self.reason) and not self.digest and self.size != 0


def scan_all(
    paths: Iterable[str], model: Model, is_known: Callable[[bytes], bool], threads: int | None = None
) -> Iterator[ScannedFile]:
    """Yield every file in order. Content that `is_known` by its digest is not decoded."""
    waiting: deque[Future[ScannedFile]] = deque()
    with ThreadPoolExecutor(threads or default_workers(), "andornot-scanning") as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(_scan, path, model, is_known))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # stopped by an error or by Ctrl-C
                future.cancel()


class _ChangingError(Exception):
    """A file that is written while it is read."""


def _scan(path: str, model: Model, is_known: Callable[[bytes], bool]) -> ScannedFile:
    for _ in range(_TRIES):
        try:
            return _look(path, model, is_known)
        except _ChangingError:
            continue
    # No digest: it is out of reach for now, and the next index tries again.
    return ScannedFile(path, -1, -1, reason="it was changed while it was read")


def _look(path: str, model: Model, is_known: Callable[[bytes], bool]) -> ScannedFile:
    seen = ScannedFile(path, -1, -1)
    try:
        status = os.stat(path)  # noqa: PTH116
        seen = ScannedFile(path, *file_stamp(status))
        with open_regular(path) as file:
            # From here on it is this file, whatever is at the path by now.
            status = os.fstat(file.fileno())
            seen = ScannedFile(path, *file_stamp(status))
            if status.st_size == 0:
                raise BrokenImageError(path, "0 bytes", "empty-file")
            content = file.read() if status.st_size <= _IN_MEMORY else file
            seen = seen._replace(digest=digest_of(content))
            if isinstance(content, bytes) and file_stamp(status) != file_stamp(os.fstat(file.fileno())):
                raise _ChangingError
            try:
                return _decoded(seen, content, model, is_known(seen.digest), status.st_mtime)
            finally:
                if content is file and digest_of(file) != seen.digest:
                    raise _ChangingError
    except BrokenImageError as error:
        return seen._replace(reason=error.reason, code=error.code)
    except OSError as error:
        return seen._replace(reason=error.strerror or str(error))


def _decoded(seen: ScannedFile, content: bytes | BinaryIO, model: Model, is_known: bool, mtime: float) -> ScannedFile:
    if is_known:
        taken, by_camera = _date(_noted(content), mtime)
        return seen._replace(taken=taken, by_camera=by_camera)
    photograph = read_photograph(content, size=model.size, channels=model.channels)
    taken, by_camera = _date(photograph.taken, mtime)
    pixels, (width, height) = model.preprocess(photograph.image), photograph.size
    return seen._replace(pixels=pixels, taken=taken, by_camera=by_camera, width=width, height=height)


def _noted(source: bytes | BinaryIO) -> int | None:
    """Return when the camera says that it took the image, if that can be read."""
    try:
        return read_taken(source)
    except BrokenImageError:
        return None


def _date(noted: int | None, mtime: float) -> tuple[int, bool]:
    """Return what the camera noted, else the time of the file; and which of the two."""
    return (_clock(mtime), False) if noted is None else (noted, True)


def _clock(mtime: float) -> int:
    """Return seconds from 1970 in local time."""
    try:
        return int(datetime.fromtimestamp(mtime).replace(tzinfo=UTC).timestamp())
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return 0
