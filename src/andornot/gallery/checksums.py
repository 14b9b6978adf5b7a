"""Checksums of rows, and of what describes a version of a table: its manifest, its deletion files, and its indexes.

Lance has none, and a wrong byte must never become a wrong answer. Only for galleries on a disk: object stores check
what they store.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import lance
SIZE: Final = 4


def hash_rows(ids: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Return the checksums `(n,)` uint32 of rows of bytes `(n, k)`, bound to the ids of their images."""
    if not len(content):
        return np.empty(0, np.uint32)
    size = content.shape[1]
    # One view for all rows: slicing an array row by row takes five times as long.
    whole = memoryview(np.ascontiguousarray(content).data).cast("B")
    rows = [whole[start : start + size] for start in range(0, len(whole), size)]
    starts = (ids & 0xFFFFFFFF).tolist()
    return np.fromiter(map(zlib.crc32, rows, starts), np.uint32, len(content))


def hash_ids(ids: np.ndarray) -> np.ndarray:
    """Return checksums `(n,)` uint32 of ids, all at once: they are read more often than anything else."""
    return ((ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)).astype(np.uint32)


def hash_texts(ids: np.ndarray, texts: Iterable[bytes]) -> np.ndarray:
    """Return the checksums `(n,)` uint32 of texts, bound to the ids of their images."""
    return np.fromiter(map(zlib.crc32, texts, (ids & 0xFFFFFFFF).tolist()), np.uint32, len(ids))


def seal(ids: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Return rows of bytes `(n, k)` with their checksums behind them, `(n, k + 4)`."""
    hashes = hash_rows(ids, content).astype("<u4").view(np.uint8).reshape(-1, SIZE)
    return np.concatenate([content, hashes], 1)


def unseal(ids: np.ndarray, sealed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what was sealed `(n, k)`, contiguous, and which rows are as they were written `(n,)` bool."""
    content = np.ascontiguousarray(sealed[:, :-SIZE])
    stored = np.ascontiguousarray(sealed[:, -SIZE:]).view("<u4").reshape(-1)
    return content, hash_rows(ids, content) == stored


_FOLDER: Final = "_checksums"
_MANIFEST: Final = re.compile(r"(\d{20})\.manifest", re.ASCII)
_HIGHEST: Final = 2**64 - 1


def manifest_of(table: Path, version: int) -> Path:
    """Return the manifest of a version. Lance names them so that the newest one is listed first."""
    return table / "_versions" / f"{_HIGHEST - version:020}.manifest"


def versions_of(table: Path) -> list[int]:
    """Return the versions of a table that have a manifest, the newest first."""
    found = (_MANIFEST.fullmatch(path.name) for path in (table / "_versions").glob("*.manifest"))
    return sorted((_HIGHEST - int(match[1]) for match in found if match), reverse=True)


def newest_version(table: Path) -> int | None:
    """Return the newest version of a table, by its manifest or its checksums; None if there is no table."""
    # Checksums are written after the manifest: those that are found have one, unless it is lost.
    with_checksums = [int(path.stem) for path in (table / _FOLDER).glob("*.json") if path.stem.isdecimal()]
    return max([*with_checksums, *versions_of(table)], default=None)


def write_checksums(table: Path, dataset: lance.LanceDataset) -> None:
    """Store the checksums of a version that was just committed."""
    known = _read(table, dataset.version) or {}
    files = {str(path.relative_to(table)): 0 for path in _described(table, dataset)}
    previous: Mapping[str, Any] = next(
        (found for version in versions_of(table)[:8] if (found := _read(table, version))), {}
    ).get("files", {})
    content = {
        "manifest": _hash(manifest_of(table, dataset.version)),
        "files": {name: previous[name] if name in previous else _hash(table / name) for name in files},
    }
    if content == known:
        return
    text = json.dumps(content)
    (table / _FOLDER).mkdir(exist_ok=True)
    # Not synced: a file that is lost or cut off by a power failure is as good as none.
    _file(table, dataset.version).write_text(f"{zlib.crc32(text.encode()):08x} {text}", encoding="utf-8")


def remove_checksums(table: Path) -> None:
    """Remove the checksums of versions that are gone."""
    there = {f"{version}.json" for version in versions_of(table)}
    for path in (table / _FOLDER).glob("*.json"):
        if path.name not in there:
            path.unlink(missing_ok=True)


def damaged_manifest(table: Path, version: int) -> bool:
    """Return whether the manifest of a version is lost, or another one than was written; ask before it is used."""
    stored = _read(table, version)
    if stored is None:
        return not manifest_of(table, version).exists()
    return bool(_hash(manifest_of(table, version)) != stored["manifest"])


def remove_version(table: Path, version: int) -> None:
    """Remove the manifest of a version, so that the one before it is the newest."""
    manifest_of(table, version).unlink(missing_ok=True)
    _file(table, version).unlink(missing_ok=True)


def damaged_files(table: Path, version: int, folder: str, checked: set[str]) -> list[str]:
    """Return the names of files of a version in a folder of the table that are not as they were written.

    `checked` are those that need not be read again; more are added to it.
    """
    stored = (_read(table, version) or {}).get("files", {})
    damaged = []
    for name, checksum in stored.items():
        path = table / name
        if name.startswith(folder) and str(path) not in checked:
            if _hash(path) == checksum:
                checked.add(str(path))
            else:
                damaged.append(name)
    return damaged


def _described(table: Path, dataset: lance.LanceDataset) -> Iterable[Path]:
    """Yield the deletion files and the files of indexes of a version."""
    for fragment in dataset.get_fragments():
        name = fragment.deletion_file()
        if name is not None:
            yield table / name
    for index in dataset.describe_indices():
        for segment in index.segments:
            yield from sorted((table / "_indices" / str(segment.uuid)).glob("*"))


def _file(table: Path, version: int) -> Path:
    return table / _FOLDER / f"{version}.json"


def _read(table: Path, version: int) -> dict[str, Any] | None:
    """Return the checksums of a version; None if they are not there or damaged themselves."""
    try:
        checksum, _, text = _file(table, version).read_text(encoding="utf-8").partition(" ")
    except (OSError, UnicodeError):
        return None
    if checksum != f"{zlib.crc32(text.encode()):08x}":
        return None
    content: dict[str, Any] = json.loads(text)
    return content


def _hash(path: Path) -> int:
    """Return the checksum of a file; -1 for one that cannot be read."""
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return -1
