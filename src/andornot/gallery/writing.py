"""Changes of a gallery: its model, codes and regions are replaced, and what is not needed any more is removed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import torch

from ..model import Model
from ..similarity import Components, evenly
from ..ssl.calibration import CALIBRATION_IMAGES
from .checksums import remove_checksums
from .commits import KEEP, TableWriter, sync_data
from .creating import model_folder, save_model
from .errors import GalleryError
from .projections import (
    ENOUGH_IMAGES,
    FIT_SAMPLE,
    REFIT_GROWTH,
    RegionBasis,
    fit_wholes,
    load_components,
    save_components,
    whole_codes,
)
from .rows import (
    ACTIVATIONS,
    FULL_REGIONS,
    REGIONS,
    sealed_column,
)
from .storage import IMAGES, Storage, load_lance, writing
from .table import INDEXED

if TYPE_CHECKING:
    pass

# Fragments with fewer rows are merged, when there are so many of them; small ones often, large ones seldom.
_MERGED: Final = ((2**12, 16), (2**17, 32))
# From here on look-ups use indexes; and so many rows may be missing in these.
_INDEXED: Final = 10_000


class Writer(TableWriter):
    """A gallery that is being changed. Use `open_writer`, which holds the lock."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._basis: RegionBasis | None = None
        self._components: Components | None = None

    # --- the model, and codes ---------------------------------------------------------------------------------------

    def calibrate(self, model: Model) -> Model:
        """Calibrate the model on the gallery's own images, whose activations are stored; the new model."""
        if model.recipe.regime != "calibrated":
            raise GalleryError(
                f"the model of {self.storage} was trained ({model.recipe.regime}), and calibration would replace that"
            )
        if not len(self.table):
            raise GalleryError(f"{self.storage} has no image to calibrate a model on")
        drawn = np.random.default_rng(model.recipe.seed).permutation(len(self.table))[:CALIBRATION_IMAGES]
        sample = torch.from_numpy(self.table.activations(np.sort(self.table.ids[drawn]))).float()
        calibrated = Model.calibrated(model.backbone, sample, model.recipe)
        self.replace_model(calibrated, len(self.table))
        return calibrated

    def replace_model(self, model: Model, calibrated_on: int | None) -> None:
        """Make another model the gallery's own, and compute the codes that depend on it."""
        self._announce(model_folder(model))
        name = save_model(self.storage, model)
        self._switch(model, model=name, model_id=model.id, calibrated_on=calibrated_on)

    def _is_used(self, name: str) -> bool:
        """Return whether a file or folder is part of the gallery as it is."""
        used = (self.state.model, self.state.components, self.state.basis)
        return any(own and name.startswith(own) for own in used)

    def _announce(self, name: str) -> None:
        """Note a file that will be written: if this process is killed before it is used, it is removed later."""
        if not self._is_used(name):
            self.save_state(retired=(*self.state.retired, (name, time.time())))

    def refit(self, model: Model) -> None:
        """Fit the projection of whole images again if the gallery has become much larger."""
        count = len(self.table)
        if count >= ENOUGH_IMAGES and count >= REFIT_GROWTH * self.state.fitted_on:
            self._switch(model)

    def drop_codes(self) -> None:
        """Remove the projection and the codes of whole images; they are computed again by the next one."""
        self._components = None
        self.save_state(components="", codes="", fitted_on=0)
        self._drop_unused_columns()

    def _switch(self, new_model: Model, **changes: Any) -> None:
        """Store another state, with the codes of whole images by that model if there are enough images."""
        old = self.state
        codes: dict[str, Any] = {"components": "", "codes": "", "fitted_on": 0}
        if len(self.table) >= ENOUGH_IMAGES:
            components = fit_wholes(new_model, self.table.activations(evenly(self.table.ids, FIT_SAMPLE)))
            name = save_components(self.storage, components, self._announce)
            column = f"codes_{name.removesuffix('.safetensors').rsplit('-', 1)[-1]}"
            if column != old.codes:
                self._add_codes(column, new_model, components)
            codes = {"components": name, "codes": column, "fitted_on": len(self.table)}
        state = replace(self.state, **codes, **changes)
        used, now = (state.model, state.components), time.time()
        retired = [one for one in state.retired if one[0] not in used]
        retired += [(name, now) for name in (old.model, old.components) if name and name not in used]
        self._components = None
        self.save_state(**codes, **changes, retired=tuple(retired))
        self._drop_unused_columns()

    def _add_codes(self, column: str, model: Model, components: Components) -> None:
        """Add a column with the codes of all images."""
        if column in self.table.columns:
            self._drop_columns([column])

        def codes_of(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = pa.Table.from_batches([batch])
            activations = self.table.unseal(rows, ACTIVATIONS)[0].view(np.float16)
            codes = whole_codes(model, components, activations)
            return pa.record_batch({column: sealed_column(rows["id"].to_numpy(), codes)})

        fragments, schema = [], None
        with self.storage.reading():
            for fragment in self.table.dataset.get_fragments():
                metadata, schema = fragment.merge_columns(codes_of, columns=["id", ACTIVATIONS])
                fragments.append(metadata)
        if schema is not None:
            sync_data(self.storage, fragments)
            self._commit(load_lance().LanceOperation.Merge(fragments, schema))

    def components(self) -> Components | None:
        """Return the projection of whole images; None in a small gallery."""
        if self._components is None and self.state.components:
            self._components = load_components(self.storage, self.state.components)
        return self._components

    # --- regions ----------------------------------------------------------------------------------------------------

    def basis(self, model: Model) -> RegionBasis | None:
        """Return the basis of regions; None in a small gallery."""
        if self._basis is None and self.state.basis:
            self._basis = RegionBasis.load(self.storage, self.state.basis, model)
        return self._basis

    @property
    def needs_basis(self) -> bool:
        """Whether there are enough images for a basis, and none is fitted."""
        has_regions = FULL_REGIONS in self.table.columns
        return has_regions and not self.state.basis and len(self.table) + self.uncommitted >= ENOUGH_IMAGES

    def fit_basis(self, model: Model) -> None:
        """Fit a basis on the images that there are, and store their regions as codes."""
        self.commit()
        ids = self.table.ids
        wholes = torch.from_numpy(self.table.activations(evenly(ids, FIT_SAMPLE))).float()
        rows = self.table.take(ids, [FULL_REGIONS])
        content, valid = self.table.unseal(rows, FULL_REGIONS)
        regions = torch.from_numpy(content[valid].view(np.float16).reshape(-1, self.state.width)).float()
        is_own = self.state.calibrated_on is not None
        self._basis = RegionBasis.fit(model, wholes, regions, calibrate=is_own)
        name = self._basis.save(self.storage, self._announce)
        self.save_state(basis=name, retired=tuple(one for one in self.state.retired if not one[0].startswith(name)))
        self.encode_regions(model)

    def encode_regions(self, model: Model) -> None:
        """Store as codes the regions that are still stored as activations."""
        basis = self.basis(model)
        if basis is None:
            return
        with self.storage.reading():
            rows = self.table.dataset.to_table(columns=sorted(self.table.columns), filter=f"{FULL_REGIONS} IS NOT NULL")
        if not len(rows):
            return
        ids = rows["id"].to_numpy()
        full = self.table.unseal(rows, FULL_REGIONS)[0].view(np.float16).reshape(len(ids), -1, self.state.width)
        codes = sealed_column(ids, basis.codes(torch.from_numpy(full)).numpy())
        kept = rows.drop_columns([FULL_REGIONS, REGIONS]).append_column(REGIONS, codes)
        self.put(kept, ids.tolist())
        self.commit()

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, *, first: bool = False) -> None:
        """Store everything, merge small fragments, bring indexes up to date, and remove what is not needed any more.

        `first`: a first index, whose versions before the calibration could not be searched, so no reader needs them.
        """
        self.commit()
        keep = timedelta(0) if first else KEEP
        expired = time.time() - keep.total_seconds()
        removable = [name for name, when in self.state.retired if when <= expired]
        self.save_state(
            next_id=self._next_id, retired=tuple(one for one in self.state.retired if one[0] not in removable)
        )
        for name in removable:
            if not self._is_used(name):
                self.storage.remove(name)
        self._compact(eagerly=first)
        self._index()
        with self.storage.reading():
            self.table.dataset.cleanup_old_versions(older_than=keep)
        if self.storage.folder is not None:
            remove_checksums(self.storage.folder / IMAGES)

    def _compact(self, *, eagerly: bool) -> None:
        """Merge small fragments: when there are many of them, or several if `eagerly`."""
        from lance.optimize import Compaction

        with self.storage.reading():
            for rows, many in _MERGED:
                small = sum(fragment.count_rows() < rows for fragment in self.table.dataset.get_fragments())
                if small < (2 if eagerly else many):
                    continue
                plan = Compaction.plan(self.table.dataset, {"target_rows_per_fragment": rows})
                done = [task.execute(self.table.dataset) for task in plan.tasks]
                if not done:
                    continue
                sync_data(self.storage, [fragment for one in done for fragment in one.new_fragments])
                Compaction.commit(self.table.dataset, done)
                self._opened(self.storage.open(IMAGES))

    def _index(self) -> None:
        if len(self.table) < _INDEXED:
            return
        dataset = self.table.dataset
        with self.storage.reading():
            there = {index.name for index in dataset.describe_indices()}
            for column in INDEXED:
                if f"{column}_idx" not in there:
                    dataset.create_scalar_index(column, "BTREE", name=f"{column}_idx")
                elif dataset.stats.index_stats(f"{column}_idx")["num_unindexed_rows"] >= _INDEXED:
                    dataset.optimize.optimize_indices(index_names=[f"{column}_idx"])
        self._opened(self.storage.open(IMAGES))


@contextmanager
def open_writer(storage: Storage) -> Iterator[Writer]:
    """Open a gallery for writing; a LockedError if another process does."""
    with writing(storage):
        yield Writer(storage)
