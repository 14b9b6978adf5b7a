"""Which feature tells a class from the others: the area under the ROC curve of every feature, for every class."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from ..errors import EvaluationError

# With fewer pictures of a class in a half, some of many features separate it by chance.
MIN_PICTURES: Final = 10
# So many features are ranked at a time: sorting needs several times their memory.
_BLOCK: Final = 64


def separation(degrees: Tensor, labels: Tensor) -> Tensor:
    """The area under the ROC curve `(C, N)` of possession degrees `(n, N)` for each class of labels `(n, C)`.

    That is how often a picture of the class has a higher degree than another picture, equal ones counted half
    (Mann-Whitney U over the number of pairs): 1 always, 0.5 by chance. NaN for a class that none or all have.

    >>> degrees = torch.tensor([[0.9, 0.5], [0.8, 0.5], [0.1, 0.5]])
    >>> separation(degrees, torch.tensor([[True], [True], [False]]))
    tensor([[1.0000, 0.5000]], dtype=torch.float64)
    """
    if degrees.ndim != 2 or labels.ndim != 2 or len(degrees) != len(labels):
        raise EvaluationError(
            f"degrees {tuple(degrees.shape)} and labels {tuple(labels.shape)} do not fit: "
            "(n, N) and (n, C) of the same n pictures are right"
        )
    members = labels.double()
    inside = members.sum(0).unsqueeze(1)
    ranks = [members.T @ _ranks(block) for block in torch.split(degrees, _BLOCK, dim=1)]
    wins = torch.cat(ranks, dim=1) - inside * (inside + 1) / 2
    return wins / (inside * (len(labels) - inside))


def _ranks(values: Tensor) -> Tensor:
    """The rank of each value `(n, N)` in its column, from 1; equal values share the mean of theirs."""
    columns = values.T.contiguous()
    ordered = columns.sort(dim=1).values
    below = torch.searchsorted(ordered, columns)
    not_above = torch.searchsorted(ordered, columns, right=True)
    return ((below + not_above + 1).double() / 2).T


class BestFeature(NamedTuple):
    """The feature that separates a class best: chosen on one half of the pictures, measured on the other."""

    class_number: int
    feature: int
    area_chosen: float
    area_held_out: float
    median_inside: float  # of the degrees in held-out pictures of the class
    median_outside: float  # in the other held-out pictures


def halves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of the pictures to choose on, and of those to measure on: two random halves, each ascending."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[: count // 2].sort().values, order[count // 2 :].sort().values


def best_features(degrees: Tensor, labels: Tensor, chosen_on: Tensor, held_out: Tensor) -> list[BestFeature]:
    """The best feature of each class, the best separated class first, by degrees `(n, N)` and labels `(n, C)`.

    The area that was chosen for is too good by the choice among N, so that of the other half is given too. Classes with
    less than `MIN_PICTURES` pictures in either half, or outside of them, are left out.
    """
    enough = [labels[half].sum(0).clamp(max=len(half) - labels[half].sum(0)) for half in (chosen_on, held_out)]
    classes = (torch.minimum(*enough) >= MIN_PICTURES).nonzero().flatten()
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
