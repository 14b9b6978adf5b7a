"""Asks natural phrases of a gallery of VOC2007's photographs, and counts how many of the first ten are right.

    andornot index SPLIT --gallery g        # a folder with the images of the split
    python benchmarks/study_asking.py g VOC2007 --split val

A hit is right if VOC's annotators marked every kind of thing that was asked for, and none that was not wanted (unless
as difficult to recognise). Only images of the split are counted. The phrases were written down before the first run.
"""

from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path

from andornot import Gallery

# What is typed; the kinds that must be there, with | between alternatives; those that must not.
WISHES = [
    ("photos of dogs", "dog", ""),
    ("a cat on a sofa", "cat sofa", ""),
    ("dogs without people", "dog", "person"),
    ("a person riding a horse", "person horse", ""),
    ("person and bicycle but no car", "person bicycle", "car"),
    ("a dog or a cat, no people", "dog|cat", "person"),
    ("cars without people", "car", "person"),
    ("birds, no people", "bird", "person"),
    ("a boat with people", "boat person", ""),
    ("neither cars nor people, just a train", "train", "car person"),
    ("bottle on a table", "bottle diningtable", ""),
    ("people at a table", "person diningtable", ""),
    ("tv and sofa", "tvmonitor sofa", ""),
    ("cows or sheep", "cow|sheep", ""),
    ("horses but not people", "horse", "person"),
    ("motorbike -car", "motorbike", "car"),
    ("a plant next to a chair", "pottedplant chair", ""),
    ("person with a dog", "person dog", ""),
    ("airplane without people", "aeroplane", "person"),
    ("bus and car", "bus car", ""),
    # Words that are not known are answered approximately; VOC's labels say only whether the thing is there.
    ("a black dog", "dog", ""),
    ("red car", "car", ""),
    ("brown horse", "horse", ""),
    ("old steam train", "train", ""),
    ("white cat", "cat", ""),
    ("yellow bus", "bus", ""),
    ("racing motorbike", "motorbike", ""),
    ("sleeping cat", "cat", ""),
    ("sailing boat", "boat", ""),
    ("red vintage car without people", "car", "person"),
    ("happy dog", "dog", ""),
    ("flying bird", "bird", ""),
    ("wooden chair", "chair", ""),
    ("police car", "car", ""),
    ("dog catching a frisbee", "dog", ""),
    ("baby", "person", ""),
]
TOP = 10


def main() -> None:
    """Print a table of the phrases."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("gallery")
    parser.add_argument("voc", type=Path, help="the folder VOC2007, with ImageSets/Main")
    parser.add_argument("--split", default="val")
    options = parser.parse_args()
    shown, perhaps = read_labels(options.voc, options.split)
    gallery = Gallery.open(options.gallery)
    stems = [stem for stem in (Path(path).stem for path in gallery.paths) if stem in shown]
    print(f"{len(stems):,} images\n\n| typed | understood | right of {TOP} | there are |\n| --- | --- | --- | --- |")
    counts = []
    for text, wanted, unwanted in WISHES:

        def is_right(stem: str, wanted: str = wanted, unwanted: str = unwanted) -> bool:
            there = shown[stem] | perhaps[stem]
            has_all = all(there & set(kind.split("|")) for kind in wanted.split())
            return has_all and not shown[stem] & set(unwanted.split())

        hits = gallery.search(text, top=TOP)
        right = sum(is_right(Path(hit.path).stem) for hit in hits)
        counts.append(right)
        understood = hits.understood or text
        print(f"| {text} | `{understood}` | {right} | {sum(map(is_right, stems))} |", flush=True)
    print(f"\nmean {sum(counts) / len(counts):.2f} of {TOP}")


def read_labels(folder: Path, split: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the kinds of things that each image shows, and those that are difficult to recognise."""
    shown: dict[str, set[str]] = defaultdict(set)
    perhaps: dict[str, set[str]] = defaultdict(set)
    for file in sorted((folder / "ImageSets" / "Main").glob(f"*_{split}.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            stem, mark = line.split()
            kind = file.name.removesuffix(f"_{split}.txt")
            shown[stem] |= {kind} if mark == "1" else set()
            perhaps[stem] |= {kind} if mark == "0" else set()
    return shown, perhaps


if __name__ == "__main__":
    main()
