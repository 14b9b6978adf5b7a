"""Files that come from elsewhere, and may be anything."""

import errno
import os
import stat
from io import BufferedReader


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Opens a file to read its bytes; an OSError, at once, for what is none: a folder, a pipe, a device.

    A pipe would be waited for, for ever, and a device may have no end.
    """
    _check(os.stat(path).st_mode)  # noqa: PTH116 - a Path is slow to make for each of a million pictures
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
