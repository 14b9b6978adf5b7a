"""Repair: rows with a wrong checksum are encoded again, and what cannot be read is dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from ..data import BrokenImageError
from ..model import DESCRIPTION, Model, ModelError
from ..ssl.recipe import Recipe, load_recipe, make_recipe
from .checksums import damaged_files, hash_ids, hash_texts, newest_version, remove_version, unseal, versions_of
from .creating import own_model, save_model
from .encoding import to_half
from .errors import DamagedError, GalleryError
from .indexing import Indexer, Summary
from .projections import basis_copy, repair_basis
from .records import ImageRecord, State, as_text, digest_of
from .rows import ACTIVATIONS, LISTING, RECORD, bytes_of, listing_of
from .scope import Scope
from .small_tables import read_definitions, read_unreadable
from .storage import DEFINITIONS, IMAGES, UNREADABLE, Storage, load_lance, writing
from .table import ImageTable
from .writing import Writer

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

# Files that tell whether a model made the stored activations, and how far these may differ.
_TRIED: Final = 3
_TOLERANCE: Final = 0.02
_TEXTS: Final = ("name", "id_checksum", "name_checksum", "path_checksum")


@dataclass(frozen=True)
class Repaired:
    """What a repair found and did.

    `damaged`: how many images had damaged rows, `lost`: how many rows could not be read at all, and `summary`: what
    became of the damaged ones. `notes`: what else was repaired.
    """

    damaged: int
    lost: int
    summary: Summary
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        done = list(self.notes)
        if self.damaged:
            gone = self.summary.removed + len(self.summary.broken)
            done.append(
                f"{self.damaged:,} images were damaged: {self.summary.changed:,} are encoded again, "
                f"{gone:,} dropped because their files are gone or broken"
            )
        if self.lost:
            done.append(
                f"{self.lost:,} images could not be read: they are added again if their folders still have them"
            )
        return "; ".join(done) or "nothing was damaged"


@dataclass
class _Damage:
    """What is wrong with a table: ids of damaged rows, rows that are unreadable, and fragments that are."""

    suspect: set[int] = field(default_factory=set)
    unreadable: dict[int, list[int]] = field(default_factory=dict)
    fragments: dict[int, int] = field(default_factory=dict)


def repair(storage: Storage, given: Model | None, progress: bool | None) -> Repaired:
    """Check everything that is stored. `Gallery.repair` describes it."""
    with suppress(DamagedError):
        ImageTable.open(storage)  # an error says what is there instead, and nothing is written
    with writing(storage):
        notes = [*_repair_small_tables(storage), *_repair_version(storage, IMAGES)]
        table = ImageTable(storage, storage.open(IMAGES, checked=False))
        notes += _repair_described(table)
        table = ImageTable.open(storage)
        damage = _find_damage(table)
        lost = sum(map(len, damage.unreadable.values())) + sum(damage.fragments.values())
        _drop(storage, table, damage)
        writer = Writer(storage)
        model, told = _repair_model(writer, given, damage.suspect)
        notes += [told] if told else []
        notes += _repair_projections(writer, damage)
        summary = Summary()
        if damage.suspect:
            paths = [record.path for record in writer.table.get_many(sorted(damage.suspect))]
            summary = Indexer(writer, model, Scope([], [], paths), damage.suspect).run(progress)
        if model.id != writer.state.model_id:
            model = _recalibrated(writer, model)
        writer.encode_regions(model)
        writer.refit(model)
        writer.finish()
    return Repaired(len(damage.suspect), lost, summary, tuple(notes))


# --- versions -------------------------------------------------------------------------------------------------------


def _repair_version(storage: Storage, name: str) -> list[str]:
    """Go back to the newest version of a table that can be opened."""
    if storage.folder is None:
        return []
    table = storage.folder / name
    newest = newest_version(table)
    for version in versions_of(table):
        try:
            storage.open(name, version, checked=False)
        except DamagedError:
            continue
        for damaged in range(version + 1, (newest or 0) + 1):
            remove_version(table, damaged)
        return [f"{name} was damaged and is as it was before its last change"] if version != newest else []
    raise DamagedError(str(storage), f"no version of {name} can be opened")


def _repair_described(table: ImageTable) -> list[str]:
    """Do without damaged deletion files and indexes: the one brings deleted rows back, the others are made again."""
    storage = table.storage
    if storage.folder is None:
        return []
    folder, notes = storage.folder / IMAGES, []
    if damaged := damaged_files(folder, table.version, "_deletions", set()):
        _restore_deleted(table, damaged)
        table = ImageTable(storage, storage.open(IMAGES))
        notes.append("a list of deleted images was damaged: those are back whose files are still there")
    if damaged := damaged_files(folder, table.version, "_indices", set()):
        with storage.reading():
            for index in table.dataset.describe_indices():
                table.dataset.drop_index(index.name)
        storage.sync_version(IMAGES, storage.open(IMAGES))
        notes.append("an index was damaged and is made again")
    return notes


def _restore_deleted(table: ImageTable, damaged: list[str]) -> None:
    """Forget which rows of some fragments are deleted, except for those that have been replaced since."""
    from lance.fragment import FragmentMetadata

    storage, lance = table.storage, load_lance()
    restored = []
    with storage.reading():
        for fragment in table.dataset.get_fragments():
            if fragment.deletion_file() in damaged:
                content = {**fragment.metadata.to_json(), "deletion_file": None}
                restored.append(FragmentMetadata.from_json(json.dumps(content)))
        operation = lance.LanceOperation.Update(updated_fragments=restored)
        dataset = lance.LanceDataset.commit(
            storage.uri(IMAGES), operation, read_version=table.version, storage_options=storage.options
        )
        # A row that was replaced is in an older fragment than the one that replaced it.
        rows = dataset.to_table(columns=["id"], with_row_address=True)
        ids, addresses = rows["id"].to_numpy(), rows["_rowaddr"].to_numpy()
        order = np.lexsort((addresses, ids))
        replaced = order[:-1][ids[order][:-1] == ids[order][1:]]
        updated, emptied = [], []
        for number in np.unique(addresses[replaced] >> np.uint64(32)).tolist():
            own = replaced[addresses[replaced] >> np.uint64(32) == number]
            left = dataset.get_fragment(int(number)).delete(f"id IN ({', '.join(map(str, ids[own].tolist()))})")
            updated += [] if left is None else [left]
            emptied += [int(number)] if left is None else []
        if updated or emptied:
            operation = lance.LanceOperation.Update(removed_fragment_ids=emptied, updated_fragments=updated)
            dataset = lance.LanceDataset.commit(
                storage.uri(IMAGES), operation, read_version=dataset.version, storage_options=storage.options
            )
    storage.sync_version(IMAGES, dataset)


# --- rows -----------------------------------------------------------------------------------------------------------


def _find_damage(table: ImageTable) -> _Damage:
    damage = _Damage()
    for fragment in table.dataset.get_fragments():
        number = fragment.fragment_id
        try:
            with table.storage.reading():
                rows = fragment.to_table(columns=list(dict.fromkeys([*RECORD, *LISTING, *_TEXTS])))
        except GalleryError:
            damage.fragments[number] = fragment.physical_rows
            continue
        ids = rows["id"].to_numpy()
        unreadable = [place for place in range(len(rows)) if not _is_sound(table, rows.slice(place, 1))]
        if unreadable:
            damage.unreadable[number] = ids[unreadable].tolist()
        sealed = set(table.columns) - {*RECORD, *LISTING, *_TEXTS}
        wrong = np.zeros(len(ids), bool)
        for column in sealed:
            wrong |= ~_are_sound(table, fragment, ids, column)
        damage.suspect |= set(ids[wrong].tolist()) - set(ids[unreadable].tolist())
    return damage


def _is_sound(table: ImageTable, row: pa.Table) -> bool:
    try:
        record = table._records(row.select(list(RECORD)))[0]
        listing_of(row.select(list(LISTING)), str(table.storage))
        ids = row["id"].to_numpy()
        texts = {"path": os.fsencode(record.path), "name": as_text(record.name).encode()}
        sound = [row["name"].to_pylist() == [as_text(record.name)], row["id_checksum"].to_numpy() == hash_ids(ids)]
        sound += [row[f"{kind}_checksum"].to_numpy() == hash_texts(ids, [text]) for kind, text in texts.items()]
    except (GalleryError, ValueError, TypeError, AttributeError):
        return False
    return record.id > 0 and all(map(bool, sound))


def _are_sound(table: ImageTable, fragment: lance.LanceFragment, ids: np.ndarray, column: str) -> np.ndarray:
    """Return which rows of a column are as they were written; none if it cannot be read."""
    try:
        with table.storage.reading():
            rows = fragment.to_table(columns=[column])
    except GalleryError:
        return np.zeros(len(ids), bool)
    sealed, valid = bytes_of(rows[column])
    # Every image has activations; other columns may be empty.
    sound = ~valid & (column != ACTIVATIONS)
    sound[valid] = unseal(ids[valid], sealed[valid])[1]
    return np.asarray(sound)


def _drop(storage: Storage, table: ImageTable, damage: _Damage) -> None:
    """Remove rows and fragments that cannot be read."""
    if not (damage.unreadable or damage.fragments):
        return
    emptied, updated = list(damage.fragments), []
    with storage.reading():
        for number, ids in damage.unreadable.items():
            left = table.fragment(number).delete(f"id IN ({', '.join(map(str, ids))})")
            if left is None:
                emptied.append(number)
            else:
                updated.append(left)
        lance = load_lance()
        operation = lance.LanceOperation.Update(removed_fragment_ids=emptied, updated_fragments=updated)
        lance.LanceDataset.commit(
            storage.uri(IMAGES), operation, read_version=table.version, storage_options=storage.options
        )


def _repair_small_tables(storage: Storage) -> list[str]:
    """Go back to older versions of the small tables that cannot be read, or empty them."""
    told = []
    tables: list[tuple[str, Callable[[Storage], object], str]] = [
        (UNREADABLE, read_unreadable, "the list of unreadable files was damaged and is empty"),
        (DEFINITIONS, read_definitions, "the definitions were damaged and are lost"),
    ]
    for name, read, lost in tables:
        try:
            read(storage)
        except DamagedError:
            try:
                notes = _repair_version(storage, name)
                read(storage)
            except DamagedError:
                storage.remove(name)
                notes = [lost]
            told += notes
    return told


# --- the model ------------------------------------------------------------------------------------------------------


def _repair_model(writer: Writer, given: Model | None, suspect: set[int]) -> tuple[Model, str]:
    """Return the gallery's model, from another copy if it is damaged, and what was done.

    A model that the gallery calibrated for itself is returned without calibration, which takes all rows to be sound;
    codes, which depend on it, are dropped.
    """
    storage, state = writer.storage, writer.state
    try:
        model = Model.load(storage.local_copy(state.model))
        if model.id == state.model_id:
            return model, ""
    except ModelError:
        pass
    if given is not None:
        if given.id != state.model_id:
            raise GalleryError(f"this is model {given.id}, and {storage} was made with {state.model_id}")
        save_model(storage, given)
        return given, "the model was damaged and is restored from the copy"
    if state.calibrated_on is None:
        raise GalleryError(
            f"the model of {storage} is damaged: andornot index --repair --model COPY takes another copy"
        )
    recipe = _recipe_of(storage, state)
    model = own_model(recipe)
    if not _makes_stored_activations(model, writer.table, suspect):
        raise GalleryError(
            f"the model of {storage} is damaged, and its backbone was another one than {recipe.backbone}: "
            "andornot index --repair --model COPY takes another copy; without one, index again into a new folder"
        )
    writer.drop_codes()
    return model, "the model was damaged and is calibrated again"


def _recalibrated(writer: Writer, model: Model) -> Model:
    """Calibrate a model that is made again, if it was calibrated before."""
    if writer.state.calibrated_on and len(writer.table):
        return writer.calibrate(model)
    writer.replace_model(model, 0)
    return model


def _repair_projections(writer: Writer, damage: _Damage) -> list[str]:
    """Drop projections whose files are damaged, to be fitted again when all rows are sound.

    Without the basis of regions all images must be encoded again.
    """
    notes, state = [], writer.state
    try:
        writer.components()
    except DamagedError:
        writer.drop_codes()
        notes.append("the projection of images was damaged and is fitted again")
    if state.basis and not repair_basis(writer.storage, state.basis):
        writer.save_state(basis="", retired=(*state.retired, (state.basis, 0.0), (basis_copy(state.basis), 0.0)))
        damage.suspect |= set(writer.table.ids.tolist())
        notes.append("the basis of regions was damaged: all images are encoded again")
    return notes


def _recipe_of(storage: Storage, state: State) -> Recipe:
    """Return what the model's description says, if it is readable; else the default recipe of galleries."""
    try:
        text = (storage.local_copy(state.model) / DESCRIPTION).read_text(encoding="utf-8")
        return make_recipe(json.loads(text)["recipe"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return load_recipe("photos")


def _makes_stored_activations(model: Model, table: ImageTable, suspect: set[int]) -> bool:
    """Return whether a model makes the activations that are stored; True if no file is left to try."""
    if model.backbone.width != table.state.width:
        return False
    same: list[bool] = []
    for identity in table.ids.tolist():
        if identity in suspect or len(same) == _TRIED:
            continue
        record = table.get(identity)
        if record is not None and (made := _activations_now(model, record)) is not None:
            stored = table.activations(np.array([identity]))[0].astype(np.float32)
            same.append(bool(np.abs(made - stored).max() <= _TOLERANCE * max(float(np.abs(stored).max()), 1e-3)))
    return not same or sum(same) > len(same) / 2


def _activations_now(model: Model, record: ImageRecord) -> np.ndarray | None:
    try:
        if digest_of(record.path) == record.digest:
            return np.asarray(to_half(model.activations([record.path], progress=False))[0], np.float32)
    except (OSError, BrokenImageError):
        pass
    return None
