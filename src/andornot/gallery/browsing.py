"""To look around in one state of a gallery: its pictures in some order, its features, and who shows them most."""

import hashlib
import os
from collections import Counter
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
import torch

from ..logic import Representation
from ..logic.formula import write_name
from .database import Origin
from .filters import mask
from .options import Where
from .paths import label_of
from .records import Picture
from .vectors import Degrees, Sources

Order = Literal["id", "name", "taken", "-taken"]

BINS: Final = 20
_SHOWN_BY: Final = 4
_BLOCK: Final = 8192
_FILTERS_KEPT: Final = 16


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
        self.position_of_id = {identity: position for position, identity in enumerate(self._snapshot.ids.tolist())}
        self.mask = lru_cache(_FILTERS_KEPT)(self._mask)

    def __len__(self) -> int:
        return len(self._snapshot)

    @cached_property
    def fingerprint(self) -> str:
        """A short text that is another one when anything in the gallery is."""
        snapshot = self._snapshot
        digest = hashlib.blake2b(f"{snapshot.state} {len(snapshot.broken)}".encode(), digest_size=8)
        for part in (snapshot.ids, snapshot.rows, snapshot.taken, snapshot.by_camera):
            digest.update(part.tobytes())
        digest.update(os.fsencode("\0".join(snapshot.paths)))
        return digest.hexdigest()

    @cached_property
    def position_of_path(self) -> dict[str, int]:
        """The position of each picture by its path."""
        return {path: position for position, path in enumerate(self._snapshot.paths)}

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
        return int(self._snapshot.ids[position])

    def path(self, position: int) -> str:
        """The path of a picture."""
        return self._snapshot.path(position)

    def picture(self, position: int) -> Picture:
        """All that is known of a picture, but for its features."""
        return self._snapshot.picture(position)

    def digest(self, position: int) -> bytes:
        """The hash of a picture's content."""
        return self._snapshot.digest(position)

    def name(self, position: int) -> str:
        """The name of the picture's file."""
        return os.path.basename(self.path(position))  # noqa: PTH119

    def term(self, position: int) -> str:
        """How the picture is written in a formula: by the name of its file if that is its alone, else by its id."""
        name = self.name(position)
        is_clear = self._count_of_name[name] == 1 and name.isprintable() and not name.isdigit()
        return write_name(name) if is_clear else str(self.id(position))

    @cached_property
    def _count_of_name(self) -> Counter[str]:
        return Counter(map(self.name, range(len(self))))

    def label(self, position: int) -> str:
        """The name of the folder that the picture is in."""
        return label_of(self.path(position))

    def taken(self, position: int) -> datetime:
        """When the picture was taken, as the clock on the wall showed it."""
        return self._snapshot.taken_at(position)

    def taken_from(self, position: int) -> Origin:
        """Who says so."""
        return self._snapshot.taken_from(position)

    @cached_property
    def labels(self) -> dict[str, int]:
        """How many pictures have each label, in the order of the labels."""
        return dict(sorted(Counter(map(self.label, range(len(self)))).items()))

    def _mask(self, where: Where) -> np.ndarray:
        """Which positions pass a filter, `(n,)` bool."""
        return mask(where, self._snapshot)

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
        return np.array(sorted(range(len(self)), key=lambda position: self.name(position).casefold()), np.int64)

    @cached_property
    def _by_time(self) -> np.ndarray:
        return np.argsort(self._snapshot.taken, kind="stable")

    def represent(self, position: int) -> Representation:
        """The representation `(N, M)` of a picture."""
        return self._sources.represent(self._snapshot.rows[[position]])[0]

    @cached_property
    def features(self) -> FeatureTable:
        """All features, in one pass over the degrees of all pictures."""
        count = self.model.num_features
        used, every = np.sort(self._snapshot.rows), np.arange(count)
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
        return FeatureTable(mean, spread, self._snapshot.position_of_row[best_rows.numpy()].T)

    def degrees_of_feature(self, feature: int) -> np.ndarray:
        """The degree of one feature in each picture, `(n,)`."""
        order = np.argsort(self._snapshot.rows)
        rows = self._snapshot.rows[order]
        degrees = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = self._degrees.of_features(rows[start : start + _BLOCK], np.array([feature]))
            degrees[order[start : start + _BLOCK]] = block[:, 0]
        return degrees.clip(0, 1)
