"""Write files atomically, and open files that may be anything."""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with the path of a temporary file, and rename that to `path` once it is on disk.

    An OSError, of a full disk for example, names `path`.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        write(partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    sync_files([path.parent])  # or the rename itself may be lost


def sync_files(paths: Iterable[Path]) -> None:
    """Wait until files, or the names in folders, are on the disk."""
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, atomically."""
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file to read its bytes; raise an OSError at once for a folder, a pipe or a device.

    A pipe would be waited for, for ever, and a device may have no end.
    """
    _check(os.stat(path).st_mode)  # noqa: PTH116 - a Path is slow to make for each of a million images
    # Something else may be there by now: so it is opened without waiting, and looked at again.
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115
    try:
        _check(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENXIO, "not a regular file")
