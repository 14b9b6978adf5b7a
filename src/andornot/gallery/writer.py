"""The one who changes a gallery: appends features and what is kept beside them, and commits what is known of all."""

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from ..model import Model
from ..ssl.calibration import ENOUGH_PICTURES
from .basis import Basis
from .beside import WHOLE, Beside, BesideWriter
from .database import Database, Picture, Snapshot, read_snapshot
from .errors import DamagedError, GalleryError
from .feature_store import Features, FeatureWriter
from .lock import writing
from .reading import checked, read
from .regions import CLASSES, kind_of_regions, lacking_rows, open_beside
from .sight import Seen

MODEL_NAME: Final = re.compile(r"model-(\d{4,9})", re.ASCII)
# The features of so many pictures tell whether a state is right.
_TELLING_ROWS: Final = 100
# So many pictures tell in which directions pictures differ; fewer keep their regions in full.
ENOUGH_FOR_A_BASIS: Final = 512
# Whole pictures that a basis is fitted on, at most.
_WHOLES: Final = 4096
# Unused rows are not worth a rewriting of all others below this number.
_SPARE_ROWS: Final = 10_000
_SPARE_FULL_ROWS: Final = 512  # with regions in full a row takes much


class Writer:
    """A gallery that is being changed. Nothing counts before `commit`, and then all of it does."""

    def __init__(self, folder: Path, *, repairs: bool = False) -> None:
        """`repairs`: who repairs it takes also what cannot be right."""
        self.folder = folder
        self.snapshot: Snapshot = read_snapshot(folder, thorough=True)
        if self.snapshot.is_old and not repairs:
            _check_old_state(*self.committed())
        self.state = self._saved = self.snapshot.state
        self.database = Database(folder)
        try:
            if self.snapshot.is_old:
                self.database.carry_over(self.snapshot)
            self.state = self._saved = self.database.keep_catalogue(self.snapshot, self.state)
            self._remove_spare()
            place = self.state.first_file, self.state.rows
            self.features = FeatureWriter(folder, self.state.width, *place, self.claim)
            self._basis: Basis | None = None
            self._open_beside()
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Forgets what was not committed, and everything else: no file of the catalogue stays open."""
        self.database.close()
        del self.features, self.snapshot  # the features know the writer, so neither would go by itself

    def new_id(self) -> int:
        """An id that no picture ever had."""
        self.state = replace(self.state, next_id=self.state.next_id + 1)
        return self.state.next_id - 1

    def claim(self, name: str) -> None:
        """Says, before something is written, that the gallery will have written it: if it is killed, who removes it."""
        if os.path.lexists(self.folder / name):
            raise GalleryError(f"{self.folder / name} is in the way: it is not of this gallery; move it elsewhere")
        self.state = replace(self.state, spare=(*self.state.spare, name))
        self._saved = replace(self._saved, spare=(*self._saved.spare, name))
        self.database.save(self._saved)

    def commit(self) -> None:
        """Makes everything since the last commit part of the gallery, first the features."""
        self.features.sync()
        for writer in self._beside:
            writer.sync(self.features.rows)
        beside = tuple(name for writer in self._beside for name in writer.names)
        needed = {self.state.model, self.state.basis, *self.features.names, *beside}
        spare = tuple(name for name in self.state.spare if name not in needed)
        first_file, rows = self.features.first_file, self.features.rows
        state = replace(self.state, first_file=first_file, rows=rows, spare=spare, beside=beside)
        self.state = self._saved = self.database.commit(state)

    def committed(self) -> tuple[Snapshot, Features]:
        """The gallery as a reader would find it now."""
        return read(self.folder)

    def calibrate(self, model: Model) -> None:
        """Calibrates the model on the gallery's own pictures, whose features are there: the backbone need not run."""
        if model.recipe.regime != "calibrated":
            raise GalleryError(
                f"the model of {self.folder} was trained ({model.recipe.regime}), and calibrating would lose that"
            )
        snapshot, features = self.committed()
        if not len(snapshot):
            raise GalleryError(f"{self.folder} has no picture to calibrate a model on")
        drawn = np.random.default_rng(model.recipe.seed).permutation(len(snapshot))[:ENOUGH_PICTURES]
        rows = np.sort(snapshot.rows[drawn])
        stored = torch.from_numpy(checked(snapshot, features, rows)).float()
        calibrated = Model.calibrated(model.backbone, stored, model.recipe)
        self.replace_model(calibrated, len(snapshot), remove_old=True)

    def replace_model(self, model: Model, calibrated_on: int | None, *, remove_old: bool) -> None:
        """Makes another model the gallery's own."""
        name, old = free_model_name(self.folder, self.state.model), self.state.model
        more_spare = (old,) if remove_old else ()
        self.claim(name)
        model.save(self.folder / name)
        self.state = replace(
            self.state,
            model=name,
            model_id=model.id,
            calibrated_on=calibrated_on,
            spare=(*self.state.spare, *more_spare),
        )
        self.commit()
        self._remove_spare()

    def compact(self) -> None:
        """Writes the rows in use anew, if most are not in use any more."""
        are_full = self.state.grid and not self.state.basis
        if self.state.rows <= 2 * self.state.pictures + (_SPARE_FULL_ROWS if are_full else _SPARE_ROWS):
            return
        snapshot, features = self.committed()
        old = (*self.features.names, *self.state.beside)
        regions, classes = open_beside(self.folder, self.state)
        self.features.start_anew()
        for writer in self._beside:
            writer.start_anew(self.features.first_file)
        for picture in snapshot.pictures():
            row = self.features.append(features.read(np.array([picture.row])))
            if regions is not None and self._regions is not None:
                _copy(regions, picture, self._regions, row)
            _copy(classes, picture, self._classes, row)
            self.database.update(picture._replace(row=row))
        self.state = replace(self.state, spare=(*self.state.spare, *old))
        self.commit()

    # --- beside the features ----------------------------------------------------------------------------------------

    def _open_beside(self) -> None:
        kind, place = kind_of_regions(self.state), (self.features.first_file, self.features.rows, self.state.beside)
        self._regions = None if kind is None else BesideWriter(self.folder, kind, *place, self.claim)
        self._classes = BesideWriter(self.folder, CLASSES, *place, self.claim)

    @property
    def _beside(self) -> list[BesideWriter]:
        return [writer for writer in (self._regions, self._classes) if writer is not None]

    def lacking(self, model: Model) -> list[int]:
        """The ids of pictures without what the model could give beside their features, or with a damaged one."""
        rows = lacking_rows(self.snapshot, open_beside(self.folder, self.state), model, thorough=True)
        ids: list[int] = self.snapshot.ids_of_rows(rows).tolist()
        return ids

    def begin_regions(self, model: Model, seen: Seen) -> None:
        """To be called before any is put: makes a basis for the regions as soon as there are enough pictures."""
        if seen.regions is None:
            return
        if not self.state.grid:
            self.state = replace(self.state, grid=f"{seen.grid[0]}x{seen.grid[1]}")
            self._open_beside()
        if not self.state.basis and self.state.pictures >= ENOUGH_FOR_A_BASIS:
            self._reduce(model)

    def put_beside(self, model: Model, seen: Seen, places: dict[int, list[tuple[int, int]]]) -> None:
        """Writes what was seen of pictures: for each number of one, the rows that it has and their checksums."""
        numbers = list(places)
        kept: list[tuple[BesideWriter, np.ndarray]] = []
        if seen.regions is not None and self._regions is not None and numbers:
            regions = seen.regions[numbers]
            if self.state.basis:
                regions = self.basis(model).codes(torch.from_numpy(regions)).numpy()
            kept.append((self._regions, regions))
        if seen.classes is not None:
            kept.append((self._classes, seen.classes[numbers]))
        for writer, contents in kept:
            for number, content in zip(numbers, contents, strict=True):
                for row, crc in places[number]:
                    writer.put(row, content.tobytes(), crc)

    def copy_beside(self, source: Picture, row: int) -> None:
        """Gives a row with the same features what another picture has beside its own, if that is whole."""
        for writer in self._beside:
            content = writer.read(source.row, source.features_crc)
            if content is not None:
                writer.put(row, content, source.features_crc)

    def forget_beside(self, picture: Picture) -> None:
        """Takes from a picture what it has beside its features."""
        for writer in self._beside:
            writer.forget(picture.row)

    def forget_basis(self) -> None:
        """Takes from all pictures their regions: nobody can read them any more."""
        old = () if self._regions is None else self._regions.names
        self.state = replace(self.state, basis="", basis_id="", spare=(*self.state.spare, self.state.basis, *old))
        self._open_beside()

    def basis(self, model: Model) -> Basis:
        """What regions are written in, if they are not in full."""
        if self._basis is None or self._basis.id != self.state.basis_id:
            self._basis = Basis.load(self.folder / self.state.basis, self.state.basis_id, model)
            if self._basis is None:
                raise DamagedError(f"{self.folder / self.state.basis} is damaged: what its regions are written in")
        return self._basis

    def _reduce(self, model: Model) -> None:
        """Fits a basis on the pictures that there are, and writes their regions in it. All counts, or nothing."""
        self.commit()
        snapshot, features = self.committed()
        full, _ = open_beside(self.folder, self.state)
        assert full is not None
        rows = np.sort(snapshot.rows)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _WHOLES)).astype(np.int64)]
        wholes = torch.from_numpy(checked(snapshot, features, rows)).float()
        there = [picture for picture in snapshot.pictures() if _is_whole(full, picture)]
        content = full.content(np.array([picture.row for picture in there], np.int64))
        regions = torch.from_numpy(
            content.view(np.float16).reshape(len(there), full.kind.size // (2 * self.state.width), self.state.width)
        )
        is_own = self.state.calibrated_on is not None
        basis = Basis.fit(model, wholes, regions.flatten(0, 1).float(), calibrate=is_own)
        name = _free_name(self.folder, "basis")
        self.claim(name)
        basis.save(self.folder / name)
        self.state = replace(self.state, basis=name, basis_id=basis.id)
        self._basis = basis
        old = () if self._regions is None else self._regions.names
        self._open_beside()
        assert self._regions is not None
        for picture, codes in zip(there, basis.codes(regions).numpy(), strict=True):
            self._regions.put(picture.row, codes.tobytes(), picture.features_crc)
        self.state = replace(self.state, spare=(*self.state.spare, *old))
        self.commit()
        self._remove_spare()

    def _remove_spare(self) -> None:
        """Removes what the records name as written by this gallery and not needed; its folder may hold other things."""
        if not self.state.spare:
            return
        for name in self.state.spare:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        left = tuple(name for name in self.state.spare if os.path.lexists(self.folder / name))
        self.state = self._saved = replace(self.state, spare=left)
        self.database.save(self.state)


@contextmanager
def open_writer(folder: Path) -> Iterator[Writer]:
    """The writer of a gallery, if there is no other."""
    with writing(folder):
        writer = Writer(folder)
        try:
            yield writer
        finally:
            writer.close()


def _check_old_state(snapshot: Snapshot, features: Features) -> None:
    """0.1 kept no checksum of the state: it is believed if features are where it says. The last ones tell most."""
    checked(snapshot, features, np.sort(snapshot.rows)[-_TELLING_ROWS:])


def free_model_name(folder: Path, last: str = "") -> str:
    """A name for a folder of a model that nothing has, after that of the last one."""
    match = MODEL_NAME.fullmatch(last)
    return _free_name(folder, "model", int(match[1]) if match else 0)


def _free_name(folder: Path, what: str, last: int = 0) -> str:
    numbers = itertools.count(last + 1)
    return next(name for number in numbers if not os.path.lexists(folder / (name := f"{what}-{number:04}")))


def _is_whole(beside: Beside, picture: Picture) -> bool:
    return bool(beside.conditions(np.array([picture.row]), np.array([picture.features_crc]))[0] == WHOLE)


def _copy(source: Beside, picture: Picture, writer: BesideWriter, row: int) -> None:
    if _is_whole(source, picture):
        writer.put(row, source.content(np.array([picture.row]))[0].tobytes(), picture.features_crc)
