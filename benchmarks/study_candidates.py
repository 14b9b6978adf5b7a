"""Which pictures must be looked at to find those in which a condition is truest?

    python benchmarks/study_candidates.py --gallery g/

Random pictures of a gallery with regions are put into some conditions. All of its pictures are compared; then only the
part of them in which the condition is truest as a whole, and only those nearest in each direction that an engine
elsewhere is asked for. The table has the share of the ten best that are among these.
"""

import argparse
import re
from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from andornot import Gallery
from andornot.gallery import SearchOptions
from andornot.gallery.conditions import Regions, Truths, _directions
from andornot.gallery.likeness.products import similarities
from andornot.gallery.names import Resolved
from timing import settle

_CONDITIONS = ("a and b", "a and b and not c", "a and b and c", "a and not b", "(a or b) and not c")
_PARTS = (0.01, 0.05, 0.1, 0.2)
_TOP = 10


def chosen(scores: Tensor, part: float) -> Tensor:
    """The best part of all pictures in each of some scores `(Q, n)`, as a mask `(n,)`."""
    mask = torch.zeros(scores.shape[1], dtype=torch.bool)
    mask[scores.topk(int(part * scores.shape[1])).indices.flatten()] = True
    return mask


def compared(gallery: Gallery, query: Resolved, regions: Regions | None) -> tuple[Tensor, Tensor]:
    """The truths `(n,)` of a condition in all pictures, and their similarities `(Q, n)` to each direction."""
    searcher = gallery._searching
    rows, looked = searcher._everything.rows, searcher.looker.look([query], {})
    in_regions = None if regions is None else searcher._in_regions(looked)
    terms = searcher._asking(SearchOptions()).terms_of(query, looked.values, in_regions)
    truths = Truths(terms, searcher.centred, searcher._everything, regions).of(rows)
    directions = _directions(query.formula, terms)
    assert directions is not None, "all of these conditions ask for pictures"
    return query.formula.truth_of_terms(truths), similarities(searcher.centred.codes(rows), directions)


def recalls(gallery: Gallery, text: str, queries: int, generator: np.random.Generator) -> dict[str, list[float]]:
    found: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(queries):
        named = text
        for name, picture in zip("abc", generator.choice(gallery.ids, 3, replace=False).tolist(), strict=True):
            named = re.sub(rf"\b{name}\b", str(picture), named)
        query = gallery.resolve(named)
        whole, nearest = compared(gallery, query, None)
        anywhere, nearest_too = compared(gallery, query, gallery._searching._regions)
        ways = {
            "regions: truest as wholes": (anywhere, whole[None]),
            "regions: in each direction": (anywhere, nearest_too),
            "wholes: in each direction": (whole, nearest),
            "wholes: by each term": (whole, nearest[: len(query.formula.positive_terms)]),
        }
        for way, (truths, scores) in ways.items():
            best = truths.topk(_TOP).indices
            found[way].append([float(chosen(scores, part)[best].float().mean()) for part in _PARTS])
    return {way: np.mean(values, 0).tolist() for way, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gallery", required=True)
    parser.add_argument("--queries", type=int, default=100, help="of each condition (default: 100)")
    options = parser.parse_args()
    settle()
    gallery, generator = Gallery.open(options.gallery), np.random.default_rng(0)
    gallery.search(str(gallery.ids[0]))
    print(f"{len(gallery):,} pictures, recall@{_TOP} with these parts of them: {', '.join(map(str, _PARTS))}")
    for text in _CONDITIONS:
        for way, values in recalls(gallery, text, options.queries, generator).items():
            print(f"  {text:<20} {way:<28} " + "  ".join(f"{value:.3f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
