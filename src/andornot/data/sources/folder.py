"""`folder:PATH` and `imagefolder:PATH`: the images below a folder, with labels from a CSV file or from subfolders."""

import csv
import heapq
import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import DataError
from ..formats import is_image, kind_not_supported, taken_for_images
from ..imageset import ImageSet, multi_hot
from ..readers import FileReader
from ..specs import ALIASES, check_folder, check_split

# A folder with an entry of this name is a gallery and is skipped.
SKIP_MARKER: Final = "images.lance"


def open_folder(path: Path, split: str | None = None, *, labels: str | None = None) -> ImageSet:
    """Open all images below the folder, sorted by path, without hidden files and folders.

    `labels` is a CSV file in the folder, each row with the path of an image and any number of labels. Only images
    listed in it are then opened.
    """
    check_folder(path)
    check_split(split, (), path)
    if labels is not None:
        return _open_labelled(path, path / labels)
    paths = find_images(path)
    if not paths:
        raise DataError(f"{path}: no image in this folder; {taken_for_images()}")
    return ImageSet(FileReader(paths), paths)


def _open_labelled(path: Path, file: Path) -> ImageSet:
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = {row[0].strip(): {name.strip() for name in row[1:]} - {""} for row in csv.reader(text) if row}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: the labels cannot be read ({error})") from error
    class_names = sorted(set().union(*rows.values()))
    if not class_names:
        raise DataError(f"{file}: no labels; expected rows such as beach/1.jpg,dog,person")
    missing = next((name for name in rows if not (path / name).is_file()), None)
    if missing is not None:
        raise DataError(f'{file}: there is no image "{missing}" in {path}')
    paths = [str(path / name) for name in rows]
    numbers = {name: number for number, name in enumerate(class_names)}
    classes = [sorted(numbers[name] for name in names) for names in rows.values()]
    return ImageSet(FileReader(paths), paths, labels=multi_hot(classes, len(class_names)), class_names=class_names)


def find_images(root: Path, *, first_only: bool = False, skipped: Counter[str] | None = None) -> list[str]:
    """Return the paths of the images below a folder, sorted, each file once.

    Links are followed, but real paths are preferred to links, and no folder is entered twice. Folders of galleries are
    skipped, because the images in them are thumbnails. `skipped` counts unsupported image and video files by kind.
    """
    walk = _Walk(root, Counter() if skipped is None else skipped)
    folders, links = [str(root)], walk.folder_links
    # Follow links last, so that real paths are found first.
    while (folders or links) and not (first_only and walk.found):
        folders += walk.enter(folders.pop() if folders else heapq.heappop(links))
    return sorted([*walk.found, *walk.linked_files()])


class _Walk:
    """The images and links found so far in a folder tree."""

    def __init__(self, root: Path, skipped: Counter[str]) -> None:
        self._root, self._skipped = root, skipped
        self._entered: set[tuple[int, int]] = set()
        self._file_links: list[str] = []
        self.folder_links: list[str] = []
        self.found: list[str] = []

    def enter(self, folder: str) -> list[str]:
        """Collect the images in a folder, and return its subfolders except for links."""
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
        if identity in self._entered or any(entry.name == SKIP_MARKER for entry in visible):
            return []
        self._entered.add(identity)
        folders = []
        for entry in visible:
            if entry.is_symlink() and skipped_around(os.path.realpath(entry.path)):
                continue
            if os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir():  # noqa: PTH112
                if entry.is_symlink():
                    heapq.heappush(self.folder_links, entry.path)
                else:
                    folders.append(entry.path)
            elif is_image(entry.path):
                (self._file_links if entry.is_symlink() else self.found).append(entry.path)
            elif (kind := kind_not_supported(entry.name)) is not None:
                self._skipped[kind] += 1
        return folders

    def linked_files(self) -> list[str]:
        """Return one link to each file that was not found by its real path, and broken links."""
        if not self._file_links:
            return []
        folders: dict[str, str] = {}
        real = {real_path(path, folders) for path in self.found}
        targets = {os.path.realpath(link): link for link in sorted(self._file_links, reverse=True)}
        return [link for target, link in targets.items() if target not in real]


def real_path(path: str, folders: dict[str, str]) -> str:
    """Return the path with links in its folders resolved; `folders` is a cache."""
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)  # noqa: PTH118 - creating a Path per file is slow for millions of files


def skipped_around(path: str) -> str | None:
    """Return the folder with a SKIP_MARKER that is the path or contains it; None if there is none."""
    while not os.path.lexists(os.path.join(path, SKIP_MARKER)):  # noqa: PTH118
        above = os.path.dirname(path)  # noqa: PTH120
        if above == path:
            return None
        path = above
    return path


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


# Copies of ImageNet-100 have their classes spread over train.X1, train.X2, … and val.X.
_SPLIT_FOLDER: Final = re.compile(r"(train|training|val|valid|validation|test|testing)(\.\w+)?")


def open_imagefolder(path: Path, split: str | None = None) -> ImageSet:
    """Open the images in `PATH/CLASS/` or `PATH/SPLIT/CLASS/`, at any depth; classes are sorted by name."""
    check_folder(path)
    tops_of = split_folders(path)
    check_split(split, tuple(tops_of), path)
    chosen = {name: tops for name, tops in tops_of.items() if split in (None, name)} or {"": [path]}
    every_top = [top for tops in tops_of.values() for top in tops] or [path]
    class_names = sorted({folder.name for top in every_top for folder in _subfolders(top)})
    if not class_names:
        raise DataError(f"{path}: no class folders; expected {path}/CLASS/image.jpg or {path}/train/CLASS/image.jpg")
    paths: list[str] = []
    classes: list[int] = []
    parts = {}
    for part, tops in chosen.items():
        start = len(paths)
        for folder in (folder for top in tops for folder in _subfolders(top)):
            found = find_images(folder)
            paths += found
            classes += [class_names.index(folder.name)] * len(found)
        parts[part] = range(start, len(paths))
    if not paths:
        raise DataError(f"{path}: the class folders have no image in them")
    labels = multi_hot(np.array(classes), len(class_names))
    return ImageSet(
        FileReader(paths),
        paths,
        labels=labels,
        class_names=class_names,
        split=split,
        splits=tuple(tops_of),
        parts=parts if tops_of else None,
    )


def split_folders(path: Path) -> dict[str, list[Path]]:
    """Return the folders of each split; empty unless all subfolders are named like splits (`train` may be a class)."""
    parts: dict[str, list[Path]] = {}
    for folder in _subfolders(path):
        match = _SPLIT_FOLDER.fullmatch(folder.name)
        if match is None:
            return {}
        parts.setdefault(ALIASES.get(match[1], match[1]), []).append(folder)
    order = ("train", "val", "test")
    return {name: parts[name] for name in order if name in parts}


def has_class_folders(path: Path) -> bool:
    """Return whether all images are in at least two class folders, with or without folders of splits above them."""
    tops = [top for folders in split_folders(path).values() for top in folders] or [path]
    return all(_is_divided(top) for top in tops)


def _is_divided(top: Path) -> bool:
    folders = _subfolders(top)
    loose = any(str(Path(found).parent) == str(top) for found in find_images(top, first_only=True))
    return len(folders) > 1 and not loose and all(find_images(folder, first_only=True) for folder in folders)


def _subfolders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith((".", "__")))
