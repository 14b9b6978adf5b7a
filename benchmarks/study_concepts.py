"""Named features beside codes: three examples of a, and not three examples of b, on COCO's val2017.

    python tools/train_concepts.py encode train calibrate --data data --voc VOCdevkit/VOC2007 --work work
    PYTHONPATH=tools python benchmarks/study_concepts.py --data data --work work --tag=-without24

Each side of a query is three images. Hits are right if they show a (one side), a and no b (`and not`), or a and b
(`and`); the images of a query are not among its hits. `codes` are the 128 components of calibrated degrees that a
gallery compares; `named` the square roots of named degrees, centered; `both` the two side by side.
*shared names* multiplies by what the examples have in common by name: the geometric mean of the named degrees, weighted
by how far the least degree among the examples is above the mean of all images.
With heads that were trained without some kinds (`--leave-out`), those kinds are measured apart: *unknown*.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from andornot.concepts import ConceptHeads, load_heads
from andornot.similarity import HALF_TRUE, fit_components
from andornot.ssl.calibration import CalibratedHead
from andornot.ssl.recipe import load_recipe
from concept_training.data import COCO_NAMES, Coco
from concept_training.encoding import MapCache

EXAMPLES: Final = 3
TOP: Final = 10
NEED: Final = 10
DRAWS: Final = 5

Floats = NDArray[np.float32]
Labels = NDArray[np.bool_]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tag", default="")
    parser.add_argument("--even", action="store_true", help="even ids, to choose constants")
    options = parser.parse_args()
    data = options.data
    coco = Coco(
        data / "coco256" / "train2017",
        data / "labels14" / "coco14",
        data / "coco3200",
        data / "captions" / "annotations" / "captions_val2017.json",
    )
    heads = load_heads(options.work / f"concepts{options.tag}.safetensors")
    ids, pooled, named = describe(heads, MapCache(options.work / "val"), 0 if options.even else 1)
    labels = coco.labels(ids)
    known = [kind for kind, name in enumerate(COCO_NAMES) if name in heads.names]
    unknown = [kind for kind, name in enumerate(COCO_NAMES) if name not in heads.names]
    spaces = make_spaces(pooled, named)
    print(f"{len(ids):,} images, {len(known)} known kinds, {len(unknown)} unknown, top {TOP}, {DRAWS} draws")
    for title, kinds in (("known kinds", known), ("unknown kinds", unknown)):
        if len(kinds) > 1:
            measure(title, spaces, named, labels, kinds)


def describe(heads: ConceptHeads, cache: MapCache, parity: int) -> tuple[list[str], Floats, Floats]:
    """Return ids, mean activations and the probabilities of labelled things (captions left out)."""
    things = [column for column, group in enumerate(heads.groups) if group == "coco"]
    ids, pooled, named = [], [], []
    for shard in cache.shards():
        for row, name in enumerate(shard.ids):
            if int(name) % 2 != parity:
                continue
            maps = shard.maps(row)
            ids.append(name)
            pooled.append(maps.mean((0, 2, 3)))
            named.append(heads.probabilities(maps)[0, things])
    return ids, np.stack(pooled), np.stack(named)


def make_spaces(pooled: Floats, named: Floats) -> dict[str, Floats]:
    """Return unit vectors (images, d) of the spaces that are compared."""
    recipe = load_recipe("photos-frozen")
    head = CalibratedHead(pooled.shape[1], recipe.num_values, recipe.calibration).fit(torch.from_numpy(pooled))
    with torch.no_grad():
        values = torch.linspace(0, 1, recipe.num_values)
        degrees = torch.cat([head(part) @ values for part in torch.split(torch.from_numpy(pooled), 512)])
    codes = fit_components(degrees, 128).project(degrees).numpy()
    roots = np.sqrt(named)
    roots = unit(roots - roots.mean(0))
    return {
        "codes": codes,
        "named": roots,
        **{f"both, {weight:g}": unit(np.concatenate([codes, weight * roots], 1)) for weight in (0.5, 1.0, 1.5)},
    }


def unit(vectors: Floats) -> Floats:
    result: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return result


def sigmoid(values: Floats) -> Floats:
    result: Floats = (1 / (1 + np.exp(-values))).astype(np.float32)
    return result


def truth(deviations: Floats) -> Floats:
    return sigmoid(deviations - np.float32(HALF_TRUE))


NEGATIONS: Final[dict[str, Callable[[Floats, Floats], Floats]]] = {
    "a alone": lambda a, _: truth(a),
    "a · (1 − b)": lambda a, b: truth(a) * (1 - truth(b)),
    "a · σ(1 (z_a − z_b))": lambda a, b: truth(a) * sigmoid(1 * (a - b)),
    "a · σ(2 (z_a − z_b))": lambda a, b: truth(a) * sigmoid(2 * (a - b)),
    "a · σ(2 (z_a − z_b) + 1)": lambda a, b: truth(a) * sigmoid(2 * (a - b) + 1),
    "z_a − 0.5 z_b": lambda a, b: a - 0.5 * b,
}


def share_names(named: Floats, examples: NDArray[np.int64]) -> Floats:
    """Return how much of what the examples share by name each image has."""
    weights = np.maximum(named[examples].min(0) - named.mean(0), 0)
    logarithms = np.log(named + np.float32(0.02)) @ weights / max(float(weights.sum()), 0.3)
    result: Floats = np.exp(logarithms)
    return result


def measure(title: str, spaces: dict[str, Floats], named: Floats, labels: Labels, kinds: list[int]) -> None:
    """Print one, `and` (both also with shared names) and each `and not` for each space."""
    print(f"\n{title}: {len(kinds)}")
    columns = ("a", "shared names", "a and b", "shared names")
    print(f"{'':12}" + "".join(f"{name:>14}" for name in columns) + "".join(f"{name:>26}" for name in NEGATIONS))
    for space, vectors in spaces.items():
        single, single_shared, both_shared = [], [], []
        for kind in kinds:
            if labels[:, kind].sum() < EXAMPLES + TOP:
                continue
            for one in draw(np.flatnonzero(labels[:, kind]), kind):
                score = truth(scale(vectors, one))
                single.append(hits(score, one, labels[:, kind]))
                single_shared.append(hits(score * share_names(named, one), one, labels[:, kind]))
        both: list[float] = []
        without: dict[str, list[float]] = {name: [] for name in NEGATIONS}
        for a, b in ordered_pairs(labels, kinds):
            first, second = labels[:, a] & ~labels[:, b], labels[:, b] & ~labels[:, a]
            seeds = zip(draw(np.flatnonzero(first), a), draw(np.flatnonzero(second), 1000 + b), strict=True)
            for one, other in seeds:
                z_a, z_b = scale(vectors, one), scale(vectors, other)
                own = np.concatenate([one, other])
                score = truth(z_a) * truth(z_b)
                both.append(hits(score, own, labels[:, a] & labels[:, b]))
                score = score * share_names(named, one) * share_names(named, other)
                both_shared.append(hits(score, own, labels[:, a] & labels[:, b]))
                for name, negation in NEGATIONS.items():
                    without[name].append(hits(negation(z_a, z_b), own, first))
        print(
            f"{space:12}"
            + "".join(f"{np.mean(values):14.3f}" for values in (single, single_shared, both, both_shared))
            + "".join(f"{np.mean(values):26.3f}" for values in without.values()),
            flush=True,
        )


def ordered_pairs(labels: Labels, kinds: list[int]) -> list[tuple[int, int]]:
    """Return the pairs that enough images show together, and of which enough show one without the other."""
    return [
        (a, b)
        for a in kinds
        for b in kinds
        if a != b
        and (labels[:, a] & labels[:, b]).sum() >= NEED
        and (labels[:, a] & ~labels[:, b]).sum() >= NEED + EXAMPLES
        and (labels[:, b] & ~labels[:, a]).sum() >= EXAMPLES
    ]


def draw(images: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        yield rng.choice(images, EXAMPLES, replace=False)


def scale(vectors: Floats, examples: NDArray[np.int64]) -> Floats:
    """Return how far each image's similarity to the examples is above the median, in standard deviations."""
    similarities = vectors @ unit(vectors[examples].mean(0))
    result: Floats = (similarities - np.median(similarities)) / similarities.std()
    return result


def hits(scores: Floats, own: NDArray[np.int64], right: Labels) -> float:
    kept = scores.copy()
    kept[own] = -np.inf
    return float(right[np.argsort(-kept, kind="stable")[:TOP]].mean())


if __name__ == "__main__":
    main()
