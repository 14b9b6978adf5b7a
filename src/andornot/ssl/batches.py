"""Batches of training inputs: views of images, or cached activations of views."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import ResizedImages
from ..memory import check_memory
from ..progress import track
from .backbones import accelerate, compute_in_parts, is_worthwhile, optimise_for_inference
from .losses import mixup
from .network import Network
from .views import Views


class Batch(NamedTuple):
    """The inputs of one step, images or activations: two views of each image, and mixed images.

    `partner` is what the first views were mixed with; None if that is the first view of the image before.
    """

    first: Tensor
    second: Tensor
    mixed: Tensor | None = None
    partner: Tensor | None = None


class ImageBatches:
    """Fresh views of images in every step: training from scratch, or fine-tuning.

    `shapes` `(n, 2)` are the true heights and widths of images that were resized to one shape. Without `mixup_lambda`
    no images are mixed.
    """

    are_activations = False

    def __init__(
        self, images: ResizedImages, views: Views, shapes: Tensor | None = None, mixup_lambda: float | None = 0.5
    ) -> None:
        self.images, self.views, self.shapes, self.mixup_lambda = images, views, shapes, mixup_lambda

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device | str = "cpu") -> Batch:
        """Return two views of each image, and the first view mixed with that of the image before."""
        images = self.images[indices].to(device)
        shapes = None if self.shapes is None else self.shapes[indices]
        first, second = (self.views(images, generator, shapes) for _ in range(2))
        mixed = None if self.mixup_lambda is None else mixup(first, first.roll(1, 0), self.mixup_lambda)
        return Batch(first, second, mixed)


class ActivationBatches:
    """Activations of several views of each image, and of mixed pairs, computed once: only the heads are trained.

    Views and mixed pairs are `(V, n, width)` each, in half precision; view v of image i was mixed with the same view
    of image `partners[v, i]`.
    """

    are_activations = True

    def __init__(self, views: Tensor, mixed: Tensor, partners: Tensor) -> None:
        self.views, self.mixed, self.partners = views, mixed, partners

    def __len__(self) -> int:
        return self.views.shape[1]

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device | str = "cpu") -> Batch:
        """Return the activations of two of the views of each image, of a mixed pair, and of the partner in it."""
        count = len(self.views)
        first = torch.randint(count, indices.shape, generator=generator)
        second = (first + torch.randint(1, count, indices.shape, generator=generator)) % count
        partners = self.partners[first, indices]
        cached = self.views[first, indices], self.views[second, indices], self.mixed[first, indices]
        return Batch(*(rows.to(device, torch.float32) for rows in (*cached, self.views[first, partners])))


Batches = ImageBatches | ActivationBatches


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
            # Neighbours of a shuffled order are partners, so that one batch has both of them.
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
