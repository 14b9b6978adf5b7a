"""What a gallery knows of its pictures, but for their features: one SQLite file.

A reader takes everything out of it in one transaction and closes it: a `Snapshot`. Paths are absolute, and kept as
bytes, because the names of files need not be text.
"""

import errno
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import numpy as np

from ..ssl.checkpoint import write_atomically
from ..version import __version__
from .errors import DamagedError, GalleryError, LockedError

DATABASE: Final = "gallery.sqlite"
FORMAT: Final = 1

_SCHEMA: Final = (
    "CREATE TABLE gallery (key TEXT PRIMARY KEY, value)",
    "CREATE TABLE folders (path BLOB PRIMARY KEY)",
    "CREATE TABLE pictures (id INTEGER PRIMARY KEY, path BLOB UNIQUE, size INTEGER, mtime_ns INTEGER, digest BLOB, "
    "taken INTEGER, row INTEGER, features_crc INTEGER, record_crc INTEGER)",
    "CREATE TABLE broken (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, reason TEXT)",
)
# Which of the two a picture's date is. Galleries of version 0.1 have no such table: there it is not known.
_ORIGINS: Final = "CREATE TABLE IF NOT EXISTS origins (id INTEGER PRIMARY KEY, by_camera INTEGER)"
_PICTURES: Final = (
    "SELECT id, path, size, mtime_ns, digest, taken, row, features_crc, record_crc FROM pictures ORDER BY id"
)

_INSERT_PICTURE: Final = "INSERT OR REPLACE INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_BROKEN: Final = "INSERT OR REPLACE INTO broken VALUES (?, ?, ?, ?)"


Origin = Literal["camera", "file", "unknown"]
"""Whose date a picture's is: the camera's, or only that of the file; of old galleries it is not known."""


class Picture(NamedTuple):
    """A picture of the gallery: its file as it was, when it was taken, and where its features are.

    `taken` counts seconds from 1970 as the clock on the wall showed them; cameras know no time zone. Where the camera
    noted none, it is when the file was changed last: `Snapshot.by_camera` keeps the two apart.
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
    def record_crc(self) -> int:
        """A checksum of all of this: SQLite itself has none."""
        return zlib.crc32(repr(self).encode())


class Broken(NamedTuple):
    """A file that cannot be read as a picture; not tried again until it changes."""

    path: str
    size: int
    mtime_ns: int
    reason: str


@dataclass(frozen=True)
class State:
    """What there is one of in a gallery.

    Features are in rows from 0 to `rows`, of which pictures use some, in files numbered from `first_file`.
    `calibrated_on`: the number of pictures that the gallery's own model was calibrated on, 0 before that; None for a
    model that was given.
    """

    model: str
    model_id: str
    width: int
    calibrated_on: int | None
    first_file: int = 1
    rows: int = 0
    next_id: int = 1


class Snapshot:
    """All that one moment's database says. Pictures are in the order of their ids; a position is a place in it."""

    def __init__(
        self,
        state: State,
        folders: Iterable[bytes],
        records: list[tuple[Any, ...]],
        broken: Iterable[Broken],
        origins: Mapping[int, int],
    ) -> None:
        self.state = state
        self.folders = tuple(map(os.fsdecode, folders))
        self.broken = {entry.path: entry for entry in broken}
        self._records = records
        self.ids, self.taken, self.rows = (
            np.fromiter(map(itemgetter(Picture._fields.index(name)), records), np.int64, len(records))
            for name in ("id", "taken", "row")
        )

        # 1 for a date that the camera noted, 0 for the time of the file, -1 where it is not known.
        self.by_camera = np.fromiter((origins.get(identity, -1) for identity in self.ids.tolist()), np.int8, len(self))

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, position: int) -> str:
        """The path of a picture."""
        return os.fsdecode(self._records[position][1])

    @cached_property
    def paths(self) -> list[str]:
        """All paths."""
        return [os.fsdecode(record[1]) for record in self._records]

    @cached_property
    def position_of_row(self) -> np.ndarray:
        """For each row of features the position of its picture, or -1."""
        if len(self) and not (self.rows.min() >= 0 and self.rows.max() < self.state.rows):
            raise DamagedError(f"{DATABASE} is damaged: it names features that were never written")
        positions = np.full(self.state.rows, -1, np.int64)
        positions[self.rows] = np.arange(len(self))
        return positions

    @cached_property
    def position_of_digest(self) -> dict[bytes, int]:
        """The position of a picture with that content."""
        return {record[4]: position for position, record in enumerate(self._records)}

    def taken_at(self, position: int) -> datetime:
        """The date of a picture, as the clock on the wall showed it."""
        return datetime.fromtimestamp(int(self.taken[position]), UTC).replace(tzinfo=None)

    def taken_from(self, position: int) -> Origin:
        """Whose date that is."""
        origins: tuple[Origin, ...] = ("file", "camera", "unknown")
        return origins[int(self.by_camera[position])]

    def picture(self, position: int) -> Picture:
        """A picture, checked."""
        picture = self._picture(position)
        if not self.is_sound(position):
            raise DamagedError(f"{DATABASE} is damaged in what it says of {picture.path}")
        return picture

    def is_sound(self, position: int) -> bool:
        """Whether the record is as it was written."""
        picture = self._picture(position)
        return picture.record_crc == self._records[position][-1] and 0 <= picture.row < self.state.rows

    def pictures(self) -> Iterator[Picture]:
        """All pictures, checked."""
        return map(self.picture, range(len(self)))

    def features_crc(self, position: int) -> int:
        """The checksum of a picture's features."""
        return int(self._records[position][Picture._fields.index("features_crc")])

    def _picture(self, position: int) -> Picture:
        identity, path, *rest, _ = self._records[position]
        return Picture(identity, os.fsdecode(path), *rest)


def exists(folder: Path) -> bool:
    """Whether a gallery is there."""
    return (folder / DATABASE).exists()


def create(
    folder: Path,
    state: State,
    folders: Iterable[bytes] = (),
    records: Iterable[tuple[Any, ...]] = (),
    broken: Iterable[tuple[Any, ...]] = (),
) -> None:
    """Makes a database in the place of any other, of nothing or of rows as they are in its tables."""

    def write(partial: Path) -> None:
        partial.unlink(missing_ok=True)
        with _translated(partial), closing(sqlite3.connect(partial)) as connection, connection:
            for statement in (*_SCHEMA, _ORIGINS):
                connection.execute(statement)
            write_state(connection, state)
            connection.executemany("INSERT INTO folders VALUES (?)", ((path,) for path in folders))
            connection.executemany(_INSERT_PICTURE, records)
            connection.executemany(_INSERT_BROKEN, broken)
        # What SQLite keeps beside a database belongs to the old one.
        for ending in ("-wal", "-shm"):
            (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)

    write_atomically(folder / DATABASE, write)


def read_snapshot(folder: Path) -> Snapshot:
    """What was committed last."""
    file = folder / DATABASE
    if not file.exists():
        missing = "has no gallery in it" if folder.is_dir() else "is not a folder"
        raise GalleryError(f"{folder} {missing}; andornot index FOLDER --gallery {folder} makes one")
    with _translated(file), closing(_reader(file)) as connection:
        connection.execute("BEGIN")
        return Snapshot(
            read_state(connection, folder),
            (path for (path,) in connection.execute("SELECT path FROM folders ORDER BY path")),
            connection.execute(_PICTURES).fetchall(),
            (Broken(os.fsdecode(path), *rest) for path, *rest in connection.execute("SELECT * FROM broken")),
            _read_origins(connection),
        )


def _read_origins(connection: sqlite3.Connection) -> dict[int, int]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'origins'").fetchone():
        return {}
    return dict(connection.execute("SELECT id, by_camera FROM origins"))


def read_state(connection: sqlite3.Connection, folder: Path) -> State:
    """The state, if this version of andornot can read it."""
    values = dict(connection.execute("SELECT key, value FROM gallery"))
    if values.get("format", 0) > FORMAT:
        raise GalleryError(
            f"{folder} was made by andornot {values.get('version')}, and this is {__version__}: update andornot"
        )
    try:
        return State(**{field.name: values[field.name] for field in fields(State)})
    except KeyError as missing:
        raise DamagedError(f"{folder / DATABASE} is damaged: it has no {missing}") from None


def write_state(connection: sqlite3.Connection, state: State) -> None:
    """Writes the state into the transaction."""
    values = {"format": FORMAT, "version": __version__, **asdict(state)}
    connection.executemany("INSERT OR REPLACE INTO gallery VALUES (?, ?)", values.items())


class Database:
    """The database for its one writer: changes wait until `commit`, which makes all of them or none."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / DATABASE
        with _translated(self.file):
            self._connection = sqlite3.connect(self.file, isolation_level=None, timeout=30)
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute(_ORIGINS)
            except BaseException:
                self._connection.close()
                raise
        self._changes: list[tuple[str, tuple[Any, ...]]] = []

    def close(self) -> None:
        """Forgets what was not committed."""
        self._connection.close()

    def add_folder(self, path: str) -> None:
        """Remembers a folder."""
        self._changes.append(("INSERT OR IGNORE INTO folders VALUES (?)", (os.fsencode(path),)))

    def remove_folder(self, path: str) -> None:
        """Forgets a folder."""
        self._changes.append(("DELETE FROM folders WHERE path = ?", (os.fsencode(path),)))

    def put(self, picture: Picture) -> None:
        """Adds a picture, or replaces what is known of it."""
        values = (picture.id, os.fsencode(picture.path), *picture[2:], picture.record_crc)
        self._changes.append((_INSERT_PICTURE, values))
        self._changes.append(("DELETE FROM broken WHERE path = ?", (values[1],)))

    def put_origin(self, identity: int, by_camera: bool) -> None:
        """Notes whether a picture's date is the camera's; else it is the file's."""
        self._changes.append(("INSERT OR REPLACE INTO origins VALUES (?, ?)", (identity, int(by_camera))))

    def remove(self, identity: int) -> None:
        """Removes a picture."""
        self._changes.append(("DELETE FROM origins WHERE id = ?", (identity,)))
        self._changes.append(("DELETE FROM pictures WHERE id = ?", (identity,)))

    def put_broken(self, broken: Broken) -> None:
        """Remembers a file that cannot be read."""
        values = (os.fsencode(broken.path), *broken[1:])
        self._changes.append((_INSERT_BROKEN, values))

    def remove_broken(self, path: str) -> None:
        """Forgets a file that could not be read."""
        self._changes.append(("DELETE FROM broken WHERE path = ?", (os.fsencode(path),)))

    def commit(self, state: State) -> None:
        """Everything since the last commit, and the state, in one transaction."""
        with _translated(self.file):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in self._changes:
                    self._connection.execute(statement, values)
                write_state(self._connection, state)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._changes.clear()


def _reader(file: Path) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(file.absolute()))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=30)
    try:
        connection.execute("SELECT 1 FROM gallery").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # On a disk that cannot be written SQLite cannot make the files beside it; then nobody else writes either.
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        log = Path(f"{file}-wal")
        if log.exists() and log.stat().st_size:
            raise GalleryError(
                f"{file} was not closed properly: open the gallery once where it can be written"
            ) from None
        connection = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    except BaseException:
        connection.close()
        raise
    return connection


_AS_OS_ERRORS: Final = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}


@contextmanager
def _translated(file: Path) -> Iterator[None]:
    """SQLite's errors as those of the disk, or of a gallery."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _AS_OS_ERRORS:
            number = _AS_OS_ERRORS[code]
            raise OSError(number, os.strerror(number), str(file)) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LockedError(f"{file} is in use by another program: try again") from error
        raise DamagedError(f"{file} is damaged ({error})") from error
