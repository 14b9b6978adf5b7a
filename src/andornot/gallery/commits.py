"""Atomic commits of added and removed rows.

A commit writes new rows to files, syncs them to disk, and then adds them and removes replaced rows in one step. A
killed process loses only uncommitted rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..files import sync_files
from .definitions import Definitions
from .encoding import Extracted
from .records import ImageRecord, State
from .rows import ACTIVATIONS, CONFIG_KEY, image_rows, sealed_column
from .storage import Storage, load_lance
from .table import ImageTable

if TYPE_CHECKING:
    import lance

# Ids are reserved in blocks, so that no id is ever used twice.
_RESERVED_IDS: Final = 4096
# Old versions and files are kept this long for readers that may still use them.
KEEP: Final = timedelta(hours=1)


class TableWriter:
    """Adds and removes rows of the image table, and commits the changes together."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.table = ImageTable.open(storage)
        self.unreadable = dict(self.table.unreadable)
        self._next_id = self.state.next_id
        self._rows: list[pa.Table] = []
        self._fragments: list[lance.FragmentMetadata] = []
        self._pending: set[int] = set()
        self._gone: set[int] = set()

    @property
    def state(self) -> State:
        """The stored state."""
        return self.table.state

    # --- rows -------------------------------------------------------------------------------------------------------

    def new_id(self) -> int:
        """Return an id that was never used."""
        if self._next_id >= self.state.next_id:
            self.save_state(next_id=self._next_id + _RESERVED_IDS)
        self._next_id += 1
        return self._next_id - 1

    @property
    def uncommitted(self) -> int:
        """The number of uncommitted rows."""
        return len(self._pending)

    def put(self, rows: pa.Table, replaces: Collection[int] = ()) -> None:
        """Add rows; `replaces` are the ids among them that are already stored."""
        ids = set(rows["id"].to_pylist())
        if ids & self._pending:
            self.commit()
        self._rows.append(rows)
        self._pending |= ids
        self._gone |= set(replaces)

    def put_fragments(self, fragments: Sequence[str], ids: Collection[int], replaces: Collection[int] = ()) -> None:
        """Add rows that a worker has already written, given the JSON of their fragments."""
        from lance.fragment import FragmentMetadata

        self._fragments += map(FragmentMetadata.from_json, fragments)
        self._pending |= set(ids)
        self._gone |= set(replaces)

    def put_copies(self, sources: Sequence[int], records: Sequence[ImageRecord], replaces: Collection[int]) -> None:
        """Add rows for records, each with the content of a stored image."""
        if self._pending & {*sources, *(record.id for record in records)}:
            self.commit()
        rows = self.table.take(np.array(sources, np.int64), sorted(self.table.columns))
        if len(rows) != len(sources):
            raise self.table.damaged("rows of the table of images are missing")
        self.put(copy_rows(rows, records, self.table), replaces)

    def remove(self, identity: int) -> None:
        """Remove an image."""
        if identity in self._pending:
            self.commit()
        self._gone.add(identity)

    def commit(self) -> None:
        """Commit all changes since the last commit."""
        new = list(self._fragments)
        if self._rows:
            rows = pa.concat_tables(self._rows, promote_options="default")
            new += write_rows(self.storage, self.table.dataset, rows)
        updated, emptied = self._without(self._find_fragments(self._gone))
        if updated or emptied:
            self._apply("Update", removed_fragment_ids=emptied, updated_fragments=updated, new_fragments=new)
        elif new:
            self._apply("Append", new)
        for waiting in (self._rows, self._fragments, self._pending, self._gone):
            waiting.clear()
        if self.unreadable != self.table.unreadable:
            content = json.dumps([*self.unreadable.values()]).encode()
            self.save_state(unreadable=self.storage.save_content("unreadable", content, ".json"))

    def drop_rows(self, ids: dict[int, list[int]], fragments: Iterable[int] = ()) -> None:
        """Remove rows, given by fragment number, and whole fragments."""
        updated, emptied = self._without(ids)
        if updated or emptied or fragments:
            self._apply("Update", removed_fragment_ids=[*emptied, *fragments], updated_fragments=updated)

    def _find_fragments(self, ids: Collection[int]) -> dict[int, list[int]]:
        """Return the ids that are stored, grouped by fragment number."""
        if not ids:
            return {}
        with self.storage.reading():
            found = self.table.dataset.to_table(columns=["id"], filter=_is_one_of(ids), with_row_address=True)
        numbers = (found["_rowaddr"].to_numpy() >> np.uint64(32)).astype(np.int64)
        return {number: found["id"].to_numpy()[numbers == number].tolist() for number in np.unique(numbers).tolist()}

    def _without(self, ids: dict[int, list[int]]) -> tuple[list[lance.FragmentMetadata], list[int]]:
        """Return fragments with some rows deleted, and the numbers of fragments that are now empty."""
        with self.storage.reading():
            left = {number: self.table.fragment(number).delete(_is_one_of(own)) for number, own in ids.items()}
        if left and self.storage.table is not None:
            folder, recent = self.storage.table / "_deletions", time.time() - KEEP.total_seconds()
            if folder.is_dir():
                sync_files([*(file for file in folder.iterdir() if file.stat().st_mtime >= recent), folder])
        return [one for one in left.values() if one is not None], [n for n, one in left.items() if one is None]

    def _apply(self, operation: str, *arguments: Any, **more: Any) -> None:
        """Commit a Lance operation."""
        lance, dataset = load_lance(), self.table.dataset
        with self.storage.reading():
            dataset = lance.LanceDataset.commit(
                dataset,
                getattr(lance.LanceOperation, operation)(*arguments, **more),
                read_version=dataset.version,
                storage_options=self.storage.options,
            )
        self._opened(dataset)

    def _opened(self, dataset: lance.LanceDataset) -> None:
        self.storage.sync_version(dataset)
        self.table = ImageTable(self.storage, dataset)

    def save_state(self, **changes: Any) -> None:
        """Store the state with changes."""
        state = replace(self.state, **changes)
        if state != self.state:
            with self.storage.reading():
                self.table.dataset.update_config({CONFIG_KEY: state.to_json()})
            self._opened(self.storage.open())

    def save_definitions(self, definitions: Definitions) -> None:
        """Store all definitions."""
        content = json.dumps([*definitions.kept.items()]).encode()
        self.save_state(definitions=self.storage.save_content("definitions", content, ".json"))


def copy_rows(rows: pa.Table, records: Sequence[ImageRecord], table: ImageTable) -> pa.Table:
    """Return copies of stored rows for other records with the same content, one record per row."""
    ids = np.array([record.id for record in records], np.int64)
    copied = image_rows(records, Extracted(table.unseal(rows, ACTIVATIONS)[0].view(np.float16), None, None))
    for name in rows.column_names:
        if name not in copied.column_names:
            copied = copied.append_column(name, sealed_column(ids, *table.unseal(rows, name)))
    return copied


def write_rows(storage: Storage, dataset: lance.LanceDataset, rows: pa.Table) -> list[lance.FragmentMetadata]:
    """Write rows to files of the dataset and sync them to disk. They take effect when they are committed."""
    from lance.fragment import write_fragments

    with storage.reading():
        fragments: list[lance.FragmentMetadata] = write_fragments(rows, dataset, storage_options=storage.options)
    sync_data(storage, fragments)
    return fragments


def sync_data(storage: Storage, fragments: Iterable[lance.FragmentMetadata]) -> None:
    """Sync the files of fragments to disk."""
    if storage.table is not None:
        folder = storage.table / "data"
        sync_files([*(folder / file.path for fragment in fragments for file in fragment.files), folder])


def _is_one_of(ids: Iterable[int]) -> str:
    return f"id IN ({', '.join(map(str, sorted(ids)))})"
