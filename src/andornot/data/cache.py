"""Disk cache of resized images, for data sets larger than memory: one folder per entry, written atomically.

An entry is written under a temporary name by one process at a time, and renamed when it is complete. What a killed
process leaves behind is ignored, and removed by the next writer. The least recently used entries are evicted.
"""

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from .errors import BrokenImageError

_FORMAT: Final = 1
_DONE, _UNDER_WAY, _LOCK = ".images", ".part", ".lock"
_PIXELS, _INDEX = "pixels.uint8", "index.json"


class Entry(NamedTuple):
    """A cached set: readable images (n, C, size, size), None if there are none; (position, reason) of the others."""

    pixels: np.memmap | None
    broken: list[tuple[int, str]]


class DiskCache:
    """A folder of entries with a total size of at most `limit` bytes."""

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder = Path(folder)
        self.limit = limit

    def get_or_write(
        self, key: str, shape: tuple[int, ...], count: int, rows: Iterable[np.ndarray | BrokenImageError]
    ) -> Entry:
        """Return the entry of a key, written from `rows` if missing; each row is a uint8 array of `shape` or an error.

        Raises an OSError if the folder is not writable or the disk is full. If another process is writing the same
        entry, wait for it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / f"{key}{_LOCK}"):
            found = self._load(key, shape)
            if found is None:
                self._make_room(count * int(np.prod(shape)), key)
                self._write(key, rows)
                found = self._load(key, shape)
        if found is None:
            raise OSError(0, f"the cache in {self.folder} was changed while it was written")
        return found

    def _load(self, key: str, shape: tuple[int, ...]) -> Entry | None:
        folder = self.folder / f"{key}{_DONE}"
        try:
            index: dict[str, Any] = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
            full_shape = (int(index["count"]), *shape)
            if index["format"] != _FORMAT or (folder / _PIXELS).stat().st_size != np.prod(full_shape):
                raise ValueError("another format, or damaged")
            broken = [(int(position), str(reason)) for position, reason in index["broken"]]
            pixels = np.memmap(folder / _PIXELS, np.uint8, "r", shape=full_shape) if index["count"] else None
            os.utime(folder)  # mark as recently used
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Entry(pixels, broken)

    def _write(self, key: str, rows: Iterable[np.ndarray | BrokenImageError]) -> None:
        part, done = self.folder / f"{key}{_UNDER_WAY}", self.folder / f"{key}{_DONE}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            count, broken = 0, []
            with (part / _PIXELS).open("wb") as file:
                for position, row in enumerate(rows):
                    if isinstance(row, BrokenImageError):
                        broken.append((position, row.reason))
                    else:
                        # Use write, not a memory map: with a map, a full disk would crash the process.
                        file.write(row.tobytes())
                        count += 1
                file.flush()
                os.fsync(file.fileno())
            index = {"format": _FORMAT, "count": count, "broken": broken}
            with (part / _INDEX).open("w", encoding="utf-8") as text:
                json.dump(index, text)
                text.flush()
                os.fsync(text.fileno())
            shutil.rmtree(done, ignore_errors=True)
            part.rename(done)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def _make_room(self, needed: int, key: str) -> None:
        """Remove unfinished entries and the least recently used ones until `needed` bytes fit the limit."""
        for part in self._entries(_UNDER_WAY):
            if part.name != f"{key}{_UNDER_WAY}":
                with suppress(Timeout), FileLock(part.with_suffix(_LOCK), timeout=0):
                    shutil.rmtree(part, ignore_errors=True)
        entries = sorted(self._entries(_DONE), key=_last_used)
        sizes = [_size(entry) for entry in entries]
        excess = sum(sizes) + needed - self.limit
        for entry, size in zip(entries, sizes, strict=True):
            if excess <= 0:
                break
            shutil.rmtree(entry, ignore_errors=True)
            with suppress(OSError):
                entry.with_suffix(_LOCK).unlink()
            excess -= size
        if shutil.disk_usage(self.folder).free < needed:
            raise OSError(0, f"{needed / 2**30:.1f} GiB are needed, and the disk has less")

    def _entries(self, ending: str) -> list[Path]:
        """Return the folders with this ending that contain only files of an entry; others are not part of the cache."""
        return [folder for folder in self.folder.glob(f"*{ending}") if _is_entry(folder)]


def default_cache_folder() -> Path:
    """Return `$ANDORNOT_CACHE`, or `andornot` in the user's cache folder."""
    chosen = os.environ.get("ANDORNOT_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "andornot"


def _is_entry(folder: Path) -> bool:
    try:
        return {child.name for child in folder.iterdir()} <= {_PIXELS, _INDEX}
    except OSError:
        return False


def _last_used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _size(entry: Path) -> int:
    total = 0
    with suppress(OSError):
        total = sum(file.stat().st_size for file in entry.iterdir())
    return total
