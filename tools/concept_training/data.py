"""The labelled images: COCO for training, tuning and evaluation, VOC2007 for evaluation.

Images of COCO's val2017 with an odd id are for the final evaluation; those with an even id are for tuning. Of VOC2007
every second image was used to choose `SHARE`, so calibration is measured on the others.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .encoding import Source, draw_aspects

# fmt: off
COCO_NAMES: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)
# fmt: on
# VOC's names and COCO's.
VOC_NAMES: Final = {
    "aeroplane": "airplane",
    "bicycle": "bicycle",
    "bird": "bird",
    "boat": "boat",
    "bottle": "bottle",
    "bus": "bus",
    "car": "car",
    "cat": "cat",
    "chair": "chair",
    "cow": "cow",
    "diningtable": "dining table",
    "dog": "dog",
    "horse": "horse",
    "motorbike": "motorcycle",
    "person": "person",
    "pottedplant": "potted plant",
    "sheep": "sheep",
    "sofa": "couch",
    "train": "train",
    "tvmonitor": "tv",
}

# A thing whose largest box covers less of the image counts as not shown in calibration: COCO labels people of a few
# pixels, and nobody would call that right. Chosen on every second image of VOC2007, whose labels are people's.
SHARE: Final = 0.005

Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Box:
    """A labelled thing: index of its kind, and left, top, right, bottom as fractions of the image."""

    kind: int
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Coco:
    """The parts of COCO in use: folders as they are extracted.

    `train_images` holds train2017 squashed to squares, `kinds` the lists `train.txt` and `val.txt` of the kinds in each
    image of 2014, `full` val2017 at full size with YOLO labels, and `captions` is `captions_val2017.json`.
    """

    train_images: Path
    kinds: Path
    full: Path
    captions: Path

    @cached_property
    def kinds_of(self) -> dict[int, list[int]]:
        """Return the kinds in each image, by its id. An image without any labelled thing is in no list."""
        found = {}
        for part in ("train", "val"):
            for line in (self.kinds / f"{part}.txt").read_text().splitlines():
                name, *kinds = line.split()
                found[int(name.rpartition("_")[2])] = [int(kind) for kind in kinds]
        return found

    @cached_property
    def val_aspects(self) -> dict[int, float]:
        """Return width / height of each image of val2017, by its id."""
        images = json.loads(self.captions.read_text())["images"]
        return {image["id"]: image["width"] / image["height"] for image in images}

    @cached_property
    def captions_of(self) -> dict[int, list[str]]:
        """Return the captions of each image of val2017, by its id."""
        found: dict[int, list[str]] = {}
        for row in json.loads(self.captions.read_text())["annotations"]:
            found.setdefault(row["image_id"], []).append(row["caption"])
        return found

    @cached_property
    def _val_files(self) -> dict[int, tuple[Path, Path]]:
        """Return the image and the label file of each image of val2017; some are in both folders, one is enough."""
        found = {}
        for part in ("train2017", "val2017"):
            for file in sorted((self.full / "images" / part).glob("*.jpg")):
                found[int(file.stem)] = (file, self.full / "labels" / part / f"{file.stem}.txt")
        return found

    def val_sources(self) -> list[Source]:
        """Return the images of val2017, by id."""
        return [Source(str(number), files[0]) for number, files in sorted(self._val_files.items())]

    def val_boxes(self, number: int) -> list[Box]:
        """Return the labelled things of an image of val2017."""
        file = self._val_files[number][1]
        boxes = []
        for line in file.read_text().splitlines() if file.exists() else ():
            kind, x, y, width, height = line.split()
            left, top = float(x) - float(width) / 2, float(y) - float(height) / 2
            boxes.append(Box(int(kind), left, top, left + float(width), top + float(height)))
        return boxes

    def train_sources(self, seed: int) -> list[Source]:
        """Return train2017 in random order. Each gets the aspect ratio of some image of val2017 with an even id.

        The files are squashed to squares and their aspect ratios are not known.
        """
        files = sorted(self.train_images.glob("*.jpg"))
        order = np.random.default_rng(seed).permutation(len(files))
        aspects = draw_aspects(len(files), [a for number, a in self.val_aspects.items() if number % 2 == 0], seed)
        return [Source(str(int(files[i].stem)), files[i], aspects[i]) for i in order]

    def labels(self, ids: Iterable[str]) -> Labels:
        """Return which of the 80 kinds each image shows, (images, 80)."""
        ids = list(ids)
        shown = np.zeros((len(ids), len(COCO_NAMES)), np.bool_)
        for row, number in enumerate(ids):
            shown[row, self.kinds_of.get(int(number), [])] = True
        return shown

    def plainly_shown(self, ids: Iterable[str]) -> Labels:
        """Return which kinds each image of val2017 shows with a box of at least `SHARE` of its area, (images, 80)."""
        ids = list(ids)
        areas = np.zeros((len(ids), len(COCO_NAMES)))
        for row, number in enumerate(ids):
            for box in self.val_boxes(int(number)):
                area = (box.right - box.left) * (box.bottom - box.top)
                areas[row, box.kind] = max(areas[row, box.kind], area)
        return self.labels(ids) & (areas >= SHARE)


@dataclass(frozen=True)
class Voc:
    """VOC2007's training and validation images with the 20 kinds of things that they show."""

    folder: Path

    def sources(self) -> list[Source]:
        """Return the images, by name."""
        return [Source(file.stem, file) for file in sorted((self.folder / "JPEGImages").glob("*.jpg"))]

    def labels(self, ids: Iterable[str]) -> tuple[Labels, Labels]:
        """Return (shown, not shown), each (images, 20). A thing marked as difficult is neither."""
        ids = list(ids)
        rows = {name: row for row, name in enumerate(ids)}
        answers = np.zeros((2, len(ids), len(VOC_NAMES)), np.bool_)
        for column, name in enumerate(VOC_NAMES):
            for line in (self.folder / "ImageSets" / "Main" / f"{name}_trainval.txt").read_text().splitlines():
                image, sign = line.split()
                if image in rows and sign != "0":
                    answers[0 if sign == "1" else 1, rows[image], column] = True
        return answers[0], answers[1]
