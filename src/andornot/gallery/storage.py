"""Where a gallery is stored: a local folder, or an address of an object store. Lance reads and writes both."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock, Timeout

from ..data.sources.folder import SKIP_MARKER
from ..errors import AndornotError
from ..files import sync_files
from .checksums import damaged_files, damaged_manifest, manifest_of, newest_version, write_checksums
from .errors import DamagedError, GalleryError, LockedError
from .records import StrPath, absolute

if TYPE_CHECKING:
    import lance
    from lance.file import LanceFileSession

IMAGES: Final = SKIP_MARKER
DEFINITIONS: Final = "definitions.lance"
UNREADABLE: Final = "unreadable.lance"
_OLD_DATABASE: Final = "gallery.sqlite"
_SCHEMES: Final = ("s3", "gs", "az")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
# Where Lance's messages say in which of its source files they were made.
_SOURCE: Final = re.compile(r",? (/home|/rustc|rust/|library/)\S*|^LanceError\(IO\): Generic \w+ error: ")
# What an object store says is wrong, in its answer.
_ANSWER: Final = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<]+)</Message>")
# A wrong address is told within seconds; Lance's own limit is three minutes.
_REMOTE: Final = {"client_max_retries": "2", "client_retry_timeout": "10", "connect_timeout": "5s"}


class Storage:
    """The place of a gallery: `address` is an absolute path, or a URI such as s3://bucket/gallery.

    `options` are passed to Lance's object store: credentials, region, endpoint.
    """

    def __init__(self, address: StrPath, options: Mapping[str, str] | None = None) -> None:
        text = os.fspath(address)
        match = _URI.fullmatch(text)
        if match is None:
            self.folder: Path | None = absolute(address)
            self.address = str(self.folder)
        else:
            if match["scheme"] not in _SCHEMES or not match["rest"].strip("/"):
                known = ", ".join(f"{scheme}://bucket/gallery" for scheme in _SCHEMES)
                raise GalleryError(f'"{text}" is no address of a gallery: write a folder, or {known}')
            self.folder, self.address = None, text.rstrip("/")
        self._checked: set[str] = set()
        self.given_options = dict(options or {})
        self._options = {} if self.folder is not None else {**_REMOTE, **self.given_options}

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rsplit("/", 1)[-1]

    def exists(self) -> bool:
        """Return whether a gallery is there; a GalleryError for one that an earlier version made."""
        if self.folder is None:
            with self.reading():
                return bool(self.files.list(f"{IMAGES}/_versions"))
        if self.has_table(IMAGES):
            return True
        if (self.folder / _OLD_DATABASE).exists():
            raise GalleryError(
                f"{self} was made by an earlier version of andornot: index the images again, into a new folder"
            )
        return False

    # --- tables -----------------------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        """Return the address of a table or a file."""
        return f"{self.address}/{name}"

    def open(self, name: str, version: int | None = None, *, checked: bool = True) -> lance.LanceDataset:
        """Open a table, at its newest version by default; a DamagedError if its manifest is damaged.

        `checked`: or if a list of deleted rows is.
        """
        if self.folder is not None and version is None:
            version = newest_version(self.folder / name)
        if self.folder is not None and version is not None and damaged_manifest(self.folder / name, version):
            raise DamagedError(
                self.address, f"the manifest of version {version} of {name} is missing, or has a wrong checksum"
            )
        with self.reading():
            dataset: lance.LanceDataset = load_lance().dataset(
                self.uri(name), version=version, storage_options=self.options
            )
        if checked:
            self.check_files(name, dataset.version, "_deletions")
        return dataset

    def check_files(self, name: str, version: int, folder: str) -> None:
        """Check the files in a folder of a table that a version needs against their checksums, each once."""
        if self.folder is None:
            return
        damaged = damaged_files(self.folder / name, version, folder, self._checked)
        if damaged:
            raise DamagedError(self.address, f"{name}/{damaged[0]} is missing, or has a wrong checksum")

    def has_table(self, name: str) -> bool:
        """Return whether a table is there."""
        if self.folder is not None:
            return newest_version(self.folder / name) is not None
        with self.reading():
            return bool(self.files.list(f"{name}/_versions"))

    def sync_version(self, name: str, dataset: lance.LanceDataset) -> None:
        """Wait until the manifest of a version is on the disk, and store checksums of what describes the version."""
        if self.folder is not None:
            table = self.folder / name
            manifest = manifest_of(table, dataset.version)
            sync_files([manifest, manifest.parent])
            with self.reading():
                write_checksums(table, dataset)

    @property
    def options(self) -> dict[str, str] | None:
        """What Lance is given as storage options."""
        return self._options or None

    # --- files ------------------------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> LanceFileSession:
        """Files beside the tables, wherever they are."""
        load_lance()
        from lance.file import LanceFileSession

        with self.reading():
            return LanceFileSession(self.address, storage_options=self._options or None)

    @cached_property
    def _downloads(self) -> Path:
        folder = tempfile.mkdtemp(prefix="andornot-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def local_copy(self, name: str) -> Path:
        """Return a path of this machine with a file or folder of the gallery; it need not exist."""
        if self.folder is not None:
            return self.folder / name
        target = self._downloads / name
        if not target.exists():
            with self.reading():
                found = self.files.list(name) or ([name] if self.files.contains(name) else [])
                for one in found:
                    relative = one if one == name or one.startswith(f"{name}/") else f"{name}/{one}"
                    copy = self._downloads / relative
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    self.files.download_file(relative, copy)
        return target

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        """Yield a path to write a file or folder at; afterwards it is at its place, under that name."""
        if self.folder is not None:
            yield self.folder / name
            return
        path = self._downloads / name
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        written = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        with self.reading():
            for file in written:
                self.files.upload_file(file, str(file.relative_to(self._downloads)))

    def remove(self, name: str) -> None:
        """Remove a file or folder of the gallery; it need not be there."""
        if self.folder is not None:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            return
        with self.reading():
            for one in self.files.list(name) or ([name] if self.files.contains(name) else []):
                self.files.delete_file(one if one.startswith(name) else f"{name}/{one}")

    # --- errors -----------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn Lance's errors into ours: of the disk or the network as such, everything else as damage."""
        try:
            yield
        except AndornotError:
            raise
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            if not (isinstance(error, OSError | ValueError | RuntimeError) or type(error).__name__ == "PanicException"):
                raise
            raise self._translated(error) from error

    def _translated(self, error: BaseException) -> Exception:
        reason = _SOURCE.sub("", (str(error).strip().splitlines() or [type(error).__name__])[0])
        if (match := _OS_ERROR.search(str(error))) and int(match[1]) != 2:
            number = int(match[1])
            return OSError(number, os.strerror(number), self.address)
        if self.folder is None and (answer := _ANSWER.search(str(error))):
            reason = f"{answer[2].strip()} ({answer[1]})"
        if self.folder is None and "was not found" not in reason and "Not found" not in reason:
            return GalleryError(f"{self} cannot be reached: {reason[:300]}")
        return DamagedError(self.address, reason[:300])


def load_lance() -> Any:
    """Import Lance, which stores galleries; a GalleryError where that fails."""
    try:
        import lance
    except ImportError as error:
        raise GalleryError(
            f"galleries are stored by Lance, which cannot be imported ({error}): pip install pylance"
        ) from None
    return lance


LOCK: Final = "lock"
# A file of its own: an attempt to get a lock empties the lock's file.
HOLDER: Final = "lock.json"


@contextmanager
def writing(storage: Storage) -> Iterator[None]:
    """Hold the lock of the gallery; a LockedError, at once, if another process holds it.

    An object store has no locks: there Lance refuses the second of two commits.
    """
    if storage.folder is None:
        yield
        return
    folder = storage.folder
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
    except (OSError, ValueError, KeyError, TypeError):  # the lock is held, and its holder not written yet
        return "another process"
