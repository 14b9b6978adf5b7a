"""`folder:PATH`: every picture below a folder, without labels."""

import os
import warnings
from collections import Counter
from pathlib import Path

from ..errors import DataError
from ..formats import is_picture, kind_not_supported, picture_extensions
from ..imageset import ImageSet
from ..readers import FileReader
from .splits import check_folder, check_split


def open_folder(path: Path, split: str | None = None) -> ImageSet:
    """All pictures below the folder, sorted by path; hidden files and folders are left out."""
    check_folder(path)
    check_split(split, (), path)
    paths = find_pictures(path)
    if not paths:
        endings = ", ".join(sorted(picture_extensions()))
        raise DataError(f"{path}: no picture in this folder; file names that end in {endings} are taken for pictures")
    return ImageSet(FileReader(paths), paths)


def find_pictures(root: Path, *, first_only: bool = False, skipped: Counter[str] | None = None) -> list[str]:
    """The paths of the pictures below a folder, sorted. Links are followed, but no folder is entered twice.

    `skipped` is increased by the number of files of each kind that shows something and is not supported.
    """
    found: list[str] = []
    entered: set[tuple[int, int]] = set()

    def tell(error: OSError) -> None:
        if Path(error.filename) == root:
            raise DataError(f"{root}: {error.strerror}") from error
        warnings.warn(f"{error.filename}: {error.strerror}; what is in it is left out", stacklevel=2)

    for folder, subfolders, files in os.walk(root, followlinks=True, onerror=tell):
        status = os.stat(folder)  # noqa: PTH116
        if (status.st_dev, status.st_ino) in entered:
            subfolders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        subfolders[:] = sorted(name for name in subfolders if not _is_hidden(name))
        shown = [name for name in files if not _is_hidden(name)]
        paths = (os.path.join(folder, name) for name in shown)  # noqa: PTH118 - a Path for each of a million is slow
        found += [path for path in paths if is_picture(path)]
        if skipped is not None:
            skipped.update(kind for name in shown if (kind := kind_not_supported(name)) is not None)
        if first_only and found:
            break
    return sorted(found)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"
