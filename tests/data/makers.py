"""Small real files for the tests."""

import gzip
import io
import json
import struct
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


def save_picture(path: Path, seed: int = 0, **size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(seed, **size)).save(path)
    return path


def save_pictures(folder: Path, count: int, ending: str = "jpg") -> list[str]:
    """Pictures of different shapes; their paths, sorted."""
    return [
        str(save_picture(folder / f"{i:03}.{ending}", i, height=30 + i % 7, width=40 - i % 11)) for i in range(count)
    ]


def file_bytes(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist(folder: Path, ending: str = ".gz", dot: str = "-", train: int = 20, test: int = 10) -> np.ndarray:
    """Idx files of random pictures 28 x 28, labelled 0, 1, …, 9, 0, …; returns the pictures, train first."""
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
    """A year of VOC: the pictures of each split, and the (class, difficult) of each picture's objects."""
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    for split, names in lists.items():
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            save_picture(root / "JPEGImages" / f"{name}.jpg", len(name))
    for name, things in objects.items():
        text = "".join(VOC_OBJECT.format(name=c, difficult=d, x0=1, y0=2, x1=30, y1=20) for c, d in things)
        (root / "Annotations" / f"{name}.xml").write_text(VOC_XML.format(name=name, objects=text))


def write_coco(
    root: Path, split: str = "val2017", folder: str | None = None, names: tuple[str, ...] = ("b", "a")
) -> dict:
    """Two categories with gaps in their ids; picture "b" has a cat and two dogs, "a" has nothing."""
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
        save_picture(root / (split if folder is None else folder) / f"{name}.jpg")
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return content
