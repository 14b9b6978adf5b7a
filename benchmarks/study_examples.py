"""How well examples and NOT between them do in a gallery of labelled images: precision of the first 10 hits.

    andornot index VOCdevkit/VOC2007/JPEGImages --gallery g/
    PYTHONPATH=tools python benchmarks/study_examples.py g/ --voc VOCdevkit/VOC2007
    PYTHONPATH=tools python benchmarks/study_examples.py g/ --coco data

Queries, each with what should be found: `like(a1, a2, a3)` (a), with `and not like(b1, b2, b3)` (a without b), one
image of a and b `and not` one of b (a without b), and one and three examples `and not` their first wrong hit (a).
Images of a query are not among its hits.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from andornot import Gallery
from concept_training.data import COCO_NAMES, VOC_NAMES, Voc
from train_concepts import open_coco

TOP: Final = 10
# A pair of kinds is asked for if so many images show both, a without b, and b without a.
BOTH, ONLY_A, ONLY_B = 8, 15, 6
Labels = NDArray[np.bool_]


class Asked(NamedTuple):
    """A formula, and which images it should find, `(images,)`; `b` are those that NOT should leave out."""

    kind: str
    formula: str
    right: Labels
    b: Labels


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gallery", type=Path)
    parser.add_argument("--voc", type=Path, help="VOCdevkit/VOC2007: the gallery has its images")
    parser.add_argument("--coco", type=Path, help="the folder of tools/train_concepts.py: it has images of val2017")
    parser.add_argument("--queries", type=int, default=100, help="of each kind (default: %(default)s)")
    parser.add_argument("--kinds", default="", help="ask for these kinds only, comma separated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    gallery = Gallery.open(options.gallery)
    stems = [Path(path).stem for path in gallery.paths]
    if options.voc:
        names, shown = list(VOC_NAMES), Voc(options.voc).labels(stems)[0]
    else:
        names, shown = list(COCO_NAMES), open_coco(options.coco).labels(stems)
    chosen = [names.index(name) for name in options.kinds.split(",") if name] or list(range(len(names)))
    rows: dict[str, list[tuple[float, float]]] = {}
    places = {identity: place for place, identity in enumerate(gallery.ids)}
    for asked in questions(gallery, shown, chosen, options.queries, np.random.default_rng(options.seed)):
        hits = [places[hit.id] for hit in gallery.search(asked.formula, top=TOP)]
        rows.setdefault(asked.kind, []).append((asked.right[hits].mean(), asked.b[hits].mean()))
    print(f"{'':44}{'right':>8}{'b left':>8}{'queries':>9}")
    for kind, figures in rows.items():
        right, left = np.mean(figures, 0)
        print(f"{kind:44}{right:8.3f}{left:8.3f}{len(figures):9}")


def questions(
    gallery: Gallery, shown: Labels, chosen: list[int], count: int, rng: np.random.Generator
) -> Iterator[Asked]:
    """Yield formulas of each kind."""
    ids, together = np.array(gallery.ids), shown.T.astype(int) @ shown.astype(int)
    alone = shown.sum(0)[:, None] - together
    pairs = [
        (a, b)
        for a in chosen
        for b in chosen
        if a != b and together[a, b] >= BOTH and alone[a, b] >= ONLY_A and alone[b, a] >= ONLY_B
    ]
    places = {identity: place for place, identity in enumerate(gallery.ids)}
    for number in rng.permutation(max(count, len(pairs)))[:count]:
        a, b = pairs[number % len(pairs)]
        only_a, only_b, both = shown[:, a] & ~shown[:, b], shown[:, b] & ~shown[:, a], shown[:, a] & shown[:, b]

        def draw(kept: Labels, several: int) -> Any:
            return rng.choice(ids[kept], several, replace=False)

        three, others = like(draw(only_a, 3)), like(draw(only_b, 3))
        yield Asked("three examples", three, only_a, shown[:, b])
        yield Asked("three examples and not three", f"{three} and not {others}", only_a, shown[:, b])
        one = draw(both, 1)[0]
        yield Asked("an image of a and b", str(one), only_a, shown[:, b])
        yield Asked("an image of a and b, and not one of b", f"{one} and not {draw(only_b, 1)[0]}", only_a, shown[:, b])
        nothing = np.zeros_like(only_a)
        for several in (1, 3):
            examples = like(draw(shown[:, a], several))
            hits = [hit.id for hit in gallery.search(examples, top=TOP)]
            wrong = [identity for identity in hits if not shown[places[identity], a]]
            if wrong:
                kind = f"{several} of a, with a wrong hit"
                yield Asked(kind, examples, shown[:, a], nothing)
                yield Asked(f"{kind}, and not that", f"{examples} and not {wrong[0]}", shown[:, a], nothing)


def like(ids: NDArray[np.int64]) -> str:
    """Return examples as a term."""
    return f"like({', '.join(map(str, ids))})"


if __name__ == "__main__":
    main()
