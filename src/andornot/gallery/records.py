"""What a gallery stores: a record for each image, the files that could not be read, and its state."""

import hashlib
import json
import os
import struct
import zlib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from ..files import open_regular
from ..version import __version__

FORMAT: Final = 3
_NUMBERS: Final = struct.Struct("<qqqq?ii")
# Bytes that are no UTF-8 are lone surrogates in Python's paths, which Arrow's texts cannot hold.
_ESCAPED: Final = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_LARGEST: Final = 2**63 - 1
_PART: Final = 2**20

Origin = Literal["camera", "file"]
"""Where the date of an image comes from: the camera, or the modification time of its file."""


def file_stamp(status: os.stat_result) -> tuple[int, int]:
    """Return the size and the modification time of a file, as they are stored; dates after 2262 are all the same."""
    return status.st_size, min(status.st_mtime_ns, _LARGEST)


def as_date(taken: int) -> datetime:
    """Return the date that `ImageRecord.taken` counts, in the camera's local time."""
    return datetime.fromtimestamp(int(taken), UTC).replace(tzinfo=None)


class ImageRecord(NamedTuple):
    """An image of the gallery: its file as it was when it was encoded.

    `taken` counts seconds from 1970 in the camera's local time (cameras know no time zone). Where the camera noted no
    time (`by_camera` is False), it is the modification time of the file. `width` and `height` are those of the upright
    image.
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

    @property
    def checksum(self) -> int:
        """The checksum of the whole record."""
        numbers = (self.id, self.size, self.mtime_ns, self.taken, self.by_camera, self.width, self.height)
        return zlib.crc32(_NUMBERS.pack(*numbers) + self.digest + os.fsencode(self.path))


class UnreadableFile(NamedTuple):
    """A file that cannot be read as an image; not tried again until it changes."""

    path: str
    size: int
    mtime_ns: int
    reason: str
    code: str = ""


@dataclass(frozen=True)
class State:
    """What a gallery has one of, stored with each version.

    `model`: the folder of the model; `model_id`, its hash. `calibrated_on`: the number of images that the gallery's own
    model was calibrated on, 0 before that, None for a model that was given. `folders`: those that `update` scans.
    `grid`: height and width of the feature maps, None for a model without regions. `basis`: the file with the basis of
    region codes; `components`: that of whole images; `codes`: the column with the codes of whole images, fitted on
    `fitted_on` images. All three are empty in small galleries. `retired`: names of files that are not needed any more,
    and when they were replaced.
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
    retired: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> str:
        """Return the state as it is stored, with a checksum."""
        text = json.dumps({"format": FORMAT, "version": __version__, **asdict(self)}, sort_keys=True)
        return f"{zlib.crc32(text.encode()):08x} {text}"

    @classmethod
    def from_json(cls, stored: str) -> "State | None":
        """Return the state that was stored; None if it is damaged or of another format."""
        checksum, _, text = stored.partition(" ")
        if checksum != f"{zlib.crc32(text.encode()):08x}":
            return None
        values: dict[str, Any] = json.loads(text)
        if values.pop("format") != FORMAT:
            return None
        values.pop("version")
        values["folders"] = tuple(values["folders"])
        values["grid"] = None if values["grid"] is None else tuple(values["grid"])
        values["retired"] = tuple((name, when) for name, when in values["retired"])
        return cls(**values)


StrPath = str | os.PathLike[str]


def absolute(path: StrPath) -> Path:
    """Return the whole path; links in it stay as they are."""
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder, or is it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def parent_folder(path: str) -> str:
    """Return the name of the folder that an image lies in."""
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
    """Return a path, or a part of one, as valid UTF-8: bytes that are none become private characters."""
    return path.translate(_ESCAPED)
