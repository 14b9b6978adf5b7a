"""Metrics of rankings: average precision, precision at k, occurrence rates, and the area under the ROC curve."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from ...errors import EvaluationError, unknown
from ...probes import knn_accuracy as knn_accuracy

Variant = Literal["plain", "interpolated", "11-point"]
VARIANTS: Final[tuple[Variant, ...]] = ("plain", "interpolated", "11-point")

# Queries compared at once: 120 MB for a gallery of 60,000 images. A quarter faster than blocks of 128.
_QUERY_BLOCK: Final = 512


def average_precision(scores: Tensor, truth: Tensor, variant: Variant = "plain", ignore: Tensor | None = None) -> float:
    """Return the average precision of scores `(n,)` (higher is better) for labels `(n,)`; NaN if no label is True.

    Equal scores are ranked together, so their order does not matter. `ignore` `(n,)` marks items that count neither as
    positives nor as negatives, such as the difficult objects of Pascal VOC.

    - "plain": mean precision at the rank of each positive; the area under the step curve.
    - "interpolated": the same with the best precision at that rank or below, as in Pascal VOC since 2010.
    - "11-point": mean interpolated precision at recall 0, 0.1, …, 1, as in Pascal VOC 2007.

    >>> scores, truth = torch.tensor([0.9, 0.5, -0.2, -3.0]), torch.tensor([True, False, True, True])
    >>> [round(average_precision(scores, truth, variant), 3) for variant in VARIANTS]
    [0.806, 0.833, 0.841]
    """
    _check(scores, truth, ignore, variant, dimensions=1)
    if ignore is not None:
        scores, truth = scores[~ignore], truth[~ignore]
    if not bool(truth.any()):
        return float("nan")
    hits, precision = _precision_curve(scores, truth)
    if variant != "plain":
        precision = precision.flip(0).cummax(0).values.flip(0)
    if variant == "11-point":
        # Compare integers, because tenths of the recall would be rounded.
        reached = 10 * hits[None] >= torch.arange(11)[:, None] * hits[-1]
        return precision[reached.byte().argmax(1)].mean().item()
    new_hits = hits.diff(prepend=hits.new_zeros(1))
    return ((new_hits * precision).sum() / hits[-1]).item()


@dataclass(frozen=True)
class MeanAveragePrecision:
    """Mean over classes, average precision of each class (None without positives), and the skipped classes."""

    mean: float
    by_class: tuple[float | None, ...]
    skipped: tuple[int, ...]


def mean_average_precision(
    scores: Tensor, truth: Tensor, variant: Variant = "plain", ignore: Tensor | None = None
) -> MeanAveragePrecision:
    """Return the average precision of each column of scores, labels and ignore `(n, C)`, and their mean.

    Classes without positives are excluded from the mean and listed in `skipped`.
    """
    _check(scores, truth, ignore, variant, dimensions=2)
    counted = truth if ignore is None else truth & ~ignore
    skipped = tuple((~counted.any(0)).nonzero().flatten().tolist())
    if len(skipped) == truth.shape[1]:
        raise EvaluationError("average precision needs at least one positive label, and no class has one")
    by_class = tuple(
        None
        if number in skipped
        else average_precision(
            scores[:, number], truth[:, number], variant, None if ignore is None else ignore[:, number]
        )
        for number in range(truth.shape[1])
    )
    known = [value for value in by_class if value is not None]
    return MeanAveragePrecision(sum(known) / len(known), by_class, skipped)


def _precision_curve(scores: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of positives and the precision after each group of equal scores, highest first."""
    ordered, order = scores.cpu().sort(descending=True)
    last_of_group = torch.cat([ordered[1:] != ordered[:-1], torch.tensor([True])])
    hits = truth.cpu()[order].cumsum(0)[last_of_group]
    ranks = torch.arange(1, len(order) + 1)[last_of_group]
    return hits, hits.double() / ranks


def _check(scores: Tensor, truth: Tensor, ignore: Tensor | None, variant: str, dimensions: int) -> None:
    if variant not in VARIANTS:
        raise EvaluationError(unknown("average precision", variant, VARIANTS))
    expected = "(n,)" if dimensions == 1 else "(n, C)"
    for name, mask in (("truth", truth), ("ignore", ignore)):
        if mask is not None and (mask.dtype != torch.bool or mask.shape != scores.shape or mask.ndim != dimensions):
            raise EvaluationError(
                f"{name} must be bool {expected}, like the scores; got {mask.dtype} {tuple(mask.shape)} "
                f"for scores {tuple(scores.shape)}"
            )
    if bool(scores.isnan().any()):
        raise EvaluationError("some scores are NaN: they cannot be ranked")


def precision_at(top: int, scores: Tensor, truth: Tensor) -> float:
    """Return the fraction of True labels `(n,)` among the `top` highest scores `(n,)`; ties keep their order.

    >>> precision_at(2, torch.tensor([0.1, 0.9, 0.5]), torch.tensor([True, True, False]))
    0.5
    """
    if top < 1 or not len(scores):
        raise EvaluationError(f"precision needs at least one hit, got the top {top} of {len(scores)}")
    best = scores.sort(descending=True, stable=True).indices[:top]
    return truth[best].double().mean().item()


def occurrence_rates(queries: Tensor, gallery: Tensor, labels: Tensor, top: int) -> Tensor:
    """Return the fraction of each label among the `top` nearest images: `(q, d)`, `(n, d)`, `(n, c)` -> `(q, c)`.

    The nearest images have the largest inner products. Queries are compared in blocks that reuse one buffer.
    """
    labels = labels.to(queries.dtype)
    products = queries.new_empty(min(_QUERY_BLOCK, len(queries)), len(gallery))
    rates = []
    for block in torch.split(queries, _QUERY_BLOCK):
        scores = torch.mm(block, gallery.T, out=products[: len(block)])
        nearest = scores.topk(top, dim=1, sorted=False).indices
        rates.append(labels[nearest].mean(1))
    return torch.cat(rates)


def single_classes(labels: Tensor | None) -> Tensor | None:
    """Return the class `(n,)` of each row of multi-hot labels, or None if a row has no class or several."""
    if labels is None or not bool((labels.sum(1) == 1).all()):
        return None
    return labels.to(torch.uint8).argmax(1)


# With fewer images of a class in a half, some of many features would separate it by chance.
MIN_IMAGES: Final = 10
# Features ranked at once, because sorting needs several times their memory.
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
    """Return the sorted indices of two random halves: one to choose features on and one to measure on."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[: count // 2].sort().values, order[count // 2 :].sort().values


def best_features(degrees: Tensor, labels: Tensor, chosen_on: Tensor, held_out: Tensor) -> list[BestFeature]:
    """Return the best feature of each class, the best separated class first, by degrees `(n, N)` and labels `(n, C)`.

    The area is biased on the half where the feature was chosen, so it is also measured on the other half. Classes with
    fewer than `MIN_IMAGES` positives or negatives in a half are left out.
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
