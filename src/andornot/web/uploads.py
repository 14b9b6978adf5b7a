"""Uploaded pictures: in a temporary folder, for as long as somebody uses them, and never more than a few."""

import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from PIL import Image

from ..data import BrokenImageError, decode
from ..data.decoding import measure
from ..data.memory import TooLargeError
from ..errors import printable
from ..gallery.names import Resolved
from ..logic import FormulaError, Representation
from .follower import Served
from .problems import RequestError
from .thumbnails import SIDE, as_jpeg

PREFIX: Final = "upload-"
MAX_BYTES: Final = 50_000_000
MAX_PIXELS: Final = 50_000_000
MAX_UPLOADS: Final = 200
MAX_TOTAL_BYTES: Final = 500_000_000
UNUSED_SECONDS: Final = 3600.0


@dataclass
class Upload:
    """An uploaded picture: its file, its thumbnail, and what it was encoded to by which model.

    `file_name` is what it was called where it comes from.
    """

    name: str
    file_name: str
    file: Path
    size: int
    width: int
    height: int
    thumbnail: bytes
    used: float
    encoded: dict[str, Representation] = field(default_factory=dict)


class Uploads:
    """The uploads of one server, for any number of threads."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="andornot-"))
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Removes everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, content: bytes, file_name: str = "") -> Upload:
        """Keeps a picture, and what it was called. A RequestError for what is none, or has too many pixels."""
        try:
            picture = decode(content, size=SIDE, max_pixels=MAX_PIXELS)
            width, height = measure(content)
        except BrokenImageError as error:
            if isinstance(error.__cause__, Image.DecompressionBombError):
                raise RequestError(413, f"the picture has more than {MAX_PIXELS:,} pixels") from None
            if isinstance(error.__cause__, TooLargeError):
                raise RequestError(413, f"the picture is too large: {error.reason}") from None
            raise RequestError(415, f"this is not a picture that can be read: {error.reason}") from None
        name = f"{PREFIX}{secrets.token_hex(8)}"
        file = self._folder / name
        try:
            file.write_bytes(content)
        except OSError:  # the disk is full: half a picture is of no use
            file.unlink(missing_ok=True)
            raise
        upload = Upload(
            name, _shown(file_name) or name, file, len(content), width, height, as_jpeg(picture), time.monotonic()
        )
        with self._lock:
            self._uploads[name] = upload
        self.tidy()
        return upload

    def get(self, name: str) -> Upload:
        """An upload, which is in use by that; a RequestError for one that is not there."""
        found = self.known([name])
        if not found:
            raise RequestError(404, "there is no such upload (any more): upload the picture again")
        return found[name]

    def remove(self, name: str) -> None:
        """Forgets an upload."""
        self.get(name)
        self._drop([name])

    def known(self, names: Iterable[str]) -> dict[str, Upload]:
        """The uploads among these names, which are in use by that."""
        with self._lock:
            found = {name: self._uploads[name] for name in names if name in self._uploads}
            for upload in found.values():
                upload.used = time.monotonic()
        return found

    def represent(self, names: Iterable[str], served: Served) -> dict[str, Representation]:
        """What the uploads among these names are for the gallery's model."""
        model_id = served.browser.model_id
        represented = {}
        for name, upload in self.known(names).items():
            with suppress(BrokenImageError, FormulaError, FileNotFoundError):  # dropped in this very moment
                if model_id not in upload.encoded:
                    upload.encoded = {model_id: served.gallery.represent([upload.file])[0]}
                represented[name] = upload.encoded[model_id]
        return represented

    @property
    def file_names(self) -> dict[str, str]:
        """What each upload was called where it comes from."""
        with self._lock:
            return {name: upload.file_name for name, upload in self._uploads.items()}

    def located(self, resolved: Resolved) -> Resolved:
        """The formula, in which crops of uploads know their files, out of which they are cut."""
        crops = {key: thing for key, thing in resolved.named.items() if thing.kind == "crop" and thing.id is None}
        if not crops:
            return resolved
        files = {name: str(upload.file) for name, upload in self.known(thing.path for thing in crops.values()).items()}
        cut = {key: thing._replace(path=files.get(thing.path, thing.path)) for key, thing in crops.items()}
        return replace(resolved, named=resolved.named | cut)

    def tidy(self) -> None:
        """Drops what was not used for an hour, and the longest unused where there are too many."""
        with self._lock:
            by_use = sorted(self._uploads.values(), key=lambda upload: upload.used)
        total, unused_since = sum(upload.size for upload in by_use), time.monotonic() - UNUSED_SECONDS
        dropped = []
        for place, upload in enumerate(by_use):
            if len(by_use) - place <= MAX_UPLOADS and total <= MAX_TOTAL_BYTES and upload.used > unused_since:
                break
            dropped.append(upload.name)
            total -= upload.size
        self._drop(dropped)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            with self._lock:
                upload = self._uploads.pop(name, None)
            if upload is not None:
                upload.file.unlink(missing_ok=True)


def _shown(file_name: str) -> str:
    """The name alone, without folders of whatever system."""
    return printable(file_name.replace("\\", "/").rpartition("/")[2].strip())
