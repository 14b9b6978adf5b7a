"""Small stored galleries for fault tests: made by real processes, and compared with what they should hold."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from andornot.gallery import Gallery, encoding, indexing, writing
from andornot.gallery.records import digest_of
from andornot.gallery.rows import ACTIVATIONS, CLASSES, FULL_REGIONS, REGIONS
from andornot.gallery.storage import Storage
from andornot.gallery.table import ImageTable
from andornot.model import Model, new_backbone
from andornot.ssl.backbones import Backbone, registry
from andornot.ssl.backbones.backbone import Pretrained
from andornot.ssl.recipe import Recipe, make_recipe

ENOUGH = 12
SEALED = (ACTIVATIONS, CLASSES, FULL_REGIONS, REGIONS, "codes_")


# --- models ---------------------------------------------------------------------------------------------------------


def _build_seeing(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """Build a backbone with feature maps of 7 x 7 and ImageNet's classes, for images of 28 x 28."""
    del pretrained
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(channels, 16, 4, stride=4), torch.nn.ReLU())
    classifier = torch.nn.Linear(16, 1000)
    for tensor in (*network.parameters(), *classifier.parameters()):
        tensor.data = torch.randn(tensor.shape, generator=generator)
    weights = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    return Backbone(
        network, name=name, width=16, size=28, channels=channels, pretrained=lambda: Pretrained(weights, classifier)
    )


def register_backbone() -> None:
    """Let this process build the backbone `seeing`."""
    registry._BUILDERS.setdefault("seeing", _build_seeing)


register_backbone()


def seeing_recipe(**changes: object) -> Recipe:
    """Return a recipe whose models have regions and words, and take a moment to make."""
    settings = {"regime": "calibrated", "backbone": "seeing", "num_values": 4}
    return make_recipe({**settings, "calibration": {"power": 4, "smoothing": 0.2}, **changes})


def small_model(seed: int = 0, **changes: object) -> Model:
    """Return a calibrated model of 16 features without regions or words; it can be loaded by any process."""
    changes = {"backbone": "conv5", "backbone_options": {"width": 16}, **changes}
    recipe = seeing_recipe(seed=seed, **changes)
    backbone = new_backbone(recipe, channels=3)
    images = torch.rand(30, 3, 28, 28, generator=torch.Generator().manual_seed(seed))
    return Model.calibrated(backbone, Model(backbone, torch.nn.Identity(), recipe).activations(images), recipe)


# --- images ---------------------------------------------------------------------------------------------------------


def pixels(seed: int) -> np.ndarray:
    """Return an image of 28 x 28, another one for each seed."""
    coarse = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((28, 28), Image.Resampling.BICUBIC))


def save_image(path: Path, seed: int) -> Path:
    """Write an image; another modification time than before, whatever the clock's resolution."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    Image.fromarray(pixels(seed)).save(path)
    if before:
        os.utime(path, ns=(before + 10**9, before + 10**9))
    return path


def photos(folder: Path, count: int, start: int = 0) -> Path:
    """Write images 000.png and so on, each different."""
    for number in range(start, start + count):
        save_image(folder / f"{number:03}.png", number)
    return folder


def disturb(folder: Path, rng: np.random.Generator, step: int) -> None:
    """Change, move, delete and add some images."""
    files = sorted(folder.glob("*.png"))
    for number, path in enumerate(rng.permutation(np.array(files, object))[:9]):
        if number < 3:
            save_image(path, int(rng.integers(10**6)))
        elif number < 5:
            path.rename(path.with_name(f"moved {step} {number}.png"))
        elif number < 7:
            path.unlink()
    for number in range(6):
        save_image(folder / f"new {step} {number}.png", int(rng.integers(10**6)))


# --- what a gallery holds -------------------------------------------------------------------------------------------


def table_of(gallery: Path) -> ImageTable:
    """Open the table of images of a gallery."""
    return ImageTable.open(Storage(gallery))


def contents(gallery: Path) -> dict[str, np.ndarray]:
    """Return the activations of each image by its path."""
    table = table_of(gallery)
    activations = table.activations(table.ids) if len(table) else np.zeros((0, 16))
    return dict(zip(table.paths, activations.astype(np.float32), strict=True))


def check_rows(gallery: Path) -> int:
    """Check every row that is committed: its checksums, and its activations against its file. The number of images."""
    if not Gallery.exists(gallery):
        return 0
    table = table_of(gallery)
    ids = table.ids
    assert len(set(ids.tolist())) == len(table)
    records = list(table.records())
    assert len(table.listing.ids) == len(records)
    assert sorted(table.names) == sorted(record.name for record in records)
    for column in (name for name in table.columns if name.startswith(SEALED)):
        _, valid = table.unseal(table.take(ids, [column]), column)
        assert valid.all() or not column.startswith("activations")
    stored = contents(gallery)
    model = Model(new_backbone(seeing_recipe(), channels=3), torch.nn.Identity(), seeing_recipe())
    known = [record for record in records if Path(record.path).exists() and digest_of(record.path) == record.digest]
    if known and table.state.width == 16 and table.state.grid:
        expected = model.activations([record.path for record in known], progress=False).numpy()
        for record, row in zip(known, expected, strict=True):
            np.testing.assert_allclose(stored[record.path], row, rtol=2e-3, atol=2e-3, err_msg=record.path)
    return len(records)


def assert_same_contents(one: Path, other: Path) -> None:
    """Check that two galleries have the same images with the same activations; batches may round differently."""
    mine, theirs = contents(one), contents(other)
    assert mine.keys() == theirs.keys()
    for path, activations in mine.items():
        np.testing.assert_allclose(activations, theirs[path], rtol=2e-3, atol=2e-3, err_msg=path)


# --- processes ------------------------------------------------------------------------------------------------------


@contextmanager
def small_steps() -> Iterator[None]:
    """Let everything that happens seldom happen soon: commits, projections, compaction, indexes, and clean-up."""
    changes = (
        (encoding, "BATCH", 3),
        (indexing, "COMMIT_SECONDS", 0.0),
        (writing, "ENOUGH_IMAGES", ENOUGH),
        (writing, "_MERGED", ((8, 4),)),
        (writing, "_INDEXED", ENOUGH),
        (writing, "KEEP", timedelta(0)),
    )
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _run(work: str, gallery: str, folder: str, output: str, steps: bool) -> None:
    """Do some work in a process of its own; what it prints goes to a file, whose existence says that it has begun."""
    from andornot.commands.main import main

    torch.set_num_threads(1)
    number = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(number, 1)
    os.dup2(number, 2)
    with small_steps() if steps else nullcontext():
        if work == "recalibrate":
            Gallery.open(gallery).recalibrate()
            return
        if not Gallery.exists(gallery):
            Gallery.create(gallery, recipe=seeing_recipe())
        os._exit(main(["index", folder, "--gallery", gallery]))


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["lance", "andornot.gallery", "andornot.commands.main"])


class Work:
    """`andornot index`, or another change of a gallery, in a process that can be killed."""

    def __init__(self, folder: Path, work: str = "index", steps: bool = True) -> None:
        self._output = folder / "output.txt"
        self._output.unlink(missing_ok=True)
        arguments = (work, str(folder / "g"), str(folder / "photos"), str(self._output), steps)
        self.process = CONTEXT.Process(target=_run, args=arguments)
        self.process.start()
        while not self._output.exists() and self.process.is_alive():
            time.sleep(0.001)
        self.begun = time.monotonic()

    @property
    def output(self) -> str:
        """What it printed."""
        return self._output.read_text()

    def kill_when(self, reached: Callable[[], bool]) -> bool:
        """Kill it as soon as something is so; whether that was before it ended."""
        deadline = time.monotonic() + 120
        while self.process.is_alive() and not reached():
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(60)
        return self.process.exitcode == -signal.SIGKILL

    def finish(self) -> float:
        """Wait until it has ended well; how long it took."""
        self.process.join(240)
        assert self.process.exitcode == 0, self.output
        return time.monotonic() - self.begun
