"""One version of the table of images: look-ups, and the columns of some or all images.

Everything that is read is checked against the checksums it was written with.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..words import QuantizedClasses
from .checksums import SIZE, hash_ids, hash_texts, unseal
from .encoding import classes_from_bytes, probabilities_from_bytes
from .errors import DamagedError, GalleryError
from .records import ImageRecord, State, as_text
from .rows import (
    ACTIVATIONS,
    CLASSES,
    CONFIG_KEY,
    IDS,
    LISTING,
    NAMED,
    NAMES,
    RECORD,
    Listing,
    are_names_sound,
    bytes_of,
    listing_of,
)
from .storage import IMAGES, Storage

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

# Columns with indexes in a large gallery.
INDEXED: Final = ("id", "name", "digest")
# A filter with a longer list of ids takes longer than a look at all ids.
_MANY_IDS: Final = 256
_ROWS_AT_ONCE: Final = 4096
# Records that are kept in memory, once read.
_RECORDS_KEPT: Final = 4096
_NAMES_KEPT: Final = 256


def quoted(text: str) -> str:
    """Return a text as a literal of a filter."""
    return "'" + text.replace("'", "''") + "'"


class ImageTable:
    """One version of the images of a gallery."""

    def __init__(self, storage: Storage, dataset: lance.LanceDataset) -> None:
        self.storage, self.dataset = storage, dataset
        self.state = _read_state(storage, dataset)
        self._has_checked_lookups = False

    @classmethod
    def open(cls, storage: Storage, version: int | None = None) -> ImageTable:
        """Open the newest version, or a given one; a GalleryError where there is no gallery."""
        if not storage.exists():
            raise GalleryError(f"there is no gallery in {storage}: andornot index FOLDER --gallery {storage} makes one")
        return cls(storage, storage.open(IMAGES, version))

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
        """Return a fragment of the table; a DamagedError if it is not there."""
        fragment = self.dataset.get_fragment(number)
        if fragment is None:
            raise DamagedError(str(self.storage), f"fragment {number} is missing")
        return fragment

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def get(self, identity: int) -> ImageRecord | None:
        """Return the record of an image; None if there is no such image."""
        known = self._known_records.get(identity)
        return known or next(iter(self._find(f"id = {int(identity)}")), None)

    def get_many(self, ids: Sequence[int] | np.ndarray) -> list[ImageRecord]:
        """Return the records of images that are there, in the order given."""
        wanted = [int(identity) for identity in ids]
        found = {identity: known for identity in wanted if (known := self._known_records.get(identity)) is not None}
        missing = [identity for identity in wanted if identity not in found]
        if missing:
            read = self._remembered(self._records(self.take(np.array(missing), RECORD)))
            found.update((record.id, record) for record in read)
        return [found[identity] for identity in wanted if identity in found]

    def shared_names(self, names: Iterable[str]) -> set[str]:
        """Return those of some file names that several images have."""
        listed = ", ".join(quoted(as_text(name)) for name in names)
        if not listed:
            return set()
        with self.storage.reading():
            found = self.dataset.to_table(columns=["name"], filter=f"name IN ({listed})")["name"].to_pylist()
        return {name for name, count in Counter(found).items() if count > 1}

    def with_name(self, name: str) -> list[ImageRecord]:
        """Return the images whose files have that name, in the order of their ids."""
        found = self._named.get(name)
        if found is None:
            if len(self._named) >= _NAMES_KEPT:
                self._named.clear()
            alike = self._find(f"name = {quoted(as_text(name))}")
            found = self._named[name] = [record for record in alike if record.name == name]
        return found

    @cached_property
    def _named(self) -> dict[str, list[ImageRecord]]:
        """The images of names that were looked up lately: a query asks for each of its words several times."""
        return {}

    def with_digest(self, digest: bytes) -> list[ImageRecord]:
        """Return the images with that content, in the order of their ids."""
        return self._find(f"digest = X'{digest.hex()}'")

    def complete_name(self, beginning: str, limit: int) -> list[int]:
        """Return the ids of images whose names begin so, whatever their case, and then of those with a word that does.

        Both are in alphabetical order.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        text = as_text(beginning).lower()
        pattern = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        with self.storage.reading():
            condition = f"lower(name) LIKE {quoted(f'%{pattern}%')}"
            rows = self._check_names(self.dataset.to_table(columns=list(NAMES), filter=condition))
        lower = pc.utf8_lower(rows["name"])
        begins = pc.starts_with(lower, pattern=text)
        inside = pc.and_not(pc.match_substring_regex(lower, pattern=rf"[^\pL\pN]{re.escape(text)}"), begins)
        found: list[int] = []
        for chosen in (begins, inside) if text else (begins,):
            part = pa.table({"name": lower, "id": rows["id"]}).filter(chosen)
            first = pc.select_k_unstable(part, limit, [("name", "ascending"), ("id", "ascending")])
            found += part["id"].take(first).to_pylist()
        return found[:limit]

    def some_names(self, limit: int) -> list[str]:
        """Return the names of some files."""
        with self.storage.reading():
            rows = self._check_names(self.dataset.to_table(columns=list(NAMES), limit=limit))
        names: list[str] = rows["name"].to_pylist()
        return names

    def _find(self, condition: str) -> list[ImageRecord]:
        self._check_lookups()
        with self.storage.reading():
            found = self._records(self.dataset.to_table(columns=list(RECORD), filter=condition))
        return sorted(self._remembered(found))

    def _check_lookups(self) -> None:
        """Check once what look-ups read: the indexes, and the ids and names of rows that these do not have."""
        if self._has_checked_lookups:
            return
        self.storage.check_files(IMAGES, self.version, "_indices")
        with self.storage.reading():
            for fragment in self.unindexed_fragments():
                self._check_names(fragment.to_table(columns=list(NAMES)))
        self._has_checked_lookups = True

    def unindexed_fragments(self) -> list[lance.LanceFragment]:
        """Return the fragments whose rows are not in all indexes."""
        indexed: dict[str, set[int]] = {column: set() for column in INDEXED}
        for index in self.dataset.describe_indices():
            for segment in index.segments:
                indexed.setdefault(index.field_names[0], set()).update(segment.fragment_ids)
        all_indexed = set.intersection(*(indexed[column] for column in INDEXED))
        return [one for one in self.dataset.get_fragments() if one.fragment_id not in all_indexed]

    def _check_names(self, rows: pa.Table) -> pa.Table:
        """Check rows with the columns `NAMES`, and return them."""
        if not are_names_sound(rows).all():
            raise DamagedError(str(self.storage), "the name of an image has a wrong checksum")
        return rows

    @cached_property
    def _known_records(self) -> dict[int, ImageRecord]:
        """Records that were read lately."""
        return {}

    def _remembered(self, records: list[ImageRecord]) -> list[ImageRecord]:
        known = self._known_records
        if len(known) + len(records) > _RECORDS_KEPT:
            known.clear()
        known.update((record.id, record) for record in records)
        return records

    def _records(self, rows: pa.Table) -> list[ImageRecord]:
        return [self._record(*values) for values in zip(*(rows[name].to_pylist() for name in RECORD), strict=True)]

    def _record(self, identity: int, path: bytes, *rest: Any) -> ImageRecord:
        *values, checksum = rest
        record = ImageRecord(identity, os.fsdecode(path), *values)
        if record.checksum != checksum:
            raise DamagedError(str(self.storage), f"the record of image {identity} has a wrong checksum")
        return record

    # --- all images -------------------------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> np.ndarray:
        """The ids of all images, ascending."""
        return np.asarray(self._ids_in_order[self._order])

    @cached_property
    def _ids_in_order(self) -> np.ndarray:
        """The ids of all images in the order of their rows."""
        with self.storage.reading():
            rows = self.dataset.to_table(columns=list(IDS))
        ids: np.ndarray = rows["id"].to_numpy()
        if not (hash_ids(ids) == rows["id_checksum"].to_numpy()).all():
            raise DamagedError(str(self.storage), "the id of an image has a wrong checksum")
        if len(ids) != len(self):
            raise DamagedError(str(self.storage), f"it has {len(ids):,} images, and should have {len(self):,}")
        return ids

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self._ids_in_order, kind="stable")

    @cached_property
    def listing(self) -> Listing:
        """What lists and filters need of all images."""
        with self.storage.reading():
            return listing_of(self.dataset.to_table(columns=list(LISTING)), str(self.storage))

    @cached_property
    def folder_counts(self) -> dict[str, int]:
        """How many images lie directly in each folder that has any."""
        counts = np.bincount(self.listing.folder, minlength=len(self.listing.folders)).tolist()
        return dict(zip(self.listing.folders, counts, strict=True))

    def records(self) -> Iterator[ImageRecord]:
        """Yield the records of all images, in the order of their rows."""
        with self.storage.reading():
            for batch in self.dataset.to_batches(columns=list(RECORD), batch_size=_ROWS_AT_ONCE):
                yield from self._records(_as_table(batch))

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all images, in the order of their ids."""
        with self.storage.reading():
            rows = self.dataset.to_table(columns=["id", "path", "path_checksum"])
        ids, paths = rows["id"].to_numpy(), rows["path"].to_pylist()
        if not (hash_texts(ids, paths) == rows["path_checksum"].to_numpy()).all():
            raise DamagedError(str(self.storage), "the path of an image has a wrong checksum")
        return [os.fsdecode(paths[place]) for place in np.argsort(ids, kind="stable").tolist()]

    @cached_property
    def names(self) -> list[str]:
        """The names of all files, as text, in the order of the images' ids."""
        with self.storage.reading():
            rows = self._check_names(self.dataset.to_table(columns=list(NAMES)))
        names = rows["name"].to_pylist()
        return [names[place] for place in np.argsort(rows["id"].to_numpy(), kind="stable").tolist()]

    # --- columns ----------------------------------------------------------------------------------------------------

    def take(self, ids: np.ndarray, columns: Iterable[str]) -> pa.Table:
        """Return some columns of images that are there, in the order of the ids given."""
        wanted = list(dict.fromkeys(["id", *columns]))
        with self.storage.reading():
            if len(ids) <= _MANY_IDS and "_ids_in_order" not in self.__dict__:
                self._check_lookups()
                listed = ", ".join(str(int(identity)) for identity in ids) or "-1"
                rows = self.dataset.to_table(columns=wanted, filter=f"id IN ({listed})")
            else:
                places = np.searchsorted(self.ids, ids)
                places = places[places < len(self.ids)]
                places = places[np.isin(self.ids[places], ids)]
                rows = self.dataset.take(np.sort(self._order[np.unique(places)]).tolist(), columns=wanted)
        stored = rows["id"].to_numpy()
        order = np.argsort(stored, kind="stable")
        places = np.searchsorted(stored[order], ids)
        there = places < len(stored)
        there[there] &= stored[order][places[there]] == ids[there]
        return rows.take(order[places[there]])

    def activations(self, ids: np.ndarray) -> np.ndarray:
        """Return the activations `(n, width)` float16 of images, which must all be there."""
        rows = self.take(np.asarray(ids, np.int64), [ACTIVATIONS])
        if len(rows) != len(ids):
            raise DamagedError(str(self.storage), "rows of the table of images are missing")
        return self.unseal(rows, ACTIVATIONS)[0].view(np.float16)

    def all_activations(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield ids `(n,)` and activations `(n, width)` of all images, some at a time."""
        with self.storage.reading():
            for batch in self.dataset.to_batches(columns=["id", ACTIVATIONS], batch_size=_ROWS_AT_ONCE):
                rows = _as_table(batch)
                yield rows["id"].to_numpy().copy(), self.unseal(rows, ACTIVATIONS)[0].view(np.float16)

    def classes(self, ids: np.ndarray) -> tuple[QuantizedClasses, np.ndarray]:
        """Return the top classes of images, and which of them have any `(n,)`."""
        rows = self.take(np.asarray(ids, np.int64), [CLASSES])
        content, valid = self.unseal(rows, CLASSES)
        return classes_from_bytes(content), valid

    def named(self, ids: np.ndarray) -> np.ndarray:
        """Return the probabilities `(n, K)` of the named features of images."""
        rows = self.take(np.asarray(ids, np.int64), [NAMED])
        return probabilities_from_bytes(self.unseal(rows, NAMED)[0])

    def unseal(self, rows: pa.Table, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the content `(n, k)` of a sealed column of rows with ids, and which rows have one `(n,)`."""
        ids = rows["id"].to_numpy()
        sealed, valid = bytes_of(rows[column])
        if valid.all():
            content, sound = unseal(ids, sealed)
        else:
            content = np.zeros((len(ids), sealed.shape[1] - SIZE), np.uint8)
            content[valid], sound = unseal(ids[valid], sealed[valid])
        if not sound.all():
            damaged = int(ids[valid][np.argmin(sound)])
            record = self.get(damaged)
            name = f"image {damaged}" if record is None else record.path
            raise DamagedError(str(self.storage), f"the {column} of {name} have a wrong checksum")
        return content, valid


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _read_state(storage: Storage, dataset: lance.LanceDataset) -> State:
    with storage.reading():
        created = (dataset.schema.metadata or {}).get(CONFIG_KEY.encode(), b"").decode(errors="replace")
        stored = dataset.config().get(CONFIG_KEY) or created
    if not stored:
        raise GalleryError(f"{storage.uri(IMAGES)} is a Lance dataset of another program, not a gallery")
    state = State.from_json(stored)
    if state is None:
        raise DamagedError(str(storage), "its settings are unreadable, or of a newer version")
    return state
