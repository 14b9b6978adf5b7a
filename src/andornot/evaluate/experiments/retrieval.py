"""The paper's retrieval task: choose query and gallery images, and encode them.

Queries show class a, class b, or both (`ab`). If every image has one class, as in MNIST, `ab` is an overlay of two
images; otherwise it is an image with exactly these two classes, as in VOC.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from ...data import ImageSet, ResizedImages
from ...errors import EvaluationError
from ...logic import Representation
from ...model import Model
from ...ssl.losses import mixup
from .config import RetrievalConfig, option_name


class Mixture(NamedTuple):
    """Two image sets that are overlaid, image by image."""

    first: ImageSet
    second: ImageSet


@dataclass(frozen=True)
class RetrievalTask:
    """Query and gallery images. Keys are class indices, or pairs of them in ascending order."""

    class_names: tuple[str, ...]
    gallery: ImageSet
    singles: dict[int, ImageSet]
    pairs: dict[tuple[int, int], ImageSet | Mixture]

    @property
    def mixed(self) -> bool:
        """Return whether `ab` is an overlay of two images."""
        return any(isinstance(pair, Mixture) for pair in self.pairs.values())

    def counts(self) -> dict[str, object]:
        """Return the numbers of images, for a report."""
        sizes = [len(pair.first if isinstance(pair, Mixture) else pair) for pair in self.pairs.values()]
        return {
            "classes": [self.class_names[number] for number in self.singles],
            "ordered pairs of classes": 2 * len(self.pairs),
            "images in the gallery": len(self.gallery),
            "query images of a class": sorted({len(images) for images in self.singles.values()}),
            "query images of a pair": sorted(set(sizes)),
            "ab": "overlay of two images" if self.mixed else "images with exactly these two classes",
        }


def choose_images(gallery: ImageSet, queries: ImageSet | None, config: RetrievalConfig) -> RetrievalTask:
    """Draw the images of the task by the seed of `config`; without `queries`, they are held out of the gallery."""
    if gallery.labels is None or (queries is not None and queries.labels is None):
        raise EvaluationError(
            "retrieval needs labelled images, and these have no labels: try digits, scenes or voc:PATH"
        )
    if queries is not None and queries.class_names != gallery.class_names:
        raise EvaluationError("gallery images and query images have different classes")
    random = torch.Generator().manual_seed(config.seed)
    if bool((gallery.labels.sum(1) == 1).all()):
        return _mixed_task(gallery, queries, config, random)
    return _labelled_task(gallery, queries, config, random)


def _mixed_task(
    gallery: ImageSet, queries: ImageSet | None, config: RetrievalConfig, random: torch.Generator
) -> RetrievalTask:
    """Create a task from images with one class each: `ab` is an overlay of random images of a and b."""
    if len(gallery.class_names) < 2:
        raise EvaluationError("all images are of one class, 2 are needed: try digits, scenes or voc:PATH")
    if queries is None:
        order = torch.randperm(len(gallery), generator=random)
        of_class = [_alone(gallery, number, order) for number in range(len(gallery.class_names))]
        # At most half of a class, so that the gallery has some of it.
        query_numbers = torch.cat([found[: min(2 * config.images_per_class, len(found) // 2)] for found in of_class])
        queries = gallery.subset(query_numbers)
        gallery = gallery.subset(torch.isin(torch.arange(len(gallery)), query_numbers, invert=True))
    order = torch.randperm(len(queries), generator=random)
    of_class = [_alone(queries, number, order) for number in range(len(queries.class_names))]
    few = {
        queries.class_names[number]: len(found)
        for number, found in enumerate(of_class)
        if len(found) < config.images_per_class
    }
    if few:
        name, count = min(few.items(), key=lambda item: item[1])
        option = option_name("images_per_class")
        hint = f"use {option} {count}, or add images" if count else "add images, or remove the class"
        raise EvaluationError(
            f'the class "{name}" has {count} query images, {config.images_per_class} are needed: {hint}'
        )
    pairs: dict[tuple[int, int], ImageSet | Mixture] = {}
    for a, b in combinations(range(len(of_class)), 2):
        drawn = [torch.randint(len(of_class[n]), (config.images_per_class,), generator=random) for n in (a, b)]
        first, second = (queries.subset(of_class[n][d]) for n, d in zip((a, b), drawn, strict=True))
        pairs[a, b] = Mixture(first, second)
    singles = {number: queries.subset(found[: config.images_per_class]) for number, found in enumerate(of_class)}
    return _checked(RetrievalTask(queries.class_names, gallery, singles, pairs), config)


def _labelled_task(
    gallery: ImageSet, queries: ImageSet | None, config: RetrievalConfig, random: torch.Generator
) -> RetrievalTask:
    """Create a task from images with several classes: classes with enough images, and pairs that occur together."""
    same = queries is None
    queries = gallery if queries is None else queries
    order = torch.randperm(len(gallery), generator=random)
    order_of_queries = order if same else torch.randperm(len(queries), generator=random)
    needed = config.min_per_class + config.images_per_class if same else config.min_per_class
    alone = {number: _alone(gallery, number, order) for number in range(len(gallery.class_names))}
    large = [number for number, found in alone.items() if len(found) >= needed]
    if len(large) < 2:
        raise EvaluationError(
            f"{len(large)} of {len(alone)} classes have {needed} images that show nothing else, 2 are needed: "
            f"{_options_for_two([len(found) for found in alone.values()], config, same)}add images"
        )
    singles, pairs = {}, {}
    for number in large:
        found = _alone(queries, number, order_of_queries)
        if len(found) < config.min_per_pair:
            name, without = queries.class_names[number], f"--min-per-class {len(alone[number]) + 1} to leave it out"
            raise EvaluationError(
                f'the class "{name}" has {len(found)} query images, {config.min_per_pair} are needed: '
                f"use {f'--min-per-pair {len(found)}' if len(found) else without}, or add images"
            )
        # From one set, queries are the last images and the gallery the first.
        singles[number] = found[-config.images_per_class :] if same else found[: config.images_per_class]
    counts, labels = _labels(queries).sum(1), _labels(queries)
    most = 0
    for a, b in combinations(large, 2):
        both = order_of_queries[(labels[:, a] & labels[:, b] & (counts == 2))[order_of_queries]]
        most = max(most, len(both))
        if len(both) >= config.min_per_pair:
            pairs[a, b] = both[: config.images_per_class]
    if not pairs:
        raise EvaluationError(
            f"no two classes of these {len(large)} occur together in {config.min_per_pair} images that show "
            f"only them: use {f'--min-per-pair {most}' if most else 'a lower --min-per-class'}, or add images"
        )
    per_class = [alone[number][: config.gallery] for number in large]
    searched = order if config.gallery is None else torch.cat(per_class)
    if same:
        query_numbers = torch.cat([*singles.values(), *pairs.values()])
        searched = searched[torch.isin(searched, query_numbers, invert=True)]
    task = RetrievalTask(
        queries.class_names,
        gallery.subset(searched.sort().values),
        {number: queries.subset(found) for number, found in singles.items()},
        {pair: queries.subset(found) for pair, found in pairs.items()},
    )
    return _checked(task, config)


def _options_for_two(counts: list[int], config: RetrievalConfig, held_out: bool) -> str:
    """Return options with which two classes with these numbers of images take part; empty if there are none."""
    second = sorted([0, *counts])[-2]
    held = min(config.images_per_class, second // 2) if held_out else 0
    if second < (2 if held_out else 1):
        return ""
    fewer = f"--images-per-class {held} " if held_out and held < config.images_per_class else ""
    return f"use {fewer}--min-per-class {second - held} {option_name('gallery')} {second - held}, or "


def _checked(task: RetrievalTask, config: RetrievalConfig) -> RetrievalTask:
    if len(task.gallery) < config.top:
        count = len(task.gallery)
        raise EvaluationError(
            f"the gallery has {count} images, and {config.top} hits count: use --top {count}, or add images"
        )
    return task


def _labels(images: ImageSet) -> Tensor:
    assert images.labels is not None
    return images.labels


def _alone(images: ImageSet, number: int, order: Tensor) -> Tensor:
    """Return the indices of images with this class and no other, in the given order."""
    labels = _labels(images)
    return order[(labels[:, number] & (labels.sum(1) == 1))[order]]


class EncodedImages(NamedTuple):
    """Activations of the backbone and representations of some images."""

    activations: Tensor
    representation: Representation


@dataclass(frozen=True)
class EncodedTask:
    """A `RetrievalTask` encoded by a model. `labels` `(n, classes)` are those of the gallery's readable images."""

    gallery: EncodedImages
    labels: Tensor
    singles: dict[int, EncodedImages]
    pairs: dict[tuple[int, int], EncodedImages]

    def with_heads_of(self, model: Model) -> EncodedTask:
        """Return the task encoded by another model with the same backbone, without running the backbone."""

        def again(encoded: EncodedImages) -> EncodedImages:
            return EncodedImages(encoded.activations, model.encode_activations(encoded.activations))

        singles = {number: again(encoded) for number, encoded in self.singles.items()}
        pairs = {pair: again(encoded) for pair, encoded in self.pairs.items()}
        return EncodedTask(again(self.gallery), self.labels, singles, pairs)


def encode_task(model: Model, task: RetrievalTask, *, progress: bool | None = None) -> EncodedTask:
    """Encode all images of the task."""
    resized = load_images(model, task.gallery)
    assert resized.labels is not None
    return EncodedTask(
        _encode(model, resized, progress),
        resized.labels,
        {number: _encode(model, load_images(model, images), progress) for number, images in task.singles.items()},
        {pair: _encode(model, load_pair(model, images), progress) for pair, images in task.pairs.items()},
    )


def load_images(model: Model, images: ImageSet) -> ResizedImages:
    """Return the images at the size of the model."""
    return images.resized(model.size, model.fit)


def load_pair(model: Model, images: ImageSet | Mixture) -> ResizedImages | Tensor:
    """Return the images of a pair of classes; overlays are floats from 0 to 1."""
    if not isinstance(images, Mixture):
        return load_images(model, images)
    first, second = (load_images(model, part) for part in images)
    count = min(len(first), len(second))  # a broken image may be missing in one of them
    return mixup(first[:count].float() / 255, second[:count].float() / 255)


def _encode(model: Model, images: ResizedImages | Tensor, progress: bool | None) -> EncodedImages:
    activations = model.activations(images, progress=progress)
    return EncodedImages(activations, model.encode_activations(activations))
