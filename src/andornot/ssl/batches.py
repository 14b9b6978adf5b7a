"""Batches of training inputs: views of images, custom views of a data set or stream, or cached activations of views."""

import math
import random
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ..data import ResizedImages
from ..data.converting import Fit, square_pixels, to_rgb
from ..data.inputs import as_image, image_of
from ..errors import AndornotError, check_memory
from ..progress import track
from .backbones import accelerate, compute_in_parts, is_worthwhile, optimise_for_inference
from .losses import mixup
from .network import Network
from .views import Views

Transform = Callable[[Any], Tensor]
"""Maps an item of the data set to one random view, float32 `(C, size, size)`; called twice for each image."""


class BatchError(AndornotError):
    """Raised for a batch of a loader that cannot be used for training."""


class Batch(NamedTuple):
    """Two views of each image, or their activations.

    The training loop mixes images itself. Activations cannot be mixed, so `mixed` are the activations of mixed images,
    and `partner` those of the images that the first views were mixed with.
    """

    first: Tensor
    second: Tensor
    mixed: Tensor | None = None
    partner: Tensor | None = None


@dataclass(frozen=True)
class Schedule:
    """The image indices of each step, determined by the seed, the epoch and the step, without any state.

    A step uses `batch_size` images over all processes, in `accumulate` parts. The incomplete last batch of an epoch is
    dropped.
    """

    seed: int
    images: int
    batch_size: int
    start: int
    total: int
    accumulate: int = 1
    rank: int = 0
    processes: int = 1

    def __iter__(self) -> Iterator[tuple[Tensor, torch.Generator]]:
        """Yield the image indices of this process for each part of each step, with a random generator for it."""
        steps, order, epoch_of_order = self.images // self.batch_size, torch.empty(0), -1
        for step in range(self.start, self.total):
            epoch, position = divmod(step, steps)
            if epoch != epoch_of_order:
                order = torch.randperm(self.images, generator=seeded(self.seed, epoch))
                epoch_of_order = epoch
            batch = order[position * self.batch_size : (position + 1) * self.batch_size]
            generator = seeded(self.seed, step, self.rank, 1)
            for indices in batch.chunk(self.processes)[self.rank].chunk(self.accumulate):
                yield indices, generator


def mix_seeds(*numbers: int) -> int:
    """Combine several numbers into one seed; similar numbers give unrelated seeds."""
    seed = 0
    for number in numbers:
        seed = (seed * 6364136223846793005 + number + 1442695040888963407) % 2**63
    return seed ^ (seed >> 31)


def seeded(*numbers: int) -> torch.Generator:
    """Return a random generator seeded by these numbers."""
    return torch.Generator().manual_seed(mix_seeds(*numbers))


def seed_all(seed: int) -> None:
    """Seed the global random generators that transforms use: torch's, Python's and numpy's."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


class _IndexedBatches:
    """Batches of images by index."""

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device | str = "cpu") -> Batch:
        raise NotImplementedError

    def iterate(self, schedule: Schedule, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Yield the parts of all steps."""
        return (self.load(indices, generator, device) for indices, generator in schedule)


class ImageBatches(_IndexedBatches):
    """New random views of images in every step, for training from scratch or fine-tuning.

    `shapes` `(n, 2)` are the original heights and widths of images that were resized to one shape.
    """

    are_activations = False

    def __init__(self, images: ResizedImages, views: Views, shapes: Tensor | None = None) -> None:
        self.images, self.views, self.shapes = images, views, shapes

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device | str = "cpu") -> Batch:
        """Return two views of each image."""
        images = self.images[indices].to(device)
        shapes = None if self.shapes is None else self.shapes[indices]
        return Batch(self.views(images, generator, shapes), self.views(images, generator, shapes))


class PairBatches:
    """Two views of each image of a map-style data set, by a custom transform; `workers` as in a DataLoader.

    Each pair has its own seed, so a resumed run gets the same views with any number of workers.
    """

    are_activations = False

    def __init__(self, dataset: Dataset[Any], transform: Transform, workers: int = 0) -> None:
        self.dataset, self.transform, self.workers = dataset, transform, workers

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Return two views for a key (index of the image, seed)."""
        index, seed = key
        seed_all(seed)
        return two_views(self.dataset[index], self.transform)

    def iterate(self, schedule: Schedule, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Yield the parts of all steps."""
        keys = (
            list(zip(indices.tolist(), torch.randint(2**62, indices.shape, generator=generator).tolist(), strict=True))
            for indices, generator in schedule
        )
        loader: DataLoader[Any] = DataLoader(self, batch_sampler=keys, num_workers=self.workers)  # type: ignore[arg-type]
        for batch in loader:
            yield Batch(*(views.to(device) for views in view_pair(batch)))


class LoaderBatches:
    """Batches of a DataLoader: pairs of views (further items are ignored), or images if `views` is given.

    Each pass and each batch is seeded by its number, so a loader that uses the random generators of torch, Python or
    numpy gives a resumed run the same batches. A resumed run skips the batches before its step.
    """

    are_activations = False

    def __init__(self, loader: DataLoader[Any], views: Views | None = None) -> None:
        self.loader, self.views = loader, views

    @property
    def steps_per_epoch(self) -> int | None:
        """Number of batches of one pass, or None if the loader has no length."""
        sized = not isinstance(self.loader.dataset, IterableDataset) or isinstance(self.loader.dataset, Sized)
        return len(self.loader) if sized else None

    def iterate(self, schedule: Schedule, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Yield the parts of all steps, with as many passes over the loader as needed."""
        known = self.steps_per_epoch
        number = schedule.start // known if known else 0
        step = number * known if known else 0
        while step < schedule.total:
            begin = step
            seed_all(mix_seeds(schedule.seed, number, schedule.rank, 2))
            batches = iter(self.loader)
            while step < schedule.total:
                seed_all(mix_seeds(schedule.seed, step, schedule.rank, 3))
                batch = next(batches, None)
                if batch is None:
                    break
                if step >= schedule.start:
                    yield from self._parts(batch, schedule, seeded(schedule.seed, step, schedule.rank, 1), device)
                step += 1
            if step == begin:
                raise BatchError("the loader has no batch in it; it needs as many images as one batch has")
            number += 1

    def _parts(
        self, batch: Any, schedule: Schedule, generator: torch.Generator, device: torch.device | str
    ) -> Iterator[Batch]:
        if self.views is not None:
            images = batch.to(device)
            first, second = self.views(images, generator), self.views(images, generator)
        else:
            first, second = (views.to(device) for views in view_pair(batch))
        if len(first) < 2 * schedule.accumulate:
            raise BatchError(
                f"a batch of {len(first)} images is too small with accumulate={schedule.accumulate}: each part needs "
                "two; pass drop_last=True to the loader, or a larger batch_size"
            )
        yield from map(Batch, first.chunk(schedule.accumulate), second.chunk(schedule.accumulate))


def view_pair(batch: Any) -> tuple[Tensor, Tensor]:
    """Return the two views `(B, C, H, W)` of a batch `(first, second)` or `((first, second), labels)`."""
    if isinstance(batch, tuple | list) and batch and isinstance(batch[0], tuple | list):
        batch = batch[0]
    if not (isinstance(batch, tuple | list) and len(batch) >= 2 and all(isinstance(x, Tensor) for x in batch[:2])):
        raise BatchError(f"a batch is two tensors of views, or such a pair and labels; got {type(batch).__name__}")
    first, second = batch[:2]
    if first.ndim != 4 or first.shape != second.shape or not first.is_floating_point():
        raise BatchError(
            f"two views of a batch are floats (B, C, H, W) of the same shape; got {first.dtype} {tuple(first.shape)} "
            f"and {second.dtype} {tuple(second.shape)}"
        )
    return first, second


def stream_loader(
    stream: IterableDataset[Any],
    prepare: Callable[[Any], Any],
    batch_size: int,
    workers: int = 0,
) -> DataLoader[Any]:
    """Return a loader of the items of a stream, each mapped by `prepare`; an incomplete last batch is dropped."""
    return DataLoader(_Prepared(stream, prepare), batch_size, drop_last=True, num_workers=workers)


class _Prepared(IterableDataset[Any]):
    def __init__(self, stream: IterableDataset[Any], prepare: Callable[[Any], Any]) -> None:
        self.stream, self.prepare = stream, prepare

    def __iter__(self) -> Iterator[Any]:
        return map(self.prepare, self.stream)


def two_views(item: Any, transform: Transform) -> tuple[Tensor, Tensor]:
    """Return two views of an item of a data set."""
    image = image_of(item)
    return transform(image), transform(image)


def square_of(item: Any, size: int, fit: Fit, channels: int) -> Tensor:
    """Convert an item of a data set to uint8 pixels `(channels, size, size)`."""
    return square_pixels(to_rgb(as_image(image_of(item)), channels, size), size, fit)


class ActivationBatches(_IndexedBatches):
    """Cached activations of several views of each image and of mixed pairs, for training the heads only.

    `views` and `mixed` are `(V, n, width)`, in half precision; view v of image i was mixed with view v of image
    `partners[v, i]`.
    """

    are_activations = True

    def __init__(self, views: Tensor, mixed: Tensor, partners: Tensor) -> None:
        self.views, self.mixed, self.partners = views, mixed, partners

    def __len__(self) -> int:
        return self.views.shape[1]

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device | str = "cpu") -> Batch:
        """Return the activations of two views of each image, of a mixed pair, and of the partner in that pair."""
        count = len(self.views)
        first = torch.randint(count, indices.shape, generator=generator)
        second = (first + torch.randint(1, count, indices.shape, generator=generator)) % count
        partners = self.partners[first, indices]
        cached = self.views[first, indices], self.views[second, indices], self.mixed[first, indices]
        return Batch(*(rows.to(device, torch.float32) for rows in (*cached, self.views[first, partners])))


Batches = ImageBatches | ActivationBatches | PairBatches | LoaderBatches


@torch.no_grad()
def cache_activations(
    network: Network,
    images: ResizedImages,
    views: Views,
    *,
    count: int,
    mixup_lambda: float,
    seed: int,
    shapes: Tensor | None = None,
    batch_size: int = 64,
) -> ActivationBatches:
    """Run the backbone on `count` views of each image, and on as many mixed pairs; `shapes` as in ImageBatches."""
    backbone, size = network.backbone, views.settings.size
    worthwhile = is_worthwhile(2 * count * len(images), size)
    maps = accelerate(backbone, size) if worthwhile else optimise_for_inference(backbone).maps

    def pooled(made: Tensor) -> Tensor:
        return backbone.pool(compute_in_parts(maps, made)).half().cpu()

    generator = torch.Generator().manual_seed(seed)
    shape = (count, len(images), network.backbone.width)
    check_memory(4 * math.prod(shape), f"{count:,} views of {len(images):,} images", "lower cached_views")
    plain, mixed = torch.empty(shape, dtype=torch.float16), torch.empty(shape, dtype=torch.float16)
    partners = torch.empty(shape[:2], dtype=torch.int64)
    device = next(network.parameters()).device
    with track("activations of views", 2 * count * len(images), unit="views") as bar:
        for view in range(count):
            # Partners are neighbours in a shuffled order, so that both are in the same batch.
            order = torch.randperm(len(images), generator=generator)
            for indices in torch.tensor_split(order, -(-len(order) // batch_size)):
                of_batch = None if shapes is None else shapes[indices]
                made = views(images[indices].to(device), generator, of_batch)
                partner = torch.arange(len(indices)).roll(1)
                partners[view, indices] = indices[partner]
                plain[view, indices] = pooled(made)
                both = mixup(made, made[partner], mixup_lambda)
                mixed[view, indices] = pooled(both)
                bar.update(2 * len(indices))
    return ActivationBatches(plain, mixed, partners)
