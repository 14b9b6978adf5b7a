"""One version of the image table: lookups, and columns of some or all images.

All data is verified against its checksums when it is read.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..concepts import QuantizedClasses
from ..concepts.heads import WordBoxes
from .definitions import Definitions
from .encoding import boxes_from_bytes, classes_from_bytes, probabilities_from_bytes
from .errors import DamagedError, GalleryError
from .records import ImageRecord, State, UnreadableFile, as_text
from .rows import (
    ACTIVATIONS,
    BOXES,
    CLASSES,
    CONFIG_KEY,
    IDS,
    NAMED,
    RECORD,
    Listing,
    hash_ids,
    hash_records,
    listing_of,
    unseal,
)
from .storage import Storage

if TYPE_CHECKING:
    import lance

# Columns that are indexed in a large gallery.
INDEXED: Final = ("id", "name", "digest")
# For more ids than this, reading all ids is faster than a Lance filter.
_MANY_IDS: Final = 256
_ROWS_AT_ONCE: Final = 4096
# Cached records and names: a query looks up each of its names several times.
_RECORDS_KEPT: Final = 4096
_NAMES_KEPT: Final = 256


class ImageTable:
    """One version of a gallery's image table."""

    def __init__(self, storage: Storage, dataset: lance.LanceDataset) -> None:
        self.storage, self.dataset = storage, dataset
        self.state = _read_state(storage, dataset)
        self._known_records: dict[int, ImageRecord] = {}
        self._has_checked_lookups = False
        self.with_name = lru_cache(_NAMES_KEPT)(self._with_name)

    @classmethod
    def open(cls, storage: Storage, version: int | None = None) -> ImageTable:
        """Open the newest version, or a given one; raise a GalleryError if there is no gallery."""
        if not storage.exists():
            raise GalleryError(f"there is no gallery in {storage}: andornot index FOLDER --gallery {storage} makes one")
        return cls(storage, storage.open(version))

    @property
    def version(self) -> int:
        """The number of the version."""
        return int(self.dataset.version)

    @cached_property
    def _count(self) -> int:
        with self.storage.reading():
            return int(self.dataset.count_rows())

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(self.dataset.schema.names)

    def fragment(self, number: int) -> lance.LanceFragment:
        """Return a fragment of the table; raise a DamagedError if it is missing."""
        fragment = self.dataset.get_fragment(number)
        if fragment is None:
            raise self.damaged(f"fragment {number} is missing")
        return fragment

    def damaged(self, what: str) -> DamagedError:
        """Return a DamagedError for a part of the gallery."""
        return DamagedError(self.storage.address, what)

    @cached_property
    def definitions(self) -> Definitions:
        """The definitions, in the order in which they were added."""
        name = self.state.definitions
        return Definitions(dict(json.loads(self.storage.load_content(name))) if name else {})

    @cached_property
    def unreadable(self) -> dict[str, UnreadableFile]:
        """The files that cannot be read, by path."""
        name = self.state.unreadable
        rows = json.loads(self.storage.load_content(name)) if name else []
        return {path: UnreadableFile(path, *rest) for path, *rest in rows}

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def get(self, identity: int) -> ImageRecord | None:
        """Return the record of an image; None if there is no such image."""
        return next(iter(self.get_many([identity])), None)

    def get_many(self, ids: Sequence[int] | np.ndarray) -> list[ImageRecord]:
        """Return the records of existing images, in the given order."""
        wanted, known = [int(identity) for identity in ids], self._known_records
        missing = [identity for identity in wanted if identity not in known]
        if len(known) + len(missing) > _RECORDS_KEPT:
            known, missing = {}, wanted
            self._known_records = known
        if missing:
            found = _as_records(self.checked(self.take(np.array(missing, np.int64), RECORD)))
            known.update((record.id, record) for record in found)
        return [known[identity] for identity in wanted if identity in known]

    def _with_name(self, name: str) -> list[ImageRecord]:
        """Return the images with this file name, ordered by id."""
        return [record for record in self._find(f"name = {_quoted(as_text(name))}") if record.name == name]

    def with_digest(self, digest: bytes) -> list[ImageRecord]:
        """Return the images with this content, ordered by id."""
        return self._find(f"digest = X'{digest.hex()}'")

    def shared_names(self, names: Iterable[str]) -> set[str]:
        """Return the file names among `names` that several images have."""
        listed = ", ".join(_quoted(as_text(name)) for name in names)
        if not listed:
            return set()
        with self.storage.reading():
            found = self.dataset.to_table(columns=["name"], filter=f"name IN ({listed})")["name"].to_pylist()
        return {name for name, count in Counter(found).items() if count > 1}

    def complete_name(self, beginning: str, limit: int) -> list[int]:
        """Return the ids of images whose names start with a prefix, then of those with such a word; case is ignored.

        Both are in alphabetical order.
        """
        text = as_text(beginning).lower()
        pattern = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        with self.storage.reading():
            condition = f"lower(name) LIKE {_quoted(f'%{pattern}%')}"
            rows = self.dataset.to_table(columns=["id", "name"], filter=condition)
            lower = pc.utf8_lower(rows["name"])
        begins = pc.starts_with(lower, pattern=text)
        inside = pc.and_not(pc.match_substring_regex(lower, pattern=rf"[^\pL\pN]{re.escape(text)}"), begins)
        found: list[int] = []
        for chosen in (begins, inside) if text else (begins,):
            part = pa.table({"name": lower, "id": rows["id"]}).filter(chosen)
            first = pc.select_k_unstable(part, limit, [("name", "ascending"), ("id", "ascending")])
            found += part["id"].take(first).to_pylist()
        return [record.id for record in self.get_many(found[:limit])]  # verifies their checksums

    def some_names(self, limit: int) -> list[str]:
        """Return the names of some files, as text."""
        with self.storage.reading():
            rows = self.checked(self.dataset.to_table(columns=list(RECORD), limit=limit))
        names: list[str] = rows["name"].to_pylist()
        return names

    def _find(self, condition: str) -> list[ImageRecord]:
        self._check_lookups()
        with self.storage.reading():
            return sorted(_as_records(self.checked(self.dataset.to_table(columns=list(RECORD), filter=condition))))

    def _check_lookups(self) -> None:
        """Verify once what lookups read: the indexes, and the records of rows that are not indexed."""
        if not self._has_checked_lookups:
            self.storage.check_files(self.version, "_indices")
            with self.storage.reading():
                for fragment in self._unindexed_fragments():
                    self.checked(fragment.to_table(columns=list(RECORD)))
            self._has_checked_lookups = True

    def _unindexed_fragments(self) -> list[lance.LanceFragment]:
        """Return the fragments whose rows are not in all indexes."""
        indexed: dict[str, set[int]] = {column: set() for column in INDEXED}
        for index in self.dataset.describe_indices():
            for segment in index.segments:
                indexed[index.field_names[0]].update(segment.fragment_ids)
        all_indexed = set.intersection(*indexed.values())
        return [one for one in self.dataset.get_fragments() if one.fragment_id not in all_indexed]

    def checked(self, rows: pa.Table) -> pa.Table:
        """Verify rows with the columns `RECORD` and return them; raise a DamagedError if one is damaged."""
        sound = hash_records(rows) == rows["checksum"].to_numpy()
        if not sound.all():
            identity = rows["id"][int(np.argmin(sound))].as_py()
            raise self.damaged(f"the record of image {identity} has a wrong checksum")
        return rows

    # --- all images -------------------------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> np.ndarray:
        """The ids of all images, ascending."""
        return np.asarray(self._ids_in_order[self._order])

    @cached_property
    def _ids_in_order(self) -> np.ndarray:
        """The ids of all images, in row order."""
        with self.storage.reading():
            rows = self.dataset.to_table(columns=list(IDS))
        ids: np.ndarray = rows["id"].to_numpy()
        if len(ids) != len(self) or not (hash_ids(ids) == rows["id_checksum"].to_numpy()).all():
            raise self.damaged("the id of an image is missing, or has a wrong checksum")
        return ids

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self._ids_in_order, kind="stable")

    def _all_rows(self) -> Iterator[pa.Table]:
        """Yield the verified columns `RECORD` of all images, in batches."""
        with self.storage.reading():
            for batch in self.dataset.to_batches(columns=list(RECORD), batch_size=_ROWS_AT_ONCE):
                yield self.checked(pa.Table.from_batches([batch]))

    @cached_property
    def listing(self) -> Listing:
        """The columns that listings and filters use, for all images."""
        return listing_of(self._all_rows())

    @cached_property
    def folder_counts(self) -> dict[str, int]:
        """The number of images directly in each folder that has any."""
        counts = np.bincount(self.listing.folder, minlength=len(self.listing.folders)).tolist()
        return dict(zip(self.listing.folders, counts, strict=True))

    def records(self) -> Iterator[ImageRecord]:
        """Yield the records of all images, in row order."""
        for rows in self._all_rows():
            yield from _as_records(rows)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all images, ordered by id."""
        return [os.fsdecode(path) for path in self._in_order("path")]

    @cached_property
    def names(self) -> list[str]:
        """The file names of all images, as text, ordered by id."""
        return self._in_order("name")

    def _in_order(self, column: str) -> list[Any]:
        values, ids = [], [np.empty(0, np.int64)]
        for rows in self._all_rows():
            values += rows[column].to_pylist()
            ids.append(rows["id"].to_numpy())
        return [values[place] for place in np.argsort(np.concatenate(ids), kind="stable").tolist()]

    # --- columns ----------------------------------------------------------------------------------------------------

    def take(self, ids: np.ndarray, columns: Iterable[str]) -> pa.Table:
        """Return some columns of existing images, in the order of `ids`."""
        wanted = list(dict.fromkeys(["id", *columns]))
        with self.storage.reading():
            if len(ids) <= _MANY_IDS and "_ids_in_order" not in self.__dict__:
                self._check_lookups()
                listed = ", ".join(str(int(identity)) for identity in ids) or "-1"
                rows = self.dataset.to_table(columns=wanted, filter=f"id IN ({listed})")
            else:
                places = self._order[places_in(self.ids, np.unique(ids))]
                rows = self.dataset.take(np.sort(places).tolist(), columns=wanted)
        stored = rows["id"].to_numpy()
        order = np.argsort(stored, kind="stable")
        return rows.take(order[places_in(stored[order], ids)])

    def activations(self, ids: np.ndarray) -> np.ndarray:
        """Return the activations `(n, width)` float16 of existing images."""
        rows = self.take(np.asarray(ids, np.int64), [ACTIVATIONS])
        if len(rows) != len(ids):
            raise self.damaged("rows of the table of images are missing")
        return self.unseal(rows, ACTIVATIONS)[0].view(np.float16)

    def all_activations(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield ids `(n,)` and activations `(n, width)` of all images, in batches."""
        with self.storage.reading():
            for batch in self.dataset.to_batches(columns=["id", ACTIVATIONS], batch_size=_ROWS_AT_ONCE):
                rows = pa.Table.from_batches([batch])
                yield rows["id"].to_numpy().copy(), self.unseal(rows, ACTIVATIONS)[0].view(np.float16)

    def classes(self, ids: np.ndarray) -> tuple[QuantizedClasses, np.ndarray]:
        """Return the top classes of images, and a mask `(n,)` of the images that have any."""
        return self._classes(self.take(np.asarray(ids, np.int64), [CLASSES]))

    def named(self, ids: np.ndarray) -> np.ndarray:
        """Return the probabilities `(n, K)` of the named features of images."""
        return self._named(self.take(np.asarray(ids, np.int64), [NAMED]))

    def classes_and_named(self, ids: np.ndarray) -> tuple[QuantizedClasses, np.ndarray, np.ndarray]:
        """Return `classes` and `named` of images, read together."""
        rows = self.take(np.asarray(ids, np.int64), [CLASSES, NAMED])
        return *self._classes(rows), self._named(rows)

    def _classes(self, rows: pa.Table) -> tuple[QuantizedClasses, np.ndarray]:
        content, valid = self.unseal(rows, CLASSES)
        return classes_from_bytes(content), valid

    def _named(self, rows: pa.Table) -> np.ndarray:
        return probabilities_from_bytes(self.unseal(rows, NAMED)[0])

    def word_boxes(self, ids: np.ndarray) -> WordBoxes:
        """Return the boxes of the likely named features of images."""
        return boxes_from_bytes(self.unseal(self.take(np.asarray(ids, np.int64), [BOXES]), BOXES)[0])

    def unseal(self, rows: pa.Table, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the content `(n, k)` of a sealed column of rows with ids, and a mask `(n,)` of valid rows."""
        ids = rows["id"].to_numpy()
        content, valid, damaged = unseal(ids, rows[column])
        if damaged.any():
            identity = int(ids[np.argmax(damaged)])
            record = self.get(identity)
            name = f"image {identity}" if record is None else record.path
            raise self.damaged(f"the {column} of {name} have a wrong checksum")
        return content, valid


def places_in(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the positions of wanted ids in ascending `known` ids, in the order of `wanted`; others are skipped."""
    places = np.searchsorted(known, wanted)
    there = places < len(known)
    there[there] = known[places[there]] == np.asarray(wanted)[there]
    return np.asarray(places[there])


def _as_records(rows: pa.Table) -> list[ImageRecord]:
    """Return the records of verified rows with the columns `RECORD`."""
    columns = [rows[name].to_pylist() for name in RECORD if name not in ("name", "checksum")]
    return [ImageRecord(one, os.fsdecode(path), *rest) for one, path, *rest in zip(*columns, strict=True)]


def _quoted(text: str) -> str:
    """Return text as a literal for a Lance filter."""
    return "'" + text.replace("'", "''") + "'"


def _read_state(storage: Storage, dataset: lance.LanceDataset) -> State:
    with storage.reading():
        created = (dataset.schema.metadata or {}).get(CONFIG_KEY.encode(), b"").decode(errors="replace")
        stored = dataset.config().get(CONFIG_KEY) or created
    if not stored:
        raise GalleryError(f"{storage.uri} is a Lance dataset of another program, not a gallery")
    state = State.from_json(stored)
    if state is None:
        raise DamagedError(storage.address, "its settings are unreadable, or of a newer version")
    return state
