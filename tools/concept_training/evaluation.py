"""What the shipped heads reach on images that nothing was trained or tuned on."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from andornot.concepts import ConceptHeads, find_box

from .data import COCO_NAMES, VOC_NAMES, Coco, Labels, Voc
from .encoding import MapCache
from .measures import (
    average_precision,
    calibration,
    expected_calibration_error,
    held,
    intersection_over_union,
    precision_at,
    search_figures,
)
from .words import ENOUGH, MENTIONS, count_mentions

Floats = NDArray[np.float32]
Keep = Callable[[str], bool]
# The truth of one word, and of two, from which on a hit is strong, as in the gallery: at least 80 % of the hits are
# right. The model card says how they were chosen.
STRONG = 0.8, 0.85
# A box is shown for what is more likely than not.
_SHOWN = 0.5


def read_maps(cache: MapCache, keep: Keep) -> Iterator[tuple[str, Floats]]:
    """Yield names and feature maps (1, channels, h, w) of cached images."""
    for shard in cache.shards():
        for row, name in enumerate(shard.ids):
            if keep(name):
                yield name, shard.maps(row)


def probabilities_of(heads: ConceptHeads, cache: MapCache, keep: Keep) -> tuple[list[str], Floats]:
    """Return the ids and the probabilities (images, words) of cached images."""
    ids, rows = [], []
    for name, maps in read_maps(cache, keep):
        ids.append(name)
        rows.append(heads.probabilities(maps)[0])
    return ids, np.stack(rows)


def evaluate_coco(heads: ConceptHeads, cache: MapCache, coco: Coco, keep: Keep) -> dict[str, Any]:
    """Return the figures of COCO's kinds, top 10, with average precision and precision of each."""
    ids, everything = probabilities_of(heads, cache, keep)
    columns = [heads.index(name) for name in COCO_NAMES if name in heads.names]
    kinds = [kind for kind, name in enumerate(COCO_NAMES) if name in heads.names]
    said, shown = everything[:, columns], coco.labels(ids)[:, kinds]
    plain = coco.plainly_shown(ids)[:, kinds]
    rows = calibration(said, plain)
    return {
        "figures": search_figures(said, shown, top=10, person=kinds.index(0) if 0 in kinds else None),
        "calibration": rows,
        "calibration error": expected_calibration_error(rows),
        "strong": strong_hits(said, plain),
        "strong, all labels": strong_hits(said, shown),
        "by word": {
            COCO_NAMES[kind]: (
                average_precision(said[:, column], shown[:, column]),
                precision_at(10, said[:, column], shown[:, column]),
                int(shown[:, column].sum()),
            )
            for column, kind in enumerate(kinds)
        },
        "boxes": evaluate_boxes(heads, cache, coco, keep),
        "caption words": evaluate_words(heads, ids, everything, coco),
    }


def strong_hits(said: Floats, shown: Labels) -> dict[str, float]:
    """Return the share of right ones among hits whose truth is called strong, for one word and for two."""
    one = shown[said >= STRONG[0]]
    right = found = 0
    for a in range(said.shape[1]):
        both = said[:, a : a + 1] * said[:, a + 1 :] >= STRONG[1]
        right += int((shown[:, a : a + 1] & shown[:, a + 1 :])[both].sum())
        found += int(both.sum())
    return {
        "one": float(one.mean()),
        "two": right / max(found, 1),
        "hits of one": float(len(one)),
        "hits of two": found,
    }


def evaluate_words(heads: ConceptHeads, ids: list[str], said: Floats, coco: Coco) -> dict[str, Any]:
    """Return average precision, precision of the first 10 and number of images of each word of captions."""
    counts = count_mentions([coco.captions_of[int(name)] for name in ids])
    words = [word for word, group in zip(heads.names, heads.groups, strict=True) if group == "captions"]
    figures: dict[str, Any] = {}
    known, true = [], []
    for word in words:
        count = counts[:, list(MENTIONS).index(word)]
        asked = count != 1
        scores, shown = said[asked, heads.index(word)], count[asked] >= ENOUGH
        figures[word] = (average_precision(scores, shown), precision_at(10, scores, shown), int(shown.sum()))
        known.append(scores)
        true.append(shown)
    rows = calibration(np.concatenate(known), np.concatenate(true)) if words else []
    return {"by word": figures, "calibration": rows}


def evaluate_boxes(heads: ConceptHeads, cache: MapCache, coco: Coco, keep: Keep) -> dict[str, float]:
    """Return how well boxes hold the things that are there and found: half of one, overlap of half, mean area.

    Chance is a box of the same size anywhere in the image.
    """
    rng = np.random.default_rng(0)
    results: list[tuple[float, float, float, float]] = []
    for name, maps in read_maps(cache, keep):
        things: dict[int, list[tuple[float, float, float, float]]] = {}
        for box in coco.val_boxes(int(name)):
            things.setdefault(box.kind, []).append((box.left, box.top, box.right, box.bottom))
        said, evidence = heads.both(maps)
        for kind, places in things.items():
            if COCO_NAMES[kind] not in heads.names:
                continue
            column = heads.index(COCO_NAMES[kind])
            if said[0, column] < _SHOWN:
                continue
            found = find_box(evidence[0, :, :, column])
            width, height = found[2] - found[0], found[3] - found[1]
            left, top = rng.uniform(0, 1 - width + 1e-9), rng.uniform(0, 1 - height + 1e-9)
            anywhere = (left, top, left + width, top + height)
            results.append(
                (
                    max(held(found, place) for place in places) >= 0.5,
                    max(held(anywhere, place) for place in places) >= 0.5,
                    max(intersection_over_union(found, place) for place in places) >= 0.5,
                    width * height,
                )
            )
    means = np.mean(results, 0)
    names = ("hold half of a thing", "hold half of a thing, chance", "overlap by half", "mean area")
    return {"boxes": float(len(results)), **{name: float(value) for name, value in zip(names, means, strict=True)}}


def evaluate_voc(heads: ConceptHeads, cache: MapCache, voc: Voc) -> dict[str, Any]:
    """Return the figures of VOC2007's 20 kinds, top 20."""
    ids, everything = probabilities_of(heads, cache, lambda _: True)
    said = everything[:, [heads.index(name) for name in VOC_NAMES.values()]]
    shown, absent = voc.labels(ids)
    difficult = ~shown & ~absent
    person = list(VOC_NAMES).index("person")
    # The others were used to choose the share of an image that a thing must cover.
    unseen = slice(1, None, 2)
    rows = calibration(said[unseen], shown[unseen], difficult[unseen])
    return {
        "figures": search_figures(said, shown, top=20, need=25, person=person),
        "figures of the earlier rule": earlier_figures(said, shown),
        "mAP without difficult": float(
            np.mean(
                [
                    average_precision(said[~difficult[:, k], k], shown[~difficult[:, k], k])
                    for k in range(shown.shape[1])
                ]
            )
        ),
        "calibration": rows,
        "calibration error": expected_calibration_error(rows),
        "strong": strong_hits(said[unseen], shown[unseen]),
        "by word": {
            name: (
                average_precision(said[~difficult[:, k], k], shown[~difficult[:, k], k]),
                precision_at(20, said[:, k], shown[:, k]),
                int(shown[:, k].sum()),
            )
            for k, name in enumerate(VOC_NAMES)
        },
    }


def earlier_figures(said: Floats, shown: Labels) -> dict[str, float]:
    """Return the figures over the ordered pairs of `andornot evaluate words`.

    These have at least 9 images with just these two kinds, and 12 with each alone.
    """
    labels = seen = shown
    count = labels.sum(1)
    alone = (labels & (count == 1)[:, None]).sum(0)
    two = (labels & (count == 2)[:, None]).astype(np.int64)
    together = two.T @ two
    size = labels.shape[1]
    pairs = [
        (a, b)
        for a in range(size)
        for b in range(size)
        if a != b and together[a, b] >= 9 and min(alone[a], alone[b]) >= 12
    ]
    return {
        "pairs": float(len(pairs)),
        "one": float(np.mean([precision_at(20, said[:, a], seen[:, a]) for a in range(size)])),
        "both": float(np.mean([precision_at(20, said[:, a] * said[:, b], seen[:, a] & seen[:, b]) for a, b in pairs])),
        "not: a": float(np.mean([precision_at(20, said[:, a] * (1 - said[:, b]), seen[:, a]) for a, b in pairs])),
        "not: b left": float(np.mean([precision_at(20, said[:, a] * (1 - said[:, b]), seen[:, b]) for a, b in pairs])),
    }
