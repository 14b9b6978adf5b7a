"""Average precision: how near to the top a ranking has what it should find. Pascal VOC has had it in three forms."""

from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from ...errors import unknown
from ..errors import EvaluationError

Variant = Literal["plain", "interpolated", "11-point"]
VARIANTS: Final[tuple[Variant, ...]] = ("plain", "interpolated", "11-point")


def average_precision(scores: Tensor, truth: Tensor, variant: Variant = "plain", ignore: Tensor | None = None) -> float:
    """The average precision of a ranking by scores `(n,)`, highest first, of what is true `(n,)`; NaN if nothing is.

    Scores are of any sign; equal ones enter the ranking together, so their order in memory does not matter.
    `ignore` `(n,)` is True for what counts neither as found nor as missed, as difficult objects of Pascal VOC.

    - "plain": the mean, over what is true, of the precision at its place. The area below the steps of the curve.
    - "interpolated": the same with the best precision at that place or below it, as Pascal VOC has it since 2010.
    - "11-point": the mean of those best precisions at recall 0, 0.1, …, 1, as Pascal VOC had it in 2007.

    >>> scores, truth = torch.tensor([0.9, 0.5, -0.2, -3.0]), torch.tensor([True, False, True, True])
    >>> [round(average_precision(scores, truth, variant), 3) for variant in VARIANTS]
    [0.806, 0.833, 0.841]
    """
    _check(scores, truth, ignore, variant, dimensions=1)
    if ignore is not None:
        scores, truth = scores[~ignore], truth[~ignore]
    if not bool(truth.any()):
        return float("nan")
    hits, precision = _curve(scores, truth)
    if variant != "plain":
        precision = precision.flip(0).cummax(0).values.flip(0)
    if variant == "11-point":
        # In whole numbers, tenths of the recall are exact.
        reached = 10 * hits[None] >= torch.arange(11)[:, None] * hits[-1]
        return precision[reached.byte().argmax(1)].mean().item()
    new_hits = hits.diff(prepend=hits.new_zeros(1))
    return ((new_hits * precision).sum() / hits[-1]).item()


@dataclass(frozen=True)
class MeanAveragePrecision:
    """The mean over classes, the average precision of each (None where nothing is true), and the classes left out."""

    mean: float
    by_class: tuple[float | None, ...]
    skipped: tuple[int, ...]


def mean_average_precision(
    scores: Tensor, truth: Tensor, variant: Variant = "plain", ignore: Tensor | None = None
) -> MeanAveragePrecision:
    """The average precision of each column of scores, truth and ignore `(n, C)`, and the mean over the classes.

    A class that is true nowhere has none: the mean leaves it out, and `skipped` says so.
    """
    _check(scores, truth, ignore, variant, dimensions=2)
    counted = truth if ignore is None else truth & ~ignore
    skipped = tuple((~counted.any(0)).nonzero().flatten().tolist())
    if len(skipped) == truth.shape[1]:
        raise EvaluationError("no class is true anywhere: there is no average precision without a picture to find")
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


def _curve(scores: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """How many were found, and with what precision, after each group of equal scores from the highest."""
    ordered, order = scores.cpu().sort(descending=True)
    last_of_group = torch.cat([ordered[1:] != ordered[:-1], torch.tensor([True])])
    hits = truth.cpu()[order].cumsum(0)[last_of_group]
    places = torch.arange(1, len(order) + 1)[last_of_group]
    return hits, hits.double() / places


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
