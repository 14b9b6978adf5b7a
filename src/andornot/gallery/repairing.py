"""Repair: re-encode images whose rows have wrong checksums, and drop what cannot be read."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..model import Model, ModelError
from ..ssl.recipe import make_recipe
from .checksums import newest_version, remove_version, versions_of
from .errors import DamagedError, GalleryError
from .indexing import Indexer, Summary
from .projections import RegionBasis, load_components
from .rows import ACTIVATIONS, CONFIG_KEY, IDS, RECORD, hash_ids, hash_records, unseal
from .scanning import Scope
from .storage import Storage, writing
from .table import ImageTable
from .writing import Writer, load_model, own_model, save_model


@dataclass(frozen=True)
class Repaired:
    """The result of a repair.

    `damaged`: the number of images with damaged rows; `lost`: the number of rows that could not be read at all;
    `summary`: the result of indexing the damaged images again; `notes`: what else was repaired.
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
    """Damage found in rows: ids of images to re-encode, and ids of rows with damaged records by fragment.

    `fragments` has the number of rows of each fragment that cannot be read at all.
    """

    suspect: set[int] = field(default_factory=set)
    unreadable: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    fragments: dict[int, int] = field(default_factory=dict)


def repair(storage: Storage, given: Model | None, progress: bool | None) -> Repaired:
    """Check and repair everything that is stored; see `Gallery.repair`."""
    with suppress(DamagedError):
        ImageTable.open(storage)  # raises an error for anything that is not a gallery, before anything is written
    with writing(storage):
        notes = _restore_version(storage)
        notes += _repair_files(storage)
        writer = Writer(storage)
        damage = _find_damage(writer.table)
        lost = sum(map(len, damage.unreadable.values())) + sum(damage.fragments.values())
        writer.drop_rows(damage.unreadable, damage.fragments)
        model, told = _repair_model(writer, given)
        notes += [told] if told else []
        notes += _repair_projections(writer, model, damage)
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


# --- versions and files ---------------------------------------------------------------------------------------------


def _restore_version(storage: Storage) -> list[str]:
    """Restore the newest version that can be opened."""
    if storage.table is None:
        return []
    newest = newest_version(storage.table) or 0
    for version in versions_of(storage.table):
        with suppress(DamagedError):
            storage.open(version)
            for damaged in range(version + 1, newest + 1):
                remove_version(storage.table, damaged)
            return ["the table was damaged and is as it was before its last change"] if version != newest else []
    raise DamagedError(storage.address, "no version of its table can be opened")


def _repair_files(storage: Storage) -> list[str]:
    """Drop damaged indexes, definitions and lists of unreadable files; indexes are rebuilt later."""
    table, notes = ImageTable.open(storage), []
    changes: dict[str, Any] = {}
    for name, lost in (
        ("unreadable", "the list of unreadable files was damaged and is empty"),
        ("definitions", "the definitions were damaged and are lost"),
    ):
        try:
            getattr(table, name)
        except DamagedError:
            changes[name] = ""
            notes.append(lost)
    if changes:
        with storage.reading():
            table.dataset.update_config({CONFIG_KEY: replace(table.state, **changes).to_json()})
        table = ImageTable.open(storage)
        storage.sync_version(table.dataset)
    try:
        storage.check_files(table.version, "_indices")
    except DamagedError:
        with storage.reading():
            for index in table.dataset.describe_indices():
                table.dataset.drop_index(index.name)
        storage.sync_version(storage.open())
        notes.append("an index was damaged and is made again")
    return notes


# --- rows -----------------------------------------------------------------------------------------------------------


def _find_damage(table: ImageTable) -> _Damage:
    damage = _Damage()
    for fragment in table.dataset.get_fragments():
        try:
            with table.storage.reading():
                rows = fragment.to_table(columns=list({*RECORD, *IDS}))
                ids = rows["id"].to_numpy()
                sound = (hash_records(rows) == rows["checksum"].to_numpy()) & (
                    hash_ids(ids) == rows["id_checksum"].to_numpy()
                )
        except GalleryError:
            damage.fragments[fragment.fragment_id] = fragment.physical_rows
            continue
        if not sound.all():
            damage.unreadable[fragment.fragment_id] = ids[~sound].tolist()
        for column in table.columns - {*RECORD, *IDS}:
            try:
                with table.storage.reading():
                    _, valid, damaged = unseal(ids, fragment.to_table(columns=[column])[column])
                # Every image has activations; other columns may be empty.
                damaged |= ~valid & (column == ACTIVATIONS)
            except GalleryError:
                damaged = np.ones(len(ids), bool)
            damage.suspect |= set(ids[damaged & sound].tolist())
    return damage


# --- the model ------------------------------------------------------------------------------------------------------


def _repair_model(writer: Writer, given: Model | None) -> tuple[Model, str]:
    """Return the gallery's model, from another copy if it is damaged, and what was done.

    A model that the gallery calibrated itself is returned uncalibrated, because calibration needs all rows to be valid;
    the codes, which depend on it, are dropped.
    """
    storage, state = writer.storage, writer.state
    with suppress(ModelError):
        return load_model(storage, state), ""
    if given is not None:
        if given.id != state.model_id:
            raise GalleryError(f"this is model {given.id}, and {storage} was made with {state.model_id}")
        save_model(storage, given)
        return given, "the model was damaged and is restored from the copy"
    if state.recipe is None:
        raise GalleryError(
            f"the model of {storage} is damaged: andornot index --repair --model COPY takes another copy"
        )
    writer.drop_codes()
    return own_model(make_recipe(state.recipe)), "the model was damaged and is calibrated again"


def _recalibrated(writer: Writer, model: Model) -> Model:
    """Calibrate a recreated model, if it was calibrated before."""
    if writer.state.calibrated_on and len(writer.table):
        return writer.calibrate(model)
    writer.replace_model(model, 0)
    return model


def _repair_projections(writer: Writer, model: Model, damage: _Damage) -> list[str]:
    """Drop projections whose files are damaged; they are refitted when all rows are valid.

    Without the basis of regions, all images must be re-encoded.
    """
    notes = []
    try:
        if writer.state.components:
            load_components(writer.storage, writer.state.components)
    except DamagedError:
        writer.drop_codes()
        notes.append("the projection of images was damaged and is fitted again")
    try:
        if writer.state.basis:
            RegionBasis.load(writer.storage, writer.state.basis, model)
    except DamagedError:
        writer.save_state(basis="")
        damage.suspect |= set(writer.table.ids.tolist())
        notes.append("the basis of regions was damaged: all images are encoded again")
    return notes
