"""What a word should be in a term: the mean of the pictures that show it best, or their AND; and of how many.

python benchmarks/study_terms.py 'voc:/data/VOCdevkit?years=2007' --word cow=cattle --word pottedplant=flowerpot
"""

import argparse
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from andornot import Representation, all_of
from andornot.data import ImageSet, open_images
from andornot.evaluate.experiments.words import SPELLINGS, pairs_of
from andornot.logic.distance import SCORES
from andornot.model import Model
from andornot.ssl.backbones import build_backbone
from andornot.ssl.recipe import load_recipe
from andornot.words import KeptClasses, NamedClasses, wordnet_nouns

TOP: Final = 20
# So many pictures of just two classes for each pair, the first ones.
PICTURES: Final = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="labelled pictures")
    parser.add_argument("--word", action="append", default=[], metavar="CLASS=WORD")
    options = parser.parse_args()
    images = open_images(options.data)
    spelled = {**SPELLINGS, **dict(given.split("=", 1) for given in options.word)}
    nouns = [wordnet_nouns().look_up(spelled.get(name, name)) for name in images.class_names]
    pictures, evidence, labels = seen(images)
    support = torch.stack([evidence[:, list(noun.classes)].sum(-1) for noun in nouns], 1)
    best = {column: support[:, column].argsort(descending=True) for column in range(len(nouns))}
    alone = {column: torch.nonzero(labels[:, column] & (labels.sum(1) == 1))[0] for column in range(len(nouns))}
    print(f"| b is | ab - b: a | b |   ({len(labels):,} pictures, {len(pairs_of(labels))} ordered pairs, top {TOP})")
    print_row("a picture of b alone", lambda b: pictures[int(alone[b])], pictures, labels)
    for count in (3, 5, 10):
        chosen = {b: best[b][:count] for b in best}
        print_row(f"the mean of its best {count}", lambda b: mean_of(pictures, chosen[b]), pictures, labels)  # noqa: B023
        print_row(f"the AND of its best {count}", lambda b: all_of(list(pictures[chosen[b]])), pictures, labels)  # noqa: B023


def mean_of(pictures: Representation, chosen: Tensor) -> Representation:
    """The mean of some pictures' distributions."""
    return Representation(pictures.probs[chosen].mean(0), validate=False)


def seen(images: ImageSet) -> tuple[Representation, Tensor, Tensor]:
    """Of each picture its representation `(n, N, M)`, its evidence `(n, 1000)` as a gallery keeps it, and labels."""
    recipe = load_recipe("photos")
    backbone = build_backbone(recipe.backbone).eval()
    model = Model.calibrated(backbone, torch.rand(2, backbone.width), recipe)
    pictures, words = images.pictures(model.size), NamedClasses(backbone)
    parts = [(backbone.pool(maps).half().float(), words.evidence(maps)) for maps in model.look(pictures)]
    activations, evidence = (torch.cat(part) for part in zip(*parts, strict=True))
    calibrated = Model.calibrated(backbone, activations, recipe)
    kept = KeptClasses.of(evidence).evidence()
    return calibrated.represent(activations), kept, torch.as_tensor(pictures.labels) > 0


def print_row(name: str, b_is: Callable[[int], Representation], pictures: Representation, labels: Tensor) -> None:
    """Which share of the best hits of `ab - b` shows a, and b."""
    vectors, found = SCORES["degrees"].gallery(pictures), []
    words = {b: b_is(b) for b in {b for _, b in pairs_of(labels)}}
    for a, b in pairs_of(labels):
        for number in torch.nonzero(labels[:, a] & labels[:, b] & (labels.sum(1) == 2))[:PICTURES, 0].tolist():
            query = pictures[number] - words[b]
            scores = vectors @ SCORES["degrees"].query(Representation.stack([query]))[0].to(vectors)
            scores[number] = -1
            hits = scores.topk(TOP).indices
            found.append([float(labels[hits, thing].float().mean()) for thing in (a, b)])
    means = (sum(column) / len(column) for column in zip(*found, strict=True))
    print(f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
