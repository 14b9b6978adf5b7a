"""`coco:PATH`: COCO, with several classes an image and boxes, from `instances_SPLIT.json`."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import DataError
from ..imageset import Box, ImageSet, multi_hot
from ..readers import FileReader
from ..specs import check_folder, check_split


def open_coco(path: Path, split: str | None = None) -> ImageSet:
    """Open the images of a split (`train2017`, or `train` if there is only one year), or of all splits."""
    check_folder(path)
    files = find_instances(path)
    if not files:
        raise DataError(f"{path}: no COCO; expected {path}/annotations/instances_val2017.json and {path}/val2017/*.jpg")
    without_year = [name for name in files if split is not None and re.sub(r"\d+$", "", name) == split]
    if split not in files and len(without_year) == 1:
        split = without_year[0]
    check_split(split, tuple(files), path)
    names: dict[int, str] = {}
    paths: list[str] = []
    boxes: list[list[Box]] = []
    parts = {}
    for part in files if split is None else [split]:
        part_names, part_paths, part_boxes = _read(path, part, files[part])
        if names and names != part_names:
            raise DataError(f"{files[part]}: its categories differ from those of the other splits; choose one split")
        names = part_names
        parts[part] = range(len(paths), len(paths) + len(part_paths))
        paths += part_paths
        boxes += part_boxes
    if not paths:
        raise DataError(f"{path}: {', '.join(str(file) for file in files.values())} name no image")
    return ImageSet(
        FileReader(paths),
        paths,
        labels=multi_hot([sorted({number for number, _ in of_one}) for of_one in boxes], len(names)),
        class_names=tuple(names.values()),
        boxes=boxes,
        split=split,
        splits=tuple(files),
        parts=parts,
    )


def find_instances(path: Path) -> dict[str, Path]:
    """Return the annotation files by split."""
    found = [*sorted(path.glob("annotations/instances_*.json")), *sorted(path.glob("instances_*.json"))]
    return {file.stem.removeprefix("instances_"): file for file in found}


def _read(path: Path, split: str, file: Path) -> tuple[dict[int, str], list[str], list[list[Box]]]:
    """Return the categories by id, the image paths, and the boxes of each image, with classes numbered by id."""
    try:
        content: dict[str, Any] = json.loads(file.read_bytes())
        names = {int(row["id"]): str(row["name"]) for row in sorted(content["categories"], key=lambda row: row["id"])}
        numbers = {identity: number for number, identity in enumerate(names)}
        images = {row["id"]: _safe(str(row["file_name"])) for row in content["images"]}
        boxes: dict[Any, list[Box]] = {identity: [] for identity in images}
        for row in content["annotations"]:
            x, y, width, height = (float(side) for side in row["bbox"])
            boxes[row["image_id"]].append((numbers[row["category_id"]], (x, y, x + width, y + height)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DataError(f"{file}: not COCO's instances ({reason})") from error
    folder = _image_folder(path, split, next(iter(images.values()), ""))
    order = sorted(images, key=lambda identity: images[identity])
    return names, [str(folder / images[identity]) for identity in order], [boxes[identity] for identity in order]


def _safe(name: str) -> str:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError(f'the file name "{name}" leads out of the folder')
    return name


def _image_folder(path: Path, split: str, example: str) -> Path:
    folders = [path / split, path / "images" / split, path / "images", path]
    return next((folder for folder in folders if (folder / example).is_file()), folders[0])
