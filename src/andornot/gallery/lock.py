"""One writer at a time, who says who it is. Readers need no lock."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from .errors import LockedError

LOCK: Final = "lock"
# A file of its own, because whoever tries to get a lock empties its file.
HOLDER: Final = "lock.json"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Holds the lock of the gallery; a LockedError, at once, if another process does."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LockedError(f"{folder} is being written by {_holder(folder)}: wait for it, or stop it") from None
    try:
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        (folder / HOLDER).write_text(json.dumps(me), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has the lock, and has not said yet who it is
        return "another process"
