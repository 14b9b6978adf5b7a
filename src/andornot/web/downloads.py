"""The hits of a search to keep: as a list, or as a zip of the pictures, written while it is sent."""

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
from ..gallery.paths import label_of
from .presenters import tell_path

_CHUNK: Final = 2**18
_COLUMNS: Final = ("rank", "distance", "id", "name", "label")
# With one of these a spreadsheet begins to compute, and may run what the name of a file says.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
LIST: Final = "hits.csv"


def as_csv(hits: list[Hit], is_owner: bool) -> bytes:
    """The hits as a table, with a line of headings; its last column, where the pictures are, is for their owner."""
    rows = [_row(rank, hit) for rank, hit in enumerate(hits, 1)]
    if not is_owner:
        return _table([_COLUMNS, *rows])
    paths = (_harmless(tell_path(hit.path)) for hit in hits)
    return _table([(*_COLUMNS, "path"), *((*row, path) for row, path in zip(rows, paths, strict=True))])


def as_zip(hits: list[Hit]) -> Iterator[bytes]:
    """The pictures with their rank before their names, and the table, which says under which name each of them is.

    A picture whose file is gone has no name there. Nobody's paths are in it: such a file is made to be given away.
    """
    sink = _Sink()
    rows: list[tuple[object, ...]] = [(*_COLUMNS, "file")]
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for rank, hit in enumerate(hits, 1):
            name = ""
            with suppress(OSError), open_regular(hit.path) as picture:
                entry = zipfile.ZipInfo.from_file(hit.path, f"{rank:04}-{_name(hit)}", strict_timestamps=False)
                with archive.open(entry, "w", force_zip64=True) as packed:
                    while chunk := picture.read(_CHUNK):
                        packed.write(chunk)
                        yield sink.taken()
                name = entry.filename
            rows.append((*_row(rank, hit), name))
        archive.writestr(LIST, _table(rows))
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What was written and not taken yet."""

    def __init__(self) -> None:
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        written = bytes(content)  # type: ignore[call-overload]
        self._content += written
        return len(written)

    def taken(self) -> bytes:
        content = bytes(self._content)
        self._content.clear()
        return content


def _row(rank: int, hit: Hit) -> tuple[object, ...]:
    return rank, f"{hit.distance:.6f}", hit.id, _harmless(_name(hit)), _harmless(printable(label_of(hit.path)))


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _name(hit: Hit) -> str:
    return printable(os.path.basename(hit.path))  # noqa: PTH119


def _table(rows: list[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
