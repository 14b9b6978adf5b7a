"""Looks at files: what they are, whether they are known, and their pixels if not. By threads, ahead of the backbone.

The digest, the pixels and the date are those of the same bytes, even if the file is replaced or rewritten meanwhile.
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
from ..data.loading import default_workers
from ..files import open_regular
from ..model import Model
from .digests import digest_of

_AHEAD: Final = 256  # pictures under way: bounds what waits in memory, and hides that some take longer
_IN_MEMORY: Final = 32_000_000  # bytes of a file that is read as a whole
_TRIES: Final = 3


class Scanned(NamedTuple):
    """A file: `pixels` for one that must be encoded, `reason` for one that cannot be read.

    `taken`: when the picture was taken if the camera noted that (`by_camera`), else when the file was changed last.
    """

    path: str
    size: int
    mtime_ns: int
    digest: bytes = b""
    taken: int = 0
    by_camera: bool = False
    pixels: Tensor | None = None
    reason: str = ""

    @property
    def is_out_of_reach(self) -> bool:
        """Whether not even its bytes could be read: no permission, or a disk with errors."""
        return bool(self.reason) and not self.digest and self.size != 0


def scan_all(
    paths: Iterable[str], model: Model, is_known: Callable[[bytes], bool], threads: int | None = None
) -> Iterator[Scanned]:
    """Every file in order. What `is_known` by the digest of its content is not decoded."""
    waiting: deque[Future[Scanned]] = deque()
    with ThreadPoolExecutor(threads or default_workers(), "andornot-scanning") as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(_scan, path, model, is_known))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # stopped by an error or by Ctrl-C: nobody wants the rest
                future.cancel()


def date_of(path: str, mtime: float) -> tuple[int, bool] | None:
    """When a picture was taken, and whether its camera says so; None where its file cannot be read."""
    try:
        return _date(read_taken(path), mtime)
    except BrokenImageError:
        return None


class _ChangingError(Exception):
    """A file that somebody writes while it is read."""


def _scan(path: str, model: Model, is_known: Callable[[bytes], bool]) -> Scanned:
    for _ in range(_TRIES):
        try:
            return _look(path, model, is_known)
        except _ChangingError:
            continue
    # No digest: it is out of reach for now, and the next index tries again.
    return Scanned(path, -1, -1, reason="it was changed while it was read")


def _look(path: str, model: Model, is_known: Callable[[bytes], bool]) -> Scanned:
    seen = Scanned(path, -1, -1)
    try:
        status = os.stat(path)  # noqa: PTH116
        seen = Scanned(path, status.st_size, status.st_mtime_ns)
        with open_regular(path) as file:
            # From here on it is this file, whatever is at the path by now.
            status = os.fstat(file.fileno())
            seen = Scanned(path, status.st_size, status.st_mtime_ns)
            if status.st_size == 0:
                raise BrokenImageError(path, "0 bytes")
            content = file.read() if status.st_size <= _IN_MEMORY else file
            seen = seen._replace(digest=digest_of(content))
            if isinstance(content, bytes) and (status.st_size, status.st_mtime_ns) != _stamp(file):
                raise _ChangingError
            try:
                return _decoded(seen, content, model, is_known(seen.digest), status.st_mtime)
            finally:
                if content is file and digest_of(file) != seen.digest:
                    raise _ChangingError
    except BrokenImageError as error:
        return seen._replace(reason=error.reason)
    except OSError as error:
        return seen._replace(reason=error.strerror or str(error))


def _decoded(seen: Scanned, content: bytes | BinaryIO, model: Model, is_known: bool, mtime: float) -> Scanned:
    if is_known:
        taken, by_camera = _date(_noted(content), mtime)
        return seen._replace(taken=taken, by_camera=by_camera)
    photograph = read_photograph(content, size=model.size, channels=model.channels)
    taken, by_camera = _date(photograph.taken, mtime)
    return seen._replace(pixels=model.preprocess(photograph.image), taken=taken, by_camera=by_camera)


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _noted(source: bytes | BinaryIO) -> int | None:
    """When the camera says that it took the picture, if that can be read."""
    try:
        return read_taken(source)
    except BrokenImageError:
        return None


def _date(noted: int | None, mtime: float) -> tuple[int, bool]:
    """What the camera noted, else the time of the file; and which of the two."""
    return (_clock(mtime), False) if noted is None else (noted, True)


def _clock(mtime: float) -> int:
    """Seconds from 1970 as the clock on the wall showed them."""
    try:
        return int(datetime.fromtimestamp(mtime).replace(tzinfo=UTC).timestamp())
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return 0
