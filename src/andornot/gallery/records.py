"""What a gallery's database holds, as values; each with a checksum over fixed bytes, because SQLite has none."""

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np

from ..version import __version__

FORMAT: Final = 2
_LISTS: Final = ("folders", "spare", "beside")
_NUMBERS: Final = struct.Struct("<8q")

Record = tuple[Any, ...]


class Picture(NamedTuple):
    """A picture of the gallery: its file as it was, when it was taken, and where its features are.

    `taken` counts seconds from 1970 as the clock on the wall showed them; cameras know no time zone. Where the camera
    noted none, it is when the file was changed last: `Entry.by_camera` keeps the two apart.
    """

    id: int
    path: str
    size: int
    mtime_ns: int
    digest: bytes
    taken: int
    row: int
    features_crc: int

    @property
    def record(self) -> Record:
        """The picture as it is stored, with its checksum."""
        values = (self.id, os.fsencode(self.path), *self[2:])
        return *values, picture_crc(values)


Origin = Literal["camera", "file", "unknown"]
"""Whose date a picture's is: the camera's, or only that of the file; of old galleries it is not known."""


def as_date(taken: int) -> datetime:
    """What `Picture.taken` counts, as the clock on the wall showed it."""
    return datetime.fromtimestamp(int(taken), UTC).replace(tzinfo=None)


class Entry(NamedTuple):
    """A picture, and whether its date is the camera's: 1, 0 for the time of the file, -1 where that is not known."""

    picture: Picture
    by_camera: int

    @property
    def taken_at(self) -> datetime:
        """The date of the picture, as the clock on the wall showed it."""
        return as_date(self.picture.taken)

    @property
    def taken_from(self) -> Origin:
        """Whose date that is."""
        origins: tuple[Origin, ...] = ("file", "camera", "unknown")
        return origins[self.by_camera]


class Broken(NamedTuple):
    """A file that cannot be read as a picture; not tried again until it changes."""

    path: str
    size: int
    mtime_ns: int
    reason: str

    @property
    def record(self) -> Record:
        """The entry as it is stored, with its checksum."""
        values = (os.fsencode(self.path), *self[1:])
        return *values, values_crc(values)


@dataclass(frozen=True)
class State:
    """What there is one of in a gallery.

    Features are in rows from 0 to `rows`, of which pictures use some, in files numbered from `first_file`.
    `calibrated_on`: the number of pictures that the gallery's own model was calibrated on, 0 before that; None for a
    model that was given. `pictures`: how many there are. `folders`: those that `update` looks through. `spare`: names
    of files and folders that the gallery wrote, or began to write, and does not need; the next writer removes these,
    and nothing else. `edition`: the name of the catalogue that has just these records; 0 if there is none.
    `beside`: the names of files with what is kept of pictures beside their features. `grid`: the height and the width
    of the feature maps whose windows are their regions, as "7x7". `basis`: the folder of what these are written in, and
    `basis_id`; empty as long as they are in full.
    """

    model: str
    model_id: str
    width: int
    calibrated_on: int | None
    first_file: int = 1
    rows: int = 0
    next_id: int = 1
    pictures: int = 0
    folders: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    edition: int = 0
    beside: tuple[str, ...] = ()
    grid: str = ""
    basis: str = ""
    basis_id: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """The state as it is stored, with its checksum."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: os.fsencode("\0".join(own[name])) for name in _LISTS}
        values = {"format": FORMAT, "version": __version__, **own, **lists}
        return {**values, "checksum": _mapping_crc(values)}

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> "State | None":
        """The state that was stored; None if these are not the values that were."""
        content = {key: value for key, value in values.items() if key != "checksum"}
        if content.get("format") != FORMAT or values.get("checksum") != _mapping_crc(content):
            return None
        # What an earlier version did not know of is not there; nothing else can be missing in what is whole.
        own: dict[str, Any] = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        for name in own.keys() & set(_LISTS):
            own[name] = tuple(filter(None, os.fsdecode(own[name]).split("\0")))
        return cls(**own)


class Records(Protocol):
    """Who knows the pictures: what searches, names and filters ask, wherever the records are.

    A row is what an engine finds and a `Sources` represents; here the two meet.
    """

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` looks through."""

    @property
    def broken(self) -> Mapping[str, Broken]:
        """Files that cannot be read as pictures, by path."""

    @property
    def folder_counts(self) -> Mapping[str, int]:
        """How many pictures lie directly in each folder that has any."""

    def __len__(self) -> int: ...

    def ids_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """For each row the id of its picture; 0 for one that belongs to none."""

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """The rows of pictures by their ids, without those that there are not."""

    def entry(self, identity: int) -> Entry | None:
        """All that is known of a picture; None if there is no such picture."""

    def called(self, file_name: str) -> Iterator[Entry]:
        """The pictures whose files have that name, in the order of their ids."""

    def with_digest(self, digest: bytes) -> Iterator[Entry]:
        """The pictures with that content."""

    def some_names(self) -> Iterator[str]:
        """File names, to suggest one of them: of a large gallery not all."""


def entry_of(records: Records, identity: int) -> Entry:
    """All that is known of a picture that there is, as one that an engine found."""
    entry = records.entry(identity)
    assert entry is not None, "an engine finds rows of pictures only"
    return entry


def picture_crc(values: Record) -> int:
    """The checksum of a picture's record: of its numbers in 8 bytes each, its path and its digest."""
    identity, path, size, mtime_ns, digest, *rest = values
    numbers = _NUMBERS.pack(identity, size, mtime_ns, *rest, len(path), len(digest))
    return zlib.crc32(numbers + path + digest)


def values_crc(values: Iterable[Any]) -> int:
    """The checksum of a few values, each as its kind, its length and its bytes."""
    crc = 0
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        crc = zlib.crc32(b"%b %d " % (type(value).__name__.encode(), len(content)) + content, crc)
    return crc


def is_sound(record: Record, crc: Callable[[Record], int] = picture_crc) -> bool:
    """Whether a record, whose checksum is its last value, is as it was written."""
    try:
        return bool(crc(record[:-1]) == record[-1])
    except (TypeError, ValueError, struct.error):  # values of other kinds, or another number of them
        return False


def are_sound(records: Iterable[Record]) -> bool:
    """Whether all records of pictures are; the same as `is_sound` of each, but quick, because each opening asks it."""
    pack, crc32 = _NUMBERS.pack, zlib.crc32
    try:
        return all(
            crc32(pack(identity, size, mtime_ns, taken, row, own, len(path), len(digest)) + path + digest) == crc
            for identity, path, size, mtime_ns, digest, taken, row, own, crc in records
        )
    except (TypeError, ValueError, struct.error):
        return False


def _mapping_crc(values: dict[str, Any]) -> int:
    return values_crc(part for key in sorted(values) for part in (key, values[key]))
