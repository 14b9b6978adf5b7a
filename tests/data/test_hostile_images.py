"""Damaged and hostile files of every format: an image comes out, or the one error, and nothing else."""

import struct
import zlib
from collections import Counter

import numpy as np
import pytest
from makers import dated, dng, file_bytes, heic, icon_around, noise
from PIL import Image

from andornot.data import BrokenImageError, decode
from andornot.data.decoding import measure, read_taken

_ALL_OVER = 0.3  # of the damages; the others are where the header is
QUICK, MANY = 60, 1500


def photo(size: int = 16) -> Image.Image:
    return Image.fromarray(noise(2, size, size))


def animated(form: str, **options: object) -> bytes:
    return file_bytes(photo(), form, save_all=True, append_images=[photo().rotate(90)], **options)


FILES = {
    **{form: file_bytes(photo(), form) for form in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO")},
    "JPEG with notes": file_bytes(photo(), "JPEG", exif=dated()),
    "JPEG in scans": file_bytes(photo(), "JPEG", progressive=True),
    "CMYK": file_bytes(photo().convert("CMYK"), "JPEG"),
    "MPO": animated("MPO"),
    "APNG": animated("PNG"),
    "GIF that moves": animated("GIF"),
    "WEBP that moves": animated("WEBP"),
    "TIFF of pages": animated("TIFF", compression="tiff_lzw"),
    "PNG of 16 bits": file_bytes(photo().convert("I;16"), "PNG"),
    "PNG in an icon": icon_around(file_bytes(photo())),
    "JPEG2000": file_bytes(photo(), "JPEG2000"),
    "AVIF": file_bytes(photo(64), "AVIF"),
    "HEIC": heic(photo(64), exif=dated()),
    "RAW": dng(photo(64)),
}


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """The file with a few other bytes, a part of it missing, or a part of it twice."""
    data = np.frombuffer(whole, np.uint8).copy()
    reach = len(data) if rng.random() < _ALL_OVER else min(len(data), 400)
    where = rng.integers(0, reach, 4)
    data[where] = rng.choice([0, 255, *rng.integers(0, 256, 6)], 4)
    kind, at, length = rng.integers(0, 4), int(rng.integers(0, len(data))), int(rng.integers(1, 64))
    content = data.tobytes()
    if content.startswith(b"\x89PNG") and kind > 0:
        return with_right_checksums(content)
    if kind == 0:
        return content[: max(1, at)]
    return content[:at] + content[at : at + length] + content[at:] if kind == 1 else content


def with_right_checksums(png: bytes) -> bytes:
    """The PNG with the checksums of its chunks as they should be: else little of it would be looked at."""
    mended, at = png[:8], 8
    while at + 8 <= len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        mended += png[at : at + 8 + size] + struct.pack(">I", zlib.crc32(png[at + 4 : at + 8 + size]))
        at += 12 + size
    return mended


def tried(whole: bytes, times: int, seed: int = 0) -> Counter[str]:
    """How many damaged files gave an image, and how many the error."""
    outcomes: Counter[str] = Counter()
    rng = np.random.default_rng(seed)
    for _ in range(times):
        data = damaged(whole, rng)
        try:
            assert decode(data, size=8, max_pixels=10**6).mode == "RGB"
            measure(data)
            read_taken(data)
            outcomes["an image"] += 1
        except BrokenImageError:
            outcomes["refused"] += 1
    return outcomes


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in ("AVIF", "HEIC", "RAW")])
def test_damaged_bytes_give_an_image_or_the_one_error(kind):
    outcomes = tried(FILES[kind], QUICK)
    assert sum(outcomes.values()) == QUICK


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_many_damaged_files_give_an_image_or_the_one_error(kind, capsys):
    outcomes = tried(FILES[kind], MANY, seed=1)
    assert sum(outcomes.values()) == MANY
    with capsys.disabled():
        print(f"\n{kind}: {dict(outcomes)}", end="")
