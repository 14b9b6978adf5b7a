"""Filters that restrict a search by folder, label or date."""

import os
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from ..errors import spelled_like
from .errors import FilterError
from .options import Filter
from .records import as_text, is_inside
from .rows import Listing
from .table import ImageTable

_FORMATS: Final = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y-%m",
    "%Y",
)


class ResolvedFilter(NamedTuple):
    """A filter with the absolute path of its folder, as text, and times in seconds as in `ImageRecord.taken`."""

    folder: str | None = None
    label: str | None = None
    after: int | None = None
    before: int | None = None
    file_dates: bool = False
    exclude: tuple[int, ...] = ()

    def mask(self, listing: Listing) -> np.ndarray:
        """Return a mask `(n,)` of the images of a listing that pass."""
        passing = np.ones(len(listing.ids), bool)
        if self.folder is not None:
            inside = [is_inside(path, self.folder) for path in listing.folders]
            passing &= np.array(inside, bool)[listing.folder]
        if self.label is not None:
            named = [os.path.basename(path) == self.label for path in listing.folders]  # noqa: PTH119
            passing &= np.array(named, bool)[listing.folder]
        if self.after is not None:
            passing &= listing.taken >= self.after
        if self.before is not None:
            passing &= listing.taken < self.before
        if self.exclude:
            passing &= ~np.isin(listing.ids, self.exclude)
        if not self.file_dates and (self.after is not None or self.before is not None):
            passing &= listing.by_camera  # the date of a file says little about when the image was taken
        return passing


EVERYTHING: Final = ResolvedFilter()


def resolve_filter(where: Filter, table: ImageTable) -> ResolvedFilter:
    """Return the filter in terms of stored values; raise a FilterError for an unknown folder or label."""
    return ResolvedFilter(
        None if where.folder is None else _whole_folder(table, where.folder),
        None if where.label is None else _known_label(table, where.label),
        None if where.after is None else _seconds(where.after),
        None if where.before is None else _seconds(where.before),
        where.file_dates,
        where.exclude,
    )


def _whole_folder(table: ImageTable, folder: str) -> str:
    expanded = os.path.expanduser(folder)  # noqa: PTH111
    known_folders = table.state.folders
    bases = [base for known in known_folders for base in (known, os.path.dirname(known))]  # noqa: PTH120
    for base in ("", *bases):
        whole = as_text(os.path.abspath(os.path.join(base, expanded)))  # noqa: PTH100, PTH118
        if any(is_inside(own, whole) for own in table.folder_counts):
            return whole
    raise FilterError(f"no image of the gallery is in {folder}; it has those of {', '.join(known_folders)}")


def _known_label(table: ImageTable, label: str) -> str:
    labels = set(map(os.path.basename, table.folder_counts))
    if (text := as_text(label)) in labels:
        return text
    nearest = spelled_like(label, labels, 1)
    hint = f'did you mean "{nearest[0]}"?' if nearest else "a label is the name of the folder that an image is in"
    raise FilterError(f'no image has the label "{label}"; {hint}')


def _seconds(text: str) -> int:
    for form in _FORMATS:
        try:
            return int(datetime.strptime(str(text).strip(), form).replace(tzinfo=UTC).timestamp())
        except ValueError:
            continue
    raise FilterError(f'"{text}" is no date; write it as 2024, 2024-05, 2024-05-31 or "2024-05-31 18:00"')
