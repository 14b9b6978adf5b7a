"""`voc:PATH` and `coco:PATH`: Pascal VOC and COCO, with several classes per image and boxes.

Annotations of COCO are in `instances_SPLIT.json`, those of VOC in `Annotations/*.xml`. Labels of VOC images without
annotations come from the lists per class in `ImageSets/Main`, with values 1 (present), -1 (absent) and 0 (only
difficult objects); these images have no boxes. Images with neither are left out, unless there are only such images:
then the set has no labels.
"""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ..errors import DataError
from ..imageset import Box, ImageSet, multi_hot
from ..readers import FileReader
from ..specs import check_folder, check_split

CLASS_NAMES: Final = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
SPLITS: Final = ("train", "val", "trainval", "test")
_NUMBERS: Final = {name: number for number, name in enumerate(CLASS_NAMES)}
_MAX_XML_BYTES: Final = 10_000_000

Annotation = tuple[set[int], list[Box]]


def open_voc(
    path: Path, split: str | None = None, *, years: tuple[str, ...] | None = None, difficult: bool = False
) -> ImageSet:
    """Open the images of a split in the given years (default: all years); without a split, those of all lists.

    The test images of 2012 have no labels, so the test split of `years=2007+2012` is that of 2007, as in most papers.
    """
    check_folder(path)
    roots = find_years(path)
    if not roots:
        raise DataError(f"{path}: no Pascal VOC; expected {path}/VOC2007/ImageSets/Main/trainval.txt and so on")
    for year in years or ():
        if year not in roots:
            raise DataError(f"{path}: no year {year}, it has {', '.join(roots)}")
    chosen = {year: root for year, root in roots.items() if years is None or year in years}
    splits = [name for name in SPLITS if any(_list_file(root, name).is_file() for root in chosen.values())]
    check_split(split, splits, f"{path} ({', '.join(chosen)})")
    paths: list[str] = []
    splits_of: dict[str, set[str]] = {}
    annotations: list[Annotation | None] = []
    for root in chosen.values():
        if split is not None and not _list_file(root, split).is_file():
            continue
        lists = _class_lists(root, difficult)
        members = {name: set(_image_names(root, [name])) for name in splits}
        for image in _image_names(root, [split] if split else splits):
            paths.append(str(root / "JPEGImages" / f"{image}.jpg"))
            splits_of[paths[-1]] = {name for name, images in members.items() if image in images}
            file = root / "Annotations" / f"{image}.xml"
            annotations.append(read_annotation(file, difficult) if file.is_file() else lists.get(image))
    if not paths:
        raise DataError(f"{path}: the lists in ImageSets/Main name no image")
    if all(annotation is None for annotation in annotations):
        return ImageSet(FileReader(paths), paths, split=split, splits=splits)
    known = [(name, annotation) for name, annotation in zip(paths, annotations, strict=True) if annotation is not None]
    paths = [name for name, _ in known]
    boxes = [annotation[1] for _, annotation in known]
    return ImageSet(
        FileReader(paths),
        paths,
        labels=multi_hot([sorted(annotation[0]) for _, annotation in known], len(CLASS_NAMES)),
        class_names=CLASS_NAMES,
        boxes=boxes if any(boxes) else None,
        split=split,
        splits=splits,
        parts={name: [number for number, file in enumerate(paths) if name in splits_of[file]] for name in splits},
    )


def find_years(path: Path) -> dict[str, Path]:
    """Return the folders VOC2007, VOC2012, … by year: in VOCdevkit, in its parent, or the folder itself."""
    for root in (path, path / "VOCdevkit"):
        found = {child.name[3:]: child for child in sorted(root.glob("VOC[0-9][0-9][0-9][0-9]")) if _is_year(child)}
        if found:
            return found
    if _is_year(path):
        return {path.name[3:] if path.name.startswith("VOC") else path.name: path}
    return {}


def read_annotation(path: Path, difficult: bool) -> Annotation:
    """Return the classes and boxes of an image, with or without difficult objects."""
    try:
        data = path.read_bytes()
        if len(data) > _MAX_XML_BYTES:
            raise ValueError("too large")
        root = ET.fromstring(data, ET.XMLParser(target=_NoDoctype()))
        classes: set[int] = set()
        boxes: list[Box] = []
        for thing in root.iter("object"):
            if not difficult and (thing.findtext("difficult") or "0").strip() == "1":
                continue
            name = (thing.findtext("name") or "").strip()
            if name not in _NUMBERS:
                raise ValueError(f'unknown class "{name}"')
            classes.add(_NUMBERS[name])
            x0, y0, x1, y1 = (
                float(thing.findtext(f"bndbox/{side}") or "") for side in ("xmin", "ymin", "xmax", "ymax")
            )
            # VOC counts pixels from 1, with inclusive ends.
            boxes.append((_NUMBERS[name], (x0 - 1, y0 - 1, x1, y1)))
    except (OSError, ValueError, ET.ParseError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return classes, boxes


class _NoDoctype(ET.TreeBuilder):
    """Refuse documents with a DOCTYPE: annotations have none, and it can declare exponentially growing entities."""

    def doctype(self, name: str, pubid: str, system: str) -> None:  # noqa: ARG002
        raise ValueError("it declares a document type")


def _is_year(path: Path) -> bool:
    return (path / "ImageSets" / "Main").is_dir()


def _list_file(root: Path, split: str) -> Path:
    return root / "ImageSets" / "Main" / f"{split}.txt"


def _rows(file: Path) -> list[list[str]]:
    try:
        return [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({error})") from error


def _image_names(root: Path, splits: list[str]) -> list[str]:
    files = [_list_file(root, split) for split in splits]
    return sorted({row[0] for file in files if file.is_file() for row in _rows(file)})


def _class_lists(root: Path, difficult: bool) -> dict[str, Annotation]:
    """Return the labels of each image from the lists per class."""
    known: dict[str, Annotation] = {}
    for name, number in _NUMBERS.items():
        for split in SPLITS:
            file = _list_file(root, f"{name}_{split}")
            for image, *flag in _rows(file) if file.is_file() else []:
                classes, _ = known.setdefault(image, (set(), []))
                if flag == ["1"] or (flag == ["0"] and difficult):
                    classes.add(number)
    return known


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
        part_names, part_paths, part_boxes = _read_instances(path, part, files[part])
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


def _read_instances(path: Path, split: str, file: Path) -> tuple[dict[int, str], list[str], list[list[Box]]]:
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
