"""What an image takes while it is decoded is bounded, whatever its mode and format; and what many take at once."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from makers import black_png, file_bytes, heic, icon_around, noise
from PIL import Image

from andornot.data import BrokenImageError, converting, decode
from andornot.data import decode_budget as bounds
from andornot.data.decode_budget import Budget

# Decodes a file in each of some threads, as `index` does, and prints by how many bytes the peak of memory grew.
DECODE = """
import json, pathlib, re, sys, threading
from andornot.data import BrokenImageError, decode
from andornot.data.formats import pillow_formats
path, threads = sys.argv[1], int(sys.argv[2])
pillow_formats()
if path.endswith("HEIC"):
    import pillow_heif
reasons = []
def work():
    try:
        decode(path, size=224)
    except BrokenImageError as error:
        reasons.append(error.reason)
def peak():
    # Not `getrusage`, which begins with the peak of the process that started this one.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
before = peak()
workers = [threading.Thread(target=work) for _ in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(json.dumps({"bytes": peak() - before, "reasons": reasons}))
"""
# Beside the image itself: what is converted at a time, what the allocator keeps, modules that are loaded late.
ROOM = 150_000_000


def peak(path: Path, threads: int = 1) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", DECODE, str(path), str(threads)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    told = json.loads(done.stdout)
    return told["bytes"], told["reasons"]


def plain(mode: str, side: int, form: str, **options: object) -> bytes:
    return file_bytes(Image.new(mode, (side, side)), form, **options)


def moving(mode: str, side: int, form: str, **options: object) -> bytes:
    second = Image.new(mode, (side, side), 1 if mode == "P" else (200,) * len(mode))
    return plain(mode, side, form, save_all=True, append_images=[second], **options)


# How an image is made, and the bytes a pixel that it may take.
IMAGES = {
    "PNG, grey, 16 bits, 14000 x 14000": (lambda: black_png(14_000, 14_000, bits=16, colour=0), 14_000, 2),
    "PNG, transparent, 14000 x 14000": (lambda: black_png(14_000, 14_000, colour=6), 14_000, 4),
    "PNG, colour, 14000 x 14000": (lambda: black_png(14_000, 14_000, colour=2), 14_000, 4),
    "PNG, grey, transparent, 10000 x 10000": (lambda: black_png(10_000, 10_000, colour=4), 10_000, 4),
    "PNG, palette, 10000 x 10000": (lambda: plain("P", 10_000, "PNG"), 10_000, 1),
    "APNG, 7000 x 7000": (lambda: moving("RGB", 7000, "PNG"), 7000, 4),
    "GIF that moves, 10000 x 10000": (lambda: moving("P", 10_000, "GIF"), 10_000, 1),
    "JPEG, 14000 x 14000": (lambda: plain("RGB", 14_000, "JPEG"), 14_000, 0.1),
    "JPEG in scans, CMYK, 10000 x 10000": (lambda: plain("CMYK", 10_000, "JPEG", progressive=True), 10_000, 8.1),
    "MPO, 7000 x 7000": (lambda: moving("RGB", 7000, "MPO"), 7000, 0.1),
    "TIFF, floats, 8000 x 8000": (lambda: plain("F", 8000, "TIFF", compression="tiff_lzw"), 8000, 8),
    "TIFF, CMYK, one strip, 8000 x 8000": (
        lambda: plain("CMYK", 8000, "TIFF", compression="tiff_lzw", strip_size=10**9),
        8000,
        8,
    ),
    "TIFF of pages, 7000 x 7000": (lambda: moving("RGB", 7000, "TIFF", compression="tiff_lzw"), 7000, 7),
    "WebP that moves, 7000 x 7000": (
        lambda: moving("RGBA", 7000, "WEBP", lossless=True, method=0, quality=0),
        7000,
        18,
    ),
    "AVIF, transparent, 7000 x 7000": (lambda: plain("RGBA", 7000, "AVIF", speed=10), 7000, 16),
    "HEIC, transparent, 7000 x 7000": (lambda: heic(Image.new("RGBA", (7000, 7000))), 7000, 16),
    "JPEG 2000, transparent, 5000 x 5000": (lambda: plain("RGBA", 5000, "JPEG2000"), 5000, 28),
}


linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nobody else tells the peak of memory")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_a_large_image_takes_what_was_foreseen(name, tmp_path, capsys):
    make, side, per_pixel = IMAGES[name]
    path = tmp_path / name.split(",")[0].replace(" ", "-")
    path.write_bytes(make())
    taken, reasons = peak(path)
    with capsys.disabled():
        print(f"\n| {name} | {path.stat().st_size / 1e3:,.0f} kB | {taken / 1e6:,.0f} MB |", end="")
    assert not reasons
    assert taken < side * side * per_pixel + ROOM < bounds.MAX_BYTES + ROOM


@linux
@pytest.mark.slow
def test_four_threads_together_take_no_more_than_one_may(tmp_path, capsys):
    path = tmp_path / "large.png"
    path.write_bytes(black_png(14_000, 14_000, colour=6))
    taken, reasons = peak(path, threads=4)
    with capsys.disabled():
        print(f"\n| the transparent PNG by four threads | | {taken / 1e6:,.0f} MB |", end="")
    assert not reasons
    assert taken < bounds.MAX_BYTES + ROOM


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: icon_around(black_png(14_000, 14_000, colour=6)), "an icon of 14000 x 14000 pixels"),
        (lambda: plain("RGB", 9000, "WEBP", method=0, quality=0), "9000 x 9000 pixels take 1.5 GB to decode"),
        (lambda: black_png(15_000, 15_000), "more than 200,000,000 pixels"),
    ],
)
def test_what_is_refused_takes_nothing(make, reason, tmp_path):
    path = tmp_path / "refused"
    path.write_bytes(make())
    taken, reasons = peak(path)
    assert reasons == [reason]
    assert taken < ROOM


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "L", "P", "CMYK", "I;16", "F", "I"])
def test_a_large_image_is_made_smaller_on_the_way_and_looks_the_same(mode, monkeypatch):
    grey = Image.fromarray(noise(3, 600, 400)).convert("L")
    image = {"I;16": grey.convert("I").point(lambda value: value * 257).convert("I;16")}.get(mode) or grey.convert(mode)
    whole = converting.to_rgb(image)
    monkeypatch.setattr(converting, "_LARGE", 1000)
    monkeypatch.setattr(converting, "_BAND", 5000)
    small = converting.to_rgb(image, size=20)
    assert (whole.size, small.size) == ((400, 600), (40, 60))
    assert np.array_equal(np.asarray(small), np.asarray(whole.reduce(10)))


def test_an_ordinary_image_keeps_its_size():
    assert decode(file_bytes(Image.fromarray(noise(3, 600, 400))), size=20).size == (400, 600)


def test_an_image_that_would_take_too_much_is_refused_before_it_is_decoded(monkeypatch):
    content = file_bytes(Image.fromarray(noise(1)), "JPEG", progressive=True)
    monkeypatch.setattr("andornot.data.decoding.MAX_BYTES", 5000)
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("it was decoded"))
    with pytest.raises(BrokenImageError, match=r"60 x 40 pixels take 0\.0 GB to decode"):
        decode(content)


def test_a_jpeg_whose_colours_come_one_after_the_other_is_known_to_take_more():
    together = file_bytes(Image.fromarray(noise(1)), "JPEG", subsampling=0)
    start = together.index(b"\xff\xda")
    apart = together[:start] + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + together[start + 14 :]
    sizes = []
    for content in (together, apart):
        with Image.open(io.BytesIO(content)) as image:
            sizes.append(bounds.coefficient_bytes(image))
    assert sizes == [0, 2 * 3 * 60 * 40]


def test_threads_wait_until_there_is_room():
    budget, inside, most = Budget(10), 0, 0
    lock = threading.Lock()

    def work(needed: int) -> None:
        nonlocal inside, most
        for _ in range(50):
            with budget.take(needed):
                with lock:
                    inside += needed
                    most = max(most, inside)
                with lock:
                    inside -= needed

    threads = [threading.Thread(target=work, args=(needed,)) for needed in (4, 5, 3, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 10


def test_what_needs_more_than_all_has_it_alone():
    budget = Budget(10)
    with budget.take(25):
        pass
    with budget.take(10):
        pass
