"""From which likeness on two pictures are copies of one: made copies against different pictures of a gallery.

python benchmarks/study_stacks.py --gallery g/
"""

import argparse
from io import BytesIO
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.nn.functional import cosine_similarity, normalize

from andornot import Gallery
from andornot.gallery.likeness.components import to_bytes
from andornot.gallery.stacking import PERHAPS_EQUAL

LIMITS: Final = (0.88, 0.9, 0.92, 0.94)


def copies_of(path: str) -> dict[str, Image.Image]:
    """A picture, as others may have saved it."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width, height = picture.size
    cut = [(width * part // 200, height * part // 200) for part in (10, 20)]
    saved = BytesIO()
    picture.save(saved, "JPEG", quality=30)
    return {
        "saved as JPEG of quality 30": Image.open(saved),
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
    centred, sources = gallery._searching.centred, gallery._searching._sources
    rows = np.sort(gallery._snapshot.rows)
    drawn = np.random.default_rng(0).choice(len(gallery), options.pictures, replace=False)
    pictures = [gallery._snapshot.picture(place) for place in drawn.tolist()]
    own = np.array([picture.row for picture in pictures])
    own_codes, own_degrees = centred.codes_of(own).float(), sources.represent(own).degrees
    print(f"{len(gallery):,} pictures, copies of {options.pictures}, seed 0: the part that is stacked")
    print(f"| from this likeness on | {' | '.join(map(str, LIMITS))} |\n| --- |{' --- |' * len(LIMITS)}")
    copies = [copies_of(picture.path) for picture in pictures]
    for kind in copies[0]:
        degrees = gallery.model.encode([made[kind] for made in copies], progress=False).degrees
        codes = to_bytes(centred.components.project(degrees)).float()
        may_be = cosine_similarity(own_codes, codes) >= PERHAPS_EQUAL
        alike = cosine_similarity(own_degrees, degrees) * may_be
        print(f"| {kind} | {' | '.join(f'{float((alike >= limit).float().mean()):.2f}' for limit in LIMITS)} |")
    codes = normalize(centred.codes(rows).float(), dim=-1)
    pairs = torch.nonzero(torch.triu(codes @ codes.T, 1) >= PERHAPS_EQUAL).numpy()
    one, other = (sources.represent(rows[places]).degrees for places in pairs.T)
    alike = cosine_similarity(one, other)
    print(f"| pairs in the gallery | {' | '.join(str(int((alike >= limit).sum())) for limit in LIMITS)} |")


if __name__ == "__main__":
    main()
