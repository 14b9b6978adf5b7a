"""`imagefolder:PATH` and `imagenet100:PATH`: a folder for each class, with `train`, `val`, `test` above them or not."""

import re
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import DataError
from ..imageset import ImageSet, multi_hot
from ..readers import FileReader
from .folder import find_pictures
from .splits import ALIASES, check_folder, check_split

# ImageNet-100 is passed around with its classes spread over train.X1, train.X2, … and val.X.
_SPLIT_FOLDER: Final = re.compile(r"(train|training|val|valid|validation|test|testing)(\.\w+)?")


def open_imagefolder(path: Path, split: str | None = None) -> ImageSet:
    """The pictures in `PATH/CLASS/` or `PATH/SPLIT/CLASS/`, at any depth; classes are sorted by name."""
    check_folder(path)
    tops_of = split_folders(path)
    check_split(split, tuple(tops_of), path)
    chosen = {name: tops for name, tops in tops_of.items() if split in (None, name)} or {"": [path]}
    every_top = [top for tops in tops_of.values() for top in tops] or [path]
    class_names = sorted({folder.name for top in every_top for folder in _subfolders(top)})
    if not class_names:
        raise DataError(
            f"{path}: no class folders; expected {path}/CLASS/picture.jpg or {path}/train/CLASS/picture.jpg"
        )
    paths: list[str] = []
    classes: list[int] = []
    parts = {}
    for part, tops in chosen.items():
        start = len(paths)
        for folder in (folder for top in tops for folder in _subfolders(top)):
            found = find_pictures(folder)
            paths += found
            classes += [class_names.index(folder.name)] * len(found)
        parts[part] = range(start, len(paths))
    if not paths:
        raise DataError(f"{path}: the class folders have no picture in them")
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
    """The folders of each split: empty unless all subfolders are named like one (a class may be called `train`)."""
    parts: dict[str, list[Path]] = {}
    for folder in _subfolders(path):
        match = _SPLIT_FOLDER.fullmatch(folder.name)
        if match is None:
            return {}
        parts.setdefault(ALIASES.get(match[1], match[1]), []).append(folder)
    order = ("train", "val", "test")
    return {name: parts[name] for name in order if name in parts}


def has_class_folders(path: Path) -> bool:
    """Whether all pictures lie in at least two subfolders, below folders named like splits or not."""
    tops = [top for folders in split_folders(path).values() for top in folders] or [path]
    return all(_is_divided(top) for top in tops)


def _is_divided(top: Path) -> bool:
    folders = _subfolders(top)
    loose = any(str(Path(found).parent) == str(top) for found in find_pictures(top, first_only=True))
    return len(folders) > 1 and not loose and all(find_pictures(folder, first_only=True) for folder in folders)


def _subfolders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith((".", "__")))
