"""The one who changes a gallery: appends features, and commits what is known of their pictures."""

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
from .database import Database, Snapshot, read_snapshot
from .errors import GalleryError
from .feature_store import Features, FeatureWriter
from .lock import writing
from .reading import checked, read

MODEL_NAME: Final = re.compile(r"model-(\d{4,9})", re.ASCII)
# The features of so many pictures tell whether a state is right.
_TELLING_ROWS: Final = 100
# Unused rows are not worth a rewriting of all others below this number.
_SPARE_ROWS: Final = 10_000


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
        needed = {self.state.model, *self.features.names}
        spare = tuple(name for name in self.state.spare if name not in needed)
        state = replace(self.state, first_file=self.features.first_file, rows=self.features.rows, spare=spare)
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
        if self.state.rows <= 2 * self.state.pictures + _SPARE_ROWS:
            return
        snapshot, features = self.committed()
        old = self.features.names
        self.features.start_anew()
        for picture in snapshot.pictures():
            row = self.features.append(features.read(np.array([picture.row])))
            self.database.update(picture._replace(row=row))
        self.state = replace(self.state, spare=(*self.state.spare, *old))
        self.commit()

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
    numbers = itertools.count(int(match[1]) + 1 if match else 1)
    return next(name for number in numbers if not os.path.lexists(folder / (name := f"model-{number:04}")))
