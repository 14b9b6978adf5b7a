"""Hubs: pictures that are near to everything; by degrees as they are, and centred on the gallery in several ways.

    andornot index VOCdevkit/VOC2007/JPEGImages --gallery gallery/
    python benchmarks/study_hubs.py gallery/ --labels VOCdevkit/VOC2007/ImageSets/Main

Queries are random pictures and their OR, AND and NOT. With labels, what the ten nearest have in common with a picture,
or with two of a class, is measured too: a cure for hubs must not cost hits. It takes a minute for 5,000 pictures.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from andornot import Gallery, Representation, all_of, any_of
from andornot.gallery.likeness.components import fit_components

_TOP = 5
_NEIGHBOURS = 10


class Way(NamedTuple):
    """How queries `(Q, N)` and pictures become what the cosine is taken of, given the degrees of the gallery."""

    query: Callable[[Tensor, Tensor], Tensor]
    picture: Callable[[Tensor, Tensor], Tensor]


def as_it_is(vectors: Tensor, _: Tensor) -> Tensor:
    return vectors


def minus_mean(vectors: Tensor, degrees: Tensor) -> Tensor:
    return vectors - degrees.mean(0)


def direction_minus_mean(vectors: Tensor, degrees: Tensor) -> Tensor:
    """Of length 1 first: an OR is longer than a picture, an AND is shorter."""
    return normalize(vectors, dim=1) - normalize(degrees, dim=1).mean(0)


def projected(vectors: Tensor, degrees: Tensor) -> Tensor:
    """Without the part along the mean: an OR has more of it than a picture, an AND less."""
    mean = normalize(degrees.mean(0), dim=0)
    return vectors - (vectors @ mean)[:, None] * mean


def in_components(vectors: Tensor, degrees: Tensor) -> Tensor:
    """The same of both, in the 128 dimensions in which pictures differ most."""
    return fit_components(degrees, 128).project(vectors)


WAYS = {
    "degrees": Way(as_it_is, as_it_is),
    "minus mean": Way(minus_mean, minus_mean),
    "directions": Way(direction_minus_mean, direction_minus_mean),
    "projected": Way(projected, minus_mean),
    "query only": Way(projected, as_it_is),
    "components": Way(in_components, in_components),
}


class Kind(NamedTuple):
    """A kind of query: how many pictures it is made of, and how."""

    pictures: int
    combine: Callable[[Representation], Representation]


KINDS = {
    "a": Kind(1, lambda pictures: pictures[0]),
    "~a": Kind(1, lambda pictures: ~pictures[0]),
    "a - b": Kind(2, lambda pictures: pictures[0] - pictures[1]),
    "OR of 2": Kind(2, any_of),
    "OR of 8": Kind(8, any_of),
    "AND of 2": Kind(2, all_of),
    "AND of 8": Kind(8, all_of),
    "NOT of an OR of 8": Kind(8, lambda pictures: ~any_of(pictures)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gallery", type=Path, help="folder of a gallery")
    parser.add_argument("--labels", type=Path, help="folder of VOC's lists of classes, ImageSets/Main")
    parser.add_argument("--queries", type=int, default=200, help="random queries of each kind (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args()
    sources = Gallery.open(options.gallery)._searching._sources
    rows = np.sort(sources.snapshot.rows)
    degrees = torch.cat([sources.represent(part).degrees for part in np.array_split(rows, -(-len(rows) // 256))])
    generator = np.random.default_rng(options.seed)
    print(f"{len(rows):,} pictures, {options.queries} queries of each kind, seed {options.seed}")
    show("", list(WAYS))
    own = [np.array([place]) for place in range(len(rows))]
    found = [neighbours(degrees, degrees, way, _NEIGHBOURS, own) for way in WAYS.values()]
    often = [counts(best, len(rows)) for best in found]
    show(f"all pictures: skew of the {_NEIGHBOURS}-occurrence", [f"{skew(of_way):.2f}" for of_way in often])
    show("all pictures: largest occurrence", [f"{of_way.max():.0f}" for of_way in often])
    for name, kind in KINDS.items():
        chosen = [generator.choice(len(rows), kind.pictures, replace=False) for _ in range(options.queries)]
        queries = torch.stack([kind.combine(represent(sources.represent, rows[own])).degrees for own in chosen])
        found = [neighbours(queries, degrees, way, _TOP, without=chosen) for way in WAYS.values()]
        shares = [counts(best, len(rows)).max() / len(best) for best in found]
        show(f"{name}: the same one in the top {_TOP}", [f"{share:.3f}" for share in shares])
    if options.labels is not None:
        path_of_row = dict(zip(sources.snapshot.rows.tolist(), sources.snapshot.paths, strict=True))
        stems = [Path(path_of_row[row]).stem for row in rows.tolist()]
        classes = pictures_of_classes(options.labels, stems)
        for name in ("a", "OR of 2", "AND of 2", "OR of 8", "AND of 8"):
            kind = KINDS[name]
            asked = [classes[number] for number in generator.integers(len(classes), size=options.queries)]
            chosen = [generator.choice(members, kind.pictures, replace=False) for members in asked]
            queries = torch.stack([kind.combine(represent(sources.represent, rows[own])).degrees for own in chosen])
            found = [neighbours(queries, degrees, way, _NEIGHBOURS, without=chosen) for way in WAYS.values()]
            right = [hits_in(best.numpy(), asked) for best in found]
            show(f"{name}, of one class: right in the top {_NEIGHBOURS}", [f"{share:.3f}" for share in right])


def represent(of_rows: Callable[[np.ndarray], Representation], rows: np.ndarray) -> Representation:
    """The representations of rows in any order."""
    order = np.argsort(rows)
    return of_rows(rows[order])[np.argsort(order).tolist()]


def neighbours(
    queries: Tensor,
    degrees: Tensor,
    way: Way,
    top: int,
    without: list[np.ndarray] | None = None,
) -> Tensor:
    """The nearest pictures `(Q, top)`; those `without` for each query are its own."""
    scores = normalize(way.query(queries, degrees), dim=1) @ normalize(way.picture(degrees, degrees), dim=1).T
    for query, own in enumerate(without or ()):
        scores[query, torch.from_numpy(own)] = -torch.inf
    return scores.topk(top, dim=1).indices


def hits_in(best: np.ndarray, asked: list[np.ndarray]) -> float:
    """The share of the hits that are among those asked for."""
    return float(np.mean([np.isin(own, members).mean() for own, members in zip(best, asked, strict=True)]))


def counts(best: Tensor, pictures: int) -> Tensor:
    """In how many lists of hits each picture is, `(n,)`."""
    return torch.bincount(best.flatten(), minlength=pictures).double()


def skew(numbers: Tensor) -> float:
    """The third standardised moment: large where few are found by many."""
    beyond = numbers - numbers.mean()
    return (beyond.pow(3).mean() / beyond.square().mean().pow(1.5)).item()


def pictures_of_classes(folder: Path, stems: list[str]) -> list[np.ndarray]:
    """Of each class of VOC the places of its pictures in the gallery."""
    place = {stem: number for number, stem in enumerate(stems)}
    classes = []
    for file in sorted(folder.glob("*_*val.txt")):
        if file.stem.endswith("_trainval"):
            lines = [line.split() for line in file.read_text().splitlines()]
            classes.append(np.array([place[stem] for stem, sign in lines if sign == "1" and stem in place]))
    return classes


def show(what: str, figures: list[str]) -> None:
    print(f"{what:44}" + "".join(f"{figure:>12}" for figure in figures))


if __name__ == "__main__":
    main()
