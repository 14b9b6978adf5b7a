"""The columns that a search scans, in memory, fragment by fragment.

Lance never changes a fragment, but for rows that are deleted. So a new version of a gallery shares the blocks of the
old one, and only new fragments are read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..model import Model
from ..similarity import Components, evenly
from ..words import ImageNetVocabulary, Meaning, NamedFeature, Noun, PhraseVocabulary, QuantizedClasses
from ..words.imagenet import weights_of_bytes
from ..words.nouns import NUM_CLASSES
from .encoding import classes_from_bytes, num_regions, probabilities_from_bytes
from .filters import EVERYTHING, ResolvedFilter
from .projections import FIT_SAMPLE, REGION_DIMENSIONS, RegionBasis, fit_wholes, load_components, whole_codes
from .rows import ACTIVATIONS, CLASSES, FULL_REGIONS, LISTING, NAMED, REGIONS, Listing, listing_of
from .table import ImageTable

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

# Words whose support is kept, once computed.
_KEPT_WORDS: Final = 16
_ROWS_AT_ONCE: Final = 8192
# A weight of nothing.
_NOTHING: Final = 255


class CodeProjector:
    """The projections of one version of a gallery; those of a small gallery are fitted when they are first needed."""

    def __init__(self, table: ImageTable, model: Model) -> None:
        self.table, self.model = table, model

    @cached_property
    def components(self) -> Components:
        """The projection of whole images."""
        if self.table.state.components:
            return load_components(self.table.storage, self.table.state.components)
        return fit_wholes(self.model, self.table.activations(evenly(self.table.ids, FIT_SAMPLE)))

    @cached_property
    def basis(self) -> RegionBasis | None:
        """The projection of regions; None for a model without any, and for an empty gallery."""
        state = self.table.state
        if not num_regions(state.grid) or not len(self.table):
            return None
        if state.basis:
            return RegionBasis.load(self.table.storage, state.basis, self.model)
        content, valid = self.table.unseal(self.table.take(self.table.ids, [FULL_REGIONS]), FULL_REGIONS)
        regions = torch.from_numpy(content[valid].view(np.float16).reshape(-1, state.width)).float()
        wholes = torch.from_numpy(self.table.activations(self.table.ids)).float()
        return RegionBasis.fit(self.model, wholes, regions, calibrate=False)


@dataclass(frozen=True)
class Part:
    """Some rows of a fragment, which make a block: the whole of it, or a part."""

    fragment: int
    files: tuple[str, ...]
    deleted: int
    start: int
    count: int


def parts_of(dataset: lance.LanceDataset, shard: int = 0, shards: int = 1) -> list[Part]:
    """Return the parts of a dataset that a shard holds, when all of it is shared out evenly among so many."""
    total = dataset.count_rows()
    first, last = total * shard // shards, total * (shard + 1) // shards
    parts, at = [], 0
    for fragment in dataset.get_fragments():
        count = fragment.count_rows()
        start, stop = max(first - at, 0), min(last - at, count)
        if start < stop:
            files = tuple(file.path for file in fragment.data_files())
            parts.append(Part(fragment.fragment_id, files, fragment.num_deletions, start, stop - start))
        at += count
    return parts


class Block:
    """The rows of a part in memory, in the order of their ids. Each column is read when it is first needed."""

    def __init__(
        self,
        table: ImageTable,
        projector: CodeProjector,
        words: ImageNetVocabulary | PhraseVocabulary | None,
        part: Part,
    ) -> None:
        self.part = part
        self._table, self._projector, self._words = table, projector, words
        self._lock = threading.RLock()
        self._support: dict[Meaning, Tensor] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def _read(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns, in the order of the ids."""
        with self._table.storage.reading():
            rows = self._table.fragment(self.part.fragment).to_table(
                columns=["id", *columns], offset=self.part.start, limit=self.part.count
            )
        ids = rows["id"].to_numpy()
        return rows if (np.diff(ids) > 0).all() else rows.take(np.argsort(ids, kind="stable"))

    @cached_property
    def ids(self) -> np.ndarray:
        """The ids of the images, ascending."""
        return np.ascontiguousarray(self._read([])["id"].to_numpy())

    @cached_property
    def listing(self) -> Listing:
        """What filters need."""
        return listing_of(self._read([name for name in LISTING if name != "id"]), str(self._table.storage))

    def rows(self, where: ResolvedFilter) -> np.ndarray:
        """Return the places `(m,)` of the images that pass a filter, ascending."""
        with self._lock:
            return np.arange(len(self)) if where == EVERYTHING else np.flatnonzero(where.mask(self.listing))

    def codes(self, rows: np.ndarray) -> Tensor:
        """Return the codes `(m, d)` int8 of rows, which ascend. Not to be written to."""
        with self._lock:
            return self._codes[_index(rows)]

    @cached_property
    def _codes(self) -> Tensor:
        column = self._table.state.codes
        if not column:
            return torch.from_numpy(self._computed_codes(self._read([ACTIVATIONS])))
        rows = self._read([column])
        content, valid = self._table.unseal(rows, column)
        codes = content.view(np.int8)
        if not valid.all():  # rows from before the projection was fitted
            missing = self._table.take(rows["id"].to_numpy()[~valid], [ACTIVATIONS])
            codes[~valid] = self._computed_codes(missing)
        return torch.from_numpy(codes)

    def _computed_codes(self, rows: pa.Table) -> np.ndarray:
        activations = self._table.unseal(rows, ACTIVATIONS)[0].view(np.float16)
        return whole_codes(self._projector.model, self._projector.components, activations)

    def regions(self, rows: np.ndarray) -> Tensor:
        """Return the codes `(m, R, 64)` int8 of the regions of rows, 0 for an image that has none."""
        with self._lock:
            return self._regions[0][_index(rows)]

    def has_regions(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows have regions, `(m,)` bool."""
        with self._lock:
            return np.asarray(self._regions[1][rows])

    @cached_property
    def _regions(self) -> tuple[Tensor, np.ndarray]:
        state, basis = self._table.state, self._projector.basis
        count = num_regions(state.grid)
        if basis is None:
            return torch.zeros(len(self), 1, REGION_DIMENSIONS, dtype=torch.int8), np.zeros(len(self), bool)
        rows = self._read([REGIONS] if state.basis else [FULL_REGIONS])
        if state.basis:
            content, valid = self._table.unseal(rows, REGIONS)
            codes = torch.from_numpy(content.view(np.int8)).view(len(rows), count, REGION_DIMENSIONS)
            if not valid.all():  # rows whose regions are not codes yet
                missing = np.flatnonzero(~valid)
                full, there = self._full_regions(self._table.take(rows["id"].to_numpy()[missing], [FULL_REGIONS]))
                codes[torch.from_numpy(missing[there])] = basis.codes(full)
                valid[missing[there]] = True
            return codes, valid
        full, valid = self._full_regions(rows)
        codes = torch.zeros(len(rows), count, REGION_DIMENSIONS, dtype=torch.int8)
        if valid.any():
            codes[torch.from_numpy(valid)] = basis.codes(full)
        return codes, valid

    def _full_regions(self, rows: pa.Table) -> tuple[Tensor, np.ndarray]:
        """Return the activations `(m, R, width)` of those rows that have regions, and which have."""
        content, valid = self._table.unseal(rows, FULL_REGIONS)
        state = self._table.state
        full = content[valid].view(np.float16).reshape(int(valid.sum()), num_regions(state.grid), state.width)
        return torch.from_numpy(full), valid

    # --- words ------------------------------------------------------------------------------------------------------

    def support(self, meaning: Meaning) -> Tensor:
        """Return how far each image supports a word, `(n,)` from 0 to 1."""
        with self._lock:
            if meaning not in self._support:
                if len(self._support) >= _KEPT_WORDS:
                    self._support.clear()
                self._support[meaning] = self._compute_support(meaning)
            return self._support[meaning]

    def _compute_support(self, meaning: Meaning) -> Tensor:
        if isinstance(meaning, Noun):
            return torch.from_numpy(self._classes.support(meaning.classes))
        if isinstance(meaning, NamedFeature):
            return torch.from_numpy(probabilities_from_bytes(self._named[:, meaning.column]))
        assert self._words is not None, "a phrase has a meaning only where a text tower is"
        parts = [torch.empty(0)]
        for start in range(0, len(self), _ROWS_AT_ONCE):
            activations = self._table.activations(self.ids[start : start + _ROWS_AT_ONCE])
            directions = normalize(torch.from_numpy(activations).float(), dim=-1)
            parts.append(self._words.support(meaning, directions))
        return torch.cat(parts)

    @cached_property
    def _classes(self) -> TopClasses:
        content, valid = self._table.unseal(self._read([CLASSES]), CLASSES)
        return TopClasses(classes_from_bytes(content), valid)

    @cached_property
    def _named(self) -> np.ndarray:
        """The named features of each image `(n, K)`, as they are stored."""
        return self._table.unseal(self._read([NAMED]), NAMED)[0]

    # --- other versions ---------------------------------------------------------------------------------------------

    def for_version(self, table: ImageTable, projector: CodeProjector, part: Part) -> Block | None:
        """Return this block for another version, with what is in memory; None if it has other rows or codes."""
        old, new = self._table.state, table.state
        same_file = (part.fragment, part.files[:1], part.start) == (
            self.part.fragment,
            self.part.files[:1],
            self.part.start,
        )
        if not same_file or part.count > self.part.count:
            return None
        block = Block(table, projector, self._words, part)
        with self._lock:
            if part.deleted == self.part.deleted and part.count == self.part.count:
                kept = None
                block.__dict__["ids"] = self.ids
            else:
                kept = np.flatnonzero(np.isin(self.ids, block.ids))
                if len(kept) != len(block.ids):
                    return None
            known = self.__dict__
            if "_codes" in known and old.codes and old.codes == new.codes:
                block.__dict__["_codes"] = self._codes if kept is None else self._codes[torch.from_numpy(kept)]
            if "_regions" in known and old.basis and old.basis == new.basis:
                codes, has = self._regions
                block.__dict__["_regions"] = (
                    (codes, has) if kept is None else (codes[torch.from_numpy(kept)], has[kept])
                )
            if kept is None:
                same = ("_classes", "_named", "listing")
                block.__dict__.update({name: known[name] for name in same if name in known})
        return block


class TopClasses:
    """The top classes of images, to be scanned for those of a word.

    A scan takes 0.2 s per million images; to sort them by class first would take ten seconds.
    """

    def __init__(self, top: QuantizedClasses, valid: np.ndarray) -> None:
        """Take top classes, and which images have any `(n,)`."""
        self._classes, self._weights = top.classes.numpy(), top.weights.numpy()
        self._weights[~valid] = _NOTHING

    def support(self, wanted: Sequence[int]) -> np.ndarray:
        """Return the summed weights of some classes in images, at most 1, `(n,)` float32."""
        is_wanted = np.zeros(NUM_CLASSES, bool)
        is_wanted[list(wanted)] = True
        images, count = self._classes.shape
        result = np.empty(images, np.float32)
        for start in range(0, images, _ROWS_AT_ONCE):
            classes, weights = (part[start : start + _ROWS_AT_ONCE] for part in (self._classes, self._weights))
            # Few of the classes are wanted: only their weights are looked up and added.
            found = np.flatnonzero(is_wanted.take(classes.reshape(-1), mode="clip"))
            bytes_found = weights.reshape(-1)[found]
            values = weights_of_bytes(bytes_found) * (bytes_found < _NOTHING)
            result[start : start + len(classes)] = np.bincount(found // count, values, minlength=len(classes))
        return result.clip(max=1, out=result)


def _index(rows: np.ndarray) -> slice | Tensor:
    """Return rows that follow each other as a slice, which is read without a copy."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return torch.from_numpy(rows)


def spans(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield rows some at a time."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
