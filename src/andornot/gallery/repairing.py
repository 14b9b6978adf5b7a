"""Repair: drops what is damaged, and nothing else, encodes it anew where the files are there, and says what it did."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..model import Model, ModelError
from . import database
from .database import DATABASE, Picture, Snapshot, State
from .errors import GalleryError
from .features import Features, count_rows
from .indexing import Scope, Summary, index
from .lock import writing
from .writer import Writer, checksum, model_folders

_TABLES: Final = ("gallery", "folders", "pictures", "broken")


@dataclass(frozen=True)
class Repaired:
    """What a repair found and did.

    `kept_records`: of how many pictures a damaged database could still be read, None for a sound one. `summary` is of
    the pictures whose features were damaged.
    """

    kept_records: int | None
    damaged_features: int
    summary: Summary

    def __str__(self) -> str:
        done = []
        if self.kept_records is not None:
            done.append(
                f"{DATABASE} was damaged and is written anew: {self.kept_records:,} pictures could be read from it"
            )
        if self.damaged_features:
            gone = self.summary.removed + len(self.summary.broken)
            done.append(
                f"the features of {self.damaged_features:,} pictures were damaged: {self.summary.changed:,} are "
                f"encoded anew, {gone:,} dropped because their files are gone or broken"
            )
        return "; ".join(done) or "nothing was damaged"


def repair(folder: Path, progress: bool | None = None) -> Repaired:
    """Checks everything that is in a gallery."""
    if not database.exists(folder):
        database.read_snapshot(folder)  # which says what is missing
    with writing(folder):
        kept = None if _is_sound(folder) else _rebuild_database(folder)
        writer = Writer(folder)
        try:
            # What was cut off becomes zeros, whose checksum is wrong.
            writer.features.extend()
            suspect = _damaged(*writer.committed())
            summary = Summary()
            if suspect:
                model = Model.load(folder / writer.state.model)
                scope = Scope([], [], [picture.path for picture in suspect])
                summary = index(writer, model, scope, suspect=[picture.id for picture in suspect], progress=progress)
        finally:
            writer.database.close()
    return Repaired(kept, len(suspect), summary)


def _is_sound(folder: Path) -> bool:
    """Whether SQLite finds nothing wrong, and every record is as it was written."""
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                return False
        snapshot = database.read_snapshot(folder)
        return all(map(snapshot.is_sound, range(len(snapshot))))
    except (sqlite3.DatabaseError, ValueError, TypeError, OverflowError):
        return False


def _damaged(snapshot: Snapshot, features: Features) -> list[Picture]:
    """Pictures whose features are not those that were written."""
    return [
        picture
        for picture in snapshot.pictures()
        if checksum(features.read(np.array([picture.row]))[0]) != picture.features_crc
    ]


def _rebuild_database(folder: Path) -> int:
    """Writes a database of what can be read from the damaged one; the number of pictures that were saved."""
    tables = _readable(folder / DATABASE)
    records = [record for record in tables["pictures"] if _record_is_sound(record)]
    state = _state(folder, {row[0]: row[1] for row in tables["gallery"] if len(row) == 2}, records)
    broken = [row for row in tables["broken"] if list(map(type, row)) == [bytes, int, int, str]]
    folders = [path for (path,) in tables["folders"] if isinstance(path, bytes)]
    records = [record for record in records if record[6] < state.rows]
    database.create(folder, state, folders, records, broken)
    return len(records)


def _readable(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table before the first damaged page, and those after the last."""
    tables = {}
    with closing(sqlite3.connect(file)) as connection:
        for table in _TABLES:
            found: dict[tuple[Any, ...], None] = {}
            for direction in ("ASC", "DESC"):
                try:
                    for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid {direction}"):
                        found[row] = None
                except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                    continue
                break
            tables[table] = list(found)
    return tables


def _record_is_sound(record: tuple[Any, ...]) -> bool:
    try:
        identity, path, *rest, crc = record
        return bool(Picture(identity, os.fsdecode(path), *rest).record_crc == crc)
    except (TypeError, ValueError):
        return False


def _state(folder: Path, values: dict[str, Any], records: list[tuple[Any, ...]]) -> State:
    """The state as it was saved, or else as far as the other files tell it."""
    next_id = max((record[0] for record in records), default=0) + 1
    try:
        state = State(**{field.name: values[field.name] for field in fields(State)})
        if (folder / state.model).is_dir():
            return state
    except KeyError:
        pass
    for name in sorted(model_folders(folder), reverse=True):
        try:
            model = Model.load(folder / name)
        except ModelError:
            continue
        first_file, rows = count_rows(folder, model.backbone.width)
        return State(name, model.id, model.backbone.width, None, first_file, rows, next_id)
    raise GalleryError(f"{folder} cannot be repaired: its model is lost too; index the pictures into a new gallery")
