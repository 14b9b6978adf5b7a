"""Separation: the area under the ROC curve of every feature for every class, and the best feature of each class."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from ..errors import EvaluationError

# With fewer images of a class in a half, one of many features separates it by chance.
MIN_IMAGES: Final = 10
# Features ranked at a time: sorting needs several times their memory.
_BLOCK: Final = 64


def separation(degrees: Tensor, labels: Tensor) -> Tensor:
    """Return the area under the ROC curve `(C, N)` of degrees `(n, N)` for each class of labels `(n, C)`.

    This is the probability that an image of the class has a higher degree than another image, ties counted half
    (Mann-Whitney U): 0.5 by chance. NaN for a class that no image or every image has.

    >>> degrees = torch.tensor([[0.9, 0.5], [0.8, 0.5], [0.1, 0.5]])
    >>> separation(degrees, torch.tensor([[True], [True], [False]]))
    tensor([[1.0000, 0.5000]], dtype=torch.float64)
    """
    if degrees.ndim != 2 or labels.ndim != 2 or len(degrees) != len(labels):
        raise EvaluationError(
            f"degrees {tuple(degrees.shape)} and labels {tuple(labels.shape)} do not match: "
            "expected (n, N) and (n, C) for the same n images"
        )
    members = labels.double()
    inside = members.sum(0).unsqueeze(1)
    ranks = [members.T @ _ranks(block) for block in torch.split(degrees, _BLOCK, dim=1)]
    wins = torch.cat(ranks, dim=1) - inside * (inside + 1) / 2
    return wins / (inside * (len(labels) - inside))


def _ranks(values: Tensor) -> Tensor:
    """Return the rank of each value `(n, N)` in its column, from 1; ties get their mean rank."""
    columns = values.T.contiguous()
    ordered = columns.sort(dim=1).values
    below = torch.searchsorted(ordered, columns)
    not_above = torch.searchsorted(ordered, columns, right=True)
    return ((below + not_above + 1).double() / 2).T


class BestFeature(NamedTuple):
    """The feature that separates a class best, chosen on one half of the images and measured on the other."""

    class_number: int
    feature: int
    area_chosen: float
    area_held_out: float
    median_inside: float  # degrees in held-out images of the class
    median_outside: float  # degrees in the other held-out images


def random_halves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the indices of two random halves, each ascending: one to choose on and one to measure on."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[: count // 2].sort().values, order[count // 2 :].sort().values


def best_features(degrees: Tensor, labels: Tensor, chosen_on: Tensor, held_out: Tensor) -> list[BestFeature]:
    """Return the best feature of each class, the best separated class first, by degrees `(n, N)` and labels `(n, C)`.

    The area is biased where the feature was chosen, so it is measured on the other half, too. Classes with fewer than
    `MIN_IMAGES` positives or negatives in a half are left out.
    """
    enough = [labels[half].sum(0).clamp(max=len(half) - labels[half].sum(0)) for half in (chosen_on, held_out)]
    classes = (torch.minimum(*enough) >= MIN_IMAGES).nonzero().flatten()
    areas, features = separation(degrees[chosen_on], labels[chosen_on][:, classes]).max(dim=1)
    tested, members = degrees[held_out][:, features], labels[held_out][:, classes]
    found = [
        BestFeature(
            int(classes[row]),
            int(features[row]),
            float(areas[row]),
            float(separation(tested[:, [row]], members[:, [row]])),
            float(tested[members[:, row], row].median()),
            float(tested[~members[:, row], row].median()),
        )
        for row in range(len(classes))
    ]
    return sorted(found, key=lambda best: -best.area_chosen)
