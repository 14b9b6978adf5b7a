"""Which pictures of a gallery may be found: those in a folder, with a label, or of some time."""

import os
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np

from ..errors import spelled_like
from .errors import GalleryError
from .options import Where
from .paths import is_inside
from .records import Records
from .snapshot import Snapshot

_FORMATS: Final = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y-%m",
    "%Y",
)


_EVER: Final = (-(2**63), 2**63 - 1)


class Conditions(NamedTuple):
    """A filter with the folder's whole path, and times in seconds as `Picture.taken` has them."""

    folder: str | None
    label: str | None
    after: int | None
    before: int | None
    file_dates: bool = False

    @property
    def needs_camera(self) -> bool:
        """Whether pictures of which only the file's time is known do not pass.

        Those of galleries of version 0.1, of which it is not known what their date is, do, until the next index.
        """
        return not self.file_dates and (self.after is not None or self.before is not None)


def resolve(where: Where, records: Records) -> Conditions:
    """The filter in terms of what is known of pictures. A folder or label that none has is a GalleryError."""
    return Conditions(
        None if where.folder is None else _whole_folder(records, where.folder),
        None if where.label is None else _known_label(records, where.label),
        None if where.after is None else _seconds(where.after),
        None if where.before is None else _seconds(where.before),
        where.file_dates,
    )


def mask(where: Where, snapshot: Snapshot) -> np.ndarray:
    """Which positions pass, `(n,)` bool. A folder or label that no picture has is a GalleryError."""
    conditions = resolve(where, snapshot)
    passing = np.ones(len(snapshot), bool)
    if conditions.folder is not None:
        passing &= snapshot.in_folders(partial(is_inside, folder=conditions.folder))
    if conditions.label is not None:
        passing &= snapshot.in_folders(lambda folder: os.path.basename(folder) == conditions.label)  # noqa: PTH119
    if conditions.after is not None or conditions.before is not None:
        after, before = conditions.after, conditions.before
        passing &= snapshot.catalogue.taken_between(
            _EVER[0] if after is None else after, _EVER[1] if before is None else before
        )
    if conditions.needs_camera:
        passing = snapshot.catalogue.without_file_dates(passing)
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
        if self.where is None:
            return np.flatnonzero(self.snapshot.id_of_row)
        return np.sort(self.snapshot.catalogue.rows_at(mask(self.where, self.snapshot)))


def _whole_folder(records: Records, folder: str) -> str:
    expanded = os.path.expanduser(folder)  # noqa: PTH111
    bases = [base for known in records.folders for base in (known, os.path.dirname(known))]  # noqa: PTH120
    for base in ("", *bases):
        whole = os.path.abspath(os.path.join(base, expanded))  # noqa: PTH100, PTH118
        if any(is_inside(own, whole) for own in records.folder_counts):
            return whole
    raise GalleryError(f"no picture of the gallery is in {folder}; it has those of {', '.join(records.folders)}")


def _known_label(records: Records, label: str) -> str:
    labels = set(map(os.path.basename, records.folder_counts))
    if label in labels:
        return label
    nearest = spelled_like(label, labels, 1)
    hint = f'did you mean "{nearest[0]}"?' if nearest else "a label is the name of the folder that a picture is in"
    raise GalleryError(f'no picture has the label "{label}"; {hint}')


def _seconds(text: str) -> int:
    for form in _FORMATS:
        try:
            return int(datetime.strptime(str(text).strip(), form).replace(tzinfo=UTC).timestamp())
        except ValueError:
            continue
    raise GalleryError(f'"{text}" is no date; write it as 2024, 2024-05, 2024-05-31 or "2024-05-31 18:00"')
