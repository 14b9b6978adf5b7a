"""Whatever a file's mode, an upright RGB image comes out, or a BrokenImageError with one clear line."""

import os
import pickle
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest
from makers import BLUE, GREEN, RED, WHITE, file_bytes, icon_around, noise, png_header, save_image
from PIL import Image

from andornot.data import BrokenImageError, DataError, decode
from andornot.data.converting import to_tensor
from andornot.data.decoding import MAX_PIXELS, measure
from andornot.data.formats import image_extensions


def pixel(image, at=(0, 0)):
    return image.getpixel(at)


def near(a, b, by=1):
    return all(abs(x - y) <= by for x, y in zip(a, b, strict=True))


def uniform(mode, colour, size=(4, 3), **info):
    image = Image.new(mode, size, colour)
    image.info.update(info)
    return image


def palette_image(colours, transparency=None):
    image = Image.new("P", (len(colours), 1))
    image.putpalette([channel for colour in colours for channel in colour])
    image.putdata(range(len(colours)))
    return file_bytes(image, "PNG") if transparency is None else file_bytes(image, "PNG", transparency=transparency)


def sixteen_bits(form):
    return file_bytes(Image.fromarray(np.array([[0, 257, 25_700, 65_535]], dtype=np.uint16)), form)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(file_bytes(uniform("RGB", RED)), RED, id="rgb"),
        pytest.param(file_bytes(uniform("L", 77)), (77, 77, 77), id="grey"),
        pytest.param(file_bytes(uniform("1", 1)), WHITE, id="one bit, white"),
        pytest.param(file_bytes(uniform("1", 0)), (0, 0, 0), id="one bit, black"),
        pytest.param(file_bytes(uniform("RGBA", (255, 0, 0, 255))), RED, id="opaque"),
        pytest.param(file_bytes(uniform("RGBA", (255, 0, 0, 0))), WHITE, id="transparent is white"),
        pytest.param(file_bytes(uniform("RGBA", (255, 0, 0, 51))), (255, 204, 204), id="a fifth of red on white"),
        pytest.param(file_bytes(uniform("LA", (0, 51))), (204, 204, 204), id="grey with alpha"),
        pytest.param(palette_image([BLUE, RED]), BLUE, id="palette"),
        pytest.param(palette_image([BLUE, RED], transparency=0), WHITE, id="palette, one colour transparent"),
        pytest.param(palette_image([BLUE, RED], transparency=b"\x33\xff"), (204, 204, 255), id="palette with alphas"),
        pytest.param(file_bytes(uniform("RGB", RED), transparency=RED), WHITE, id="rgb, one colour transparent"),
        pytest.param(file_bytes(uniform("L", 9), transparency=9), WHITE, id="grey, one value transparent"),
        pytest.param(file_bytes(uniform("CMYK", (0, 255, 255, 0)), "TIFF"), RED, id="cmyk tiff"),
        pytest.param(file_bytes(uniform("CMYK", (0, 255, 255, 0), (16, 16)), "JPEG", quality=100), RED, id="cmyk jpeg"),
        pytest.param(file_bytes(uniform("YCbCr", (76, 85, 255), (16, 16)), "JPEG", quality=100), RED, id="ycbcr"),
        pytest.param(file_bytes(uniform("RGB", GREEN), "WEBP", lossless=True), GREEN, id="webp"),
        pytest.param(file_bytes(uniform("RGB", GREEN), "BMP"), GREEN, id="bmp"),
        pytest.param(file_bytes(uniform("P", 0), "GIF"), (0, 0, 0), id="gif"),
        pytest.param(file_bytes(uniform("F", 0.2), "TIFF"), (51, 51, 51), id="floats to one"),
        pytest.param(file_bytes(uniform("F", 51.0), "TIFF"), (51, 51, 51), id="floats to 255"),
        pytest.param(file_bytes(uniform("I", 25_700), "TIFF"), (100, 100, 100), id="32 bits that use 16"),
    ],
)
def test_every_mode_becomes_rgb(data, expected):
    image = decode(data)
    assert image.mode == "RGB"
    assert near(pixel(image), expected, by=3 if data[:2] == b"\xff\xd8" else 1)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_cut(form):
    assert [pixel(decode(sixteen_bits(form)), (x, 0))[0] for x in range(4)] == [0, 1, 100, 255]


def test_sixteen_bits_in_colour():
    rows = b"\0" + struct.pack(">6H", 65_535, 0, 25_700, 0, 257, 65_535)
    image = decode(png_header(2, 1, bits=16, data=zlib.compress(rows)))
    assert near(pixel(image), (255, 0, 100))
    assert near(pixel(image, (1, 0)), (0, 1, 255))


def test_sixteen_bits_of_a_big_endian_tiff():
    big = Image.frombytes("I;16B", (2, 1), struct.pack(">2H", 257, 65_535))
    assert np.asarray(decode(file_bytes(big, "TIFF")))[0, :, 0].tolist() == [1, 255]


def test_more_bits_than_sixteen_are_stretched():
    image = Image.fromarray(np.array([[-1000, 0, 99_000]], dtype=np.int32))
    assert np.asarray(decode(file_bytes(image, "TIFF")))[0, :, 0].tolist() == [0, 3, 255]


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_pixel_that_is_no_finite_number_changes_no_other(odd):
    values = np.linspace(-3, 7, 12, dtype=np.float32).reshape(3, 4)
    whole = np.asarray(decode(file_bytes(Image.fromarray(values), "TIFF"), channels=1))
    values[1, 2] = odd
    image = np.array(decode(file_bytes(Image.fromarray(values), "TIFF"), channels=1))
    assert (image.min(), image.max()) == (0, 255)
    assert image[1, 2] == (255 if odd > 0 else 0)
    image[1, 2] = whole[1, 2]
    assert (image == whole).all()


def test_an_image_without_a_finite_number_is_refused():
    with pytest.raises(BrokenImageError, match="no pixel of it is a finite number"):
        decode(file_bytes(uniform("F", float("nan")), "TIFF"))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_measured_as_it_stands_upright(orientation, form):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = file_bytes(uniform("RGB", RED, (40, 20)), form, exif=exif)
    assert measure(data) == decode(data).size == ((40, 20) if orientation < 5 else (20, 40))


def test_one_channel_on_request():
    image = decode(file_bytes(uniform("RGB", WHITE)), channels=1)
    assert image.mode == "L"
    assert to_tensor(image).shape == (1, 3, 4)


def test_tensors_are_channels_first():
    tensor = to_tensor(decode(file_bytes(uniform("RGB", BLUE))))
    assert tensor.shape == (3, 3, 4)
    assert tensor[:, 0, 0].tolist() == list(BLUE)
    assert tensor.is_contiguous()


# The corner of the file that is the top left corner of the upright image, by the EXIF standard.
CORNERS = {1: "TL", 2: "TR", 3: "BR", 4: "BL", 5: "TL", 6: "BL", 7: "BR", 8: "TR"}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied(orientation, form):
    image = Image.new("RGB", (64, 32), "white")
    left, top = 0 if CORNERS[orientation][1] == "L" else 48, 0 if CORNERS[orientation][0] == "T" else 16
    image.paste(RED, (left, top, left + 16, top + 16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright = decode(file_bytes(image, form, exif=exif))
    assert upright.size == ((64, 32) if orientation <= 4 else (32, 64))
    assert near(pixel(upright, (5, 5)), RED, by=6)


@pytest.mark.parametrize("orientation", [0, 9, 65_535])
def test_a_senseless_orientation_is_ignored(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert decode(file_bytes(Image.new("RGB", (6, 4)), exif=exif)).size == (6, 4)


def test_damaged_exif_data_do_not_make_an_image_unreadable():
    data = file_bytes(Image.new("RGB", (6, 4), RED), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(data).size == (6, 4)


def test_a_big_jpeg_is_decoded_smaller_when_the_size_is_known():
    data = file_bytes(Image.fromarray(noise(0, 800, 1600)), "JPEG", quality=95)
    small = decode(data, size=50)
    assert small.size == (200, 100)
    exact = np.asarray(decode(data).resize((200, 100), Image.Resampling.BOX), dtype=float)
    assert np.abs(np.asarray(small, dtype=float) - exact).mean() < 2


def test_an_image_is_usable_after_its_file_is_closed(tmp_path):
    image = decode(save_image(tmp_path / "a.png"))
    (tmp_path / "a.png").unlink()
    assert np.array_equal(np.asarray(image), noise(0))


JPEG = file_bytes(Image.fromarray(noise(1)), "JPEG")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(b"this is a text\n" * 50, "not an image of a known format", id="text"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image of a known", id="postscript"),
        pytest.param(JPEG[:-50], "truncated", id="truncated jpeg"),
        pytest.param(JPEG[:30], "", id="a jpeg's first bytes"),
        pytest.param(file_bytes(Image.fromarray(noise(1)))[:300], "truncated", id="truncated png"),
        pytest.param(file_bytes(Image.fromarray(noise(1)), "TIFF")[:2000], "", id="truncated tiff"),
        pytest.param(png_header(30_000, 30_000), f"more than {MAX_PIXELS:,} pixels", id="bomb beyond Pillow's limit"),
        pytest.param(png_header(15_000, 15_000), f"more than {MAX_PIXELS:,} pixels", id="bomb beyond ours"),
        pytest.param(icon_around(png_header(19_900, 19_900)), "an icon of 19900 x 19900 pixels", id="bomb in an icon"),
        pytest.param(png_header(0, 5), "", id="no pixels"),
        pytest.param(png_header(100, 100), "", id="within the limit, but broken"),
    ],
)
def test_hostile_files_are_one_clear_line(tmp_path, data, reason):
    path = tmp_path / "image.jpg"
    path.write_bytes(data)
    for source, name in ((path, str(path)), (data, "<bytes>")):
        with pytest.raises(BrokenImageError) as caught:
            decode(source)
        message = str(caught.value)
        assert message.startswith(f"{name}: ")
        assert reason in caught.value.reason
        assert "\n" not in message
        assert isinstance(caught.value, DataError)


def test_what_is_no_file(tmp_path, monkeypatch):
    with pytest.raises(BrokenImageError, match=r"gone\.jpg: no such file"):
        decode(tmp_path / "gone.jpg")
    with pytest.raises(BrokenImageError, match="a folder"):
        decode(tmp_path)
    path = save_image(tmp_path / "a.png")
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr("builtins.open", lambda *_, **__: (_ for _ in ()).throw(refused))
    with pytest.raises(BrokenImageError, match="no permission to read it"):
        decode(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(BrokenImageError, match="not a regular file"):
        decode(tmp_path / "pipe.jpg")


def test_a_lower_limit_of_pixels():
    with pytest.raises(BrokenImageError, match="more than 11 pixels"):
        decode(file_bytes(uniform("RGB", RED)), max_pixels=11)
    assert decode(file_bytes(uniform("RGB", RED)), max_pixels=12).size == (4, 3)


def test_what_cannot_be_read_has_a_code(tmp_path):
    image = file_bytes(uniform("RGB", RED))
    wrong = {
        "empty-file": b"",
        "unknown-format": b"no image",
        "not-found": tmp_path / "gone.jpg",
        "damaged": file_bytes(Image.frombytes("RGB", (64, 64), bytes(range(256)) * 48), "JPEG")[:500],
    }
    for code, source in wrong.items():
        with pytest.raises(BrokenImageError) as caught:
            decode(source)
        assert caught.value.code == code
    with pytest.raises(BrokenImageError) as caught:
        decode(image, max_pixels=11)
    assert caught.value.code == "too-large"


def test_a_name_with_a_line_break_stays_on_one_line():
    assert str(BrokenImageError("a\nb\udcff.jpg", "empty")) == "a\\nb\\udcff.jpg: empty"


def test_an_error_survives_pickling():
    error = pickle.loads(pickle.dumps(BrokenImageError("a.jpg", "empty", "empty-file")))
    assert (error.name, error.reason, error.code) == ("a.jpg", "empty", "empty-file")
    assert str(error) == "a.jpg: empty"


def test_no_warning_of_pillow_leaks_and_its_settings_come_back():
    before = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    bomb = png_header(12_000, 12_000)  # Pillow alone warns about it

    def decode_many():
        for _ in range(20):
            with pytest.raises(BrokenImageError):
                decode(bomb, max_pixels=1000)

    threads = [threading.Thread(target=decode_many) for _ in range(4)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not seen
    assert before == (Image.MAX_IMAGE_PIXELS, list(warnings.filters))


def test_the_endings_of_images():
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif", ".tiff", ".bmp"} <= image_extensions()
    assert not {".eps", ".pdf", ".txt", ".mp4"} & image_extensions()
