"""Where a training step's inputs come from: views of pictures, or cached activations of views."""

import torch
from torch import Tensor

from ..data import Pictures
from ..progress import track
from .backbones import accelerate, compute_in_parts, is_worthwhile, optimise_for_inference
from .network import Network, Objective, StepResult
from .synthesis import mix_pictures
from .views import Views


class PictureBatches:
    """Fresh views of pictures in every step: training from scratch, or fine-tuning.

    `shapes` `(n, 2)` are the true heights and widths of pictures that were brought to one shape.
    """

    def __init__(self, pictures: Pictures, views: Views, shapes: Tensor | None = None) -> None:
        self.pictures, self.views, self.shapes = pictures, views, shapes

    def __len__(self) -> int:
        return len(self.pictures)

    def compute(self, objective: Objective, indices: Tensor, generator: torch.Generator) -> StepResult:
        """Two views of each picture through the network."""
        pictures = self.pictures[indices].to(_device(objective))
        shapes = None if self.shapes is None else self.shapes[indices]
        one, other = (self.views(pictures, generator, shapes) for _ in range(2))
        result: StepResult = objective(one, other)
        return result


class ActivationBatches:
    """Activations of several views of each picture, and of mixed pairs, computed once: only the heads are trained.

    Views and mixed pairs are `(V, n, width)` each, in half precision; view v of picture i was mixed with the same view
    of picture `partners[v, i]`.
    """

    def __init__(self, views: Tensor, mixed: Tensor, partners: Tensor) -> None:
        self.views, self.mixed, self.partners = views, mixed, partners

    def __len__(self) -> int:
        return self.views.shape[1]

    def compute(self, objective: Objective, indices: Tensor, generator: torch.Generator) -> StepResult:
        """Two of the views of each picture, through the heads."""
        count = len(self.views)
        first = torch.randint(count, indices.shape, generator=generator)
        second = (first + torch.randint(1, count, indices.shape, generator=generator)) % count
        network, device = objective.network, _device(objective)

        def activations(cached: Tensor, view: Tensor, numbers: Tensor) -> Tensor:
            return cached[view, numbers].to(device, torch.float32)

        one = network.project(activations(self.views, first, indices))
        other = network.project(activations(self.views, second, indices))
        mixed = network.project(activations(self.mixed, first, indices))
        with torch.no_grad():
            partner = network.project(activations(self.views, first, self.partners[first, indices]))
        result: StepResult = objective.compare(one, other, mixed, partner.z)
        return result


@torch.no_grad()
def cache_activations(
    network: Network,
    pictures: Pictures,
    views: Views,
    *,
    count: int,
    mixing: float,
    seed: int,
    shapes: Tensor | None = None,
    batch_size: int = 64,
) -> ActivationBatches:
    """Runs the backbone on `count` views of each picture, and on as many mixed pairs; `shapes` as of PictureBatches."""
    backbone, size = network.backbone, views.settings.size
    worthwhile = is_worthwhile(2 * count * len(pictures), size)
    maps = accelerate(backbone, size) if worthwhile else optimise_for_inference(backbone).maps

    def pooled(made: Tensor) -> Tensor:
        return backbone.pool(compute_in_parts(maps, made)).half().cpu()

    generator = torch.Generator().manual_seed(seed)
    shape = (count, len(pictures), network.backbone.width)
    plain, mixed = torch.empty(shape, dtype=torch.float16), torch.empty(shape, dtype=torch.float16)
    partners = torch.empty(shape[:2], dtype=torch.int64)
    device = next(network.parameters()).device
    with track("activations of views", 2 * count * len(pictures), unit="views") as bar:
        for view in range(count):
            # Neighbours of a shuffled order are partners, so that one batch has both of them.
            order = torch.randperm(len(pictures), generator=generator)
            for indices in torch.tensor_split(order, -(-len(order) // batch_size)):
                of_batch = None if shapes is None else shapes[indices]
                made = views(pictures[indices].to(device), generator, of_batch)
                partner = torch.arange(len(indices)).roll(1)
                partners[view, indices] = indices[partner]
                plain[view, indices] = pooled(made)
                both = mix_pictures(made, made[partner], mixing)
                mixed[view, indices] = pooled(both)
                bar.update(2 * len(indices))
    return ActivationBatches(plain, mixed, partners)


def _device(objective: Objective) -> torch.device:
    return next(objective.parameters()).device
