"""A file is scanned as one thing: its digest, its pixels and its date are those of the same bytes."""

import io
import os
import sys
import threading
from datetime import datetime
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from galleries import contents, photos, pixels, save_image, table_of, tiny_model
from PIL import Image

from andornot.data.converting import to_tensor
from andornot.gallery import Filter, Gallery, Summary, scanning
from andornot.gallery.encoding import to_half
from andornot.gallery.records import digest_of
from andornot.gallery.scanning import scan_all
from andornot.model import Model
from andornot.web.browsing import Browser


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny_model()


def scan(path: Path, model: Model) -> scanning.ScannedFile:
    return next(scan_all([str(path)], model, lambda _: False))


def replace(path: Path, seed: int) -> None:
    """Another image in the place of a file, in one step."""
    save_image(path.with_suffix(".part"), seed, format="PNG").replace(path)


def rewrite(path: Path, seed: int) -> None:
    """Another image in the same file."""
    other = save_image(path.with_name("other.png"), seed)
    path.write_bytes(other.read_bytes())
    other.unlink()


def shows(scanned: scanning.ScannedFile, seed: int) -> bool:
    return bool((scanned.pixels == to_tensor(Image.fromarray(pixels(seed)))).all())


@pytest.mark.parametrize("change", [replace, rewrite])
@pytest.mark.parametrize("in_memory", [0, 10**6])
def test_a_file_that_changes_meanwhile_keeps_digest_and_pixels_together(
    change, in_memory, tmp_path, model, monkeypatch
):
    path = save_image(tmp_path / "a.png", 1)
    first, done = digest_of(path), []

    def digest_then_change(source):
        digest = digest_of(source)
        if not done:
            done.append(True)
            change(path, 2)
        return digest

    monkeypatch.setattr(scanning, "_IN_MEMORY", in_memory)
    monkeypatch.setattr(scanning, "digest_of", digest_then_change)
    scanned = scan(path, model)
    assert not scanned.reason
    if scanned.digest == first:
        assert shows(scanned, 1)
    else:
        assert scanned.digest == digest_of(path)
        assert shows(scanned, 2)


def test_a_file_that_never_stops_changing_is_left_for_later(tmp_path, model, monkeypatch):
    folder = photos(tmp_path / "photos", 3)
    gallery = Gallery.create(tmp_path / "g", model)
    gallery.add(folder)
    before = contents(gallery)
    rewrite(folder / "001.png", 9)
    stamps = iter(range(100))
    monkeypatch.setattr(scanning, "file_stamp", lambda _: (next(stamps), 0))
    summary = gallery.update()
    assert summary.broken == {str(folder / "001.png"): "it was changed while it was read"}
    assert gallery.broken == {}
    assert contents(gallery).keys() == before.keys()
    monkeypatch.undo()
    assert gallery.update() == Summary(changed=1, unchanged=2)


@pytest.mark.slow
def test_files_that_are_replaced_all_the_time_never_get_features_of_another_image(tmp_path, model):
    folder, count, rounds = tmp_path / "photos", 120, 12
    contents_of = []
    for seed in range(40):
        # Large enough that there is a while between the first look at a file and the last.
        buffer = io.BytesIO()
        Image.fromarray(pixels(seed, 600)).save(buffer, "PNG", compress_level=1)
        contents_of.append(buffer.getvalue())
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:03}.png").write_bytes(contents_of[number % 40])
    rows = []
    for content in contents_of:
        (tmp_path / "one.png").write_bytes(content)
        rows.append(to_half(model.activations([tmp_path / "one.png"], progress=False))[0])
    right = {digest_of(content): row for content, row in zip(contents_of, rows, strict=True)}
    stop = threading.Event()

    def hammer(number: int) -> None:
        rng = np.random.default_rng(number)
        part = tmp_path / f"part-{number}"
        while not stop.is_set():
            path, chosen = folder / f"{rng.integers(count):03}.png", rng.integers(40)
            # What comes after the image makes it a new file, which must be decoded.
            content = contents_of[chosen] + rng.bytes(16)
            right[digest_of(content)] = rows[chosen]
            if rng.random() < 0.7:
                part.write_bytes(content)
                part.replace(path)
            else:
                path.write_bytes(content)

    gallery, checked = Gallery.create(tmp_path / "g", model), 0
    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(rounds):
            gallery.add(folder, progress=False)
            stored = contents(gallery)
            for image in table_of(gallery).records():
                if image.digest in right:  # else it was read while it was written, and is an image all the same
                    np.testing.assert_allclose(stored[image.path], right[image.digest], rtol=2e-3, atol=1e-3)
                    checked += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert checked > rounds * count // 2


# --- dates ----------------------------------------------------------------------------------------------------------


def dated(text: str = "2019:07:04 18:30:00") -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 1  # without it Pillow takes all of it for empty
    exif.get_ifd(0x8769)[0x9003] = text
    return exif


@pytest.fixture
def gallery(tmp_path, model) -> Gallery:
    save_image(tmp_path / "p" / "camera.webp", 1, exif=dated())
    (tmp_path / "p" / "transparent.png").parent.mkdir(exist_ok=True)
    Image.fromarray(pixels(2)).convert("RGBA").save(tmp_path / "p" / "transparent.png", exif=dated())
    plain = save_image(tmp_path / "p" / "plain.png", 3)
    os.utime(plain, (1_600_000_000, 1_600_000_000))
    made = Gallery.create(tmp_path / "g", model)
    made.add(tmp_path / "p")
    return made


def dates(gallery: Gallery, **where: object) -> dict[str, tuple[str, str]]:
    hits = gallery.search("plain.png", include_queries=True, filter=Filter(**where))
    return {Path(hit.path).name: (hit.taken, hit.taken_from) for hit in hits}


CAMERA = ("2019-07-04T18:30:00", "camera")


def test_a_date_that_the_camera_noted_is_kept_apart_from_that_of_the_file(gallery):
    told = dates(gallery)
    assert told["camera.webp"] == told["transparent.png"] == CAMERA
    assert told["plain.png"][0].startswith("2020-09-1")
    assert told["plain.png"][1] == "file"
    assert set(dates(gallery, after="2019")) == {"camera.webp", "transparent.png"}
    assert set(dates(gallery, after="2019", file_dates=True)) == set(told)
    assert set(dates(gallery, before="2100", label="p")) == {"camera.webp", "transparent.png"}


def test_a_copy_and_a_moved_file_have_their_own_date(gallery, tmp_path):
    copy = tmp_path / "p" / "copy.png"
    copy.write_bytes((tmp_path / "p" / "plain.png").read_bytes())
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    (tmp_path / "p" / "camera.webp").rename(tmp_path / "p" / "moved.webp")
    assert gallery.update() == Summary(added=1, moved=1, unchanged=2)
    told = dates(gallery)
    assert told["copy.png"][0].startswith("2023-11-1")
    assert told["moved.webp"] == CAMERA


@pytest.mark.parametrize("year", [1905, 1969, 2262, 2263, 2300, 2400])
def test_a_file_of_any_date_is_indexed_once(year, gallery, tmp_path):
    odd = save_image(tmp_path / "p" / "odd.png", 9)
    seconds = datetime(year, 6, 1, 12).timestamp()
    os.utime(odd, (seconds, seconds))
    if odd.stat().st_mtime != seconds:
        pytest.skip("this file system has no such dates")
    assert gallery.update() == Summary(added=1, unchanged=3)
    assert gallery.update() == Summary(unchanged=4)
    assert dates(gallery)["odd.png"] == (f"{year}-06-01T12:00:00", "file")
    assert "odd.png" in dates(Gallery.open(gallery.folder), after=f"{year}-06", before=f"{year}-07", file_dates=True)
    assert str(year) in {str(one.year) for one in Browser(gallery.planner).period}


# --- what is not supported ------------------------------------------------------------------------------------------


def test_what_is_not_supported_is_counted(tmp_path, model):
    folder = photos(tmp_path / "photos", 2)
    for name in ("a.mov", "b.mp4", "c.psd", "notes.txt"):
        (folder / name).write_bytes(b"x")
    (folder / "bad.dng").write_bytes(b"x")
    summary = Gallery.create(tmp_path / "g", model).add(folder)
    assert (summary.added, summary.skipped) == (2, {".psd": 1, "video": 2})
    assert list(summary.broken) == [str(folder / "bad.dng")]


def test_an_image_that_wanted_a_package_is_tried_again(tmp_path, model, monkeypatch):
    folder = photos(tmp_path / "photos", 2)
    pillow_heif.register_heif_opener()
    Image.new("RGB", (64, 64)).save(folder / "phone.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    gallery = Gallery.create(tmp_path / "g", model)
    reason = 'HEIC is not installed: pip install "andornot[heic]"'
    assert gallery.add(folder).broken == {str(folder / "phone.heic"): reason}
    assert gallery.update().broken == {str(folder / "phone.heic"): reason}
    monkeypatch.undo()
    assert gallery.update() == Summary(added=1, unchanged=2)
    assert gallery.broken == {}
