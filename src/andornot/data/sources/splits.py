"""The parts of a data set: train, val, test."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..errors import DataError

ALIASES: Final = {"valid": "val", "validation": "val", "testing": "test", "training": "train"}


def check_split(split: str | None, splits: Sequence[str], where: object) -> None:
    """A DataError that lists what there is, if `split` is not among it."""
    if split is not None and split not in splits:
        there = f"it has {', '.join(splits)}" if splits else "it is not divided; leave the split out"
        raise DataError(f'{where}: no split "{split}", {there}')


def check_folder(path: Path) -> None:
    """A DataError if there is no folder at the path, or none that can be looked into."""
    if not exists(path):
        raise DataError(f"{path}: no such folder")
    if not path.is_dir():
        raise DataError(f"{path}: a file; expected a folder")
    if not os.access(path, os.R_OK | os.X_OK):
        raise DataError(f"{path}: no permission to look into this folder")


def exists(path: Path) -> bool:
    """Whether something is there; False also for a path that cannot be, such as one with a null character."""
    return os.path.exists(path)  # noqa: PTH110
