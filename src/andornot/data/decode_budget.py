"""Estimate the memory needed to decode an image, and limit the total over all threads."""

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from PIL import Image

MAX_BYTES: Final = 1_000_000_000

# Bytes per pixel that decoders need besides the image itself; tests/data/test_decoding_memory.py measures them.
_BESIDE: Final = {"WEBP": 14, "AVIF": 12, "HEIF": 12, "JPEG2000": 24}
_ICON: Final = b"\0\0\1\0"
_MAX_ICON_PIXELS: Final = 5_000_000
_BITS_TAG: Final = 258
_START_OF_SCAN: Final = 0xDA
_ALONE: Final = (0x01, *range(0xD0, 0xD9))  # markers without a payload


class TooLargeError(Exception):
    """Raised for an image that needs more memory to decode than allowed."""


def bytes_per_pixel(mode: str) -> int:
    """Return the bytes that Pillow needs for a pixel of this mode."""
    if mode in ("1", "L", "P"):
        return 1
    return 2 if mode.startswith("I;16") else 4


def loading_bytes(image: Image.Image) -> int:
    """Return the bytes needed to load an opened image, at the size of its `draft` if there is one."""
    pixels = image.width * image.height
    needed = pixels * (bytes_per_pixel(image.mode) + _BESIDE.get(image.format or "", 0))
    if image.format == "TIFF":
        # Strips are decoded as a whole, and one strip may be the whole image.
        bits = image.tag_v2.get(_BITS_TAG, (8,))  # type: ignore[attr-defined]
        needed += pixels * max(1, sum(bits) // 8)
    return needed


def coefficient_bytes(image: Image.Image) -> int:
    """Return the bytes for the coefficients of a progressive JPEG, which libjpeg keeps until the last scan."""
    layers: list[tuple[int, int, int, int]] = getattr(image, "layer", [])
    if not layers:
        return 0
    if not image.info.get("progressive") and _layers_of_first_scan(image.fp) == len(layers):  # type: ignore[attr-defined]
        return 0
    sampled = [across * down for _, across, down, _ in layers]
    return 2 * image.width * image.height * sum(sampled) // max(1, *sampled)


def _layers_of_first_scan(file: BinaryIO) -> int:
    """Return the number of colour components in the first scan of a JPEG; 0 if none is found."""
    file.seek(2)
    while len(marker := file.read(2)) == 2:
        if marker[0] != 0xFF:
            return 0
        if marker[1] == 0xFF:  # a fill byte
            file.seek(-1, os.SEEK_CUR)
        elif marker[1] not in _ALONE:
            start = file.read(3)
            if marker[1] == _START_OF_SCAN or len(start) < 3:
                return start[-1] if len(start) == 3 else 0
            file.seek(int.from_bytes(start[:2], "big") - 3, os.SEEK_CUR)
    return 0


def check_icon(file: BinaryIO) -> None:
    """Raise a TooLargeError for an icon that contains a large image, because Pillow decodes it on opening."""
    file.seek(0)
    if file.read(4) != _ICON:
        return
    table = file.read(16 * int.from_bytes(file.read(2), "little"))
    for entry in range(0, len(table) - 15, 16):
        file.seek(int.from_bytes(table[entry + 12 : entry + 16], "little"))
        head = file.read(24).ljust(24, b"\0")
        form, start = (">II", 16) if head.startswith(b"\x89PNG") else ("<ii", 4)
        width, height = struct.unpack(form, head[start : start + 8])
        if abs(width * height) > _MAX_ICON_PIXELS:
            raise TooLargeError(f"an icon of {width} x {abs(height)} pixels")


class Budget:
    """A memory budget shared by threads. A request above the limit waits until nothing else is reserved."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # the child has no threads that hold reservations

    def _forget(self) -> None:
        self._used = 0
        self._freed = threading.Condition()

    @contextmanager
    def take(self, needed: int) -> Iterator[None]:
        """Wait until `needed` bytes are free, and reserve them within the context."""
        with self._freed:
            self._freed.wait_for(lambda: self._used == 0 or self._used + needed <= self._limit)
            self._used += needed
        try:
            yield
        finally:
            with self._freed:
                self._used -= needed
                self._freed.notify_all()


budget: Final = Budget(MAX_BYTES)
