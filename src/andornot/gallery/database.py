"""The ledger of a gallery, with what it knows of its pictures but for their features: one SQLite file.

A reader takes what it needs out of it in one transaction, and closes it: a `Snapshot`. The records of pictures it takes
from the catalogue of that moment, or, where there is none, from here, all of them. Who writes checks all of them. Paths
are absolute, and kept as bytes, because the names of files need not be text.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ..files import write_atomically
from ..version import __version__
from . import format_1
from .catalogue import CHUNK, Catalogue, Row, Sink, StaleError, remove_others
from .errors import DamagedError, GalleryError, LockedError
from .layout import DATABASE, DERIVED
from .records import FORMAT, Record, are_sound, is_sound, values_crc
from .records import Broken as Broken
from .records import Picture as Picture
from .records import State as State
from .snapshot import Snapshot as Snapshot

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
# Names for formulas. Whoever wrote the gallery before there were any has no such table, and needs none.
_DEFINITIONS: Final = "CREATE TABLE IF NOT EXISTS definitions (name TEXT PRIMARY KEY, formula TEXT, record_crc INTEGER)"
_INSERT_DEFINITION: Final = "INSERT OR REPLACE INTO definitions VALUES (?, ?, ?)"
# Never `OR REPLACE`: where an id or a path is in use already, the picture that has it must not pay for that.
_INSERT_PICTURE: Final = "INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_PICTURE: Final = (
    "UPDATE pictures SET path = ?2, size = ?3, mtime_ns = ?4, digest = ?5, taken = ?6, row = ?7, features_crc = ?8, "
    "record_crc = ?9 WHERE id = ?1"
)
_DELETE_PICTURE: Final = "DELETE FROM pictures WHERE id = ?"
_INSERT_BROKEN: Final = "INSERT INTO broken VALUES (?, ?, ?, ?, ?)"
_SET_ORIGIN: Final = "INSERT OR REPLACE INTO origins VALUES (?, ?, ?)"
_OF_PICTURES: Final = (_INSERT_PICTURE, _UPDATE_PICTURE, _DELETE_PICTURE, _SET_ORIGIN)
_EVERY_ID: Final = (-(2**63), 2**63 - 1)


def create(
    folder: Path,
    state: State,
    records: Iterable[Record] = (),
    broken: Iterable[Record] = (),
    definitions: Iterable[Record] = (),
) -> None:
    """Makes a database in the place of any other, of nothing or of rows as they are in its tables."""

    def write(partial: Path) -> None:
        partial.unlink(missing_ok=True)
        with _translated(partial), closing(sqlite3.connect(partial)) as connection, connection:
            for statement in (*_SCHEMA, _ORIGINS, _DEFINITIONS):
                connection.execute(statement)
            _write_state(connection, state)
            connection.executemany(_INSERT_PICTURE, records)
            connection.executemany(_INSERT_BROKEN, broken)
            connection.executemany(_INSERT_DEFINITION, definitions)
        # What SQLite keeps beside a database belongs to the old one.
        for ending in ("-wal", "-shm"):
            (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)

    write_atomically(folder / DATABASE, write)


def read_snapshot(folder: Path, *, thorough: bool = False) -> Snapshot:
    """What was committed last.

    `thorough`: every record is checked, whether all of them are there, and whether the catalogue is as it should be;
    where it is not, the snapshot has one in memory that is.
    """
    file = folder / DATABASE
    if not file.exists():
        missing = "has no gallery in it" if folder.is_dir() else "is not a folder"
        raise GalleryError(f"{folder} {missing}; andornot index FOLDER --gallery {folder} makes one")
    with _translated(file), closing(_reader(file)) as connection:
        while True:
            connection.execute("BEGIN")
            snapshot = _read(connection, folder, thorough)
            connection.execute("ROLLBACK")
            if snapshot is not None:
                return snapshot


def _read(connection: sqlite3.Connection, folder: Path, thorough: bool) -> Snapshot | None:
    """None if the catalogue was replaced by that of another moment meanwhile."""
    file = folder / DATABASE
    is_old = format_1.holds(connection)
    copies = [_values(connection, table) for table in (STATES[:1] if is_old else STATES)]
    _check_version(copies, folder)
    broken = connection.execute("SELECT * FROM broken").fetchall()
    old: list[Record] = []
    if is_old:
        folders = connection.execute("SELECT path FROM folders ORDER BY path").fetchall()
        records = connection.execute("SELECT * FROM pictures ORDER BY id").fetchall()
        state, old, broken = format_1.converted(copies[0], folders, records, broken)
    else:
        state = stored_state(copies)
    if state is None:
        raise DamagedError(f"{file} is damaged in what it says of the gallery as a whole")
    if not all(is_sound(record, values_crc) for record in broken):
        raise DamagedError(f"{file} is damaged in what it says of files that cannot be read")
    definitions = _definitions(connection)
    if not all(is_sound(record, values_crc) for record in definitions):
        raise DamagedError(f"{file} is damaged in what it says of definitions")
    catalogue = Catalogue.open(folder, state.edition) if state.edition else None
    if state.edition and catalogue is None and _edition_now(file) != state.edition:
        return None
    if catalogue is not None and len(catalogue) == state.pictures:
        catalogue.read_again = partial(_rows_of, file, state.edition)
        if thorough and (catalogue.is_wasteful or not _is_right(catalogue, rows_between(connection, file, *_EVERY_ID))):
            catalogue = None
    else:
        catalogue, thorough = None, True
    if catalogue is None and is_old:
        origins = _origins(connection, *_EVERY_ID)
        catalogue = Catalogue.of((record, origins.get(record[0], -1)) for part in _sound(old, file) for record in part)
    elif catalogue is None:
        catalogue = Catalogue.of(rows_between(connection, file, *_EVERY_ID))
    entries = (Broken(os.fsdecode(path), *rest) for path, *rest, _ in broken)
    snapshot = Snapshot(state, catalogue, entries, is_old, {name: formula for name, formula, _ in definitions})
    if thorough and (contradiction := snapshot.contradiction()):
        raise DamagedError(f"{file} is damaged: {contradiction}")
    return snapshot


def rows_between(connection: sqlite3.Connection, file: Path, first: int, last: int) -> Iterator[Row]:
    """The records of pictures from one id to another, each checked, and whether their dates are the camera's."""
    records = connection.execute("SELECT * FROM pictures WHERE id BETWEEN ? AND ? ORDER BY id", (first, last))
    for part in _sound(records, file):
        origins = _origins(connection, part[0][0], part[-1][0])
        yield from ((record, origins.get(record[0], -1)) for record in part)


def _sound(records: Iterable[Record], file: Path) -> Iterator[list[Record]]:
    """Records, some at a time; a DamagedError if one of them is not as it was written."""
    ordered = iter(records)
    while part := list(islice(ordered, CHUNK)):
        if not are_sound(part):
            record = next(record for record in part if not is_sound(record))
            path = os.fsdecode(record[1]) if isinstance(record[1], bytes) else "a picture"
            raise DamagedError(f"{file} is damaged in what it says of {path}")
        yield part


def _is_right(catalogue: Catalogue, rows: Iterator[Row]) -> bool:
    """Whether a catalogue is whole, and says what the ledger does, all of which is read."""
    try:
        counts = enumerate(catalogue.chunks["count"].tolist())
        agrees = all(catalogue.agrees(chunk, list(islice(rows, count))) for chunk, count in counts)
        return agrees and next(rows, None) is None and catalogue.is_whole()
    except StaleError:
        return False


def _rows_of(file: Path, edition: int, first: int, last: int) -> list[Row]:
    """The rows of a catalogue that is damaged, as long as nothing was committed since."""
    with _translated(file), closing(_reader(file)) as connection:
        connection.execute("BEGIN")
        state = stored_state(_values(connection, table) for table in STATES)
        if state is None or state.edition != edition:
            raise StaleError(
                f"{file.parent / DERIVED} is damaged, and the gallery was changed since: open it once more"
            )
        return list(rows_between(connection, file, first, last))


def _edition_now(file: Path) -> int:
    with closing(_reader(file)) as connection:
        state = stored_state(_values(connection, table) for table in STATES)
        return 0 if state is None else state.edition


def keep_catalogue(folder: Path, snapshot: Snapshot) -> None:
    """Writes the catalogue that its state names and that was lost. Only for who holds the lock."""
    if not snapshot.catalogue.file and _edition_now(folder / DATABASE) == snapshot.state.edition:
        snapshot.catalogue.store(folder, snapshot.state.edition)


def stored_state(copies: Iterable[dict[str, Any]]) -> State | None:
    """The state from the first copy that is whole; None if there is none."""
    return next(filter(None, map(State.of_values, copies)), None)


def _origins(connection: sqlite3.Connection, first: int, last: int) -> dict[int, int]:
    try:
        found = connection.execute("SELECT * FROM origins WHERE id BETWEEN ? AND ?", (first, last)).fetchall()
    except sqlite3.DatabaseError:  # there is no such table, or it is damaged
        return {}
    return {record[0]: record[1] for record in found if is_sound(record, values_crc)}


def _definitions(connection: sqlite3.Connection) -> list[Record]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'definitions'").fetchone():
        return []
    return connection.execute("SELECT * FROM definitions ORDER BY rowid").fetchall()


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
        self._folder, self.file = folder, folder / DATABASE
        with _translated(self.file):
            self._connection = sqlite3.connect(self.file, isolation_level=None, timeout=30)
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute(_ORIGINS)
                self._connection.execute(_DEFINITIONS)
            except BaseException:
                self._connection.close()
                raise
        self._changes: list[tuple[str, Record, int | None]] = []
        # That of the state as it is now; who has none leaves the next writer to make one.
        self.catalogue: Catalogue | None = None

    def close(self) -> None:
        """Forgets what was not committed."""
        self.catalogue = None
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
        self._changes.append((_DELETE_PICTURE, (identity,), -1))
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

    def define(self, name: str, formula: str) -> None:
        """Gives a formula a name, in the place of what had it before."""
        values = (name, formula)
        self._changes.append((_INSERT_DEFINITION, (*values, values_crc(values)), None))

    def undefine(self, name: str) -> None:
        """Forgets a definition."""
        self._changes.append(("DELETE FROM definitions WHERE name = ?", (name,), None))

    def commit(self, state: State) -> State:
        """Everything since the last commit, and the state, in one transaction; the state that was written."""
        catalogue, former = self.catalogue, state.edition
        with self._transaction():
            for statement, values, more in self._changes:
                changed = self._connection.execute(statement, values).rowcount
                if more is not None:
                    if changed != 1:
                        raise DamagedError(f"{self.file} is damaged: picture {values[0]} is not in it")
                    state = replace(state, pictures=state.pictures + more)
            if self._changes:
                catalogue, edition = self._changed_catalogue(state.edition)
                state = replace(state, edition=edition)
            _write_state(self._connection, state)
        self._changes.clear()
        self.catalogue = catalogue
        if state.edition != former:
            # The former one stays for a moment: a reader may have seen its name, and not opened it yet.
            remove_others(self._folder, (state.edition, former))
        return state

    def _changed_catalogue(self, edition: int) -> tuple[Catalogue | None, int]:
        """The catalogue after the changes, which the transaction has made already, and its edition."""
        if self.catalogue is None:
            return None, 0
        touched = {values[0] for statement, values, _ in self._changes if statement in _OF_PICTURES}
        if not touched:
            return self.catalogue, edition
        try:
            sink = Sink(self._folder, self.catalogue)
            with closing(sink):
                changed = self.catalogue.changed(touched, partial(rows_between, self._connection, self.file), sink)
            return changed, changed.write_index(self._folder)
        except (OSError, ValueError) as error:
            if isinstance(error, DamagedError) and not isinstance(error, StaleError):
                raise
            return None, 0  # it is only derived: readers do without until the next writer

    def keep_catalogue(self, snapshot: Snapshot, state: State) -> State:
        """Sees to it that the catalogue is on disk, as far as that can be; the state, which may name another one."""
        edition = state.edition
        if not snapshot.catalogue.file:
            try:
                edition = snapshot.catalogue.store(self._folder)
            except OSError:  # all works without, but slower
                edition = 0
        if edition != state.edition:
            state = replace(state, edition=edition)
            self.save(state)
        self.catalogue = snapshot.catalogue if edition else None
        remove_others(self._folder, (edition,))
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
