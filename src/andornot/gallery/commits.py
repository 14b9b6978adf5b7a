"""Commits: rows that are put and removed become part of a gallery together.

A commit writes new rows to files, waits until these are on the disk, and then adds them and removes replaced rows in
one step. A process that is killed loses what it had not committed, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..files import sync_files
from .encoding import Extracted
from .errors import DamagedError
from .records import ImageRecord, State
from .rows import (
    ACTIVATIONS,
    CONFIG_KEY,
    image_rows,
    sealed_column,
)
from .small_tables import read_unreadable, write_unreadable
from .storage import IMAGES, Storage, load_lance
from .table import ImageTable

if TYPE_CHECKING:
    import lance

# Ids are reserved in blocks, so that one that was given is never given again.
_RESERVED_IDS: Final = 4096
# Old versions and files stay this long for readers that may still use them.
KEEP: Final = timedelta(hours=1)


class TableWriter:
    """Changes of the table of images: rows are put and removed, and committed together."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.table = ImageTable.open(storage)
        self.unreadable = read_unreadable(storage)
        self._saved_unreadable = dict(self.unreadable)
        self._next_id = self.state.next_id
        self._rows: list[pa.Table] = []
        self._fragments: list[lance.FragmentMetadata] = []
        self._pending: set[int] = set()
        self._gone: set[int] = set()
        self._drop_unused_columns()

    @property
    def state(self) -> State:
        """The state as it is stored."""
        return self.table.state

    # --- rows -------------------------------------------------------------------------------------------------------

    def new_id(self) -> int:
        """Return an id that no image ever had."""
        if self._next_id >= self.state.next_id:
            self.save_state(next_id=self._next_id + _RESERVED_IDS)
        self._next_id += 1
        return self._next_id - 1

    @property
    def uncommitted(self) -> int:
        """How many rows wait for the next commit."""
        return len(self._pending)

    def put(self, rows: pa.Table, replaces: Collection[int] = ()) -> None:
        """Add rows; `replaces` are the ids among them that are stored already."""
        ids = set(rows["id"].to_pylist())
        if ids & self._pending:
            self.commit()
        self._rows.append(rows)
        self._pending |= ids
        self._gone |= set(replaces)

    def put_fragments(self, fragments: Sequence[str], ids: Collection[int], replaces: Collection[int] = ()) -> None:
        """Add rows that a worker has written to files already, by the JSON of their fragments."""
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
            raise DamagedError(str(self.storage), "rows of the table of images are missing")
        self.put(copy_rows(rows, records, self.table), replaces)

    def remove(self, identity: int) -> None:
        """Remove an image."""
        if identity in self._pending:
            self.commit()
        self._gone.add(identity)

    def commit(self) -> None:
        """Make everything since the last commit part of the gallery."""
        new = list(self._fragments)
        if self._rows:
            rows = pa.concat_tables(self._rows, promote_options="default")
            new += write_rows(self.storage, self.table.dataset, rows)
        if new or self._gone:
            operation = self._operation(new)
            if operation is not None:
                self._commit(operation)
        for waiting in (self._rows, self._fragments, self._pending, self._gone):
            waiting.clear()
        if self.unreadable != self._saved_unreadable:
            write_unreadable(self.storage, self.unreadable)
            self._saved_unreadable = dict(self.unreadable)

    def _operation(self, new: list[lance.FragmentMetadata]) -> Any:
        operations = load_lance().LanceOperation
        if not self._gone:
            return operations.Append(new)
        updated, emptied = [], []
        listed = sorted(self._gone)
        with self.storage.reading():
            found = self.table.dataset.to_table(
                columns=["id"], filter=f"id IN ({', '.join(map(str, listed))})", with_row_address=True
            )
            fragments = found["_rowaddr"].to_numpy() >> np.uint64(32)
            ids = found["id"].to_numpy()
            for number in np.unique(fragments).tolist():
                condition = f"id IN ({', '.join(map(str, ids[fragments == number].tolist()))})"
                left = self.table.fragment(int(number)).delete(condition)
                if left is None:
                    emptied.append(int(number))
                else:
                    updated.append(left)
        if not (updated or emptied or new):
            return None
        if self.storage.folder is not None:
            _sync_folder(self.storage.folder / IMAGES / "_deletions")
        return operations.Update(removed_fragment_ids=emptied, updated_fragments=updated, new_fragments=new)

    def _commit(self, operation: Any) -> None:
        lance, dataset = load_lance(), self.table.dataset
        with self.storage.reading():
            dataset = lance.LanceDataset.commit(
                dataset, operation, read_version=dataset.version, storage_options=self.storage.options
            )
        self._opened(dataset)

    def _opened(self, dataset: lance.LanceDataset) -> None:
        self.storage.sync_version(IMAGES, dataset)
        self.table = ImageTable(self.storage, dataset)

    def save_state(self, **changes: Any) -> None:
        """Store another state."""
        state = replace(self.state, **changes)
        if state == self.state:
            return
        with self.storage.reading():
            dataset = self.table.dataset
            dataset.update_config({CONFIG_KEY: state.to_json()})
            dataset = self.storage.open(IMAGES)
        self._opened(dataset)

    def _drop_unused_columns(self) -> None:
        """Remove columns of codes that another projection made, or a process that was killed."""
        unused = [name for name in self.table.columns if name.startswith("codes_") and name != self.state.codes]
        if unused:
            self._drop_columns(unused)

    def _drop_columns(self, names: list[str]) -> None:
        with self.storage.reading():
            self.table.dataset.drop_columns(names)
        self._opened(self.storage.open(IMAGES))


def copy_rows(rows: pa.Table, records: Sequence[ImageRecord], table: ImageTable) -> pa.Table:
    """Return stored rows as the rows of other records with the same contents, one for each row."""
    ids = np.array([record.id for record in records], np.int64)
    copied = image_rows(records, Extracted(table.unseal(rows, ACTIVATIONS)[0].view(np.float16), None, None))
    for name in rows.column_names:
        if name not in copied.column_names:
            copied = copied.append_column(name, sealed_column(ids, *table.unseal(rows, name)))
    return copied


def write_rows(storage: Storage, dataset: lance.LanceDataset, rows: pa.Table) -> list[lance.FragmentMetadata]:
    """Write rows to files of the dataset, and wait until they are on the disk; they count once they are committed."""
    from lance.fragment import write_fragments

    with storage.reading():
        fragments: list[lance.FragmentMetadata] = write_fragments(rows, dataset, storage_options=storage.options)
    sync_data(storage, fragments)
    return fragments


def sync_data(storage: Storage, fragments: Iterable[lance.FragmentMetadata]) -> None:
    """Wait until the files of fragments are on the disk."""
    if storage.folder is not None:
        folder = storage.folder / IMAGES / "data"
        sync_files([*(folder / file.path for fragment in fragments for file in fragment.files), folder])


def _sync_folder(folder: Path) -> None:
    """Wait until the newest files of a folder are on the disk."""
    if folder.is_dir():
        recent = time.time() - KEEP.total_seconds()
        sync_files([*(file for file in folder.iterdir() if file.stat().st_mtime >= recent), folder])
