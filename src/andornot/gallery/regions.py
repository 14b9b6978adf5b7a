"""The regions of a gallery's pictures, and the classes that were seen in them, for reading.

Both are rows beside the features. What is missing or damaged is said to be missing, and never used.
"""

from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..model import Model
from ..ssl.backbones import windows_of
from ..words import KeptClasses
from .basis import DIMENSIONS, Basis
from .beside import WHOLE, Beside, Kind, as_slice
from .feature_store import Features
from .reading import checked, read
from .records import State
from .sight import CLASSES_SIZE, classes_of, has_regions, map_shape, of_bytes
from .snapshot import Snapshot

Box = tuple[float, float, float, float]

# A weight that is nothing: what a picture without classes has of each.
_NOTHING: Final = 255
CLASSES: Final = Kind("classes", CLASSES_SIZE)


def grid_of(state: State) -> tuple[int, int] | None:
    """The height and the width of the feature maps whose windows are kept; None if none are."""
    height, _, width = state.grid.partition("x")
    return (int(height), int(width)) if height else None


def kind_of_regions(state: State) -> Kind | None:
    """How the gallery's regions are stored: in full, until there is a basis."""
    grid = grid_of(state)
    if grid is None:
        return None
    count = len(windows_of(*grid))
    if not state.basis:
        return Kind("regions-full", count * state.width * 2)
    return Kind(f"regions-{state.basis.removeprefix('basis-')}", count * DIMENSIONS, state.basis_id)


class _Rows:
    """Rows of one kind in one state of a gallery, each checked when it is first read."""

    def __init__(self, snapshot: Snapshot, beside: Beside) -> None:
        self._snapshot, self._beside = snapshot, beside
        self._known = np.full(beside.rows, -1, np.int8)

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Which rows `(n,)` are there, and as they were written."""
        # A view where they follow each other: a large gallery is looked at as a whole.
        known = self._known[rows if (following := as_slice(rows)) is None else following]
        if (known >= 0).all():
            return np.asarray(known > 0)
        new = np.unique(rows[known < 0])
        ids = self._snapshot.ids_of_rows(new)
        found = (ids > 0) & self._beside.are_there(new)
        crcs = self._snapshot.catalogue.features_crcs(ids[found])
        found[found] = self._beside.conditions(new[found], crcs) == WHOLE
        # All at once: what another thread reads meanwhile is unknown, or right.
        self._known[new] = found
        return np.asarray(self._known[rows] > 0)

    def _content(self, rows: np.ndarray) -> np.ndarray:
        """Bytes `(n, size)`, 0 where there are none."""
        has = self.has(rows)
        content = self._beside.content(rows)
        return content if has.all() else np.where(has[:, None], content, np.uint8(0))


class StoredClasses(_Rows):
    """The heaviest classes of pictures."""

    def read(self, rows: np.ndarray) -> KeptClasses:
        """Those of rows; where `has` says that there are none, all weights are nothing."""
        kept = of_bytes(self._content(rows))
        kept.weights[torch.from_numpy(~self.has(rows))] = _NOTHING
        return kept


class Regions(_Rows):
    """The regions of pictures, `count` of each, row by row from the top left."""

    dimensions = DIMENSIONS

    def __init__(
        self, snapshot: Snapshot, features: Features, beside: Beside, model: Model, basis: Basis | None
    ) -> None:
        """Without a basis they are stored in full."""
        super().__init__(snapshot, beside)
        self._features, self._model, self._given = features, model, basis
        grid = grid_of(snapshot.state)
        assert grid is not None
        self._grid, self.count = grid, len(windows_of(*grid))

    @cached_property
    def basis(self) -> Basis:
        """What makes queries that codes can be compared with."""
        if self._given is not None:
            return self._given
        rows = np.sort(self._snapshot.rows)
        wholes = torch.from_numpy(checked(self._snapshot, self._features, rows)).float()
        return Basis.fit(self._model, wholes, self._full(rows).flatten(0, 1), calibrate=False)

    def codes(self, rows: np.ndarray) -> Tensor:
        """Regions of rows as int8 `(n, count, 64)`, all 0 where `has` says that there are none."""
        if self._given is None:
            return self._own_codes[torch.from_numpy(rows)]
        return torch.from_numpy(self._content(rows).view(np.int8)).view(len(rows), self.count, self.dimensions)

    @property
    def boxes(self) -> list[Box]:
        """Left, top, right, bottom of each, as fractions of what the backbone saw."""
        return [window.box(*self._grid) for window in windows_of(*self._grid)]

    def box_in(self, number: int, width: int, height: int) -> Box:
        """The box of a region as fractions of the upright picture, which is so wide and so high.

        The backbone sees the centre square of a picture, or all of it: the recipe's `fit`.
        """
        left, top, right, bottom = self.boxes[number]
        if self._model.recipe.fit != "crop":
            return left, top, right, bottom
        side = min(width, height)
        across, down = side / width, side / height
        start, above = (1 - across) / 2, (1 - down) / 2
        return start + left * across, above + top * down, start + right * across, above + bottom * down

    @cached_property
    def _own_codes(self) -> Tensor:
        """Those of all rows of a small gallery."""
        codes = torch.zeros(self._beside.rows, self.count, self.dimensions, dtype=torch.int8)
        rows = self._snapshot.rows
        there = np.sort(rows[self.has(rows)])
        if len(there):
            codes[torch.from_numpy(there)] = self.basis.codes(self._full(there))
        return codes

    def _full(self, rows: np.ndarray) -> Tensor:
        """The activations `(n, count, width)` of those rows that are there."""
        there = np.sort(rows[self.has(rows)])
        content = np.ascontiguousarray(self._beside.content(there)).view(np.float16)
        return torch.from_numpy(content.astype(np.float32)).view(len(there), self.count, self._snapshot.state.width)


def open_beside(folder: Path, state: State) -> tuple[Beside | None, Beside]:
    """The files of regions, if there may be any, and of classes."""
    kind, place = kind_of_regions(state), (state.first_file, state.rows, state.beside)
    return None if kind is None else Beside(folder, kind, *place), Beside(folder, CLASSES, *place)


def read_all(folder: Path) -> tuple[Snapshot, Features, tuple[Beside | None, Beside]]:
    """What was committed last: what is known of the pictures, their features, and what is kept beside these."""
    snapshot, features = read(folder)
    while True:
        state, beside = snapshot.state, open_beside(folder, snapshot.state)
        if all((folder / name).exists() for name in state.beside):
            return snapshot, features, beside
        # A writer may have replaced the files since; what is lost for good counts as missing.
        snapshot, features = read(folder)
        if snapshot.state.beside == state.beside:
            return snapshot, features, open_beside(folder, snapshot.state)


def lacking_rows(
    snapshot: Snapshot, beside: tuple[Beside | None, Beside], model: Model, *, thorough: bool
) -> np.ndarray:
    """The rows of pictures without what the model could give beside their features; ascending.

    `thorough`: those with damaged ones, too; all are read for that.
    """
    rows = np.sort(snapshot.rows)
    lacks = np.zeros(len(rows), bool)
    has_windows = bool(snapshot.state.grid) or has_regions(map_shape(model))
    for of_kind, is_given in zip(beside, (has_windows, classes_of(model) is not None), strict=True):
        if is_given:
            lacks |= ~_are_there(snapshot, of_kind, rows, thorough)
    return np.asarray(rows[lacks])


def _are_there(snapshot: Snapshot, beside: Beside | None, rows: np.ndarray, thorough: bool) -> np.ndarray:
    if beside is None:
        return np.zeros(len(rows), bool)
    return _Rows(snapshot, beside).has(rows) if thorough else beside.are_there(rows)
