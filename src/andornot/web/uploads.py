"""Uploaded images, in a temporary folder. They are removed when unused for an hour."""

import re
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
from ..data.decode_budget import TooLargeError
from ..data.decoding import measure
from ..errors import printable
from ..gallery.names import BoundFormula, key_of
from ..logic import FormulaError, Representation
from .errors import RequestError
from .responses import THUMBNAIL_SIZE, encode_jpeg
from .snapshots import Snapshot

UPLOAD_PREFIX: Final = "upload-"
_UPLOAD_NAME: Final = re.compile(rf"{UPLOAD_PREFIX}[0-9a-f]{{16}}")
MAX_BYTES: Final = 50_000_000
MAX_PIXELS: Final = 50_000_000
MAX_UPLOADS: Final = 200
MAX_TOTAL_BYTES: Final = 500_000_000
UNUSED_SECONDS: Final = 3600.0


@dataclass
class Upload:
    """An uploaded image: its file, its thumbnail, and its representation by model id.

    `file_name` is its name on the client's machine.
    """

    name: str
    file_name: str
    file: Path
    size: int
    width: int
    height: int
    thumbnail: bytes
    last_used: float
    representations: dict[str, Representation] = field(default_factory=dict)


class Uploads:
    """The uploads of one server; safe for use by several threads."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="andornot-"))
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Remove all uploads."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, content: bytes, file_name: str = "") -> Upload:
        """Store an image, or raise a RequestError if it cannot be read or has too many pixels."""
        try:
            image = decode(content, size=THUMBNAIL_SIZE, max_pixels=MAX_PIXELS)
            width, height = measure(content)
        except BrokenImageError as error:
            if isinstance(error.__cause__, Image.DecompressionBombError):
                raise RequestError(413, "too-large", f"the image has more than {MAX_PIXELS:,} pixels") from None
            if isinstance(error.__cause__, TooLargeError):
                raise RequestError(413, "too-large", f"the image is too large: {error.reason}") from None
            raise RequestError(415, "not-an-image", f"this is not an image that can be read: {error.reason}") from None
        name = f"{UPLOAD_PREFIX}{secrets.token_hex(8)}"
        file = self._folder / name
        try:
            file.write_bytes(content)
        except OSError:  # the disk may be full: leave no partial file
            file.unlink(missing_ok=True)
            raise
        upload = Upload(
            name, _base_name(file_name) or name, file, len(content), width, height, encode_jpeg(image), time.monotonic()
        )
        with self._lock:
            self._uploads[name] = upload
        self.evict()
        return upload

    def get(self, name: str) -> Upload:
        """Return an upload and mark it as used, or raise a RequestError."""
        found = self.known([name])
        if not found:
            raise RequestError(404, "not-found", "this upload has expired: upload the image again")
        return found[name]

    def remove(self, name: str) -> None:
        """Remove an upload."""
        self.get(name)
        self._drop([name])

    def known(self, names: Iterable[str]) -> dict[str, Upload]:
        """Return the uploads among these names, and mark them as used."""
        with self._lock:
            found = {name: self._uploads[name] for name in names if name in self._uploads}
            for upload in found.values():
                upload.last_used = time.monotonic()
        return found

    def known_in(self, text: str) -> dict[str, Upload]:
        """Return the uploads that a formula names, and mark them as used."""
        return self.known(_UPLOAD_NAME.findall(text))

    def represent(self, texts: Iterable[str], snapshot: Snapshot) -> dict[str, Representation]:
        """Return the representations of the uploads in formulas, by the gallery's model."""
        model_id = snapshot.browser.model_id
        represented = {}
        for name, upload in self.known_in(" ".join(texts)).items():
            with suppress(BrokenImageError, FormulaError, FileNotFoundError):  # removed meanwhile
                if model_id not in upload.representations:
                    upload.representations = {model_id: snapshot.gallery.represent([upload.file])[0]}
                represented[name] = upload.representations[model_id]
        return represented

    @property
    def file_names(self) -> dict[str, str]:
        """The file name of each upload on its client's machine."""
        with self._lock:
            return {name: upload.file_name for name, upload in self._uploads.items()}

    def located(self, resolved: BoundFormula) -> BoundFormula:
        """Return the formula with the files of its uploads; raise a FormulaError if one is missing."""
        for mention in resolved.asked.mentions:
            thing = resolved.named.get(key_of(mention.atom))
            if thing is not None and thing.kind == "word" and _UPLOAD_NAME.fullmatch(mention.name):
                message = "this uploaded image is not on the server any more: upload it again"
                raise FormulaError(message, resolved.asked.text, mention.start, code="unknown-name")
        # Files, not representations, because images are also compared by their named features.
        outside = {key: thing for key, thing in resolved.named.items() if thing.kind != "word" and thing.id is None}
        if not outside:
            return resolved
        files = {
            name: str(upload.file) for name, upload in self.known(thing.path for thing in outside.values()).items()
        }
        found = {key: thing._replace(path=files.get(thing.path, thing.path)) for key, thing in outside.items()}
        return replace(resolved, named=resolved.named | found)

    def evict(self) -> None:
        """Remove uploads that are unused for an hour, and the least recently used ones if there are too many."""
        with self._lock:
            by_use = sorted(self._uploads.values(), key=lambda upload: upload.last_used)
        total, unused_since = sum(upload.size for upload in by_use), time.monotonic() - UNUSED_SECONDS
        dropped = []
        for place, upload in enumerate(by_use):
            if len(by_use) - place <= MAX_UPLOADS and total <= MAX_TOTAL_BYTES and upload.last_used > unused_since:
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


def _base_name(file_name: str) -> str:
    """Return the name without folders, for paths of any operating system."""
    return printable(file_name.replace("\\", "/").rpartition("/")[2].strip())
