"""Checksums of the metadata of a table version: its manifest, deletion files and indexes.

Lance has no checksums. They are written for local galleries only, because object stores verify their own data. `table`
is the folder of the dataset.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import lance

_FOLDER: Final = "_checksums"
_MANIFEST: Final = re.compile(r"(\d{20})\.manifest", re.ASCII)
_HIGHEST: Final = 2**64 - 1


def manifest_of(table: Path, version: int) -> Path:
    """Return the path of a version's manifest. Lance names manifests so that the newest is listed first."""
    return table / "_versions" / f"{_HIGHEST - version:020}.manifest"


def versions_of(table: Path) -> list[int]:
    """Return the versions of a table that have a manifest, newest first."""
    found = (_MANIFEST.fullmatch(path.name) for path in (table / "_versions").glob("*.manifest"))
    return sorted((_HIGHEST - int(match[1]) for match in found if match), reverse=True)


def newest_version(table: Path) -> int | None:
    """Return the newest version of a table, by its manifest or its checksums; None if there is no table."""
    # Checksums are written after the manifest, so a version with checksums but no manifest has lost it.
    with_checksums = [int(path.stem) for path in (table / _FOLDER).glob("*.json") if path.stem.isdecimal()]
    return max([*with_checksums, *versions_of(table)], default=None)


def write_checksums(table: Path, dataset: lance.LanceDataset) -> None:
    """Store the checksums of a version that was just committed."""
    known: dict[str, int] = next(
        (found["files"] for version in versions_of(table)[:8] if (found := _read(table, version))), {}
    )
    names = (str(path.relative_to(table)) for path in _described(table, dataset))
    files = {name: known[name] if name in known else _hash(table / name) for name in names}
    text = json.dumps({"manifest": _hash(manifest_of(table, dataset.version)), "files": files})
    (table / _FOLDER).mkdir(exist_ok=True)
    # Not synced: a file lost or truncated by a power failure is treated as missing.
    _file(table, dataset.version).write_text(f"{zlib.crc32(text.encode()):08x} {text}", encoding="utf-8")


def remove_checksums(table: Path) -> None:
    """Remove the checksums of versions that no longer exist."""
    there = {f"{version}.json" for version in versions_of(table)}
    for path in (table / _FOLDER).glob("*.json"):
        if path.name not in there:
            path.unlink(missing_ok=True)


def remove_version(table: Path, version: int) -> None:
    """Remove the manifest of a version, so that the previous version becomes the newest."""
    manifest_of(table, version).unlink(missing_ok=True)
    _file(table, version).unlink(missing_ok=True)


def is_manifest_damaged(table: Path, version: int) -> bool:
    """Return whether the manifest of a version is missing or differs from its checksum; check before using it."""
    stored = _read(table, version)
    if stored is None:
        return not manifest_of(table, version).exists()
    return bool(_hash(manifest_of(table, version)) != stored["manifest"])


def damaged_files(table: Path, version: int, folder: str, checked: set[str]) -> list[str]:
    """Return the names of a version's files in a folder of the table whose checksums do not match.

    `checked` holds the files that were already verified; newly verified files are added to it.
    """
    stored: dict[str, int] = (_read(table, version) or {}).get("files", {})
    asked = {name: checksum for name, checksum in stored.items() if name.startswith(folder) and name not in checked}
    damaged = [name for name, checksum in asked.items() if _hash(table / name) != checksum]
    checked |= asked.keys() - damaged
    return damaged


def _described(table: Path, dataset: lance.LanceDataset) -> Iterator[Path]:
    """Yield the deletion files and the index files of a version."""
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
    """Return the checksums of a version; None if they are missing or damaged."""
    try:
        checksum, _, text = _file(table, version).read_text(encoding="utf-8").partition(" ")
    except (OSError, UnicodeError):
        return None
    content: dict[str, Any] | None = json.loads(text) if checksum == f"{zlib.crc32(text.encode()):08x}" else None
    return content


def _hash(path: Path) -> int:
    """Return the checksum of a file; -1 if it cannot be read."""
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return -1
