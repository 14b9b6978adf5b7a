"""Export of hits as a table or as files in a folder."""

import csv
import io
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ..errors import printable
from .errors import GalleryError
from .hits import Hit, percent
from .records import parent_folder

COLUMNS: Final = ("rank", "percent", "distance", "id", "name", "label", "words")
# A spreadsheet would evaluate a cell that starts with one of these.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
# Characters that Windows does not allow in file names, and the maximum length on most file systems.
_REPLACED: Final = str.maketrans('<>:"|?*\\', 8 * "_")
_MAX_NAME_BYTES: Final = 255


def hit_row(rank: int, hit: Hit) -> tuple[object, ...]:
    """Return the cells of a hit, one for each of `COLUMNS`."""
    texts = (_name(hit), printable(parent_folder(hit.path)), ", ".join(hit.words))
    return rank, percent(hit.truth).removesuffix(" %"), f"{hit.distance:.6f}", hit.id, *map(escape_cell, texts)


def escape_cell(text: str) -> str:
    """Return text that no spreadsheet evaluates as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def csv_table(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as CSV."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def file_name(rank: int, hit: Hit) -> str:
    """Return the name of an exported image: valid on every system, and sorted by rank."""
    name = f"{rank:04}-{_name(hit)}".translate(_REPLACED)
    stem, extension = os.path.splitext(name)  # noqa: PTH122
    if len(name.encode()) <= _MAX_NAME_BYTES:
        return name
    if len(extension.encode()) > _MAX_NAME_BYTES // 2:
        stem, extension = name, ""
    return stem.encode()[: _MAX_NAME_BYTES - len(extension.encode())].decode(errors="ignore") + extension


def export_files(hits: Sequence[Hit], folder: Path, *, link: bool = False) -> list[Path]:
    """Copy the files of hits into a folder, or link to them, and return the new paths.

    Missing files are skipped. If a target file exists, a GalleryError is raised and nothing is written.
    """
    targets = {folder / file_name(rank, hit): hit.path for rank, hit in enumerate(hits, 1)}
    for target in targets:
        if os.path.lexists(target):
            raise GalleryError(f"{target} exists: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for target, path in targets.items():
        if not os.path.isfile(path):  # noqa: PTH113 - bytes that are no text may be in it
            continue
        if link:
            os.symlink(path, target)  # noqa: PTH211
        else:
            with target.open("xb") as copy, open(path, "rb") as original:  # noqa: PTH123
                shutil.copyfileobj(original, copy)
            shutil.copystat(path, target)
        written.append(target)
    return written


def _name(hit: Hit) -> str:
    return printable(os.path.basename(hit.path))  # noqa: PTH119
