"""`voc:PATH`: Pascal VOC, several years in one, several classes an image, with boxes.

Labels and boxes come from `Annotations/*.xml`. Where an image has none, its labels come from the lists of each
class in `ImageSets/Main`, which say 1 (there), -1 (not there) and 0 (only difficult to see), and it has no boxes.
Images of which neither says anything are left out, unless that holds for all: then the set has no labels.
"""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

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
    """Open the images of a split in the given years (default: all); without a split, all images of any list.

    The test images of 2012 have no labels, so `years=2007+2012` is tested on 2007 alone, as in most papers.
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
            # VOC counts pixels from 1 and includes the last.
            boxes.append((_NUMBERS[name], (x0 - 1, y0 - 1, x1, y1)))
    except (OSError, ValueError, ET.ParseError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return classes, boxes


class _NoDoctype(ET.TreeBuilder):
    """Refuses a document type: no annotation has one, and entities that multiply are declared in it."""

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
    """Return the labels of each image from the lists of each class."""
    known: dict[str, Annotation] = {}
    for name, number in _NUMBERS.items():
        for split in SPLITS:
            file = _list_file(root, f"{name}_{split}")
            for image, *flag in _rows(file) if file.is_file() else []:
                classes, _ = known.setdefault(image, (set(), []))
                if flag == ["1"] or (flag == ["0"] and difficult):
                    classes.add(number)
    return known
