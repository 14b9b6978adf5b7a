"""Browsing one version of a gallery: sorted images, folders, features, and completion of names."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import torch

from ..errors import printable
from ..gallery.filters import resolve_filter
from ..gallery.names import write_image
from ..gallery.options import Filter
from ..gallery.planner import Planner
from ..gallery.projections import degrees_of
from ..gallery.records import ImageRecord, Origin, as_date, as_text, is_inside, parent_folder
from ..logic import Representation

Order = Literal["id", "name", "taken", "-taken"]

BINS: Final = 20
_SHOWN_BY: Final = 4
_FILTERS_KEPT: Final = 4
_NAMES_KEPT: Final = 4096
# Folders below this depth are counted but not listed.
_DEEPEST: Final = 32


class FeatureTable(NamedTuple):
    """The mean and standard deviation of each feature's degrees `(N,)`, and the positions `(N, k)` of the images with
    the highest degrees."""

    mean: np.ndarray
    spread: np.ndarray
    shown_by: np.ndarray


class Browser:
    """One version of a gallery. A position is an index into the images ordered by id."""

    def __init__(self, planner: Planner) -> None:
        self._table, self.model = planner.table, planner.model
        self._definitions, self._unreadable = planner.table.definitions, planner.table.unreadable
        self._is_shared: dict[str, bool] = {}
        self.mask = lru_cache(_FILTERS_KEPT)(self._mask)

    def __len__(self) -> int:
        return len(self._table)

    @cached_property
    def fingerprint(self) -> str:
        """A short text that changes whenever the gallery changes."""
        definitions = {name: self._definitions.formula(name).text for name in self._definitions}
        about = f"{self._table.version} {len(self._unreadable)} {definitions}"
        return hashlib.blake2b(about.encode(), digest_size=8).hexdigest()

    @property
    def model_id(self) -> str:
        """The stored id of the model; `model.id` would have to compute it."""
        return self._table.state.model_id

    @property
    def broken(self) -> int:
        """The number of files that could not be read as images."""
        return len(self._unreadable)

    # --- images -----------------------------------------------------------------------------------------------------

    def position_of_id(self, identity: int) -> int | None:
        """Return the position of an image by its id; None if there is no such image."""
        place = int(np.searchsorted(self._table.ids, identity))
        return place if place < len(self._table.ids) and self._table.ids[place] == identity else None

    def position_of_path(self, path: str) -> int | None:
        """Return the position of an image by its path."""
        named = self._table.with_name(os.path.basename(path))  # noqa: PTH119
        return next((self.position_of_id(record.id) for record in named if record.path == path), None)

    def load(self, positions: list[int]) -> None:
        """Preload the records and terms of some images, which is faster than one by one."""
        names = {record.name for record in self._table.get_many(self._table.ids[positions])} - self._is_shared.keys()
        if len(self._is_shared) > _NAMES_KEPT:
            self._is_shared = {}
        shared = self._table.shared_names(names)
        self._is_shared.update((name, as_text(name) in shared) for name in names)

    def record(self, position: int) -> ImageRecord:
        """Return the record of an image."""
        return self._table.get_many([self.id(position)])[0]

    def id(self, position: int) -> int:
        """Return the id of an image."""
        return int(self._table.ids[position])

    def path(self, position: int) -> str:
        """Return the path of an image."""
        return self.record(position).path

    def digest(self, position: int) -> bytes:
        """Return the hash of an image's content."""
        return self.record(position).digest

    def name(self, position: int) -> str:
        """Return the name of an image's file."""
        return self.record(position).name

    def term(self, position: int) -> str:
        """Return how to write an image in a formula: by its file name if that is unique, else by its id."""
        name = self.name(position)
        if name not in self._is_shared:
            self.load([position])
        return write_image(self.record(position), self._is_shared.get(name, True), self._definitions)

    def label(self, position: int) -> str:
        """Return the name of an image's parent folder."""
        return parent_folder(self.path(position))

    def taken(self, position: int) -> datetime:
        """Return when an image was taken, in local time."""
        return self.record(position).taken_at

    def taken_from(self, position: int) -> Origin:
        """Return the origin of an image's date."""
        return self.record(position).taken_from

    def represent(self, position: int) -> Representation:
        """Return the representation `(N, M)` of an image."""
        activations = self._table.activations(self._table.ids[position : position + 1])
        return self.model.encode_activations(torch.from_numpy(activations).float())[0]

    # --- lists ------------------------------------------------------------------------------------------------------

    def _mask(self, where: Filter) -> np.ndarray:
        """Return a mask `(n,)` of the positions that pass a filter."""
        return resolve_filter(where, self._table).mask(self._table.listing)

    def positions(self, where: Filter, order: Order = "id") -> np.ndarray:
        """Return the positions that pass a filter, sorted; ties are broken by id."""
        passing = self.mask(where)
        if order == "id":
            return np.flatnonzero(passing)
        ordered = self._by_name if order == "name" else self._by_time
        chosen: np.ndarray = ordered[passing[ordered]]
        return chosen[::-1] if order == "-taken" else chosen

    @cached_property
    def _by_name(self) -> np.ndarray:
        names = [name.casefold() for name in self._table.names]
        return np.array(sorted(range(len(self)), key=names.__getitem__), np.int64)

    @cached_property
    def _by_time(self) -> np.ndarray:
        return np.argsort(self._table.listing.taken, kind="stable")

    def months(self, positions: np.ndarray) -> dict[str, int]:
        """Return the number of images per month, such as "2024-05", oldest first."""
        taken = self._table.listing.taken[positions].astype("datetime64[s]").astype("datetime64[M]")
        months, counts = np.unique(taken, return_counts=True)
        return {str(month): int(count) for month, count in zip(months, counts, strict=True)}

    @cached_property
    def labels(self) -> dict[str, int]:
        """The number of images of each label, sorted by label."""
        counts: Counter[str] = Counter()
        for folder, count in self._table.folder_counts.items():
            counts[os.path.basename(folder)] += count  # noqa: PTH119
        return dict(sorted(counts.items()))

    @cached_property
    def period(self) -> tuple[datetime, datetime] | None:
        """The dates of the first and the last image; None for an empty gallery."""
        taken = self._table.listing.taken
        return (as_date(taken.min()), as_date(taken.max())) if len(taken) else None

    # --- names ------------------------------------------------------------------------------------------------------

    def has_name(self, name: str) -> bool:
        """Return whether an image has this file name."""
        return bool(self._table.with_name(name))

    def complete_name(self, beginning: str, limit: int) -> list[int]:
        """Return the positions of images whose names start with a prefix, then of those with a word that does."""
        found = self._table.complete_name(beginning, limit)
        return [int(place) for place in np.searchsorted(self._table.ids, found)]

    # --- features ---------------------------------------------------------------------------------------------------

    @cached_property
    def features(self) -> FeatureTable:
        """Statistics of all features, from one pass over all images."""
        count = self.model.num_features
        total, squares = np.zeros(count), np.zeros(count)
        best, best_ids = torch.empty(0, count), torch.empty(0, count, dtype=torch.int64)
        for ids, degrees in self._all_degrees():
            total += degrees.sum(0, dtype=torch.float64).numpy()
            squares += degrees.double().square().sum(0).numpy()
            values, places = degrees.topk(min(_SHOWN_BY, len(ids)), dim=0)
            best = torch.cat([best, values])
            best_ids = torch.cat([best_ids, torch.from_numpy(ids[places.numpy()])])
            best, kept = best.topk(min(_SHOWN_BY, len(best)), dim=0)
            best_ids = best_ids.gather(0, kept)
        mean = total / max(len(self), 1)
        spread = np.sqrt(np.maximum(squares / max(len(self), 1) - mean**2, 0))
        return FeatureTable(mean, spread, np.searchsorted(self._table.ids, best_ids.numpy()).T)

    def degrees_of_feature(self, feature: int) -> np.ndarray:
        """Return the degree of one feature in each image, `(n,)`."""
        degrees = np.empty(len(self), np.float32)
        for ids, of_all in self._all_degrees():
            degrees[np.searchsorted(self._table.ids, ids)] = of_all[:, feature].numpy()
        return degrees.clip(0, 1)

    def _all_degrees(self) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        for ids, activations in self._table.all_activations():
            yield ids, degrees_of(self.model, torch.from_numpy(activations))

    # --- folders ----------------------------------------------------------------------------------------------------

    @cached_property
    def folders(self) -> FolderNode:
        """The tree of folders with images, below the indexed folders."""
        return _folder_tree(self._table.folder_counts, [as_text(folder) for folder in self._table.state.folders])

    def folder_path(self, key: str) -> str | None:
        """Return the path of a folder by its key; None if there is none."""
        return self._folder_paths.get(key.strip("/"))

    @cached_property
    def _folder_paths(self) -> dict[str, str]:
        paths: dict[str, str] = {}
        waiting = [self.folders]
        while waiting:
            node = waiting.pop()
            if node.path:
                paths.setdefault(node.key, node.path)
            waiting += node.folders
        return paths


@dataclass
class FolderNode:
    """A folder: its name, its key (the path from the root of the tree), and the number of images at any depth."""

    name: str
    key: str
    path: str
    images: int = 0
    folders: list[FolderNode] = field(default_factory=list)

    def simplified(self, is_root: bool = False) -> FolderNode:
        """Return the sorted tree with total counts; a folder whose only content is one folder is merged with it."""
        self.folders = sorted((folder.simplified() for folder in self.folders), key=lambda folder: folder.path)
        own = self.images
        self.images += sum(folder.images for folder in self.folders)
        if is_root or own or len(self.folders) != 1:
            return self
        only = self.folders[0]
        only.name = f"{self.name}/{only.name}"
        return only


def _folder_tree(counts: Mapping[str, int], indexed: list[str]) -> FolderNode:
    roots = _roots(counts, indexed)
    names = _short_names(roots)
    nodes = [FolderNode(names[path], "" if len(roots) == 1 else names[path], path) for path in roots]
    known = {node.path: node for node in nodes}
    for folder, count in counts.items():
        node = next(one for one in nodes if is_inside(folder, one.path))
        for part in Path(folder).relative_to(node.path).parts[:_DEEPEST]:
            path = os.path.join(node.path, part)  # noqa: PTH118
            if path not in known:
                name = printable(part)
                known[path] = FolderNode(name, f"{node.key}/{name}" if node.key else name, path)
                node.folders.append(known[path])
            node = known[path]
        node.images += count
    if len(nodes) == 1:
        return nodes[0].simplified(is_root=True)
    return FolderNode("", "", "", 0, nodes).simplified(is_root=True)


def _roots(counts: Mapping[str, int], indexed: list[str]) -> list[str]:
    """Return the outermost folders: indexed folders with images, and the parents of single indexed files."""
    having = [folder for folder in indexed if any(is_inside(one, folder) for one in counts)]
    having += [one for one in counts if not any(is_inside(one, folder) for folder in having)]
    return sorted(one for one in set(having) if not any(one != other and is_inside(one, other) for other in having))


def _short_names(roots: list[str]) -> dict[str, str]:
    """Return the shortest unique suffix of each path."""
    names = {}
    for path in roots:
        parts = Path(path).parts[1:] or (os.sep,)
        ends = ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = [other for other in roots if other != path]
        end = next((end for end in ends if not any(other.endswith(f"{os.sep}{end}") for other in others)), ends[-1])
        names[path] = printable(end)
    return names
