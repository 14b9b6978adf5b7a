"""Changes to a gallery: create it, replace its model, codes and regions, and remove unused files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch

from ..model import Model, ModelError, new_backbone
from ..similarity import Components, evenly
from ..ssl.calibration import CALIBRATION_IMAGES, CalibratedHead
from ..ssl.recipe import Recipe, load_recipe
from .checksums import remove_checksums
from .commits import KEEP, TableWriter, sync_data
from .encoding import feature_map_grid, num_regions
from .errors import GalleryError
from .projections import (
    ENOUGH_IMAGES,
    FIT_SAMPLE,
    REFIT_GROWTH,
    RegionBasis,
    fit_wholes,
    save_components,
    whole_codes,
)
from .records import State, StrPath
from .rows import ACTIVATIONS, FULL_REGIONS, REGIONS, schema_of, sealed_column
from .storage import HOLDER, IMAGES, LOCK, Storage, load_lance, writing
from .table import INDEXED, ImageTable

# (rows, count): fragments with fewer rows are merged when there are this many of them.
_MERGED: Final = ((2**12, 16), (2**17, 32))
# Columns are indexed from this many rows, and reindexed when this many rows are unindexed.
_INDEXED: Final = 10_000
# Names of files and folders that versions refer to, in the folder of a gallery.
_OWN: Final = re.compile(r"(model|components|basis|definitions|unreadable)-[0-9a-f]{16}(\.safetensors|\.json)?")


class Writer(TableWriter):
    """Write access to a gallery. Use `open_writer`, which holds the lock."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._drop_unused_columns()

    # --- the model, and codes ---------------------------------------------------------------------------------------

    def calibrate(self, model: Model) -> Model:
        """Calibrate the model on the gallery's stored activations, and return the new model."""
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
        """Replace the gallery's model, and recompute the codes that depend on it."""
        name = save_model(self.storage, model)
        self._switch(model, model=name, model_id=model.id, calibrated_on=calibrated_on)

    def refit(self, model: Model) -> None:
        """Refit the projection of whole images if the gallery has become much larger."""
        count = len(self.table)
        if count >= ENOUGH_IMAGES and count >= REFIT_GROWTH * self.state.fitted_on:
            self._switch(model)

    def drop_codes(self) -> None:
        """Remove the projection and the codes of whole images; the next `refit` recomputes them."""
        self.save_state(components="", codes="", fitted_on=0)
        self._drop_unused_columns()

    def _switch(self, new_model: Model, **changes: Any) -> None:
        """Store a changed state, with codes of whole images for the new model if there are enough images."""
        codes: dict[str, Any] = {"components": "", "codes": "", "fitted_on": 0}
        if len(self.table) >= ENOUGH_IMAGES:
            components = fit_wholes(new_model, self.table.activations(evenly(self.table.ids, FIT_SAMPLE)))
            name = save_components(self.storage, components)
            column = f"codes_{name.removesuffix('.safetensors').rsplit('-', 1)[-1]}"
            if column != self.state.codes:
                self._add_codes(column, new_model, components)
            codes = {"components": name, "codes": column, "fitted_on": len(self.table)}
        self.save_state(**codes, **changes)
        self._drop_unused_columns()

    def _drop_unused_columns(self) -> None:
        """Remove code columns of earlier projections and of killed processes."""
        unused = [name for name in self.table.columns if name.startswith("codes_") and name != self.state.codes]
        if unused:
            with self.storage.reading():
                self.table.dataset.drop_columns(unused)
            self._opened(self.storage.open())

    def _add_codes(self, column: str, model: Model, components: Components) -> None:
        """Add a column with the codes of all images."""

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
            self._apply("Merge", fragments, schema)

    # --- regions ----------------------------------------------------------------------------------------------------

    @property
    def needs_basis(self) -> bool:
        """Whether there are enough images for a basis and none is fitted yet."""
        has_regions = FULL_REGIONS in self.table.columns
        return has_regions and not self.state.basis and len(self.table) + self.uncommitted >= ENOUGH_IMAGES

    def fit_basis(self, model: Model) -> None:
        """Fit a basis on the gallery's images, and store their regions as codes."""
        self.commit()
        ids = self.table.ids
        wholes = torch.from_numpy(self.table.activations(evenly(ids, FIT_SAMPLE))).float()
        rows = self.table.take(ids, [FULL_REGIONS])
        content, valid = self.table.unseal(rows, FULL_REGIONS)
        regions = torch.from_numpy(content[valid].view(np.float16).reshape(-1, self.state.width)).float()
        is_own = self.state.calibrated_on is not None
        basis = RegionBasis.fit(model, wholes, regions, calibrate=is_own)
        self.save_state(basis=basis.save(self.storage))
        self.encode_regions(model)

    def encode_regions(self, model: Model) -> None:
        """Convert regions that are still stored as activations to codes."""
        if not self.state.basis:
            return
        basis = RegionBasis.load(self.storage, self.state.basis, model)
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
        """Commit, merge small fragments, update indexes, and remove unused files.

        `first`: this is the first indexing run. Its versions before the calibration cannot be searched, so they are
        removed immediately.
        """
        self.commit()
        self.save_state(next_id=self._next_id)
        self._compact(eagerly=first)
        self._index()
        with self.storage.reading():
            self.table.dataset.cleanup_old_versions(older_than=timedelta(0) if first else KEEP)
        if self.storage.table is not None:
            remove_checksums(self.storage.table)
            self._sweep()

    def _sweep(self) -> None:
        """Remove files that no version refers to: replaced ones, and those of killed processes.

        Only in local galleries, where the lock ensures that no other process is about to refer to them.
        """
        assert self.storage.folder is not None, "an object store has no locks"
        unused = {path for path in self.storage.folder.iterdir() if _OWN.fullmatch(path.name)}
        unused = {path for path in unused if path.name not in self.state.files}
        for version in self.table.dataset.versions() if unused else ():
            files = ImageTable.open(self.storage, version["version"]).state.files
            unused = {path for path in unused if path.name not in files}
        for path in unused:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _compact(self, *, eagerly: bool) -> None:
        """Merge small fragments if there are many, or with `eagerly` if there are at least two."""
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
                self._opened(self.storage.open())

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
        self._opened(self.storage.open())


@contextmanager
def open_writer(storage: Storage) -> Iterator[Writer]:
    """Open a gallery for writing; raise a LockedError if another process is writing."""
    with writing(storage):
        yield Writer(storage)


# --- creating -------------------------------------------------------------------------------------------------------


def create_gallery(storage: Storage, model: Model | None, recipe: Recipe | None) -> None:
    """Create an empty gallery. Without a model, it gets an uncalibrated one made by the recipe."""
    if storage.exists():
        raise GalleryError(f"{storage} holds a gallery already; Gallery.open opens it")
    if storage.folder is not None and storage.folder.is_dir():
        left = (LOCK, HOLDER, IMAGES)  # left behind by a killed `create`
        others = [
            child.name
            for child in storage.folder.iterdir()
            if child.name not in left and not child.name.startswith("model-")
        ]
        if others:
            raise GalleryError(f"{storage} is not empty, and no gallery ({min(others)} is in it): give a new folder")
    chosen = own_model(recipe or load_recipe("photos")) if model is None else model
    if storage.folder is not None:
        storage.folder.mkdir(parents=True, exist_ok=True)
    with writing(storage):
        name = save_model(storage, chosen)
        grid = feature_map_grid(chosen)
        state = State(
            name,
            chosen.id,
            chosen.backbone.width,
            calibrated_on=0 if model is None else None,
            grid=grid if num_regions(grid) else None,
            recipe=chosen.recipe.model_dump(mode="json") if model is None else None,
        )
        schema = schema_of(state, chosen)
        with storage.reading():
            dataset = load_lance().write_dataset(
                schema.empty_table(), storage.uri, mode="create", schema=schema, storage_options=storage.options
            )
        storage.sync_version(dataset)


def own_model(recipe: Recipe) -> Model:
    """Return a model with a pretrained backbone and a head that is not calibrated yet."""
    if recipe.regime != "calibrated":
        raise GalleryError(f"a gallery makes calibrated models only; this recipe says {recipe.regime}: train one first")
    backbone = new_backbone(recipe, channels=3)
    return Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)


def save_model(storage: Storage, model: Model) -> str:
    """Write a model to a folder of the gallery, unless it exists, and return the folder's name."""
    name = f"model-{model.id}"
    # Do not overwrite a model in use: a process killed meanwhile would leave it incomplete.
    try:
        if Model.load(storage.local_copy(name)).id == model.id:
            return name
    except ModelError:
        pass
    with storage.new_file(name) as folder:
        model.save(folder)
    return name


def load_model(storage: Storage, state: State) -> Model:
    """Load the model of a gallery; raise a ModelError if it is damaged or not the gallery's."""
    model = Model.load(storage.local_copy(state.model))
    if model.id != state.model_id:
        raise ModelError(f"{storage}/{state.model} is not the model that the gallery was made with")
    return model


def load_copy(model: Model | StrPath | None) -> Model | None:
    """Return a model given directly or by its folder."""
    return model if model is None or isinstance(model, Model) else Model.load(model)
