"""Figures of a ranking by named features: one word, `a and b`, `a and not b`, calibration, boxes. Pure functions.

Probabilities and labels are (images, words). "Pairs" are two words that at least `need` images show together; `a and
not b` is asked of the ordered pairs for which at least `need` images show a without b.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Labels = NDArray[np.bool_]
TENTHS: Final = 10


def average_precision(scores: Floats, shown: Labels) -> float:
    """Return the mean, over the images that show it, of the precision at their rank; NaN if none does."""
    ranked = shown[np.argsort(-scores, kind="stable")]
    found = np.cumsum(ranked)
    return float((found[ranked] / (np.flatnonzero(ranked) + 1)).mean()) if ranked.any() else float("nan")


def precision_at(top: int, scores: Floats, shown: Labels) -> float:
    """Return the share of the first `top` images that show it."""
    return float(shown[np.argsort(-scores, kind="stable")[:top]].mean())


def search_figures(
    probabilities: Floats,
    shown: Labels,
    *,
    top: int,
    need: int = 10,
    person: int | None = None,
    ignore: Labels | None = None,
) -> dict[str, float]:
    """Return the figures of searches in words; `ignore` marks what counts neither as shown nor as not shown (mAP)."""
    p, counts = probabilities, shown.sum(0)
    words = [word for word in range(shown.shape[1]) if counts[word] > 0]
    together = shown.T.astype(np.int64) @ shown.astype(np.int64)
    pairs = [(a, b) for a in words for b in words if a < b and together[a, b] >= need]
    ordered = [(a, b) for pair in pairs for a, b in (pair, pair[::-1]) if counts[a] - together[a, b] >= need]
    kept = np.ones_like(shown) if ignore is None else ~ignore
    figures = {
        "images": float(len(shown)),
        "words": float(len(words)),
        "mAP": float(np.mean([average_precision(p[kept[:, a], a], shown[kept[:, a], a]) for a in words])),
        "one": float(np.mean([precision_at(top, p[:, a], shown[:, a]) for a in words if counts[a] >= top])),
        "pairs": float(len(pairs)),
        "both": _mean(precision_at(top, p[:, a] * p[:, b], shown[:, a] & shown[:, b]) for a, b in pairs),
        "ordered pairs": float(len(ordered)),
        "a and not b": _mean(
            precision_at(top, p[:, a] * (1 - p[:, b]), shown[:, a] & ~shown[:, b]) for a, b in ordered
        ),
        "a alone": _mean(precision_at(top, p[:, a], shown[:, a] & ~shown[:, b]) for a, b in ordered),
        "not: a": _mean(precision_at(top, p[:, a] * (1 - p[:, b]), shown[:, a]) for a, b in ordered),
        "not: b left": _mean(precision_at(top, p[:, a] * (1 - p[:, b]), shown[:, b]) for a, b in ordered),
    }
    if person is not None:
        others = [a for a in words if a != person]
        figures["a and person"] = _mean(
            precision_at(top, p[:, a] * p[:, person], shown[:, a] & shown[:, person])
            for a in others
            if together[a, person] >= need
        )
        figures["a and not person"] = _mean(
            precision_at(top, p[:, a] * (1 - p[:, person]), shown[:, a] & ~shown[:, person])
            for a in others
            if counts[a] - together[a, person] >= need
        )
        figures["person AP"] = average_precision(p[kept[:, person], person], shown[kept[:, person], person])
    return figures


def calibration(probabilities: Floats, shown: Labels, ignore: Labels | None = None) -> list[tuple[int, float, float]]:
    """Return, for each tenth of probability, how many there are, their mean, and the share that is shown."""
    kept = np.ones_like(shown) if ignore is None else ~ignore
    said, true = probabilities[kept], shown[kept]
    tenth = np.minimum((said * TENTHS).astype(np.int64), TENTHS - 1)
    return [
        (int((tenth == t).sum()), float(said[tenth == t].mean()), float(true[tenth == t].mean()))
        for t in range(TENTHS)
        if (tenth == t).any()
    ]


def expected_calibration_error(rows: Sequence[tuple[int, float, float]]) -> float:
    """Return the mean distance between what is said and what is shown, by the images in each tenth."""
    return float(np.average([abs(said - true) for _, said, true in rows], weights=[count for count, _, _ in rows]))


Rectangle = tuple[float, float, float, float]


def held(box: Rectangle, thing: Rectangle) -> float:
    """Return the share of a thing's area that is in the box: rectangles as (left, top, right, bottom)."""
    return _overlap(box, thing) / _area(thing)


def intersection_over_union(box: Rectangle, thing: Rectangle) -> float:
    """Return the overlap of two rectangles by their union."""
    overlap = _overlap(box, thing)
    return overlap / (_area(box) + _area(thing) - overlap)


def _overlap(one: Rectangle, other: Rectangle) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def _area(box: Rectangle) -> float:
    return max((box[2] - box[0]) * (box[3] - box[1]), 1e-9)


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return float(np.mean(numbers)) if numbers else float("nan")
