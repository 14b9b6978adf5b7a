"""Write files atomically, and open only regular files."""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with the path of a temporary file, sync the file to disk, and rename it to `path`.

    An OSError, for example of a full disk, names `path`.
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
    sync_files([path.parent])  # otherwise the rename itself may be lost


def sync_files(paths: Iterable[Path]) -> None:
    """Sync files and folders to disk, as by `fsync`. Windows cannot sync folders."""
    for path in paths:
        is_folder = path.is_dir()
        if is_folder and os.name == "nt":
            continue
        number = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows syncs only writable files
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, atomically."""
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file to read bytes; raise an OSError immediately for a folder, a pipe or a device.

    Opening a pipe could block forever, and a device may be endless.
    """
    _check(os.stat(path).st_mode)  # noqa: PTH116 - a Path is slow to make for each of a million images
    # The file may have been replaced since: open it without blocking, and check again.
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
