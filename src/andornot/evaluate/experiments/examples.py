"""Words beside example pictures as queries, by the maths of galleries: one picture, three of them, word and picture."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...gallery.likeness.components import fit_components, from_bytes, to_bytes
from ...gallery.likeness.neighbours import expand_among
from ...gallery.likeness.products import similarities
from ...gallery.likeness.truth import scale_of
from ..metrics.average_precision import average_precision
from ..metrics.intervals import Spread
from ..metrics.precision import precision_at

WAYS: Final = ("word", "one picture", "like of three", "word and picture")
# Pictures that are drawn for a class: the first is the one, all of them are the three.
EXAMPLES: Final = 3
# As in galleries.
_DIMENSIONS: Final = 128


class ExampleTruths:
    """How true it is of each picture, by its degrees `(n, N)`, that it shows what some of them show; as wholes."""

    def __init__(self, degrees: Tensor) -> None:
        dimensions = max(2, min(_DIMENSIONS, degrees.shape[1]))
        self._codes = to_bytes(fit_components(degrees, dimensions).project(degrees))

    def __call__(self, rows: Sequence[int], *, expanded: bool = False) -> Tensor:
        """The truths `(n,)` of `like(…)` of some rows; `expanded` by their neighbours, as in conditions of several."""
        query = normalize(from_bytes(self._codes[list(rows)]).mean(0), dim=0)[None]
        if expanded:
            query = expand_among(self._codes, query, rows)
        alike = similarities(self._codes, query)
        return scale_of(alike).truth(alike)[0].float()


class Found(NamedTuple):
    """Of one class asked in one way: precision and average precision, over draws of examples."""

    precision: Spread
    average: Spread


class Comparison(NamedTuple):
    """By class and way what is found; and by way the mean over classes, over draws."""

    by_class: dict[str, dict[str, Found]]
    means: dict[str, Found]


def compare(
    degrees: Tensor,
    words: Tensor,
    labels: Tensor,
    alone: Tensor,
    names: Sequence[str],
    *,
    top: int,
    draws: int,
    seed: int,
) -> Comparison | None:
    """Word and examples of each class, by the words' truths and the labels `(n, classes)`; None if no class has enough.

    Examples are drawn of the pictures that show a class and nothing else, `alone` `(n, classes)`. What is drawn is left
    out of the ranking, in every way alike.
    """
    truths, random = ExampleTruths(degrees), torch.Generator().manual_seed(seed)
    found: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for column, name in enumerate(names):
        candidates = torch.nonzero(alone[:, column])[:, 0]
        if len(candidates) <= EXAMPLES:
            continue
        found[name] = []
        for _ in range(draws):
            drawn = candidates[torch.randperm(len(candidates), generator=random)[:EXAMPLES]].tolist()
            word = words[:, column]
            scores = (word, truths(drawn[:1]), truths(drawn), word * truths(drawn[:1], expanded=True))
            ranked = torch.ones(len(labels), dtype=torch.bool)
            ranked[drawn] = False
            wanted = labels[ranked, column]
            figures = [
                (precision_at(top, score[ranked], wanted), average_precision(score[ranked], wanted)) for score in scores
            ]
            found[name].append(dict(zip(WAYS, figures, strict=True)))
    if not found:
        return None
    by_class = {name: {way: _spread([draw[way] for draw in runs]) for way in WAYS} for name, runs in found.items()}
    means = {
        way: _spread([_mean([runs[draw][way] for runs in found.values()]) for draw in range(draws)]) for way in WAYS
    }
    return Comparison(by_class, means)


def _mean(figures: Sequence[tuple[float, float]]) -> tuple[float, float]:
    precisions, averages = zip(*figures, strict=True)
    return sum(precisions) / len(figures), sum(averages) / len(figures)


def _spread(figures: Sequence[tuple[float, float]]) -> Found:
    precisions, averages = zip(*figures, strict=True)
    return Found(Spread.of(precisions), Spread.of(averages))
