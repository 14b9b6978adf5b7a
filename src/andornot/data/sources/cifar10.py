"""`cifar10:PATH`: CIFAR-10 as official batches (Python or binary), or as class folders.

The Python batches are pickles, which can run any code, so only arrays, lists, dictionaries and text are unpickled.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import DataError
from ..imageset import ImageSet, multi_hot
from ..readers import ArrayReader
from ..specs import check_folder, check_split
from .folder import has_class_folders, open_imagefolder

CLASS_NAMES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES: Final = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
_SUBFOLDERS: Final = ("", "cifar-10-batches-py", "cifar-10-batches-bin")
_PIXELS: Final = 3 * 32 * 32


def open_cifar10(path: Path, split: str | None = None) -> ImageSet:
    """Open the images of one split, or of both: train, then test."""
    check_folder(path)
    batches = _find_batches(path)
    if not batches:
        if has_class_folders(path):
            return open_imagefolder(path, split)
        raise DataError(
            f"{path}: no CIFAR-10; expected data_batch_1 … data_batch_5 and test_batch, or train/CLASS/*.png"
        )
    check_split(split, tuple(batches), path)
    pixels, classes = [], []
    names: list[str] = []
    parts = {}
    for part in batches if split is None else [split]:
        read = [_read_binary(file) if file.suffix == ".bin" else _read_pickle(file) for file in batches[part]]
        pixels += [batch_pixels for batch_pixels, _ in read]
        classes += [batch_classes for _, batch_classes in read]
        count = sum(len(batch) for batch, _ in read)
        parts[part] = range(len(names), len(names) + count)
        names += [f"cifar10/{part}/{index}" for index in range(count)]
    return ImageSet(
        ArrayReader(np.concatenate(pixels).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)),
        names,
        labels=multi_hot(np.concatenate(classes), len(CLASS_NAMES)),
        class_names=CLASS_NAMES,
        split=split,
        splits=tuple(batches),
        parts=parts,
    )


def is_cifar10(path: Path) -> bool:
    """Return whether the folder has the official batches."""
    return bool(_find_batches(path))


def _find_batches(path: Path) -> dict[str, list[Path]]:
    """Return the files of each complete split."""
    for subfolder in _SUBFOLDERS:
        for ending in ("", ".bin"):
            files = {
                split: [path / subfolder / f"{name}{ending}" for name in names] for split, names in BATCHES.items()
            }
            complete = {split: paths for split, paths in files.items() if all(file.is_file() for file in paths)}
            if complete:
                return complete
    return {}


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.frombuffer(_read_bytes(path), np.uint8)
    if not data.size or data.size % (1 + _PIXELS):
        raise DataError(f"{path}: {data.size:,} bytes are not a whole number of images; it was not copied completely")
    rows = data.reshape(-1, 1 + _PIXELS)
    return rows[:, 1:], _checked(path, rows[:, 0])


def _read_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _ArraysOnly(io.BytesIO(_read_bytes(path)), encoding="bytes").load()
        pixels, classes = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a batch of CIFAR-10 ({reason or type(error).__name__})") from error
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _PIXELS or classes.shape != (len(pixels),):
        raise DataError(f"{path}: not a batch of CIFAR-10 (expected pixels (n, {_PIXELS}) and n labels)")
    return pixels, _checked(path, classes)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def _checked(path: Path, classes: np.ndarray) -> np.ndarray:
    if classes.dtype.kind not in "iu" or not len(classes) or classes.min() < 0 or classes.max() >= len(CLASS_NAMES):
        raise DataError(f"{path}: labels of CIFAR-10 go from 0 to 9")
    return classes


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {encoding}")
    return text.encode("latin1")


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that only allows the names needed for arrays."""

    _ALLOWED: Final[dict[tuple[str, str], Callable[..., Any]]] = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # type: ignore[dict-item]
        ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # type: ignore[dict-item]
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _latin1,
    }

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image needs")
        return self._ALLOWED[module, name]
