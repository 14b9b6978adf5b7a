"""The one who changes a gallery: appends features, and commits what is known of their pictures."""

import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from ..ssl.calibration import ENOUGH_PICTURES
from .database import Database, Snapshot, read_snapshot
from .errors import GalleryError
from .features import Features, FeatureWriter
from .lock import writing

_MODEL: Final = "model-"
# Unused rows are not worth a rewriting of all others below this number.
_SPARE_ROWS: Final = 10_000
_HALF_MAX: Final = 65_504.0


class Writer:
    """A gallery that is being changed. Nothing counts before `commit`, and then all of it does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.snapshot: Snapshot = read_snapshot(folder)
        self.state = self.snapshot.state
        self.features = FeatureWriter(folder, self.state.width, self.state.first_file, self.state.rows)
        for name in model_folders(folder):
            if name != self.state.model:
                shutil.rmtree(folder / name, ignore_errors=True)
        self.database = Database(folder)

    def new_id(self) -> int:
        """An id that no picture ever had."""
        self.state = replace(self.state, next_id=self.state.next_id + 1)
        return self.state.next_id - 1

    def commit(self) -> None:
        """Makes everything since the last commit part of the gallery, first the features."""
        self.features.sync()
        self.state = replace(self.state, first_file=self.features.first_file, rows=self.features.rows)
        self.database.commit(self.state)

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
        calibrated = Model.calibrated(model.backbone, torch.from_numpy(features.read(rows)).float(), model.recipe)
        old = self.folder / self.state.model
        name = save_model(self.folder, calibrated, int(self.state.model.removeprefix(_MODEL)) + 1)
        self.state = replace(self.state, model=name, model_id=calibrated.id, calibrated_on=len(snapshot))
        self.commit()
        shutil.rmtree(old, ignore_errors=True)

    def compact(self) -> None:
        """Writes the rows in use anew, if most are not in use any more."""
        snapshot, features = self.committed()
        if self.state.rows <= 2 * len(snapshot) + _SPARE_ROWS:
            return
        self.features.start_anew()
        for picture in snapshot.pictures():
            row = self.features.append(features.read(np.array([picture.row])))
            self.database.put(picture._replace(row=row))
        self.commit()


@contextmanager
def open_writer(folder: Path) -> Iterator[Writer]:
    """The writer of a gallery, if there is no other."""
    with writing(folder):
        writer = Writer(folder)
        try:
            yield writer
        finally:
            writer.database.close()


def read(folder: Path) -> tuple[Snapshot, Features]:
    """What was committed last: what is known of the pictures, and their features."""
    snapshot = read_snapshot(folder)
    while True:
        state = snapshot.state
        try:
            return snapshot, Features(folder, state.width, state.first_file, state.rows)
        except FileNotFoundError as missing:
            # A writer may have replaced the files since.
            snapshot = read_snapshot(folder)
            if snapshot.state.first_file == state.first_file:
                raise GalleryError(
                    f"{missing.filename} is missing; andornot index --repair encodes its pictures anew"
                ) from None


def save_model(folder: Path, model: Model, number: int = 1) -> str:
    """Saves a model in the gallery; the name of its folder."""
    name = f"{_MODEL}{number:04}"
    model.save(folder / name)
    return name


def model_folders(folder: Path) -> list[str]:
    """The names of the folders of models: one, and what killed processes left."""
    return [child.name for child in folder.glob(f"{_MODEL}*")]


def as_rows(features: Tensor) -> np.ndarray:
    """Features `(n, width)` as they are stored. Everything is computed from these, never from wider ones."""
    return features.float().clamp(-_HALF_MAX, _HALF_MAX).half().cpu().numpy()


def checksum(row: np.ndarray) -> int:
    """Of one row of features."""
    return zlib.crc32(row.tobytes())
