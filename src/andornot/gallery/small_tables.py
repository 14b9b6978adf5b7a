"""The small tables of a gallery: definitions, and files that cannot be read. Each is written as a whole."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from ..files import sync_files
from .checksums import remove_checksums
from .errors import DamagedError
from .records import UnreadableFile, as_text
from .storage import DEFINITIONS, UNREADABLE, Storage, load_lance

_DEFINITION: Final = ("name", "formula")
_UNREADABLE: Final = ("path", "size", "mtime_ns", "reason", "code")


def read_definitions(storage: Storage) -> dict[str, str]:
    """Return the formulas of all definitions by name, as they are stored, in the order they were made."""
    return dict(_read(storage, DEFINITIONS, _DEFINITION))


def write_definitions(storage: Storage, definitions: Mapping[str, str]) -> None:
    """Store all definitions."""
    _write(storage, DEFINITIONS, _DEFINITION, list(definitions.items()))


def read_unreadable(storage: Storage) -> dict[str, UnreadableFile]:
    """Return the files that cannot be read, by path."""
    rows = _read(storage, UNREADABLE, _UNREADABLE)
    return {os.fsdecode(path): UnreadableFile(os.fsdecode(path), *rest) for path, *rest in rows}


def write_unreadable(storage: Storage, files: Mapping[str, UnreadableFile]) -> None:
    """Store the files that cannot be read."""
    _write(
        storage,
        UNREADABLE,
        _UNREADABLE,
        [
            (os.fsencode(path), file.size, file.mtime_ns, as_text(file.reason), file.code)
            for path, file in files.items()
        ],
    )


def small_table_versions(storage: Storage) -> tuple[int, ...]:
    """Return a number for each table, which is another one when the table was written."""
    return tuple(
        int(storage.open(name).version) if storage.has_table(name) else 0 for name in (DEFINITIONS, UNREADABLE)
    )


def _read(storage: Storage, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    if not storage.has_table(table):
        return []
    dataset = storage.open(table)
    with storage.reading():
        rows = dataset.to_table()
        found = list(zip(*(rows[name].to_pylist() for name in columns), strict=True))
        if rows["checksum"].to_pylist() != [_checksum(row) for row in found]:
            raise DamagedError(str(storage), f"a row of {table} has a wrong checksum")
    return found


def _write(storage: Storage, table: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    import pyarrow as pa

    kinds = {"path": pa.binary(), "size": pa.int64(), "mtime_ns": pa.int64()}
    schema = pa.schema([*((name, kinds.get(name, pa.string())) for name in columns), ("checksum", pa.uint32())])
    values = [{**dict(zip(columns, row, strict=True)), "checksum": _checksum(row)} for row in rows]
    with storage.reading():
        dataset = load_lance().write_dataset(
            pa.Table.from_pylist(values, schema),
            storage.uri(table),
            mode="overwrite" if storage.has_table(table) else "create",
            storage_options=storage.options,
        )
    if storage.folder is not None:
        sync_files((storage.folder / table / "data").iterdir())
    storage.sync_version(table, dataset)
    with storage.reading():
        dataset.cleanup_old_versions(older_than=timedelta(hours=1))
    if storage.folder is not None:
        remove_checksums(storage.folder / table)


def _checksum(row: tuple[Any, ...]) -> int:
    return zlib.crc32(repr(row).encode("utf-8", "surrogatepass"))
