"""`mnist:PATH`: MNIST and what looks like it (Fashion-MNIST, KMNIST, EMNIST), in idx files, packed by gzip or not."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import DataError
from ..imageset import ImageSet, multi_hot
from ..readers import ArrayReader
from .splits import check_folder, check_split

SPLITS: Final = {"train": "train", "test": "t10k"}
_SUBFOLDERS: Final = ("", "raw", "MNIST/raw")
_MAX_BYTES: Final = 2**32


def open_mnist(path: Path, split: str | None = None) -> ImageSet:
    """The grey pictures of one split, or of both: train, then test."""
    check_folder(path)
    splits = [name for name in SPLITS if _find(path, name, "images") and _find(path, name, "labels")]
    if not splits:
        expected = f"{path / 'train-images-idx3-ubyte.gz'} and {path / 'train-labels-idx1-ubyte.gz'}"
        raise DataError(f"{path}: no idx files of MNIST; expected {expected}, or without .gz")
    check_split(split, splits, path)
    pixels, classes = [], []
    names: list[str] = []
    parts = {}
    for part in splits if split is None else [split]:
        part_pixels, part_classes = _read_part(path, part)
        pixels.append(part_pixels)
        classes.append(part_classes)
        parts[part] = range(len(names), len(names) + len(part_pixels))
        names += [f"mnist/{part}/{index}" for index in range(len(part_pixels))]
    every_class = np.concatenate(classes)
    count = max(10, int(every_class.max()) + 1)
    return ImageSet(
        ArrayReader(np.concatenate(pixels)),
        names,
        labels=multi_hot(every_class, count),
        class_names=[str(number) for number in range(count)],
        channels=1,
        split=split,
        splits=splits,
        parts=parts,
    )


def is_mnist(path: Path) -> bool:
    """Whether the folder, or `raw` in it, has idx files."""
    return any(_find(path, name, "images") for name in SPLITS)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """An idx file of bytes with that many dimensions, packed by gzip or not."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(4 + 4 * dimensions)
            if header[:4] != bytes([0, 0, 8, dimensions]) or len(header) < 4 + 4 * dimensions:
                raise DataError(f"{path}: not an idx file of bytes with {dimensions} dimensions")
            shape = struct.unpack(f">{dimensions}I", header[4:])
            size = int(np.prod(shape, dtype=object))
            if not 0 < size <= _MAX_BYTES:
                raise DataError(f"{path}: its header says {' x '.join(map(str, shape))}, which cannot be right")
            data = file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(data) < size:
        raise DataError(f"{path}: ends after {len(data):,} of {size:,} bytes; it was not copied completely")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _read_part(path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    images_path, labels_path = _find(path, split, "images"), _find(path, split, "labels")
    if not images_path or not labels_path:
        raise DataError(f"{path}: the files of the split {split} are gone")
    pixels, classes = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(pixels) != len(classes):
        raise DataError(f"{labels_path}: {len(classes):,} labels for {len(pixels):,} pictures")
    return pixels, classes


def _find(path: Path, split: str, kind: str) -> Path | None:
    dimensions = 3 if kind == "images" else 1
    for subfolder in _SUBFOLDERS:
        for stem in (f"{SPLITS[split]}-{kind}-idx{dimensions}-ubyte", f"{SPLITS[split]}-{kind}.idx{dimensions}-ubyte"):
            for ending in ("", ".gz"):
                file = path / subfolder / f"{stem}{ending}"
                if file.is_file():
                    return file
    return None
