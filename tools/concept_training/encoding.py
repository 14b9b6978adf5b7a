"""Feature maps of images, cached on disk in shards: encoding is slow, and training reads every map several times.

The maps are those that the product computes: the last one of EfficientNet-Lite0 (stride 32, 1280 channels, values 0 to
6), of the whole image at about the pixels of 224 x 224, its aspect ratio kept.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from andornot.data.converting import choose_size
from andornot.ssl.backbones import Backbone, build_backbone
from andornot.ssl.backbones.inference import optimise_for_inference

SHARD: Final = 1024
# The largest value of the last activation, ReLU6. Bytes hold its square root: small values keep their precision.
LARGEST: Final = 6.0
_BATCH: Final = 4
_STRIDE: Final = 32

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Source:
    """An image to encode. `aspect` is width / height of the original where the file was resized, else None."""

    id: str
    file: Path
    aspect: float | None = None


class _LastMap(nn.Module):
    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        return self.backbone.maps(images)


class Encoder:
    """Computes feature maps with ONNX Runtime, one session for each image size."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        backbone = build_backbone("efficientnet-lite0", channels=3, pretrained=True)
        self._network = _LastMap(optimise_for_inference(backbone)).eval()
        self._sessions: dict[tuple[int, int], Any] = {}

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the maps (B, h, w, 1280) of images (B, 3, H, W) with values from 0 to 1."""
        height, width = images.shape[2:]
        session = self._sessions.get((height, width))
        if session is None:
            session = self._sessions[height, width] = self._make_session(height, width)
        maps: NDArray[np.float32] = session.run(None, {"images": images})[0]
        return maps.transpose(0, 2, 3, 1)

    def _make_session(self, height: int, width: int) -> Any:
        import io
        import warnings

        import onnxruntime  # type: ignore[import-untyped]

        file: Any = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self._network,
                (torch.zeros(2, 3, height, width),),
                file,
                dynamo=False,
                input_names=["images"],
                output_names=["maps"],
                dynamic_axes={"images": {0: "batch"}, "maps": {0: "batch"}},
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
        example = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            wanted = self._network(example).numpy()
        got = session.run(None, {"images": example.numpy()})[0]
        if np.abs(got - wanted).max() > 1e-3 * wanted.max():
            raise RuntimeError(f"ONNX Runtime and torch disagree at {width} x {height}")
        return session


def read_image(source: Source) -> NDArray[np.float32]:
    """Return the whole image (3, H, W), values 0 to 1, at the size that the product chooses for its aspect ratio."""
    with Image.open(source.file) as opened:
        aspect = opened.width / opened.height if source.aspect is None else source.aspect
        size = choose_size(aspect)
        opened.draft("RGB", (2 * size[0], 2 * size[1]))
        image = opened.convert("RGB").resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)
    return np.ascontiguousarray(np.asarray(image, dtype=np.float32).transpose(2, 0, 1)) / np.float32(255)


def quantise(maps: NDArray[np.float32]) -> Bytes:
    """Return maps as bytes: 255 times the square root of value / 6."""
    result: Bytes = np.rint(255 * np.sqrt(np.clip(maps, 0, LARGEST) / LARGEST)).astype(np.uint8)
    return result


def restore(maps: Bytes) -> NDArray[np.float32]:
    """Return the values of quantised maps."""
    result: NDArray[np.float32] = maps.astype(np.float32) ** 2 * np.float32(LARGEST / 255**2)
    return result


class MapCache:
    """A folder of encoded images in shards; a shard that exists is complete, so an interrupted run can resume."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def encode(self, sources: Sequence[Source], encoder: Encoder, report: Callable[[str], None] = print) -> None:
        """Encode every image that is not yet in the cache. The order of `sources` must be that of the first run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(sources), SHARD):
            number = start // SHARD
            if self._index(number).exists():
                continue
            self._write(number, sources[start : start + SHARD], encoder)
            report(f"{self.folder.name}: {min(start + SHARD, len(sources)):,} of {len(sources):,} images")

    def _write(self, number: int, sources: Sequence[Source], encoder: Encoder) -> None:
        images = [read_image(source) for source in sources]
        sizes = [(image.shape[1] // _STRIDE, image.shape[2] // _STRIDE) for image in images]
        places = max(height * width for height, width in sizes)
        maps = np.zeros((len(images), places, 1280), np.uint8)
        for size in sorted(set(sizes)):
            members = [index for index, its in enumerate(sizes) if its == size]
            for start in range(0, len(members), _BATCH):
                part = members[start : start + _BATCH]
                encoded = encoder(np.stack([images[index] for index in part]))
                maps[part, : size[0] * size[1]] = quantise(encoded.reshape(len(part), size[0] * size[1], -1))
        _write_atomically(self.folder / f"last-{number:04d}.npy", lambda partial: _save(partial, maps))
        rows = [{"id": source.id, "size": size} for source, size in zip(sources, sizes, strict=True)]
        _write_atomically(self._index(number), lambda partial: partial.write_text(json.dumps(rows)))

    def _index(self, number: int) -> Path:
        return self.folder / f"index-{number:04d}.json"

    def shards(self, limit: int | None = None) -> Iterator["Shard"]:
        """Yield the complete shards in order, until they hold at least `limit` images."""
        seen = 0
        for file in sorted(self.folder.glob("index-*.json")):
            if limit is not None and seen >= limit:
                return
            number = int(file.stem.removeprefix("index-"))
            rows = json.loads(file.read_text())
            seen += len(rows)
            yield Shard(
                [row["id"] for row in rows],
                np.asarray([row["size"] for row in rows], np.int64),
                np.load(self.folder / f"last-{number:04d}.npy", mmap_mode="r"),
            )


@dataclass(frozen=True)
class Shard:
    """Encoded images: ids, (height, width) of their maps, and the maps (images, places, channels) as bytes."""

    ids: list[str]
    sizes: NDArray[np.int64]
    last: Bytes

    def maps(self, row: int) -> NDArray[np.float32]:
        """Return the feature map (1, channels, h, w) of an image."""
        height, width = self.sizes[row]
        return restore(self.last[row, : height * width]).reshape(1, height, width, -1).transpose(0, 3, 1, 2)


def draw_aspects(count: int, aspects: Sequence[float], seed: int) -> list[float]:
    """Return aspect ratios drawn from observed ones."""
    rng = np.random.default_rng(seed)
    return [float(value) for value in rng.choice(np.asarray(aspects), count)]


def _write_atomically(file: Path, write: Callable[[Path], object]) -> None:
    partial = file.with_suffix(".partial")
    write(partial)
    partial.replace(file)


def _save(file: Path, array: Bytes) -> None:
    with file.open("wb") as stream:
        np.save(stream, array)
