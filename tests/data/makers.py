"""Small real files for the tests."""

import gzip
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def noise(seed: int, height: int = 40, width: int = 60, channels: int = 3) -> np.ndarray:
    """Smooth noise: something a JPEG keeps well, and no two alike."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    return image if channels == 3 else image[..., 0]


def save_image(path: Path, seed: int = 0, **size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(seed, **size)).save(path)
    return path


def save_images(folder: Path, count: int, ending: str = "jpg") -> list[str]:
    """Images of different shapes; their paths, sorted."""
    return [str(save_image(folder / f"{i:03}.{ending}", i, height=30 + i % 7, width=40 - i % 11)) for i in range(count)]


def file_bytes(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def dated(text: str = "2019:07:04 18:30:00", orientation: int = 1) -> Image.Exif:
    """What a camera notes."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif.get_ifd(0x8769)[0x9003] = text
    written = Image.Exif()
    written.load(exif.tobytes())  # some formats leave out what was only set
    return written


_TYPES = {1: "B", 3: "H", 4: "I", 5: "I", 10: "i"}


def _tiff_folder(tags: list[tuple[int, int, bytes | list[int]]], at: int) -> bytes:
    """A folder of TIFF tags (number, type, values) that lies at that place of the file, and what it points to."""
    table, beyond = struct.pack("<H", len(tags)), b""
    for tag, kind, values in sorted(tags):
        content = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{_TYPES[kind]}", *values)
        count = len(values) // 2 if kind in (5, 10) else len(values)
        place = content.ljust(4, b"\0")
        if len(content) > 4:
            place = struct.pack("<I", at + 2 + 12 * len(tags) + 4 + len(beyond))
            beyond += content + b"\0" * (len(content) % 2)
        table += struct.pack("<HHI", tag, kind, count) + place
    return table + struct.pack("<I", 0) + beyond


def dng(preview: Image.Image, orientation: int = 1, taken: bytes = b"2019:07:04 18:30:00\0") -> bytes:
    """A camera's RAW file: a JPEG to look at, the sensor's pixels (640 x 480), and when it was taken."""
    jpeg = file_bytes(preview, "JPEG", quality=95)
    width, height = 640, 480
    sensor = (np.arange(width * height, dtype=np.uint16) % 4096).tobytes()
    places = dict.fromkeys(("sensor_folder", "exif_folder", "jpeg", "sensor"), 0)
    for _ in range(2):  # the second time it is known what lies where
        first = _tiff_folder(
            [
                *((254, 4, [1]), (256, 4, [preview.width]), (257, 4, [preview.height]), (258, 3, [8, 8, 8])),
                *((259, 3, [7]), (262, 3, [6]), (271, 2, b"Maker\0"), (272, 2, b"Model\0"), (273, 4, [places["jpeg"]])),
                *((274, 3, [orientation]), (277, 3, [3]), (278, 4, [preview.height]), (279, 4, [len(jpeg)])),
                *((330, 4, [places["sensor_folder"]]), (0x8769, 4, [places["exif_folder"]]), (50706, 1, [1, 4, 0, 0])),
                (50721, 10, [1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1]),
                *((50728, 5, [1, 1, 1, 1, 1, 1]), (50778, 3, [21])),
            ],
            at=8,
        )
        places["sensor_folder"] = 8 + len(first)
        second = _tiff_folder(
            [
                *((254, 4, [0]), (256, 4, [width]), (257, 4, [height]), (258, 3, [16]), (259, 3, [1])),
                *((262, 3, [32803]), (273, 4, [places["sensor"]]), (277, 3, [1]), (278, 4, [height])),
                *((279, 4, [len(sensor)]), (33421, 3, [2, 2]), (33422, 1, [0, 1, 1, 2]), (50717, 4, [4095])),
            ],
            places["sensor_folder"],
        )
        places["exif_folder"] = places["sensor_folder"] + len(second)
        third = _tiff_folder([(0x9003, 2, taken)], places["exif_folder"])
        places["jpeg"] = places["exif_folder"] + len(third)
        places["sensor"] = places["jpeg"] + len(jpeg)
    return b"II*\0" + struct.pack("<I", 8) + first + second + third + jpeg + sensor


def heic(image: Image.Image, **options: object) -> bytes:
    import pillow_heif

    pillow_heif.register_heif_opener()
    return file_bytes(image, "HEIF", **options)


def icon_around(png: bytes) -> bytes:
    """An ICO file that says 256 x 256, whatever the PNG in it is."""
    return struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(png), 22) + png


def png_header(width: int, height: int, bits: int = 8, colour: int = 2, data: bytes = b"x") -> bytes:
    """A PNG of any size, with whatever in the place of its pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def black_png(width: int, height: int, bits: int = 8, colour: int = 2) -> bytes:
    """A PNG of nothing but zeros, which is tiny for its size."""
    line = 1 + width * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] * bits // 8
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(line)) for _ in range(height)]
    return png_header(width, height, bits, colour, b"".join([*parts, packer.flush()]))


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist(folder: Path, ending: str = ".gz", dot: str = "-", train: int = 20, test: int = 10) -> np.ndarray:
    """Idx files of random images 28 x 28, labelled 0, 1, …, 9, 0, …; returns the images, train first."""
    pixels = np.random.default_rng(0).integers(0, 256, (train + test, 28, 28), dtype=np.uint8)
    for stem, part in (("train", slice(0, train)), ("t10k", slice(train, None))):
        write_idx(folder / f"{stem}-images{dot}idx3-ubyte{ending}", pixels[part])
        write_idx(
            folder / f"{stem}-labels{dot}idx1-ubyte{ending}", (np.arange(len(pixels[part])) % 10).astype(np.uint8)
        )
    return pixels


VOC_XML = """<annotation><filename>{name}.jpg</filename>{objects}</annotation>"""
VOC_OBJECT = """<object><name>{name}</name><difficult>{difficult}</difficult><bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin>
<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"""


def write_voc_year(root: Path, lists: dict[str, list[str]], objects: dict[str, list[tuple[str, int]]]) -> None:
    """A year of VOC: the images of each split, and the (class, difficult) of each image's objects."""
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    for split, names in lists.items():
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            save_image(root / "JPEGImages" / f"{name}.jpg", len(name))
    for name, things in objects.items():
        text = "".join(VOC_OBJECT.format(name=c, difficult=d, x0=1, y0=2, x1=30, y1=20) for c, d in things)
        (root / "Annotations" / f"{name}.xml").write_text(VOC_XML.format(name=name, objects=text))


def write_coco(
    root: Path, split: str = "val2017", folder: str | None = None, names: tuple[str, ...] = ("b", "a")
) -> dict:
    """Two categories with gaps in their ids; image "b" has a cat and two dogs, "a" has nothing."""
    content = {
        "images": [{"id": 10 + i, "file_name": f"{name}.jpg"} for i, name in enumerate(names)],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "cat"}],
        "annotations": [
            {"image_id": 10, "category_id": 3, "bbox": [1, 2, 10, 20]},
            {"image_id": 10, "category_id": 18, "bbox": [0, 0, 5, 5]},
            {"image_id": 10, "category_id": 18, "bbox": [5, 5, 5.5, 5], "iscrowd": 1},
        ],
    }
    for name in names:
        save_image(root / (split if folder is None else folder) / f"{name}.jpg")
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return content
