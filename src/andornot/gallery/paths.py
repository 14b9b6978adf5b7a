"""Paths as texts: a gallery has them by the million, and a `Path` of each is slow to make."""

import os
from pathlib import Path

StrPath = str | os.PathLike[str]


def absolute(path: StrPath) -> Path:
    """The whole path; links in it stay as they are."""
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def is_inside(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, or is it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def label_of(path: str) -> str:
    """The name of the folder that a picture lies in."""
    return os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120
