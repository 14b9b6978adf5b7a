"""Rows of the image table: their columns and checksums.

Lance has no checksums, so damaged files could silently give wrong results. Each record has a checksum, each id has its
own because ids are often read alone, and every other column appends a checksum to the bytes of each row.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from ..model import Model
from .encoding import BOXES_SIZE, CLASSES_SIZE, Extracted, num_regions, vocabulary_of
from .projections import REGION_DIMENSIONS, RegionBasis, load_components, whole_codes
from .records import ImageRecord, State, as_text
from .storage import Storage

CONFIG_KEY: Final = "andornot"
_KINDS: Final = {
    "id": pa.int64(), "path": pa.binary(), "name": pa.string(), "size": pa.int64(), "mtime_ns": pa.int64(),
    "digest": pa.binary(16), "taken": pa.int64(), "by_camera": pa.bool_(), "width": pa.int32(), "height": pa.int32(),
    "checksum": pa.uint32(),
}  # fmt: skip
RECORD: Final = tuple(_KINDS)
IDS: Final = ("id", "id_checksum")
ACTIVATIONS: Final = "activations"
# Regions are stored as int8 codes, or as activations while the gallery has too few images for a basis.
REGIONS: Final = "regions"
FULL_REGIONS: Final = "full_regions"
CLASSES: Final = "classes"
NAMED: Final = "named"
BOXES: Final = "boxes"
_SIZE: Final = 4


def schema_of(state: State, model: Model) -> pa.Schema:
    """Return the schema of a gallery's table, with the initial state in its metadata."""
    sizes = {ACTIVATIONS: 2 * state.width}
    if count := num_regions(state.grid):
        sizes |= {FULL_REGIONS: 2 * count * state.width, REGIONS: count * REGION_DIMENSIONS}
    if (vocabulary := vocabulary_of(model)) is not None:
        sizes[CLASSES] = CLASSES_SIZE
        if vocabulary.heads is not None:
            sizes |= {NAMED: len(vocabulary.heads.names), BOXES: BOXES_SIZE}
    kinds = {**_KINDS, "id_checksum": pa.uint32(), **{name: pa.binary(size + _SIZE) for name, size in sizes.items()}}
    return pa.schema(list(kinds.items()), {CONFIG_KEY: state.to_json()})


def image_rows(
    records: Sequence[ImageRecord],
    extracted: Extracted,
    basis: RegionBasis | None = None,
    codes: tuple[str, np.ndarray] | None = None,
) -> pa.Table:
    """Return rows of the image table. `codes`: the name of the column, and the codes `(n, d)` int8."""
    ids = np.array([record.id for record in records], np.int64)
    columns = {name: [getattr(record, name) for record in records] for name in ImageRecord._fields}
    columns |= {"path": [*map(os.fsencode, columns["path"])], "name": [as_text(record.name) for record in records]}
    rows = pa.table({name: pa.array(columns[name], kind) for name, kind in _KINDS.items() if name != "checksum"})
    rows = rows.append_column("checksum", pa.array(hash_records(rows)))
    sealed: dict[str, Any] = {
        ACTIVATIONS: extracted.activations,
        CLASSES: extracted.classes,
        NAMED: extracted.named,
        BOXES: extracted.boxes,
    }
    if extracted.regions is not None and basis is None:
        sealed[FULL_REGIONS] = extracted.regions
    elif extracted.regions is not None and basis is not None:
        sealed[REGIONS] = basis.codes(torch.from_numpy(extracted.regions)).numpy()
    if codes is not None:
        sealed[codes[0]] = codes[1]
    rows = rows.append_column("id_checksum", pa.array(hash_ids(ids)))
    for name, content in sealed.items():
        if content is not None:
            rows = rows.append_column(name, sealed_column(ids, content))
    return rows


def encoded_rows(
    storage: Storage, state: State, model: Model, records: Sequence[ImageRecord], extracted: Extracted
) -> pa.Table:
    """Return rows as a gallery in this state stores them: with codes, if it has projections."""
    basis = RegionBasis.load(storage, state.basis, model) if state.basis else None
    if not state.codes:
        return image_rows(records, extracted, basis)
    codes = whole_codes(model, load_components(storage, state.components), extracted.activations)
    return image_rows(records, extracted, basis, (state.codes, codes))


# --- records --------------------------------------------------------------------------------------------------------


def hash_records(rows: pa.Table) -> np.ndarray:
    """Return the checksums `(n,)` uint32 of rows with the columns `RECORD`."""
    numbers = [
        rows[name].cast(pa.int64()).fill_null(0).to_numpy().astype("<i8")
        for name in ("id", "size", "mtime_ns", "taken", "by_camera", "width", "height")
    ]
    fixed = np.concatenate([np.stack(numbers, 1).view(np.uint8), bytes_of(rows["digest"])[0]], 1)
    hashes: Any = _hash_rows(np.zeros_like(numbers[0]), fixed).tolist()  # the id is one of the numbers
    for text in ("path", "name"):
        hashes = map(zlib.crc32, rows[text].cast(pa.binary()).fill_null(b"").to_pylist(), hashes)
    return np.fromiter(hashes, np.uint32, len(rows))


def hash_ids(ids: np.ndarray) -> np.ndarray:
    """Return checksums `(n,)` uint32 of ids. Vectorized, because ids are read most often."""
    return ((ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)).astype(np.uint32)


class Listing(NamedTuple):
    """The columns that listings and filters use, for all images, ordered by id.

    `folder` `(n,)` are indices into `folders`, the paths of all folders with images, as text.
    """

    ids: np.ndarray
    taken: np.ndarray
    by_camera: np.ndarray
    folder: np.ndarray
    folders: list[str]


def listing_of(parts: Iterable[pa.Table]) -> Listing:
    """Return the listing of verified rows with the columns `RECORD`."""
    separator = os.sep.encode()
    found: list[tuple[np.ndarray, ...]] = [3 * (np.empty(0, np.int64),)]
    folders = [pa.array([], pa.binary()).dictionary_encode()]
    for rows in parts:
        parents = [path.rpartition(separator)[0] or separator for path in rows["path"].to_pylist()]
        folders.append(pa.array(parents, pa.binary()).dictionary_encode())
        found.append((rows["id"].to_numpy(), rows["taken"].to_numpy(), rows["by_camera"].to_numpy()))
    ids, taken, by_camera = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(ids, kind="stable")
    folder = pa.chunked_array(folders).unify_dictionaries().combine_chunks()
    names = [as_text(os.fsdecode(path)) for path in folder.dictionary.to_pylist()]
    return Listing(ids[order], taken[order], by_camera[order].astype(bool), folder.indices.to_numpy()[order], names)


# --- sealed columns -------------------------------------------------------------------------------------------------


def sealed_column(ids: np.ndarray, content: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Return rows `(n, k)` of any type as a column of bytes with checksums; null where not `valid` `(n,)`."""
    raw = np.ascontiguousarray(content).view(np.uint8).reshape(len(ids), -1)
    hashes = _hash_rows(ids, raw).astype("<u4").view(np.uint8).reshape(-1, _SIZE)
    sealed = np.ascontiguousarray(np.concatenate([raw, hashes], 1))
    nulls = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(sealed.shape[1]), len(sealed), [nulls, pa.py_buffer(sealed)])


def unseal(ids: np.ndarray, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the content `(n, k)` of a sealed column, zeros for nulls, and masks of valid and of damaged rows."""
    sealed, valid = bytes_of(column)
    content = np.ascontiguousarray(sealed[:, :-_SIZE])
    stored = np.ascontiguousarray(sealed[:, -_SIZE:]).view("<u4").reshape(-1)
    return content, valid, valid & (_hash_rows(ids, content) != stored)


def bytes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return a column of fixed-size bytes as an array `(n, k)`, zeros for nulls, and a mask `(n,)` of valid rows."""
    size = column.type.byte_width
    valid = np.asarray(column.is_valid())
    content = np.zeros((len(column), size), np.uint8)
    start = 0
    for chunk in column.chunks:
        data = chunk.buffers()[1]
        if data is not None and chunk.null_count < len(chunk):
            values = np.frombuffer(data, np.uint8, len(chunk) * size, chunk.offset * size)
            content[start : start + len(chunk)] = values.reshape(len(chunk), size)
        start += len(chunk)
    content[~valid] = 0
    return content, valid


def _hash_rows(ids: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Return the checksums `(n,)` uint32 of rows of bytes `(n, k)`, bound to the ids of their images."""
    if not len(content):
        return np.empty(0, np.uint32)
    size = content.shape[1]
    # One view for all rows: slicing an array row by row takes five times as long.
    whole = memoryview(np.ascontiguousarray(content).data).cast("B")
    rows = [whole[start : start + size] for start in range(0, len(whole), size)]
    return np.fromiter(map(zlib.crc32, rows, (ids & 0xFFFFFFFF).tolist()), np.uint32, len(content))
