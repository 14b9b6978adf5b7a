"""What tells a file's content from any other, under whatever name."""

import hashlib
from pathlib import Path
from typing import BinaryIO, Final

from ..files import open_regular

_PART: Final = 2**20


def digest_of(source: str | Path | bytes | BinaryIO) -> bytes:
    """A hash of a file's content."""
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=16).digest()
    if isinstance(source, str | Path):
        with open_regular(source) as file:
            return digest_of(file)
    source.seek(0)
    digest = hashlib.blake2b(digest_size=16)
    while part := source.read(_PART):
        digest.update(part)
    return digest.digest()
