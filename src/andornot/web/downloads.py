"""Hits as a CSV file, or as a zip of the images that is written while it is sent."""

import csv
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ..errors import printable
from ..files import open_regular
from ..gallery import Hit
from ..gallery.records import parent_folder
from .presenters import shown_path

_CHUNK: Final = 2**18
_COLUMNS: Final = ("rank", "distance", "id", "name", "label")
# A spreadsheet would evaluate a cell that starts with one of these.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
# Characters that Windows does not allow in file names; and the length that most file systems allow.
_REPLACED: Final = str.maketrans('<>:"|?*\\', 8 * "_")
_MAX_NAME_BYTES: Final = 255
_CSV_NAME: Final = "hits.csv"


def as_csv(hits: list[Hit], is_local: bool) -> bytes:
    """Return the hits as CSV with a header; local requests get a column of paths."""
    rows = [_row(rank, hit) for rank, hit in enumerate(hits, 1)]
    if not is_local:
        return _table([_COLUMNS, *rows])
    paths = (_escape(shown_path(hit.path)) for hit in hits)
    return _table([(*_COLUMNS, "path"), *((*row, path) for row, path in zip(rows, paths, strict=True))])


def as_zip(hits: list[Hit]) -> Iterator[bytes]:
    """Yield a zip of the images, named by rank, and of a CSV file that lists them.

    An image whose file is gone has no file name in the list. Paths are left out: zip files are given to others.
    """
    buffer = _Buffer()
    rows: list[tuple[object, ...]] = [(*_COLUMNS, "file")]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for rank, hit in enumerate(hits, 1):
            name = ""
            with suppress(OSError), open_regular(hit.path) as image:
                entry = zipfile.ZipInfo.from_file(hit.path, _entry_name(rank, hit), strict_timestamps=False)
                with archive.open(entry, "w", force_zip64=True) as packed:
                    while chunk := image.read(_CHUNK):
                        packed.write(chunk)
                        yield buffer.take()
                name = entry.filename
            rows.append((*_row(rank, hit), name))
        archive.writestr(_CSV_NAME, _table(rows))
    yield buffer.take()


class _Buffer(io.RawIOBase):
    """Bytes that were written and not taken yet."""

    def __init__(self) -> None:
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        written = bytes(content)  # type: ignore[call-overload]
        self._content += written
        return len(written)

    def take(self) -> bytes:
        content = bytes(self._content)
        self._content.clear()
        return content


def _row(rank: int, hit: Hit) -> tuple[object, ...]:
    return rank, f"{hit.distance:.6f}", hit.id, _escape(_name(hit)), _escape(printable(parent_folder(hit.path)))


def _escape(text: str) -> str:
    """Return a text that no spreadsheet evaluates."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _name(hit: Hit) -> str:
    return printable(os.path.basename(hit.path))  # noqa: PTH119


def _entry_name(rank: int, hit: Hit) -> str:
    """Return the name of an image in a zip, which every system can unpack."""
    name = f"{rank:04}-{_name(hit)}".translate(_REPLACED)
    stem, extension = os.path.splitext(name)  # noqa: PTH122
    if len(name.encode()) <= _MAX_NAME_BYTES:
        return name
    if len(extension.encode()) > _MAX_NAME_BYTES // 2:
        stem, extension = name, ""
    return stem.encode()[: _MAX_NAME_BYTES - len(extension.encode())].decode(errors="ignore") + extension


def _table(rows: list[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
