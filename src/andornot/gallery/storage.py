"""Storage of a gallery: a local folder or an object store. Lance reads and writes both."""

from __future__ import annotations

import atexit
import hashlib
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
from ..files import sync_files, write_atomically
from .checksums import damaged_files, is_manifest_damaged, manifest_of, newest_version, write_checksums
from .errors import DamagedError, GalleryError, LockedError
from .records import StrPath, absolute

if TYPE_CHECKING:
    import lance
    from lance.file import LanceFileSession

IMAGES: Final = SKIP_MARKER
_OLD_DATABASE: Final = "gallery.sqlite"
_SCHEMES: Final = ("s3", "gs", "az")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
# Source locations and prefixes in Lance's error messages, to be removed.
_SOURCE: Final = re.compile(r",? (/home|/rustc|rust/|library/)\S*|^LanceError\(IO\): Generic \w+ error: ")
# Error code and message in the response of an object store.
_ANSWER: Final = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<]+)</Message>")
# Fail within seconds for a wrong address; Lance's default is three minutes.
_REMOTE: Final = {"client_max_retries": "2", "client_retry_timeout": "10", "connect_timeout": "5s"}


class Storage:
    """The storage of a gallery: `address` is an absolute path, or a URI such as s3://bucket/gallery.

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
        self._given_options = dict(options or {})
        self.options = None if self.folder is not None else {**_REMOTE, **self._given_options}

    def __str__(self) -> str:
        return self.address

    def __reduce__(self) -> tuple[Any, ...]:  # cached data is not sent to other processes
        return Storage, (self.address, self._given_options)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rsplit("/", 1)[-1]

    def exists(self) -> bool:
        """Return whether there is a gallery; raise a GalleryError if it was made by an earlier version."""
        if self.table is None:
            with self.reading():
                return bool(self.files.list(f"{IMAGES}/_versions"))
        if newest_version(self.table) is not None:
            return True
        if (self.table.parent / _OLD_DATABASE).exists():
            raise GalleryError(
                f"{self} was made by an earlier version of andornot: index the images again, into a new folder"
            )
        return False

    # --- the table of images ----------------------------------------------------------------------------------------

    @property
    def table(self) -> Path | None:
        """The folder of the image table; None in an object store."""
        return None if self.folder is None else self.folder / IMAGES

    @property
    def uri(self) -> str:
        """The URI of the image table."""
        return f"{self.address}/{IMAGES}"

    def open(self, version: int | None = None) -> lance.LanceDataset:
        """Open the image table, at its newest version by default; raise a DamagedError if it is damaged."""
        if self.table is not None:
            version = version or newest_version(self.table)
            if version is not None and is_manifest_damaged(self.table, version):
                raise DamagedError(
                    self.address, f"the manifest of version {version} is missing, or has a wrong checksum"
                )
        with self.reading():
            dataset: lance.LanceDataset = load_lance().dataset(self.uri, version=version, storage_options=self.options)
        self.check_files(dataset.version, "_deletions")
        return dataset

    def check_files(self, version: int, folder: str) -> None:
        """Verify the checksums of a version's files in a folder of the table, each file once."""
        if self.table is not None and (damaged := damaged_files(self.table, version, folder, self._checked)):
            raise DamagedError(self.address, f"{damaged[0]} is missing, or has a wrong checksum")

    def sync_version(self, dataset: lance.LanceDataset) -> None:
        """Sync the manifest of a version to disk, and store the checksums of the version's metadata."""
        if self.table is not None:
            manifest = manifest_of(self.table, dataset.version)
            sync_files([manifest, manifest.parent])
            with self.reading():
                write_checksums(self.table, dataset)

    # --- files ------------------------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> LanceFileSession:
        """File access to the gallery's folder, local or remote."""
        load_lance()
        from lance.file import LanceFileSession

        with self.reading():
            return LanceFileSession(self.address, storage_options=self.options)

    @cached_property
    def _downloads(self) -> Path:
        folder = tempfile.mkdtemp(prefix="andornot-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def local_copy(self, name: str) -> Path:
        """Return a local path to a file or folder of the gallery; it may not exist."""
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
        """Yield a temporary path for a new file or folder, and move it to its final name afterwards."""
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

    def save_content(self, kind: str, content: bytes, suffix: str) -> str:
        """Write a file named by the hash of its content, and return the name."""
        name = f"{kind}-{_hash(content)}{suffix}"
        with self.new_file(name) as path:
            write_atomically(path, lambda partial: partial.write_bytes(content))
        return name

    def load_content(self, name: str) -> bytes:
        """Read what `save_content` wrote; raise a DamagedError if it is missing or damaged."""
        try:
            content = self.local_copy(name).read_bytes()
        except FileNotFoundError:
            content = b""
        if f"-{_hash(content)}" not in name:
            raise DamagedError(self.address, f"{name} is missing or damaged")
        return content

    # --- errors -----------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert Lance's errors: disk errors to OSError, network errors to GalleryError, others to DamagedError."""
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


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def load_lance() -> Any:
    """Import Lance; raise a GalleryError if that fails."""
    try:
        import lance
    except ImportError as error:
        raise GalleryError(
            f"galleries are stored by Lance, which cannot be imported ({error}): pip install pylance"
        ) from None
    return lance


LOCK: Final = "lock"
# A separate file, because trying to acquire the lock truncates the lock file.
HOLDER: Final = "lock.json"


@contextmanager
def writing(storage: Storage) -> Iterator[None]:
    """Hold the gallery's lock; raise a LockedError immediately if another process holds it.

    An object store has no locks; there, Lance rejects the second of two concurrent commits.
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
    except (OSError, ValueError, KeyError, TypeError):  # the lock is held, but its holder is not written yet
        return "another process"
