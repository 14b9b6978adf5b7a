"""Which pictures of a gallery may be found: those in a folder, with a label, or of some time."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Final

import numpy as np

from .database import Snapshot
from .errors import GalleryError
from .indexing import is_inside

_FORMATS: Final = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y-%m",
    "%Y",
)


@dataclass(frozen=True)
class Where:
    """A filter; None stands for everything.

    - `folder`: the picture lies in it, at any depth; a path from here, from an indexed folder, or beside one.
    - `label`: the name of the folder that the picture lies in.
    - `after`, `before`: it was taken at that time or later, and before that time, as "2024", "2024-05",
      "2024-05-31" or "2024-05-31 18:00". That is what the camera noted, else the time of the file.
    """

    folder: str | None = None
    label: str | None = None
    after: str | None = None
    before: str | None = None

    def mask(self, snapshot: Snapshot) -> np.ndarray:
        """Which positions pass, `(n,)` bool. A folder or label that no picture has is a GalleryError."""
        passing = np.ones(len(snapshot), bool)
        if self.folder is not None:
            passing &= _in_folder(snapshot, self.folder)
        if self.label is not None:
            passing &= _with_label(snapshot, self.label)
        if self.after is not None:
            passing &= snapshot.taken >= _seconds(self.after)
        if self.before is not None:
            passing &= snapshot.taken < _seconds(self.before)
        return passing


class Selection:
    """The pictures of one state of a gallery that may be found."""

    def __init__(self, snapshot: Snapshot, where: Where | None) -> None:
        self.snapshot, self.where = snapshot, where

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def rows(self) -> np.ndarray:
        """Their rows, which ascend. Not every row belongs to a picture."""
        mask = self.snapshot.position_of_row >= 0
        if self.where is not None:
            mask[self.snapshot.rows] &= self.where.mask(self.snapshot)
        return np.flatnonzero(mask)


def _in_folder(snapshot: Snapshot, folder: str) -> np.ndarray:
    expanded = os.path.expanduser(folder)  # noqa: PTH111
    bases = [base for known in snapshot.folders for base in (known, os.path.dirname(known))]  # noqa: PTH120
    for base in ("", *bases):
        whole = os.path.abspath(os.path.join(base, expanded))  # noqa: PTH100, PTH118
        mask = np.array([is_inside(path, whole) for path in snapshot.paths], bool)
        if mask.any():
            return mask
    raise GalleryError(f"no picture of the gallery is in {folder}; it has those of {', '.join(snapshot.folders)}")


def _with_label(snapshot: Snapshot, label: str) -> np.ndarray:
    labels = [os.path.basename(os.path.dirname(path)) for path in snapshot.paths]  # noqa: PTH119, PTH120
    mask = np.array([own == label for own in labels], bool)
    if not mask.any():
        nearest = get_close_matches(label, set(labels), n=1)
        hint = f'did you mean "{nearest[0]}"?' if nearest else "a label is the name of the folder that a picture is in"
        raise GalleryError(f'no picture has the label "{label}"; {hint}')
    return mask


def _seconds(text: str) -> int:
    for form in _FORMATS:
        try:
            return int(datetime.strptime(text.strip(), form).replace(tzinfo=UTC).timestamp())
        except ValueError:
            continue
    raise GalleryError(f'"{text}" is no date; write it as 2024, 2024-05, 2024-05-31 or "2024-05-31 18:00"')
