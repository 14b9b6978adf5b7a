"""What a gallery knows of its pictures, but for their features: one SQLite file.

A reader takes everything out of it in one transaction, checks it and closes it: a `Snapshot`. Paths are absolute, and
kept as bytes, because the names of files need not be text.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import numpy as np

from ..files import write_atomically
from ..version import __version__
from . import format_1
from .errors import DamagedError, GalleryError, LockedError
from .layout import DATABASE
from .records import FORMAT, Record, are_sound, is_sound, values_crc
from .records import Broken as Broken
from .records import Picture as Picture
from .records import State as State

# The state is kept twice, in two places of the file: it is small, and all else hangs on it.
STATES: Final = ("gallery", "gallery_copy")
_BROKEN: Final = (
    "CREATE TABLE broken (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, reason TEXT, record_crc INTEGER)"
)
_SCHEMA: Final = (
    *(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, value)" for table in STATES),
    "CREATE TABLE pictures (id INTEGER PRIMARY KEY, path BLOB UNIQUE, size INTEGER, mtime_ns INTEGER, digest BLOB, "
    "taken INTEGER, row INTEGER, features_crc INTEGER, record_crc INTEGER)",
    _BROKEN,
)
# Whether a picture's date is the camera's; else it is that of its file. Galleries of 0.1 do not know, and what is
# damaged here counts as not known: the next index finds it out again.
_ORIGINS: Final = "CREATE TABLE IF NOT EXISTS origins (id INTEGER PRIMARY KEY, by_camera INTEGER, record_crc INTEGER)"
# Never `OR REPLACE`: where an id or a path is in use already, the picture that has it must not pay for that.
_INSERT_PICTURE: Final = "INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_PICTURE: Final = (
    "UPDATE pictures SET path = ?2, size = ?3, mtime_ns = ?4, digest = ?5, taken = ?6, row = ?7, features_crc = ?8, "
    "record_crc = ?9 WHERE id = ?1"
)
_INSERT_BROKEN: Final = "INSERT INTO broken VALUES (?, ?, ?, ?, ?)"
_SET_ORIGIN: Final = "INSERT OR REPLACE INTO origins VALUES (?, ?, ?)"

Origin = Literal["camera", "file", "unknown"]
"""Whose date a picture's is: the camera's, or only that of the file; of old galleries it is not known."""


class Snapshot:
    """All that one moment's database says, checked.

    Pictures are in the order of their ids; a position is a place in it. `is_old`: it is in the format of 0.1.
    """

    def __init__(
        self,
        state: State,
        records: list[Record],
        broken: Iterable[Broken],
        is_old: bool = False,
        origins: Mapping[int, int] | None = None,
    ) -> None:
        self.state, self.is_old = state, is_old
        self.broken = {entry.path: entry for entry in broken}
        self._records = records
        self.ids, self.taken, self.rows = (
            np.fromiter(map(itemgetter(Picture._fields.index(name)), records), np.int64, len(records))
            for name in ("id", "taken", "row")
        )

        # 1 for a date that the camera noted, 0 for the time of the file, -1 where it is not known.
        known = origins or {}
        self.by_camera = np.fromiter((known.get(identity, -1) for identity in self.ids.tolist()), np.int8, len(self))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` looks through."""
        return self.state.folders

    def path(self, position: int) -> str:
        """The path of a picture."""
        return os.fsdecode(self._records[position][1])

    def digest(self, position: int) -> bytes:
        """The hash of a picture's content."""
        return bytes(self._records[position][Picture._fields.index("digest")])

    @cached_property
    def paths(self) -> list[str]:
        """All paths."""
        return [os.fsdecode(record[1]) for record in self._records]

    @cached_property
    def position_of_row(self) -> np.ndarray:
        """For each row of features the position of its picture, or -1."""
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
        """A picture."""
        identity, path, *rest, _ = self._records[position]
        return Picture(identity, os.fsdecode(path), *rest)

    def pictures(self) -> Iterator[Picture]:
        """All pictures."""
        return map(self.picture, range(len(self)))

    def features_crc(self, position: int) -> int:
        """The checksum of a picture's features."""
        return int(self._records[position][Picture._fields.index("features_crc")])

    def contradiction(self) -> str:
        """What does not fit together, though each record is whole by itself; nothing if all does."""
        state = self.state
        if len(self) != state.pictures:
            return f"it has {len(self):,} pictures, and there were {state.pictures:,}"
        if not len(self):
            return ""
        if self.rows.min() < 0 or self.rows.max() >= state.rows:
            return "it names features that were never written"
        if self.ids[0] < 1 or self.ids[-1] >= state.next_id or (np.diff(self.ids) <= 0).any():
            return "it has ids that were never given"
        used = np.zeros(state.rows, bool)
        used[self.rows] = True
        return "two pictures have the same features" if np.count_nonzero(used) < len(self) else ""


def create(folder: Path, state: State, records: Iterable[Record] = (), broken: Iterable[Record] = ()) -> None:
    """Makes a database in the place of any other, of nothing or of rows as they are in its tables."""

    def write(partial: Path) -> None:
        partial.unlink(missing_ok=True)
        with _translated(partial), closing(sqlite3.connect(partial)) as connection, connection:
            for statement in (*_SCHEMA, _ORIGINS):
                connection.execute(statement)
            _write_state(connection, state)
            connection.executemany(_INSERT_PICTURE, records)
            connection.executemany(_INSERT_BROKEN, broken)
        # What SQLite keeps beside a database belongs to the old one.
        for ending in ("-wal", "-shm"):
            (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)

    write_atomically(folder / DATABASE, write)


def read_snapshot(folder: Path) -> Snapshot:
    """What was committed last. Everything is checked: each record, and whether all of them are there."""
    file = folder / DATABASE
    if not file.exists():
        missing = "has no gallery in it" if folder.is_dir() else "is not a folder"
        raise GalleryError(f"{folder} {missing}; andornot index FOLDER --gallery {folder} makes one")
    with _translated(file), closing(_reader(file)) as connection:
        connection.execute("BEGIN")
        is_old = format_1.holds(connection)
        copies = [_values(connection, table) for table in (STATES[:1] if is_old else STATES)]
        _check_version(copies, folder)
        records = connection.execute("SELECT * FROM pictures ORDER BY id").fetchall()
        broken = connection.execute("SELECT * FROM broken").fetchall()
        origins = _origins(connection)
        if is_old:
            folders = connection.execute("SELECT path FROM folders ORDER BY path").fetchall()
            state, records, broken = format_1.converted(copies[0], folders, records, broken)
        else:
            state = stored_state(copies)
    if state is None:
        raise DamagedError(f"{file} is damaged in what it says of the gallery as a whole")
    if not are_sound(records):
        record = next(record for record in records if not is_sound(record))
        path = os.fsdecode(record[1]) if isinstance(record[1], bytes) else "a picture"
        raise DamagedError(f"{file} is damaged in what it says of {path}")
    if not all(is_sound(record, values_crc) for record in broken):
        raise DamagedError(f"{file} is damaged in what it says of files that cannot be read")
    entries = (Broken(os.fsdecode(path), *rest) for path, *rest, _ in broken)
    snapshot = Snapshot(state, records, entries, is_old, origins)
    if contradiction := snapshot.contradiction():
        raise DamagedError(f"{file} is damaged: {contradiction}")
    return snapshot


def stored_state(copies: Iterable[dict[str, Any]]) -> State | None:
    """The state from the first copy that is whole; None if there is none."""
    return next(filter(None, map(State.of_values, copies)), None)


def _origins(connection: sqlite3.Connection) -> dict[int, int]:
    try:
        found = connection.execute("SELECT * FROM origins").fetchall()
    except sqlite3.DatabaseError:  # there is no such table, or it is damaged
        return {}
    return {record[0]: record[1] for record in found if is_sound(record, values_crc)}


def _values(connection: sqlite3.Connection, table: str) -> dict[str, Any]:
    try:
        return dict(connection.execute(f"SELECT key, value FROM {table}"))
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # the other copy may be whole
        return {}


def _check_version(copies: list[dict[str, Any]], folder: Path) -> None:
    # All that are there must say so: one of two may be damaged.
    there = [values for values in copies if values]
    if there and all(type(values.get("format")) is int and values["format"] > FORMAT for values in there):
        version = there[0].get("version")
        raise GalleryError(f"{folder} was made by andornot {version}, and this is {__version__}: update andornot")


def _write_state(connection: sqlite3.Connection, state: State) -> None:
    for table in STATES:
        connection.execute(f"DELETE FROM {table}")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", state.values.items())


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
        self._changes: list[tuple[str, Record, int | None]] = []

    def close(self) -> None:
        """Forgets what was not committed."""
        self._connection.close()

    def insert(self, picture: Picture, by_camera: bool | None = None) -> None:
        """Adds a picture; and whether its date is the camera's, if that is known."""
        self._changes.append((_INSERT_PICTURE, picture.record, 1))
        self._set_origin(picture.id, by_camera)
        self.remove_broken(picture.path)

    def update(self, picture: Picture, by_camera: bool | None = None) -> None:
        """Writes what is known now of a picture that is there."""
        self._changes.append((_UPDATE_PICTURE, picture.record, 0))
        self._set_origin(picture.id, by_camera)
        self.remove_broken(picture.path)

    def remove(self, identity: int) -> None:
        """Removes a picture."""
        self._changes.append(("DELETE FROM pictures WHERE id = ?", (identity,), -1))
        self._changes.append(("DELETE FROM origins WHERE id = ?", (identity,), None))

    def _set_origin(self, identity: int, by_camera: bool | None) -> None:
        if by_camera is not None:
            values = (identity, int(by_camera))
            self._changes.append((_SET_ORIGIN, (*values, values_crc(values)), None))

    def put_broken(self, broken: Broken) -> None:
        """Remembers a file that cannot be read."""
        self.remove_broken(broken.path)
        self._changes.append((_INSERT_BROKEN, broken.record, None))

    def remove_broken(self, path: str) -> None:
        """Forgets a file that could not be read."""
        self._changes.append(("DELETE FROM broken WHERE path = ?", (os.fsencode(path),), None))

    def commit(self, state: State) -> State:
        """Everything since the last commit, and the state, in one transaction; the state that was written."""
        with self._transaction():
            for statement, values, more in self._changes:
                changed = self._connection.execute(statement, values).rowcount
                if more is not None:
                    if changed != 1:
                        raise DamagedError(f"{self.file} is damaged: picture {values[0]} is not in it")
                    state = replace(state, pictures=state.pictures + more)
            _write_state(self._connection, state)
        self._changes.clear()
        return state

    def save(self, state: State) -> None:
        """The state alone; the changes wait on."""
        with self._transaction():
            _write_state(self._connection, state)

    def carry_over(self, snapshot: Snapshot) -> None:
        """Makes a database of 0.1 one of today, all or nothing."""
        with self._transaction():
            self._connection.execute("DROP TABLE folders")
            self._connection.execute("DROP TABLE broken")
            self._connection.execute(_BROKEN)
            self._connection.execute(f"CREATE TABLE {STATES[1]} (key TEXT PRIMARY KEY, value)")
            broken = (entry.record for entry in snapshot.broken.values())
            self._connection.executemany(_INSERT_BROKEN, broken)
            self._connection.executemany(_UPDATE_PICTURE, (picture.record for picture in snapshot.pictures()))
            _write_state(self._connection, snapshot.state)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translated(self.file):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _reader(file: Path) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(file.absolute()))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=30)
    try:
        connection.execute("SELECT 1 FROM gallery").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # On a disk that cannot be written SQLite cannot make the files beside it; then nobody else writes either.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
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
    except UnicodeDecodeError as error:  # not even the message of SQLite is text: it has a damaged name in it
        raise DamagedError(f"{file} is damaged: it has names in it that are no text") from error
