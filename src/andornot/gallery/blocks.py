"""The columns that a search scans, in memory, fragment by fragment.

Lance fragments are immutable except for deleted rows, so a new version of a gallery shares the blocks of the old one
and reads only new fragments.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..concepts import (
    Approximation,
    ImageNetVocabulary,
    Meaning,
    NamedFeature,
    Noun,
    PhraseVocabulary,
    QuantizedClasses,
    find_vocabulary,
)
from ..concepts.heads import heads_for
from ..concepts.imagenet import NOTHING, weights_of_bytes
from ..concepts.nouns import NUM_CLASSES
from ..model import Model
from ..similarity import Components, evenly
from .encoding import classes_from_bytes, num_regions, probabilities_from_bytes
from .filters import EVERYTHING, ResolvedFilter
from .projections import (
    FIT_SAMPLE,
    REGION_DIMENSIONS,
    NamedProjector,
    RegionBasis,
    fit_wholes,
    load_components,
    whole_codes,
)
from .rows import ACTIVATIONS, CLASSES, FULL_REGIONS, NAMED, RECORD, REGIONS, Listing, listing_of
from .table import ImageTable

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

# Number of words whose support is cached.
_KEPT_WORDS: Final = 16
_ROWS_AT_ONCE: Final = 8192
# Cached attributes that depend on the rows alone, not on the projections.
_OF_ROWS: Final = frozenset(["ids", "listing", "_classes", "_named"])


class CodeProjector:
    """The projections of one version of a gallery; in a small gallery they are fitted on first use."""

    def __init__(self, table: ImageTable, model: Model) -> None:
        self.table, self.model = table, model

    @cached_property
    def words(self) -> ImageNetVocabulary | PhraseVocabulary | None:
        """The vocabulary of the model, or None."""
        return find_vocabulary(self.model.backbone)

    @cached_property
    def components(self) -> Components:
        """The projection of whole images."""
        if self.table.state.components:
            return load_components(self.table.storage, self.table.state.components)
        return fit_wholes(self.model, self.table.activations(evenly(self.table.ids, FIT_SAMPLE)))

    @cached_property
    def names(self) -> NamedProjector | None:
        """The projector that adds named features to the vectors of whole images; None if they are not stored."""
        heads = heads_for(self.model.backbone.name)
        return None if heads is None or NAMED not in self.table.columns else NamedProjector(heads.names)

    @property
    def dimensions(self) -> int:
        """The dimensions of the vectors of whole images."""
        return self.components.axes.shape[1] + (0 if self.names is None else len(self.names))

    @cached_property
    def basis(self) -> RegionBasis | None:
        """The projection of regions; None if the model has no regions or the gallery is empty."""
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
    """The rows of a fragment that form a block: all of them, or a range."""

    fragment: int
    files: tuple[str, ...]
    deleted: int
    start: int
    count: int


def parts_of(dataset: lance.LanceDataset, shard: int = 0, shards: int = 1) -> list[Part]:
    """Return the parts of a dataset in one shard, when it is divided evenly among `shards` shards."""
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
    """The rows of a part in memory, ordered by id. Each column is read on first use."""

    def __init__(self, table: ImageTable, projector: CodeProjector, part: Part) -> None:
        self.part = part
        self._table, self._projector = table, projector
        self._lock = threading.RLock()
        self._support: dict[Meaning, Tensor] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def _read(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns, ordered by id."""
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
        """The columns that filters use."""
        return listing_of([self._table.checked(self._read(RECORD[1:]))])

    def rows(self, where: ResolvedFilter) -> np.ndarray:
        """Return the row indices `(m,)` of the images that pass a filter, ascending."""
        with self._lock:
            return np.arange(len(self)) if where == EVERYTHING else np.flatnonzero(where.mask(self.listing))

    def codes(self, rows: np.ndarray) -> Tensor:
        """Return the codes `(m, d)` int8 of ascending rows, with named features. Do not modify the result in place."""
        with self._lock:
            return self._codes[_index(rows)]

    @cached_property
    def _codes(self) -> Tensor:
        codes, names = self._stored_codes(), self._projector.names
        return codes if names is None else names.codes(codes, probabilities_from_bytes(self._named))

    def _stored_codes(self) -> Tensor:
        column = self._table.state.codes
        if not column:
            return torch.from_numpy(self._computed_codes(self._read([ACTIVATIONS])))
        rows = self._read([column])
        content, valid = self._table.unseal(rows, column)
        codes = content.view(np.int8)
        if not valid.all():  # rows written before the projection was fitted
            missing = self._table.take(rows["id"].to_numpy()[~valid], [ACTIVATIONS])
            codes[~valid] = self._computed_codes(missing)
        return torch.from_numpy(codes)

    def _computed_codes(self, rows: pa.Table) -> np.ndarray:
        activations = self._table.unseal(rows, ACTIVATIONS)[0].view(np.float16)
        return whole_codes(self._projector.model, self._projector.components, activations)

    def regions(self, rows: np.ndarray) -> Tensor:
        """Return the region codes `(m, R, 64)` int8 of rows; zeros for images without regions."""
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
            if not valid.all():  # rows whose regions are still stored as activations
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
        """Return the region activations `(m, R, width)` of the rows that have them, and a mask of these rows."""
        content, valid = self._table.unseal(rows, FULL_REGIONS)
        state = self._table.state
        full = content[valid].view(np.float16).reshape(int(valid.sum()), num_regions(state.grid), state.width)
        return torch.from_numpy(full), valid

    # --- words ------------------------------------------------------------------------------------------------------

    def support(self, meaning: Meaning) -> Tensor:
        """Return the support of each image for a word, `(n,)` from 0 to 1."""
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
        if isinstance(meaning, Approximation):
            return self._approximate(meaning)
        words = self._projector.words
        assert words is not None, "a phrase has a meaning only where a text tower is"
        parts = [torch.empty(0)]
        for start in range(0, len(self), _ROWS_AT_ONCE):
            activations = self._table.activations(self.ids[start : start + _ROWS_AT_ONCE])
            directions = normalize(torch.from_numpy(activations).float(), dim=-1)
            parts.append(words.support(meaning, directions))
        return torch.cat(parts)

    def _approximate(self, phrase: Approximation) -> Tensor:
        """Return the support of each image for a phrase; 0 if its classes are not stored."""
        scores, known = self._classes.scores(phrase.weights[:NUM_CLASSES].numpy())
        weights = phrase.weights[NUM_CLASSES:].numpy()
        for column in np.flatnonzero(weights) if NAMED in self._table.columns else ():
            scores += weights[column] * np.sqrt(probabilities_from_bytes(self._named[:, column]))
        return phrase.support_of(torch.from_numpy(scores)) * torch.from_numpy(known)

    @cached_property
    def _classes(self) -> TopClasses:
        content, valid = self._table.unseal(self._read([CLASSES]), CLASSES)
        return TopClasses(classes_from_bytes(content), valid)

    @cached_property
    def _named(self) -> np.ndarray:
        """The named features of each image `(n, K)`, in stored form."""
        return self._table.unseal(self._read([NAMED]), NAMED)[0]

    # --- other versions ---------------------------------------------------------------------------------------------

    def for_version(self, table: ImageTable, projector: CodeProjector, part: Part) -> Block | None:
        """Return this block for another version, with its cached columns; None if the rows or codes differ."""
        before, after = ((one.fragment, one.files[0], one.start, one.count, one.deleted) for one in (self.part, part))
        if before[:3] != after[:3] or part.count > self.part.count:
            return None
        block, kept = Block(table, projector, part), cast("slice | np.ndarray", slice(None))
        old, new = self._table.state, table.state
        with self._lock:
            if before == after:
                block.__dict__.update({name: self.__dict__[name] for name in _OF_ROWS & self.__dict__.keys()})
            else:
                kept = np.flatnonzero(np.isin(self.ids, block.ids))
                if len(kept) != len(block.ids):
                    return None
            if "_codes" in self.__dict__ and old.codes and old.codes == new.codes:
                block.__dict__["_codes"] = self._codes[kept]
            if "_regions" in self.__dict__ and old.basis and old.basis == new.basis:
                block.__dict__["_regions"] = self._regions[0][kept], self._regions[1][kept]
        return block


class TopClasses:
    """The top classes of images, scanned for the classes of a word.

    A scan takes 0.2 s per million images; sorting them by class first would take ten seconds.
    """

    def __init__(self, top: QuantizedClasses, valid: np.ndarray) -> None:
        """Initialize from top classes and a mask `(n,)` of the images that have any."""
        self._classes, self._weights = top.classes.numpy(), top.weights.numpy()
        self._weights[~valid] = NOTHING

    def scores(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cosines `(n,)` of square-root class weights with unit `weights` `(1000,)`, and a validity mask."""
        scores = np.zeros(len(self._classes), np.float32)
        known = np.zeros(len(self._classes), bool)
        for start in range(0, len(scores), _ROWS_AT_ONCE):
            classes, stored = (part[start : start + _ROWS_AT_ONCE] for part in (self._classes, self._weights))
            squares = weights_of_bytes(stored) * (stored < NOTHING)
            lengths = np.sqrt(squares.sum(1))
            found = (np.sqrt(squares) * weights.take(classes, mode="clip")).sum(1)
            some = known[start : start + len(classes)] = lengths > 0
            np.divide(found, lengths, out=scores[start : start + len(classes)], where=some)
        return scores, known

    def support(self, wanted: Sequence[int]) -> np.ndarray:
        """Return the summed weights of the wanted classes in each image, at most 1, `(n,)` float32."""
        is_wanted = np.zeros(NUM_CLASSES, bool)
        is_wanted[list(wanted)] = True
        images, count = self._classes.shape
        result = np.empty(images, np.float32)
        for start in range(0, images, _ROWS_AT_ONCE):
            classes, weights = (part[start : start + _ROWS_AT_ONCE] for part in (self._classes, self._weights))
            # Few of the classes are wanted, so only their weights are looked up and added.
            found = np.flatnonzero(is_wanted.take(classes.reshape(-1), mode="clip"))
            bytes_found = weights.reshape(-1)[found]
            values = weights_of_bytes(bytes_found) * (bytes_found < NOTHING)
            result[start : start + len(classes)] = np.bincount(found // count, values, minlength=len(classes))
        return result.clip(max=1, out=result)


def _index(rows: np.ndarray) -> slice | Tensor:
    """Return consecutive rows as a slice, which avoids a copy."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return torch.from_numpy(rows)


def spans(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield rows in spans of at most `size`."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
