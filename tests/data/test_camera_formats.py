"""What phones and cameras write: HEIC, AVIF and RAW are read, videos are named, and nothing is left out silently."""

import sys
from collections import Counter

import numpy as np
import pytest
from makers import RED, dated, dng, file_bytes, heic, noise, save_image
from PIL import Image

from andornot.data import BrokenImageError, decode
from andornot.data.decoding import measure, read_photograph, read_taken
from andornot.data.formats import is_image
from andornot.data.sources.folder import find_images, open_folder

TAKEN = 1_562_265_000  # 2019-07-04 18:30:00
VIDEO = b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(100)


def corner(size=(640, 480)) -> Image.Image:
    """White, with a red top left corner."""
    image = Image.new("RGB", size, "white")
    image.paste(RED, (0, 0, size[0] // 4, size[1] // 4))
    return image


def is_red(pixel: tuple[int, ...]) -> bool:
    return pixel[0] > 200 and max(pixel[1:]) < 80


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(heic(corner(), exif=dated()), id="heic"),
        pytest.param(file_bytes(corner(), "AVIF", exif=dated()), id="avif"),
        pytest.param(dng(corner()), id="raw"),
    ],
)
def test_images_of_phones_and_cameras_are_read(content, tmp_path):
    (tmp_path / "image").write_bytes(content)
    for source in (content, tmp_path / "image"):
        image = decode(source)
        assert (image.mode, image.size, measure(source)) == ("RGB", (640, 480), (640, 480))
        assert is_red(image.getpixel((20, 20)))
        assert not is_red(image.getpixel((600, 400)))
        assert read_taken(source) == TAKEN


@pytest.mark.parametrize(("orientation", "red"), [(1, (20, 20)), (3, (620, 460)), (6, (460, 20)), (8, (20, 620))])
def test_a_raw_file_stands_upright(orientation, red):
    image = decode(dng(corner(), orientation))
    assert image.size == ((640, 480) if orientation < 5 else (480, 640))
    assert is_red(image.getpixel(red))


def test_heic_stands_upright():
    assert decode(heic(corner(), exif=dated(orientation=6).tobytes())).size == (480, 640)


def test_a_plain_tiff_is_not_taken_for_raw():
    assert np.array_equal(np.asarray(decode(file_bytes(Image.fromarray(noise(0)), "TIFF"))), noise(0))


@pytest.mark.parametrize(
    ("content", "module", "reason"),
    [
        (heic(corner()), "pillow_heif", 'HEIC is not installed: pip install "andornot[heic]"'),
        (dng(corner()), "rawpy", 'RAW is not installed: pip install "andornot[raw]"'),
    ],
)
def test_without_its_package_a_format_says_what_to_install(content, module, reason, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BrokenImageError) as caught:
        decode(content)
    assert caught.value.reason == reason
    assert caught.value.code == "missing-package"


def test_a_video_is_called_one():
    with pytest.raises(BrokenImageError, match="a video, which is not supported") as caught:
        decode(VIDEO)
    assert caught.value.code == "unsupported"


def test_a_raw_file_without_a_preview_says_so():
    content = dng(corner())
    start = content.index(b"\xff\xd8\xff")
    with pytest.raises(BrokenImageError):
        decode(content[:start] + bytes(len(content) - start))


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF", "JPEG", "AVIF"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P"])
def test_the_date_of_an_image_is_there_whatever_its_mode(form, mode):
    if (form == "JPEG" and mode not in ("RGB", "L")) or (form == "TIFF" and mode == "P"):
        pytest.skip("no such file")
    content = file_bytes(corner((32, 32)).convert(mode), form, exif=dated(orientation=6))
    assert read_photograph(content).taken == TAKEN
    assert read_taken(content) == TAKEN


def test_the_date_of_a_png_may_come_after_its_pixels():
    content = file_bytes(corner((32, 32)), exif=dated())
    start = content.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(content[start : start + 4], "big")
    late = content[:start] + content[end:-12] + content[start:end] + content[-12:]
    assert read_taken(late) == read_photograph(late).taken == TAKEN


@pytest.mark.parametrize("ask", [measure, read_taken])
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP", "GIF"])
def test_nothing_is_decoded_to_know_the_size_or_the_date(ask, form, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("it was decoded"))
    ask(file_bytes(Image.fromarray(noise(0)), form))


def test_an_image_without_a_date_has_none():
    assert read_taken(file_bytes(corner())) is None
    assert read_taken(file_bytes(corner(), "JPEG", exif=dated("yesterday"))) is None


def test_folders_are_searched_for_them_and_what_is_not_supported_is_counted(tmp_path):
    for name in ("a.HEIC", "b.dng", "c.avif", "d.mov", "e.MP4", "f.psd", "notes.txt", ".hidden.mov"):
        (tmp_path / name).write_bytes(b"x")
    skipped: Counter[str] = Counter()
    found = find_images(tmp_path, skipped=skipped)
    assert [path[-6:] for path in found] == ["a.HEIC", "/b.dng", "c.avif"]
    assert skipped == {"video": 2, ".psd": 1}


def test_an_image_without_an_ending_is_known_by_its_bytes(tmp_path):
    save_image(tmp_path / "x.png").rename(tmp_path / "IMG_1")
    (tmp_path / "IMG_2").write_bytes(heic(corner()))
    (tmp_path / "IMG_3").write_bytes(file_bytes(corner(), "JPEG")[:200])
    (tmp_path / "README").write_text("a text")
    (tmp_path / "film").write_bytes(VIDEO)
    photos = open_folder(tmp_path).resized(16)
    assert [name[-5:] for name in photos.names] == ["IMG_1", "IMG_2"]
    assert [name[-5:] for name, _ in photos.broken] == ["IMG_3"]
    assert not is_image(str(tmp_path / "gone"))
