"""How often what `describe` says of labelled pictures is right, and how many of their labels it says.

python benchmarks/study_describe.py g/ 'voc:/data/VOCdevkit?years=2007' --word cow=cattle --word pottedplant=flowerpot
(g/ is a gallery of at least these pictures)

A noun is right if it is that of a label of the picture, or a kind of it; too general if it is above such a label; wrong
if it has to do with labels of other pictures alone. Others, like *coast* where no label is near, cannot be judged.
"""

import argparse
from collections import Counter

import torch

from andornot import Gallery, open_images
from andornot.evaluate.experiments.words import SPELLINGS
from andornot.words import wordnet_nouns


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gallery", help="folder of a gallery with words")
    parser.add_argument("data", help="labelled pictures")
    parser.add_argument("--word", action="append", default=[], metavar="CLASS=WORD")
    options = parser.parse_args()
    images, gallery = open_images(options.data), Gallery.open(options.gallery)
    spelled = {**SPELLINGS, **dict(given.split("=", 1) for given in options.word)}
    synsets = [wordnet_nouns().look_up(spelled.get(name, name)).synset for name in images.class_names]
    id_of = dict(zip(gallery.paths, gallery.ids, strict=True))
    labels = torch.as_tensor(images.labels) > 0
    said: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    nouns = described = exact = labelled = 0
    for name, row in zip(images.names, labels.tolist(), strict=True):
        there = [synset for synset, is_there in zip(synsets, row, strict=True) if is_there]
        shown = [noun.synset for noun in gallery.describe(id_of[str(name)])]
        described += bool(shown)
        nouns += len(shown)
        labelled += len(there)
        said.update(synset.word for synset in shown)
        for synset in shown:
            kin = {synset, *synset.ancestors}
            if any(other in kin for other in there):
                judged["right"] += 1
            elif any(synset in other.ancestors for other in there):
                judged["too general"] += 1
            elif any(other in kin or synset in other.ancestors for other in synsets):
                judged["wrong"] += 1
        exact += sum(other in shown for other in there)
    print(f"{len(labels):,} pictures; {described / len(labels):.1%} described, with {nouns / described:.2f} nouns each")
    shares = ", ".join(f"{count / judged.total():.1%} {how}" for how, count in judged.most_common())
    print(f"{judged.total():,} of {nouns:,} nouns can be judged by the labels: {shares}")
    print(f"{exact / labelled:.1%} of {labelled:,} labels are said with the very word")
    print(f"{len(said):,} different nouns; the most frequent: {', '.join(word for word, _ in said.most_common(20))}")


if __name__ == "__main__":
    main()
