"""Repair of what is kept beside the features: what is damaged is forgotten, and can be made again from the pictures."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from ..model import Model
from .basis import Basis, basis_ids
from .beside import DAMAGED, WHOLE, Beside, Kind
from .records import Picture, State
from .regions import CLASSES, kind_of_regions, open_beside
from .sight import has_regions, map_shape
from .writer import Writer

_BASIS_NAME: Final = re.compile(r"basis-\d{4,9}", re.ASCII)


def forget_damaged(writer: Writer, model: Model) -> list[Picture]:
    """Makes damaged rows missing ones; the pictures that had them. A basis that is lost takes all regions with it."""
    pictures = list(writer.snapshot.pictures())
    damaged = _in_condition(writer.folder, writer.state, pictures, DAMAGED)
    if writer.state.basis:
        basis = Basis.load(writer.folder / writer.state.basis, writer.state.basis_id, model)
        if basis is None:
            regions, _ = open_beside(writer.folder, writer.state)
            rows = np.array([picture.row for picture in pictures], np.int64)
            if regions is not None and len(rows):
                had = regions.are_there(rows)
                damaged |= {picture.id for picture, is_there in zip(pictures, had.tolist(), strict=True) if is_there}
            writer.forget_basis()
            writer.commit()
        elif not basis.is_kept_twice(writer.folder / writer.state.basis):
            basis.save(writer.folder / writer.state.basis)
    chosen = [picture for picture in pictures if picture.id in damaged]
    for picture in chosen:
        writer.forget_beside(picture)
    if chosen:
        writer.commit()
    return chosen


def still_without(writer: Writer, pictures: list[Picture]) -> int:
    """How many of some pictures have not all again."""
    now = {picture.id: picture for picture in writer.committed()[0].pictures()}
    left = [now[picture.id] for picture in pictures if picture.id in now]
    regions, classes = open_beside(writer.folder, writer.state)
    whole = [
        _conditions(beside, left) == WHOLE for beside in (regions, classes) if beside is not None and beside.is_begun
    ]
    return len(pictures) - int(np.logical_and.reduce(whole).sum()) if whole else len(pictures)


def found_beside(folder: Path, state: State, model: Model, pictures: list[Picture]) -> State:
    """The state, which was lost, with what its rows' seals tell of what is kept beside them."""
    height, width = map_shape(model)
    possible: list[State] = []
    if has_regions((height, width)):
        state = replace(state, grid=f"{height}x{width}")
        possible = [state]
        names = sorted(child.name for child in folder.iterdir() if _BASIS_NAME.fullmatch(child.name))
        for name in names:
            possible += [replace(state, basis=name, basis_id=identity) for identity in basis_ids(folder / name)]
    best, most = state, 0
    for one in possible:
        kind = kind_of_regions(one)
        assert kind is not None
        if (count := _count(folder, one, kind, pictures)) > most:
            best, most = replace(one, beside=_there(folder, kind)), count
    if _count(folder, best, CLASSES, pictures):
        best = replace(best, beside=(*best.beside, *_there(folder, CLASSES)))
    return best


def _in_condition(folder: Path, state: State, pictures: list[Picture], condition: int) -> set[int]:
    found: set[int] = set()
    for beside in open_beside(folder, state):
        if beside is not None and pictures:
            chosen = _conditions(beside, pictures) == condition
            found |= {picture.id for picture, is_so in zip(pictures, chosen.tolist(), strict=True) if is_so}
    return found


def _conditions(beside: Beside, pictures: list[Picture]) -> np.ndarray:
    rows = np.array([picture.row for picture in pictures], np.int64)
    return beside.conditions(rows, np.array([picture.features_crc for picture in pictures], np.int64))


def _count(folder: Path, state: State, kind: Kind, pictures: list[Picture]) -> int:
    beside = Beside(folder, kind, state.first_file, state.rows, _there(folder, kind))
    return int((_conditions(beside, pictures) == WHOLE).sum()) if pictures else 0


def _there(folder: Path, kind: Kind) -> tuple[str, ...]:
    """The names of files of a kind that are there."""
    name = re.compile(rf"{re.escape(kind.name)}-\d{{4,9}}\.(bin|seals)", re.ASCII)
    return tuple(sorted(child.name for child in folder.iterdir() if name.fullmatch(child.name)))
