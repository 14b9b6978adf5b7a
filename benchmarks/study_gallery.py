"""What formulas find in a gallery of labelled photographs: rates of the labels among the hits, and sheets to look at.

    python benchmarks/study_gallery.py /data/VOCdevkit --gallery g/ --sheets sheets/

The gallery is made if it is not there. Pictures of formulas are drawn among those that show one thing, or just two.
"""

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from andornot import Gallery
from andornot.data import open_images
from andornot.gallery.contact_sheet import save_sheet

_TOP = 10
_SHEETS = 3


class Kind(NamedTuple):
    """A formula over pictures that show a, b, or both; `wanted` says of the labels of a hit whether it is right."""

    formula: str
    wanted: str


KINDS = (
    Kind("a", "shows a"),
    Kind("a & a2", "shows a"),
    Kind("a & a2 & a3", "shows a"),
    Kind("a | b", "shows a or b"),
    Kind("a | b", "shows both"),
    Kind("ab", "shows both"),
    Kind("ab & ab2", "shows both"),
    Kind("ab & a", "shows a"),
    Kind("ab & ~b", "shows a"),
    Kind("ab & ~b", "shows b"),
    Kind("ab - b", "shows a"),
    Kind("ab - b", "shows b"),
    Kind("ab - (b & b2)", "shows a"),
    Kind("ab - (b & b2)", "shows b"),
    Kind("at_least(2, a, a2, a3)", "shows a"),
)
WANTED: dict[str, Callable[[set[str], str, str], bool]] = {
    "shows a": lambda labels, a, _: a in labels,
    "shows b": lambda labels, _, b: b in labels,
    "shows a or b": lambda labels, a, b: a in labels or b in labels,
    "shows both": lambda labels, a, b: a in labels and b in labels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voc", type=Path, help="the VOCdevkit folder, with VOC2007 in it")
    parser.add_argument("--gallery", type=Path, required=True, help="folder of the gallery")
    parser.add_argument("--draws", type=int, default=200, help="how many formulas of each kind (default: 200)")
    parser.add_argument("--sheets", type=Path, help="folder for sheets of the first draws of each kind")
    options = parser.parse_args()
    gallery = Gallery.open(options.gallery) if options.gallery.exists() else Gallery.create(options.gallery)
    gallery.add(options.voc / "VOC2007" / "JPEGImages")
    images = open_images(f"voc:{options.voc}?years=2007")
    assert images.labels is not None
    labels = {
        Path(name).stem: {images.class_names[place] for place in shown.nonzero().flatten().tolist()}
        for name, shown in zip(images.names, images.labels, strict=True)
    }
    showing: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, things in labels.items():
        showing[frozenset(things)].append(name)
    print(f"{len(gallery):,} pictures; the {_TOP} nearest of {options.draws} formulas of each kind")
    hits: dict[str, list[tuple[set[str], str, str]]] = {}
    for formula in dict.fromkeys(kind.formula for kind in KINDS):
        hits[formula] = search(gallery, formula, showing, labels, options)
    for formula, wanted in KINDS:
        right = np.array([WANTED[wanted](*hit) for hit in hits[formula]]).reshape(options.draws, _TOP).mean(1)
        error = 1.96 * right.std(ddof=1) / options.draws**0.5
        chance = np.mean([WANTED[wanted](labels[name], a, b) for _, a, b in hits[formula][::_TOP] for name in labels])
        print(f"  {formula:<24} {wanted:<14} {right.mean():.2f} ± {error:.2f}   chance {chance:.2f}")


def search(
    gallery: Gallery,
    formula: str,
    showing: dict[frozenset[str], list[str]],
    labels: dict[str, set[str]],
    options: argparse.Namespace,
) -> list[tuple[set[str], str, str]]:
    """The labels of each hit, with what a and b were."""
    generator = random.Random(0)
    pairs = sorted(tuple(sorted(things)) for things, names in showing.items() if len(things) == 2 and len(names) > 5)
    pairs = [pair for pair in pairs if all(len(showing[frozenset([thing])]) > 5 for thing in pair)]
    results = []
    for draw in range(options.draws):
        a, b = generator.sample(generator.choice(pairs), 2)
        pictures = {
            **dict(zip(("a", "a2", "a3"), generator.sample(showing[frozenset([a])], 3), strict=True)),
            **dict(zip(("b", "b2"), generator.sample(showing[frozenset([b])], 2), strict=True)),
            **dict(zip(("ab", "ab2"), generator.sample(showing[frozenset([a, b])], 2), strict=True)),
        }
        text = re.sub(r"\b(ab?2?|a3|b2?)\b", lambda name: f"{pictures[name[0]]}.jpg", formula)  # noqa: B023
        found = gallery.search(text, _TOP)
        results += [(labels[Path(hit.path).stem], a, b) for hit in found]
        if options.sheets is not None and draw < _SHEETS:
            options.sheets.mkdir(parents=True, exist_ok=True)
            title = f"{formula}: a = {a}, b = {b}"
            named = {name: thing.path for name, thing in gallery.named(text).items()}
            file = f"{re.sub(r'[^a-z0-9]+', '-', formula.replace('~', 'not '))}-{draw}.png"
            save_sheet(options.sheets / file, title, named, found, "degrees")
    return results


if __name__ == "__main__":
    main()
