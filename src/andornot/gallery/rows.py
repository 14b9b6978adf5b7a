"""Rows of the table of images: their columns, and the checksums of everything in them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch

from .checksums import hash_ids, hash_rows, hash_texts, seal
from .encoding import Extracted
from .errors import DamagedError
from .projections import RegionBasis
from .records import ImageRecord, as_text

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG_KEY: Final = "andornot"
RECORD: Final = (
    "id", "path", "size", "mtime_ns", "digest", "taken", "by_camera", "width", "height", "checksum",
)  # fmt: skip
ACTIVATIONS: Final = "activations"
# Regions as int8 codes; or as activations, in a gallery with too few images for a basis.
REGIONS: Final = "regions"
FULL_REGIONS: Final = "full_regions"
CLASSES: Final = "classes"
NAMED: Final = "named"


class Listing(NamedTuple):
    """What lists and filters need of all images, in the order of their ids.

    `folder` `(n,)` are indexes into `folders`, the paths of all folders that have images, as text.
    """

    ids: np.ndarray
    taken: np.ndarray
    by_camera: np.ndarray
    folder: np.ndarray
    folders: list[str]


NAMES: Final = ("id", "name", "name_checksum")
IDS: Final = ("id", "id_checksum")
LISTING: Final = ("id", "taken", "by_camera", "folder", "listing_checksum")


def listing_of(rows: pa.Table, address: str) -> Listing:
    """Return the listing of rows with the columns `LISTING`, checked, in the order of their ids."""
    ids = rows["id"].to_numpy()
    order = np.argsort(ids, kind="stable")
    taken, by_camera = rows["taken"].to_numpy(), rows["by_camera"].to_numpy()
    folder = rows["folder"].combine_chunks().dictionary_encode()
    folders, numbers = folder.dictionary.to_pylist(), folder.indices.to_numpy()
    if not (hash_listing(ids, taken, by_camera, numbers, folders) == rows["listing_checksum"].to_numpy()).all():
        raise DamagedError(address, "a row of the table of images has a wrong checksum")
    return Listing(ids[order], taken[order], by_camera[order], numbers[order], folders)


def hash_listing(
    ids: np.ndarray, taken: np.ndarray, by_camera: np.ndarray, folder: np.ndarray, folders: Sequence[str]
) -> np.ndarray:
    """Return the checksums `(n,)` of a listing; `folder` `(n,)` are indexes into `folders`."""
    crcs = np.array([zlib.crc32(path.encode()) for path in folders], "<u4")[folder] if len(folders) else folder
    parts = [
        np.ascontiguousarray(taken.astype("<i8")).view(np.uint8).reshape(-1, 8),
        np.ascontiguousarray(crcs.astype("<u4")).view(np.uint8).reshape(-1, 4),
        by_camera.astype(np.uint8)[:, None],
    ]
    return hash_rows(ids, np.concatenate(parts, 1))


def are_names_sound(rows: pa.Table) -> np.ndarray:
    """Return which rows with the columns `NAMES` are as they were written `(n,)`."""
    names = [name.encode() for name in rows["name"].to_pylist()]
    return np.asarray(hash_texts(rows["id"].to_numpy(), names) == rows["name_checksum"].to_numpy())


def bytes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return a column of fixed-size bytes as an array `(n, k)`, zeros for nulls, and which are no nulls `(n,)`."""
    size = column.type.byte_width
    content = np.zeros((len(column), size), np.uint8)
    valid = np.ones(len(column), bool)
    start = 0
    for chunk in column.chunks:
        end = start + len(chunk)
        if chunk.null_count:
            valid[start:end] = np.asarray(chunk.is_valid())
        data = chunk.buffers()[1]
        if data is not None and chunk.null_count < len(chunk):
            values = np.frombuffer(data, np.uint8, len(chunk) * size, chunk.offset * size)
            content[start:end] = values.reshape(len(chunk), size)
        start = end
    if not valid.all():
        content[~valid] = 0
    return content, valid


def sealed_column(ids: np.ndarray, content: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Return rows of bytes `(n, k)`, of any type, as a column with checksums; null where they are not valid `(n,)`."""
    import pyarrow as pa

    raw = np.ascontiguousarray(content).view(np.uint8).reshape(len(ids), -1)
    sealed = np.ascontiguousarray(seal(ids, raw))
    nulls = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(sealed.shape[1]), len(sealed), [nulls, pa.py_buffer(sealed)])


def image_rows(
    records: Sequence[ImageRecord],
    extracted: Extracted,
    basis: RegionBasis | None = None,
    codes: tuple[str, np.ndarray] | None = None,
) -> pa.Table:
    """Return rows of the table of images. `codes`: the name of their column, and the codes `(n, d)` int8."""
    import pyarrow as pa

    ids = np.array([record.id for record in records], np.int64)
    paths, names = [os.fsencode(record.path) for record in records], [as_text(record.name) for record in records]
    folders = [as_text(record.folder) for record in records]
    known = list(dict.fromkeys(folders))
    taken, by_camera = np.array([r.taken for r in records], np.int64), np.array([r.by_camera for r in records], bool)
    columns: dict[str, Any] = {
        "id": ids,
        "path": pa.array(paths, pa.binary()),
        "name": pa.array(names, pa.string()),
        "folder": pa.array(folders, pa.string()),
        "size": np.array([record.size for record in records], np.int64),
        "mtime_ns": np.array([record.mtime_ns for record in records], np.int64),
        "digest": pa.array([record.digest for record in records], pa.binary(16)),
        "taken": taken,
        "by_camera": by_camera,
        "width": np.array([record.width for record in records], np.int32),
        "height": np.array([record.height for record in records], np.int32),
        "checksum": np.array([record.checksum for record in records], np.uint32),
        "listing_checksum": hash_listing(
            ids, taken, by_camera, np.array([known.index(folder) for folder in folders], np.int64), known
        ),
        "id_checksum": hash_ids(ids),
        "name_checksum": hash_texts(ids, (name.encode() for name in names)),
        "path_checksum": hash_texts(ids, paths),
        ACTIVATIONS: sealed_column(ids, extracted.activations),
    }
    if extracted.regions is not None and basis is None:
        columns[FULL_REGIONS] = sealed_column(ids, extracted.regions)
    if extracted.regions is not None and basis is not None:
        columns[REGIONS] = sealed_column(ids, basis.codes(torch.from_numpy(extracted.regions)).numpy())
    if extracted.classes is not None:
        columns[CLASSES] = sealed_column(ids, extracted.classes)
    if extracted.named is not None:
        columns[NAMED] = sealed_column(ids, extracted.named)
    if codes is not None:
        columns[codes[0]] = sealed_column(ids, codes[1])
    return pa.table(columns)
