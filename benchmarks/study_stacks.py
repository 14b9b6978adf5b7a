"""From which likeness on two pictures are copies of one: made copies against different pictures of a gallery.

python benchmarks/study_stacks.py --gallery g/
"""

import argparse
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import normalize

from andornot import Gallery
from andornot.gallery.likeness.components import to_bytes

LIMITS: Final = (0.8, 0.85, 0.9, 0.93, 0.95)


def copies_of(path: str) -> dict[str, Image.Image]:
    """A picture, as others may have saved it."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width, height = picture.size
    cut = [(width * part // 200, height * part // 200) for part in (10, 20)]
    return {
        "half as large": picture.resize((width // 2, height // 2), Image.Resampling.LANCZOS),
        "mirrored": ImageOps.mirror(picture),
        "brighter": picture.point(lambda value: min(255, int(value * 1.15))),
        "5 % of each edge cut off": picture.crop((*cut[0], width - cut[0][0], height - cut[0][1])),
        "10 % of each edge cut off": picture.crop((*cut[1], width - cut[1][0], height - cut[1][1])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gallery", required=True)
    parser.add_argument("--pictures", type=int, default=100)
    options = parser.parse_args()
    gallery = Gallery.open(options.gallery)
    centred = gallery._searching.centred
    rows = np.sort(gallery._snapshot.rows)
    codes = normalize(centred.codes(rows).float(), dim=-1)
    drawn = np.random.default_rng(0).choice(len(gallery), options.pictures, replace=False)
    made: dict[str, list[Tensor]] = {}
    own = []
    for place in drawn.tolist():
        picture = gallery._snapshot.picture(place)
        own.append(centred.codes_of(np.array([picture.row]))[0])
        for kind, copy in copies_of(picture.path).items():
            degrees = gallery.model.encode([copy], progress=False).degrees
            made.setdefault(kind, []).append(to_bytes(centred.components.project(degrees))[0])
    originals = normalize(torch.stack(own).float(), dim=-1)
    print(f"{len(gallery):,} pictures, copies of {options.pictures}, seed 0: the part that is stacked")
    print(f"| from this likeness on | {' | '.join(map(str, LIMITS))} |\n| --- |{' --- |' * len(LIMITS)}")
    for kind, found in made.items():
        alike = (originals * normalize(torch.stack(found).float(), dim=-1)).sum(1)
        print(f"| {kind} | {' | '.join(f'{float((alike >= limit).float().mean()):.2f}' for limit in LIMITS)} |")
    counts = [0] * len(LIMITS)
    for start in range(0, len(codes), 1024):
        alike = codes[start : start + 1024] @ codes.T
        alike[torch.arange(len(alike)), torch.arange(start, start + len(alike))] = 0
        nearest = alike.amax(1)
        counts = [count + int((nearest >= limit).sum()) for count, limit in zip(counts, LIMITS, strict=True)]
    print(f"| pictures with another of the gallery | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main()
