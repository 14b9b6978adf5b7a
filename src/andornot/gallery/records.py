"""What a gallery stores: a record for each image, the unreadable files, and its state."""

import hashlib
import json
import os
import zlib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from ..files import open_regular
from ..version import __version__

FORMAT: Final = 4
# Python represents bytes of a path that are not UTF-8 as lone surrogates, which Arrow strings cannot hold.
_ESCAPED: Final = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_LARGEST: Final = 2**63 - 1
_PART: Final = 2**20

Origin = Literal["camera", "file"]
"""Where the date of an image comes from: the camera, or the modification time of its file."""


def file_stamp(status: os.stat_result) -> tuple[int, int]:
    """Return the size and modification time of a file as stored; dates after 2262 are clipped."""
    return status.st_size, min(status.st_mtime_ns, _LARGEST)


def as_date(taken: int) -> datetime:
    """Convert `ImageRecord.taken` to a date in the camera's local time."""
    return datetime.fromtimestamp(int(taken), UTC).replace(tzinfo=None)


class ImageRecord(NamedTuple):
    """An image of the gallery, with the properties of its file when it was encoded.

    `taken` is the time in seconds since 1970 in the camera's local time (EXIF has no time zone). If the camera recorded
    no time (`by_camera` is False), it is the modification time of the file. `width` and `height` are those of the
    upright image.
    """

    id: int
    path: str
    size: int
    mtime_ns: int
    digest: bytes
    taken: int
    by_camera: bool
    width: int
    height: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)  # noqa: PTH119

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return os.path.dirname(self.path)  # noqa: PTH120

    @property
    def taken_at(self) -> datetime:
        """The date of the image, in the camera's local time."""
        return as_date(self.taken)

    @property
    def taken_from(self) -> Origin:
        """Where that date comes from."""
        return "camera" if self.by_camera else "file"


class UnreadableFile(NamedTuple):
    """A file that cannot be read as an image; it is not retried until it changes."""

    path: str
    size: int
    mtime_ns: int
    reason: str
    code: str = ""


@dataclass(frozen=True)
class State:
    """The settings and file names of a gallery, stored with each version.

    `model`: the folder of the model; `model_id`: its hash. `calibrated_on`: the number of images that the gallery's own
    model was calibrated on; 0 before calibration, None for a given model. `folders`: the folders that `update` scans.
    `grid`: height and width of the feature maps; None for a model without regions. `basis`: the file with the basis of
    region codes; `components`: the file with the components of whole images; `codes`: the column with the codes of
    whole images, fitted on `fitted_on` images. All three are empty in small galleries. `definitions`, `unreadable`: the
    files with definitions and unreadable files, if any. `recipe`: the recipe of the gallery's own model; None for a
    given model.
    """

    model: str
    model_id: str
    width: int
    calibrated_on: int | None
    next_id: int = 1
    folders: tuple[str, ...] = ()
    grid: tuple[int, int] | None = None
    basis: str = ""
    components: str = ""
    codes: str = ""
    fitted_on: int = 0
    definitions: str = ""
    unreadable: str = ""
    recipe: dict[str, Any] | None = None

    @property
    def files(self) -> set[str]:
        """The names of all files and folders that a version with this state needs besides the table."""
        return {self.model, self.basis, self.components, self.definitions, self.unreadable} - {""}

    def to_json(self) -> str:
        """Return the state as JSON with a checksum."""
        text = json.dumps({"format": FORMAT, "version": __version__, **asdict(self)}, sort_keys=True)
        return f"{zlib.crc32(text.encode()):08x} {text}"

    @classmethod
    def from_json(cls, stored: str) -> "State | None":
        """Parse a stored state; return None if it is damaged or has another format."""
        checksum, _, text = stored.partition(" ")
        if checksum != f"{zlib.crc32(text.encode()):08x}":
            return None
        values: dict[str, Any] = json.loads(text)
        if values.pop("format") != FORMAT:
            return None
        values.pop("version")
        values["folders"] = tuple(values["folders"])
        values["grid"] = None if values["grid"] is None else tuple(values["grid"])
        return cls(**values)


StrPath = str | os.PathLike[str]


def absolute(path: StrPath) -> Path:
    """Return the absolute path, without resolving links."""
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is inside a folder, or is that folder."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def parent_folder(path: str) -> str:
    """Return the name of an image's parent folder."""
    return os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120


def digest_of(source: str | Path | bytes | BinaryIO) -> bytes:
    """Return a hash of a file's content."""
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=16).digest()
    if isinstance(source, str | Path):
        with open_regular(source) as file:
            return digest_of(file)
    source.seek(0)
    digest = hashlib.blake2b(digest_size=16)
    while part := source.read(_PART):
        digest.update(part)
    return digest.digest()


def as_text(path: str) -> str:
    """Return a path, or a part of one, as valid UTF-8: invalid bytes become private-use characters."""
    return path.translate(_ESCAPED)
