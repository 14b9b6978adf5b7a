"""To look around in one state of a gallery: its pictures in some order, its features, and who shows them most."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np
import torch

from ..logic import Representation
from ..logic.formula import write_name
from .filters import mask
from .folder_tree import FolderTree
from .name_index import NameIndex
from .options import Where
from .paths import label_of
from .records import Entry, Origin, Picture, as_date
from .vectors import Degrees, Sources

Order = Literal["id", "name", "taken", "-taken"]

BINS: Final = 20
_SHOWN_BY: Final = 4
_BLOCK: Final = 8192
_FILTERS_KEPT: Final = 4
_ENTRIES_KEPT: Final = 1024
# Of a larger gallery the names of so many pictures are completed.
_NAMES: Final = 1_000_000


class FeatureTable(NamedTuple):
    """For each feature the mean and the standard deviation of its degrees `(N,)`, and who has most of it `(N, k)`."""

    mean: np.ndarray
    spread: np.ndarray
    shown_by: np.ndarray


class Browser:
    """One state of a gallery. A position is a place in the order of ids, from 0."""

    def __init__(self, sources: Sources, degrees: Degrees) -> None:
        self._sources, self._degrees = sources, degrees
        self._snapshot = sources.snapshot
        self.model = sources.model
        self.mask = lru_cache(_FILTERS_KEPT)(partial(mask, snapshot=self._snapshot))
        self._entry: Callable[[int], Entry] = lru_cache(_ENTRIES_KEPT)(self._snapshot.catalogue.entry_at)
        self._is_only_one = lru_cache(_ENTRIES_KEPT)(self._snapshot.catalogue.is_only_one_called)

    def __len__(self) -> int:
        return len(self._snapshot)

    @cached_property
    def fingerprint(self) -> str:
        """A short text that is another one when anything in the gallery is."""
        snapshot = self._snapshot
        state = replace(snapshot.state, edition=0)  # another name for the same records
        definitions = {name: snapshot.definitions.formula(name).text for name in snapshot.definitions}
        digest = hashlib.blake2b(f"{state} {len(snapshot.broken)} {definitions}".encode(), digest_size=8)
        digest.update(snapshot.catalogue.fingerprint)
        return digest.hexdigest()

    def position_of_id(self, identity: int) -> int | None:
        """The position of a picture by its id; None if there is no such picture."""
        return self._snapshot.catalogue.position_of(identity)

    def position_of_path(self, path: str) -> int | None:
        """The position of a picture by its path."""
        alike = self._snapshot.called(os.path.basename(path))  # noqa: PTH119
        return next((self.position_of_id(entry.picture.id) for entry in alike if entry.picture.path == path), None)

    @property
    def model_id(self) -> str:
        """The id of the model, as it is stored: `model.id` computes it anew."""
        return self._snapshot.state.model_id

    @property
    def broken(self) -> int:
        """How many files could not be read as pictures."""
        return len(self._snapshot.broken)

    def id(self, position: int) -> int:
        """The id of a picture."""
        return self._snapshot.catalogue.id_at(position)

    def path(self, position: int) -> str:
        """The path of a picture."""
        return self.picture(position).path

    def picture(self, position: int) -> Picture:
        """All that is known of a picture, but for its features."""
        return self._entry(position).picture

    def digest(self, position: int) -> bytes:
        """The hash of a picture's content."""
        return self.picture(position).digest

    def name(self, position: int) -> str:
        """The name of the picture's file."""
        return os.path.basename(self.path(position))  # noqa: PTH119

    def term(self, position: int) -> str:
        """How the picture is written in a formula: by the name of its file if that is its alone, else by its id."""
        name = self.name(position)
        is_clear = name.isprintable() and not name.isdigit() and self._is_only_one(os.fsencode(name))
        return write_name(name) if is_clear else str(self.id(position))

    def label(self, position: int) -> str:
        """The name of the folder that the picture is in."""
        return label_of(self.path(position))

    def taken(self, position: int) -> datetime:
        """When the picture was taken, as the clock on the wall showed it."""
        return self._entry(position).taken_at

    def taken_from(self, position: int) -> Origin:
        """Who says so."""
        return self._entry(position).taken_from

    @cached_property
    def labels(self) -> dict[str, int]:
        """How many pictures have each label, in the order of the labels."""
        counts: Counter[str] = Counter()
        for folder, count in self._snapshot.folder_counts.items():
            counts[os.path.basename(folder)] += count  # noqa: PTH119
        return dict(sorted(counts.items()))

    @cached_property
    def folders(self) -> FolderTree:
        """The folders of its pictures."""
        return FolderTree(self._snapshot.folder_counts, self._snapshot.folders)

    @cached_property
    def name_index(self) -> NameIndex:
        """The names of its files, by position."""
        return NameIndex([os.path.basename(path) for path in islice(self._snapshot.paths, _NAMES)])  # noqa: PTH119

    def has_called(self, name: str) -> bool:
        """Whether a file has that name."""
        return any(self._snapshot.called(name))

    @cached_property
    def period(self) -> tuple[datetime, datetime] | None:
        """When the first and the last picture were taken; None if there is none."""
        taken = self._snapshot.taken
        return (as_date(taken.min()), as_date(taken.max())) if len(taken) else None

    def positions(self, where: Where, order: Order = "id") -> np.ndarray:
        """The positions that pass a filter, in some order; equal names and times in that of ids."""
        passing = self.mask(where)
        if order == "id":
            return np.flatnonzero(passing)
        ordered = self._by_name if order == "name" else self._by_time
        chosen: np.ndarray = ordered[passing[ordered]]
        return chosen[::-1] if order == "-taken" else chosen

    @cached_property
    def _by_name(self) -> np.ndarray:
        names = [os.path.basename(path).casefold() for path in self._snapshot.paths]  # noqa: PTH119
        return np.array(sorted(range(len(self)), key=names.__getitem__), np.int64)

    @cached_property
    def _by_time(self) -> np.ndarray:
        return np.argsort(self._snapshot.taken, kind="stable")

    def represent(self, position: int) -> Representation:
        """The representation `(N, M)` of a picture."""
        return self._sources.represent(np.array([self.picture(position).row]))[0]

    @cached_property
    def features(self) -> FeatureTable:
        """All features, in one pass over the degrees of all pictures."""
        count = self.model.num_features
        used, every = np.flatnonzero(self._snapshot.id_of_row), np.arange(count)
        total, squares = np.zeros(count), np.zeros(count)
        best, best_rows = torch.empty(0, count), torch.empty(0, count, dtype=torch.int64)
        for start in range(0, len(used), _BLOCK):
            rows = used[start : start + _BLOCK]
            degrees = self._degrees.of_features(rows, every)
            total += degrees.sum(0, dtype=np.float64)
            squares += np.square(degrees).sum(0, dtype=np.float64)
            values, places = torch.from_numpy(degrees).topk(min(_SHOWN_BY, len(rows)), dim=0)
            best = torch.cat([best, values])
            best_rows = torch.cat([best_rows, torch.from_numpy(rows)[places]])
            best, kept = best.topk(min(_SHOWN_BY, len(best)), dim=0)
            best_rows = best_rows.gather(0, kept)
        mean = total / max(len(used), 1)
        spread = np.sqrt(np.maximum(squares / max(len(used), 1) - mean**2, 0))
        ids = self._snapshot.ids_of_rows(best_rows.numpy())
        shown_by = np.array([self.position_of_id(one) for one in ids.flatten().tolist()], np.int64)
        return FeatureTable(mean, spread, shown_by.reshape(ids.shape).T)

    def degrees_of_feature(self, feature: int) -> np.ndarray:
        """The degree of one feature in each picture, `(n,)`."""
        unordered = self._snapshot.rows
        order = np.argsort(unordered)
        rows = unordered[order]
        degrees = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = self._degrees.of_features(rows[start : start + _BLOCK], np.array([feature]))
            degrees[order[start : start + _BLOCK]] = block[:, 0]
        return degrees.clip(0, 1)
