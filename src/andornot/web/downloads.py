"""The hits of a search to keep: as a list, or as a zip of the pictures, written while it is sent."""

import csv
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ..data.errors import printable
from ..files import open_regular
from ..gallery import Hit
from ..gallery.filters import label_of

_CHUNK: Final = 2**18
_COLUMNS: Final = ("rank", "distance", "id", "name", "label")
LIST: Final = "hits.csv"


def as_csv(hits: list[Hit]) -> bytes:
    """The hits as a table, with a line of headings."""
    return _table([(*_COLUMNS,), *(_row(rank, hit) for rank, hit in enumerate(hits, 1))])


def as_zip(hits: list[Hit]) -> Iterator[bytes]:
    """The pictures with their rank before their names, and the table, which says under which name each of them is.

    A picture whose file is gone has no name there.
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
    return rank, f"{hit.distance:.6f}", hit.id, _name(hit), printable(label_of(hit.path))


def _name(hit: Hit) -> str:
    return printable(os.path.basename(hit.path))  # noqa: PTH119


def _table(rows: list[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
