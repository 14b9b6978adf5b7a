"""`folder:PATH`: every picture below a folder, without labels."""

import heapq
import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Final

from ..errors import DataError
from ..formats import is_picture, kind_not_supported, taken_for_pictures
from ..imageset import ImageSet
from ..readers import FileReader
from .splits import check_folder, check_split

# The file that makes a folder a gallery, which belongs to it with all that is in it.
GALLERY_MARK: Final = "gallery.sqlite"


def open_folder(path: Path, split: str | None = None) -> ImageSet:
    """All pictures below the folder, sorted by path; hidden files and folders are left out."""
    check_folder(path)
    check_split(split, (), path)
    paths = find_pictures(path)
    if not paths:
        raise DataError(f"{path}: no picture in this folder; {taken_for_pictures()}")
    return ImageSet(FileReader(paths), paths)


def find_pictures(root: Path, *, first_only: bool = False, skipped: Counter[str] | None = None) -> list[str]:
    """The paths of the pictures below a folder, sorted, each file once.

    Links are followed, but what is there under its own name too is taken under that, and no folder is entered twice.
    The folder of a gallery is left out: the pictures in it are thumbnails of others. `skipped` is increased by the
    number of files of each kind that shows something and is not supported.
    """
    walk = _Walk(root, Counter() if skipped is None else skipped)
    folders, links = [str(root)], walk.folder_links
    # Links wait until everything is found that is there under its own name.
    while (folders or links) and not (first_only and walk.found):
        folders += walk.enter(folders.pop() if folders else heapq.heappop(links))
    return sorted([*walk.found, *walk.linked_files()])


class _Walk:
    """What was found in a tree of folders so far, and the links in it."""

    def __init__(self, root: Path, skipped: Counter[str]) -> None:
        self._root, self._skipped = root, skipped
        self._entered: set[tuple[int, int]] = set()
        self._file_links: list[str] = []
        self.folder_links: list[str] = []
        self.found: list[str] = []

    def enter(self, folder: str) -> list[str]:
        """Takes the pictures in a folder; the folders in it, but for links."""
        try:
            status = os.stat(folder)  # noqa: PTH116
            with os.scandir(folder) as entries:
                visible = [entry for entry in entries if not _is_hidden(entry.name)]
        except OSError as error:
            if folder == str(self._root):
                raise DataError(f"{folder}: {error.strerror}") from error
            warnings.warn(f"{folder}: {error.strerror}; what is in it is left out", stacklevel=3)
            return []
        identity = status.st_dev, status.st_ino
        if identity in self._entered or any(entry.name == GALLERY_MARK for entry in visible):
            return []
        self._entered.add(identity)
        folders = []
        for entry in visible:
            if entry.is_symlink() and gallery_around(os.path.realpath(entry.path)):
                continue
            if os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir():  # noqa: PTH112
                if entry.is_symlink():
                    heapq.heappush(self.folder_links, entry.path)
                else:
                    folders.append(entry.path)
            elif is_picture(entry.path):
                (self._file_links if entry.is_symlink() else self.found).append(entry.path)
            elif (kind := kind_not_supported(entry.name)) is not None:
                self._skipped[kind] += 1
        return folders

    def linked_files(self) -> list[str]:
        """One link to each file that was not found under its own name; also those that lead nowhere."""
        if not self._file_links:
            return []
        folders: dict[str, str] = {}
        real = {real_path(path, folders) for path in self.found}
        targets = {os.path.realpath(link): link for link in sorted(self._file_links, reverse=True)}
        return [link for target, link in targets.items() if target not in real]


def real_path(path: str, folders: dict[str, str]) -> str:
    """The path without links in its folders; `folders` keeps what was looked up."""
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)  # noqa: PTH118 - a Path for each of a million files is slow


def gallery_around(path: str) -> str | None:
    """The folder of the gallery that a path lies in, or is; None if there is none."""
    while not os.path.lexists(os.path.join(path, GALLERY_MARK)):  # noqa: PTH118
        above = os.path.dirname(path)  # noqa: PTH120
        if above == path:
            return None
        path = above
    return path


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"
