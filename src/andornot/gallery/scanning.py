"""Find and read the files to index. A file that several links point to is one image.

Threads read files ahead of the backbone. Digest, pixels and date always come from the same bytes, even if the file is
replaced or rewritten meanwhile.
"""

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from torch import Tensor

from ..data import BrokenImageError
from ..data.decoding import read_photograph, read_taken
from ..data.formats import taken_for_images
from ..data.readers import default_workers
from ..data.sources.folder import find_images, real_path, skipped_around
from ..files import open_regular
from ..model import Model
from .errors import GalleryError
from .records import ImageRecord, StrPath, absolute, digest_of, file_stamp, is_inside

_AHEAD: Final = 256  # files in flight: limits memory, and evens out slow files
_IN_MEMORY: Final = 32_000_000  # bytes; smaller files are read into memory as a whole
_TRIES: Final = 3


# --- finding ---------------------------------------------------------------------------------------------------------


class Scope:
    """The files found by a scan, and the places that were scanned.

    `skipped` counts unsupported files by kind: "video", or the file extension.
    """

    def __init__(
        self,
        folders: Iterable[str],
        files: Iterable[str],
        found: Iterable[str],
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        self.folders = list(folders)
        self._files = set(files)
        self.found = sorted(set(found) | self._files)
        self._found = set(self.found)
        self.skipped = dict(sorted((skipped or {}).items()))
        self._real_folders: dict[str, str] = {}

    def misses(self, path: str) -> bool:
        """Return whether a file of the gallery is missing from the scanned places, or was found under another name."""
        if path in self._found:
            return False
        if real_path(path, self._real_folders) in self._real_found:
            return True
        if not self._covers(path):
            return False
        return is_gone(path) or os.path.realpath(path) in self._real_found or skipped_around(path) is not None

    @cached_property
    def _real_found(self) -> set[str]:
        return {real_path(path, self._real_folders) for path in self.found}

    def _covers(self, path: str) -> bool:
        return path in self._files or any(is_inside(path, folder) for folder in self.folders)


def find_files(paths: Sequence[str], known: Iterable[str], prune: bool) -> Scope:
    """Find the images in folders and files. `known` are the paths in the gallery.

    An empty or missing folder with images in the gallery is more likely an unmounted disk than a folder that was
    emptied, so it raises an error unless `prune`.
    """
    in_gallery = set(known)
    folders: list[str] = []
    files: list[str] = []
    found: list[str] = []
    skipped: Counter[str] = Counter()
    for path in paths:
        around = skipped_around(os.path.realpath(path))
        if around is not None and path not in in_gallery and not prune:
            raise GalleryError(
                f"{path} is in the folder of the gallery {around}, where no images of yours should be: "
                "move them elsewhere, and give that folder"
            )
        if os.path.isfile(path) and around is None:  # noqa: PTH113
            files.append(path)
            continue
        folders.append(path)
        is_folder = os.path.isdir(path)  # noqa: PTH112
        images = find_images(Path(path), skipped=skipped) if is_folder and around is None else []
        found += images
        if images or prune or path in in_gallery:
            continue
        if inside := sum(is_inside(other, path) for other in in_gallery):
            raise GalleryError(
                f"{path} is {'empty' if is_folder else 'not there'}, and the gallery has {inside:,} images from it: "
                "is a disk not mounted? --prune drops them"
            )
        raise GalleryError(_nothing_in(path, skipped))
    return Scope(folders, files, set(found) - _other_names(set(found), in_gallery), skipped)


def check_folders(places: Iterable[StrPath]) -> None:
    """Raise a GalleryError if a folder has no images; stops at the first image of each folder."""
    for path in (str(absolute(place)) for place in places):
        is_own = skipped_around(os.path.realpath(path)) is None
        is_file, is_folder = os.path.isfile(path), os.path.isdir(path)  # noqa: PTH112, PTH113
        if not (is_own and (is_file or (is_folder and find_images(Path(path), first_only=True)))):
            find_files([path], (), prune=False)  # raises the error that explains what is wrong


def describe_skipped(skipped: Mapping[str, int]) -> list[str]:
    """Return a line for each unsupported kind of file.

    >>> describe_skipped({".psd": 1, "video": 3})
    ['1 .psd file skipped: not supported', '3 videos skipped: not supported']
    """
    return [
        f"{count:,} {kind if kind == 'video' else f'{kind} file'}{'' if count == 1 else 's'} skipped: not supported"
        for kind, count in skipped.items()
    ]


def _other_names(found: set[str], known: set[str]) -> set[str]:
    """Return found paths that are aliases of a better path: one without links, or else the first in order."""
    names: dict[str, list[str]] = defaultdict(list)
    for folder in {os.path.dirname(path) for path in (*found, *known)}:  # noqa: PTH120
        names[os.path.realpath(folder)].append(folder)
    # For each alias of a folder, the better names of the same folder.
    better: dict[str, list[str]] = {}
    for real, aliases in names.items():
        aliases.sort(key=lambda folder: (folder != real, folder))
        better |= {folder: aliases[:place] for place, folder in enumerate(aliases) if place}
    return {
        path
        for path in (found if better else ())
        for folder in better.get(os.path.dirname(path), ())  # noqa: PTH120
        if (other := os.path.join(folder, os.path.basename(path))) in found or other in known  # noqa: PTH118, PTH119
    }


def is_gone(path: str) -> bool:
    """Return whether a file does not exist. Files that fail with permission or disk errors count as existing."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _nothing_in(path: str, skipped: Mapping[str, int]) -> str:
    if not os.path.isdir(path):  # noqa: PTH112
        return f"{path} is not a folder"
    others = "".join(f", {line}" for line in describe_skipped(skipped))
    return f"{path} has no image in it{others}; {taken_for_images()}"


# --- reading ---------------------------------------------------------------------------------------------------------


class ScannedFile(NamedTuple):
    """A scanned file: `pixels` if it must be encoded, `reason` and its `code` if it cannot be read.

    `taken` is the camera's time if it recorded one (`by_camera`), else the modification time. `width` and `height` are
    those of the upright image, known if it was decoded.
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

    def record(self, identity: int, source: ImageRecord | None = None) -> ImageRecord:
        """Return the record of the file. If it was not decoded, its size comes from a source with the same content."""
        width, height = (self.width, self.height) if self.width or source is None else (source.width, source.height)
        return ImageRecord(
            identity, self.path, self.size, self.mtime_ns, self.digest, self.taken, self.by_camera, width, height
        )

    @property
    def is_out_of_reach(self) -> bool:
        """Whether its bytes could not be read, e.g. for lack of permission or disk errors."""
        return bool(self.reason) and not self.digest and self.size != 0


def scan_all(
    paths: Iterable[str], model: Model, is_known: Callable[[bytes], bool], threads: int | None = None
) -> Iterator[ScannedFile]:
    """Yield every file in order. Contents whose digest `is_known` are not decoded."""
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
            for future in waiting:  # after an error or Ctrl-C
                future.cancel()


class _ChangingError(Exception):
    """Raised when a file changes while it is read."""


def _scan(path: str, model: Model, is_known: Callable[[bytes], bool]) -> ScannedFile:
    for _ in range(_TRIES):
        try:
            return _look(path, model, is_known)
        except _ChangingError:
            continue
    # Without a digest it counts as unreachable, so the next index retries it.
    return ScannedFile(path, -1, -1, reason="it was changed while it was read")


def _look(path: str, model: Model, is_known: Callable[[bytes], bool]) -> ScannedFile:
    seen = ScannedFile(path, -1, -1)
    try:
        status = os.stat(path)  # noqa: PTH116
        seen = ScannedFile(path, *file_stamp(status))
        with open_regular(path) as file:
            # Use the open file from here on; the path may point to another one by now.
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
    """Return the camera's time from EXIF, or None."""
    try:
        return read_taken(source)
    except BrokenImageError:
        return None


def _date(noted: int | None, mtime: float) -> tuple[int, bool]:
    """Return the camera's time, else that of the file, and whether it is the camera's."""
    return (_clock(mtime), False) if noted is None else (noted, True)


def _clock(mtime: float) -> int:
    """Return seconds since 1970 in local time."""
    try:
        return int(datetime.fromtimestamp(mtime).replace(tzinfo=UTC).timestamp())
    except (OverflowError, ValueError, OSError):  # out of range for a date
        return 0
