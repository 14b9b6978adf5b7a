"""Downloads of hits: as a CSV file, or as a zip file of the images that is streamed."""

import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from ..errors import printable
from ..files import open_regular
from ..gallery import Hit
from ..gallery.exporting import COLUMNS, csv_table, escape_cell, file_name, hit_row
from ..gallery.near_duplicates import DuplicateImage
from ..gallery.records import parent_folder
from .presenters import shown_path

_CHUNK: Final = 2**18
_CSV_NAME: Final = "hits.csv"


def as_csv(hits: list[Hit], is_local: bool) -> bytes:
    """Return the hits as CSV with a header; local requests get a column of paths."""
    rows = [hit_row(rank, hit) for rank, hit in enumerate(hits, 1)]
    if not is_local:
        return csv_table([COLUMNS, *rows])
    paths = (escape_cell(shown_path(hit.path)) for hit in hits)
    return csv_table([(*COLUMNS, "path"), *((*row, path) for row, path in zip(rows, paths, strict=True))])


def duplicates_as_csv(groups: Sequence[Sequence[DuplicateImage]], is_local: bool) -> bytes:
    """Return groups of duplicates as CSV with a header; local requests get a column of paths."""
    columns = ("group", "copy", "id", "name", "label", "bytes")
    rows: list[tuple[object, ...]] = [(*columns, "path") if is_local else columns]
    for number, group in enumerate(groups, 1):
        for image in group:
            texts = [os.path.basename(image.path), parent_folder(image.path)]  # noqa: PTH119
            row = number, image.copy, image.id, *(escape_cell(printable(text)) for text in texts), image.size
            rows.append((*row, escape_cell(shown_path(image.path))) if is_local else row)
    return csv_table(rows)


def as_zip(hits: list[Hit]) -> Iterator[bytes]:
    """Yield a zip file with the images, named by rank, and a CSV file that lists them.

    Missing files have no file name in the list. Paths are left out, because zip files are likely to be shared.
    """
    buffer = _Buffer()
    rows: list[tuple[object, ...]] = [(*COLUMNS, "file")]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for rank, hit in enumerate(hits, 1):
            name = ""
            with suppress(OSError), open_regular(hit.path) as image:
                entry = zipfile.ZipInfo.from_file(hit.path, file_name(rank, hit), strict_timestamps=False)
                with archive.open(entry, "w", force_zip64=True) as packed:
                    while chunk := image.read(_CHUNK):
                        packed.write(chunk)
                        yield buffer.take()
                name = entry.filename
            rows.append((*hit_row(rank, hit), name))
        archive.writestr(_CSV_NAME, csv_table(rows))
    yield buffer.take()


class _Buffer(io.RawIOBase):
    """A buffer of bytes that were written but not sent yet."""

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
