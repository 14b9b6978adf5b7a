"""Where things are in the folder of a gallery, and a quick way to see that one of them has changed."""

from pathlib import Path
from typing import Final

from ..data.sources.folder import GALLERY_MARK

DATABASE: Final = GALLERY_MARK
# What is made of the rest, and may be deleted at any time.
DERIVED: Final = "derived"
# The name of the gallery for Milvus, which its engine may write before there is a database.
IDENTITY: Final = "identity"

StateToken = tuple[tuple[int, int, int] | None, ...]


def exists(folder: Path) -> bool:
    """Whether a gallery is there."""
    return (folder / DATABASE).exists()


def state_token(folder: Path) -> StateToken:
    """Another value whenever something was committed, or derived from what was."""
    derived = sorted(file for file in (folder / DERIVED).glob("*") if file.suffix in (".json", ".safetensors"))
    return tuple(map(_file_token, (folder / DATABASE, folder / f"{DATABASE}-wal", *derived)))


def _file_token(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    # Readers make an empty log: that is no news.
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status.st_size else None
