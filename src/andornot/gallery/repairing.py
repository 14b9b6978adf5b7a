"""Repair: drops what is damaged, and nothing else, makes it again where that can be done, and says what it did."""

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..model import Model, ModelError
from . import database, format_1
from .beside_repair import forget_damaged, found_beside, still_without
from .database import STATES, Picture, Snapshot, State
from .errors import DamagedError, GalleryError
from .feature_store import Features, checksum, feature_file, first_files, read_row
from .indexing import Indexing, Summary
from .layout import DATABASE, exists
from .lock import writing
from .model_repair import any_model, is_uncalibrated, mended_model, reproduces
from .records import Record, is_sound, values_crc
from .scope import Scope
from .vectors import forget_derived
from .writer import Writer, free_model_name

_TABLES: Final = (*STATES, "folders", "pictures", "broken", "definitions")
# So many pictures tell in which file the features begin.
_TELLING: Final = 100
_LARGEST_ID: Final = 2**53


@dataclass(frozen=True)
class Repaired:
    """What a repair found and did.

    `kept_records`: of how many pictures a damaged database could still be read, None for a sound one. `model`: what
    became of a damaged model. `summary` is of the pictures whose features or records were damaged. `lost_folders`:
    which folders the gallery has is not known any more. `damaged_beside`: pictures whose regions or classes were
    damaged; `lost_beside`: those that are without them now.
    """

    kept_records: int | None
    damaged_features: int
    summary: Summary
    model: str = ""
    lost_folders: bool = False
    damaged_beside: int = 0
    lost_beside: int = 0

    def __str__(self) -> str:
        done = []
        if self.kept_records is not None:
            done.append(
                f"{DATABASE} was damaged and is written anew: {self.kept_records:,} pictures could be read from it"
            )
        if self.lost_folders:
            done.append("which folders it was made of is lost: name them once more")
        if self.model:
            done.append(self.model)
        if self.damaged_features:
            gone = self.summary.removed + len(self.summary.broken)
            done.append(
                f"the features of {self.damaged_features:,} pictures were damaged: {self.summary.changed:,} are "
                f"encoded anew, {gone:,} dropped because their files are gone or broken"
            )
        if self.damaged_beside:
            done.append(
                f"the regions or classes of {self.damaged_beside:,} pictures were damaged: "
                f"{self.damaged_beside - self.lost_beside:,} are made anew, {self.lost_beside:,} have none now"
            )
        if self.summary.added:
            done.append(f"the records of {self.summary.added:,} pictures were damaged: they are added anew")
        return "; ".join(done) or "nothing was damaged"


class _Saved(NamedTuple):
    """What can be read of a damaged database.

    `files` are those that damaged records name. `values` and `folders` may be damaged themselves, if there is no state.
    """

    state: State | None
    pictures: list[Picture]
    broken: list[Record]
    definitions: list[Record]
    files: list[str]
    values: dict[str, Any]
    folders: tuple[str, ...]


def repair(folder: Path, given: Model | None, recalibrate: bool, progress: bool | None) -> Repaired:
    """Checks everything that is in a gallery. `Gallery.repair` describes it."""
    if not exists(folder):
        database.read_snapshot(folder)  # which says what is missing
    with writing(folder):
        saved = None if _is_sound(folder) else _saved(folder)
        if saved is not None:
            _rebuild(folder, saved, given)
        writer = Writer(folder, repairs=True)
        try:
            # What was cut off becomes zeros, whose checksum is wrong.
            writer.features.extend()
            snapshot, features = writer.committed()
            mended = mended_model(
                folder, writer.state, list(snapshot.pictures()), writer.features.read, given, recalibrate
            )
            if mended.told:
                writer.replace_model(mended.model, mended.calibrated_on, remove_old=False)
            suspect = _damaged(snapshot, features)
            ids = {picture.id for picture in suspect}
            lacking = [picture for picture in forget_damaged(writer, mended.model) if picture.id not in ids]
            files = [] if saved is None else saved.files
            summary = Summary()
            if suspect or files or lacking:
                scope = Scope([], [], [*(picture.path for picture in (*suspect, *lacking)), *files])
                wanted = [picture.id for picture in lacking]
                summary = Indexing(writer, mended.model, scope, ids, wanted).run(progress)
            lost = still_without(writer, lacking)
            if mended.told and writer.state.calibrated_on == 0:
                writer.calibrate(mended.model)
            lost_folders = saved is not None and saved.state is None and not writer.state.folders
        finally:
            writer.close()
    return Repaired(
        None if saved is None else len(saved.pictures),
        len(suspect),
        summary,
        mended.told,
        lost_folders,
        len(lacking),
        lost,
    )


def _is_sound(folder: Path) -> bool:
    """Whether SQLite finds nothing wrong, and everything is as it was written."""
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                return False
        snapshot = database.read_snapshot(folder, thorough=True)
    except (DamagedError, sqlite3.DatabaseError, OverflowError, UnicodeDecodeError):
        return False
    if snapshot.is_old:
        return _old_fits(folder, snapshot.state, list(snapshot.pictures()))
    tables = _readable(folder / DATABASE)
    return all(State.of_values(_mapping(tables[table])) is not None for table in STATES)


def _damaged(snapshot: Snapshot, features: Features) -> list[Picture]:
    """Pictures whose features are not those that were written."""
    return [
        picture
        for picture in snapshot.pictures()
        if checksum(features.read(np.array([picture.row]))[0]) != picture.features_crc
    ]


def _rebuild(folder: Path, saved: _Saved, given: Model | None) -> None:
    """Writes a database of what was saved from the damaged one."""
    state = saved.state
    if state is None:
        state = _derived_state(folder, saved, given)
        forget_derived(folder)  # its rows are others, perhaps
    records = [picture.record for picture in saved.pictures]
    database.create(folder, replace(state, pictures=len(records), edition=0), records, saved.broken, saved.definitions)


def _saved(folder: Path) -> _Saved:
    tables = _readable(folder / DATABASE)
    values = _mapping(tables[STATES[0]])
    is_old = bool(tables["folders"]) and not tables[STATES[1]]
    if is_old:
        state, records, broken = format_1.converted(values, tables["folders"], tables["pictures"], tables["broken"])
    else:
        state = database.stored_state(_mapping(tables[table]) for table in STATES)
        records = tables["pictures"]
        broken = [record for record in tables["broken"] if is_sound(record, values_crc)]
    sound, files = _divided(records)
    folders = () if state is None else state.folders
    if state is not None and not (_fits(state, sound) and (not is_old or _old_fits(folder, state, sound))):
        state = None
    definitions = [record for record in tables["definitions"] if is_sound(record, values_crc)]
    return _Saved(state, sound, broken, definitions, files, values, folders)


def _divided(records: list[Record]) -> tuple[list[Picture], list[str]]:
    """The pictures of sound records, none twice, and the files that the others name."""
    pictures: dict[int, Picture] = {}
    paths: set[str] = set()
    rows: set[int] = set()
    doubtful: list[str] = []
    for record in records:
        if not is_sound(record):
            if len(record) > 1 and isinstance(record[1], bytes):
                doubtful.append(os.fsdecode(record[1]))
            continue
        identity, path, *rest, _ = record
        picture = Picture(identity, os.fsdecode(path), *rest)
        if (
            identity > 0
            and picture.row >= 0
            and not (identity in pictures or picture.path in paths or picture.row in rows)
        ):
            pictures[identity] = picture
            paths.add(picture.path)
            rows.add(picture.row)
    files = [path for path in doubtful if path not in paths and "\0" not in path and os.path.isfile(path)]  # noqa: PTH113
    return sorted(pictures.values()), sorted(set(files))


def _readable(file: Path) -> dict[str, list[Record]]:
    """The rows of each table before the first damaged page, and those after the last."""
    tables = {}
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # or nothing can be read of a file that was cut off
        for table in _TABLES:
            found: dict[Record, None] = {}
            for direction in ("ASC", "DESC"):
                try:
                    for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid {direction}"):
                        found[row] = None
                except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                    continue
                break
            tables[table] = list(found)
    return tables


def _mapping(rows: list[Record]) -> dict[str, Any]:
    return {row[0]: row[1] for row in rows if len(row) == 2 and isinstance(row[0], str)}


def _fits(state: State, pictures: list[Picture]) -> bool:
    """Whether a state knows of all these pictures."""
    return all(picture.id < state.next_id and picture.row < state.rows for picture in pictures)


def _old_fits(folder: Path, state: State, pictures: list[Picture]) -> bool:
    """Whether a state of 0.1, which has no checksum, can be right: by the features that are there, and the model."""
    numbers = first_files(folder)
    matching = {number: _matching(folder, state.width, number, pictures) for number in {*numbers, state.first_file}}
    if matching[state.first_file] < max(matching.values()) or (pictures and not any(matching.values())):
        return False
    if state.rows > max(_stored_rows(folder, state.width), *(picture.row + 1 for picture in pictures), 0):
        return False
    try:
        model = Model.load(folder / state.model)
    except ModelError:
        return True  # which is mended for itself
    return model.id == state.model_id and model.backbone.width == state.width


def _matching(folder: Path, width: int, first_file: int, pictures: list[Picture]) -> int:
    """How many of some pictures have their features where they should be, if the first file is this one."""
    count = 0
    for picture in pictures[:: max(1, len(pictures) // _TELLING)]:
        with suppress(OSError, DamagedError):
            count += checksum(read_row(folder, width, first_file, picture.row)) == picture.features_crc
    return count


def _derived_state(folder: Path, saved: _Saved, given: Model | None) -> State:
    """The state as far as the other files tell it."""
    pictures, named = saved.pictures, str(saved.values.get("model"))
    for name, model in any_model(folder, named, given):
        width, numbers = model.backbone.width, first_files(folder)
        first_file = max(numbers, key=partial(_matching, folder, width, pictures=pictures), default=1)
        if not pictures:
            first_file = max(numbers, default=0) + 1
        read = partial(read_row, folder, width, first_file)
        if reproduces(model, pictures, read, width) is False:
            continue
        if name != named:  # of which nobody knows whose it is
            name = free_model_name(folder, name)
            model.save(folder / name)
        rows = max((picture.row for picture in pictures), default=-1) + 1
        calibrated_on = 0 if is_uncalibrated(model) else None
        next_id = _next_id(folder, saved, width)
        state = State(name, model.id, width, calibrated_on, first_file, rows, next_id, folders=saved.folders)
        return found_beside(folder, state, model, pictures)
    raise GalleryError(
        f"{folder} cannot be repaired: its model is lost too; andornot index --repair --model COPY takes another copy "
        "of it; or index the pictures into a new gallery"
    )


def _next_id(folder: Path, saved: _Saved, width: int) -> int:
    """One that no picture has, and none had, as far as that is known: most had a row of features of their own."""
    said = saved.values.get("next_id")
    said = said if isinstance(said, int) and said < _LARGEST_ID else 1
    return max(said, _stored_rows(folder, width) + 1, *(picture.id + 1 for picture in saved.pictures))


def _stored_rows(folder: Path, width: int) -> int:
    return sum(feature_file(folder, number).stat().st_size for number in first_files(folder)) // (2 * width)
