"""Hubs: pictures that are near to everything, by degrees as they are and centred on the gallery's mean.

    andornot index VOCdevkit/VOC2007/JPEGImages --gallery gallery/
    python benchmarks/study_hubs.py gallery/

Queries are random: single pictures, and OR, AND and NOT of several. It takes a minute for 5,000 pictures.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from andornot import Gallery, Representation, all_of, any_of

_TOP = 5
_NEIGHBOURS = 10

Combine = Callable[[Representation], Representation]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gallery", type=Path, help="folder of a gallery")
    parser.add_argument("--queries", type=int, default=200, help="random queries of each kind (default: 200)")
    parser.add_argument("--pictures", type=int, default=8, help="pictures in each of them (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args()
    gallery = Gallery.open(options.gallery)
    sources = gallery._searching._sources
    rows = np.sort(sources.snapshot.rows)
    degrees = torch.cat([sources.represent(part).degrees for part in np.array_split(rows, -(-len(rows) // 256))])
    mean = degrees.mean(0)
    print(f"{len(rows):,} pictures, {options.queries} queries of each kind, seed {options.seed}")
    print(f"{'':34}{'degrees':>20}{'centred':>20}")
    found = [neighbours(degrees, degrees, centre, _NEIGHBOURS + 1)[:, 1:] for centre in (None, mean)]
    show("a: skew of the 10-occurrence", [f"{skew(counts(best, len(rows))):.2f}" for best in found])
    show("a: most neighbourhoods one is in", [str(int(counts(best, len(rows)).max())) for best in found])
    generator = np.random.default_rng(options.seed)
    for what, queries in kinds(sources.represent, rows, options, generator):
        found = [neighbours(queries, degrees, centre, _TOP) for centre in (None, mean)]
        show(f"{what}: the same one in the top {_TOP}", [f"{shared(best, len(rows)):.2f}" for best in found])


def kinds(
    represent: Callable[[np.ndarray], Representation],
    rows: np.ndarray,
    options: argparse.Namespace,
    generator: np.random.Generator,
) -> Iterator[tuple[str, Tensor]]:
    """The degrees `(Q, N)` of random queries of each kind."""
    count = options.pictures
    combinations: dict[str, tuple[int, Combine]] = {
        "~a": (1, lambda pictures: ~pictures[0]),
        f"OR of {count}": (count, any_of),
        f"AND of {count}": (count, all_of),
        f"NOT of an OR of {count}": (count, lambda pictures: ~any_of(pictures)),
    }
    for what, (size, combine) in combinations.items():
        chosen = [np.sort(generator.choice(rows, size, replace=False)) for _ in range(options.queries)]
        yield what, torch.stack([combine(represent(own)).degrees for own in chosen])


def neighbours(queries: Tensor, degrees: Tensor, centre: Tensor | None, top: int) -> Tensor:
    """The nearest pictures `(Q, top)` by the cosine, of vectors from the centre if there is one."""
    if centre is not None:
        queries, degrees = queries - centre, degrees - centre
    queries, degrees = (torch.nn.functional.normalize(part, dim=-1) for part in (queries, degrees))
    return torch.cat([(part @ degrees.T).topk(top, dim=1).indices for part in torch.split(queries, 256)])


def counts(best: Tensor, pictures: int) -> Tensor:
    """In how many lists of hits each picture is, `(n,)`."""
    return torch.bincount(best.flatten(), minlength=pictures).double()


def shared(best: Tensor, pictures: int) -> float:
    """The share of queries that the picture which most of them find is a hit of."""
    return counts(best, pictures).max().item() / len(best)


def skew(numbers: Tensor) -> float:
    """The third standardised moment: 0 where nothing is a hub."""
    beyond = numbers - numbers.mean()
    return (beyond.pow(3).mean() / beyond.square().mean().pow(1.5)).item()


def show(what: str, figures: list[str]) -> None:
    print(f"{what:34}" + "".join(f"{figure:>20}" for figure in figures))


if __name__ == "__main__":
    main()
