"""Words and pictures in one condition: what `and` and `and not` find, over pairs of classes.

python benchmarks/study_mixed.py g/ 'voc:/data/VOCdevkit?years=2007' --word cow=cattle --word pottedplant=flowerpot
(g/ is a gallery of at least these pictures)
"""

import argparse
from collections import defaultdict
from typing import Final

import torch

from andornot import Gallery, open_images
from andornot.evaluate.experiments.words import SPELLINGS, pairs_of
from andornot.logic import Atom

TOP: Final = 20
# The examples of a class alone are these, of two classes together the first ones.
ALONE: Final = slice(3, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gallery", help="folder of a gallery with words")
    parser.add_argument("data", help="labelled pictures")
    parser.add_argument("--word", action="append", default=[], metavar="CLASS=WORD")
    options = parser.parse_args()
    images, gallery = open_images(options.data), Gallery.open(options.gallery)
    spelled = {**SPELLINGS, **dict(given.split("=", 1) for given in options.word)}
    words = [str(Atom(spelled.get(name, name), "word")) for name in images.class_names]
    id_of = dict(zip(gallery.paths, gallery.ids, strict=True))
    ids = [id_of[str(name)] for name in images.names]
    place_of = {identity: place for place, identity in enumerate(ids)}
    labels = torch.as_tensor(images.labels) > 0
    count = labels.sum(1)
    found = defaultdict(list)
    for a, b in pairs_of(labels):
        both = torch.nonzero(labels[:, a] & labels[:, b] & (count == 2))[:2, 0].tolist()
        alone = [torch.nonzero(labels[:, thing] & (count == 1))[ALONE, 0].tolist() for thing in (a, b)]
        for ab_place, a_place, b_place in zip(both, *alone, strict=True):
            ab, one, other = ids[ab_place], ids[a_place], ids[b_place]
            asked = {
                "ab.jpg and not b.jpg": f"{ab} and not {other}",
                "ab.jpg and not b": f"{ab} and not {words[b]}",
                "a.jpg and not b.jpg": f"{one} and not {other}",
                "a.jpg and not b": f"{one} and not {words[b]}",
                "a and not b.jpg": f"{words[a]} and not {other}",
                "a and not b": f"{words[a]} and not {words[b]}",
                "a.jpg and b.jpg": f"{one} and {other}",
                "a.jpg and b": f"{one} and {words[b]}",
                "a and b": f"{words[a]} and {words[b]}",
            }
            for how, formula in asked.items():
                hits = [place_of[hit.id] for hit in gallery.search(formula, top=2 * TOP) if hit.id in place_of][:TOP]
                shown = labels[hits][:, [a, b]]
                found[how].append([*shown.float().mean(0).tolist(), float(shown.all(1).float().mean())])
    print(f"{len(gallery):,} pictures, {len(pairs_of(labels))} ordered pairs, two examples each, top {TOP}")
    print("| asked | a | b | both |\n| --- | --- | --- | --- |")
    for how, rows in found.items():
        means = (sum(column) / len(column) for column in zip(*rows, strict=True))
        print(f"| `{how}` | {' | '.join(f'{mean:.3f}' for mean in means)} |")


if __name__ == "__main__":
    main()
