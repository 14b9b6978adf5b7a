"""`Hit`: a picture that was found, and why; `Hits`: what a search found, a list that shows itself in a notebook."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex, overload

from ..data import BrokenImageError, decode
from ..notebook import MOST_TILES, TILE, Tile, tiles
from .records import Origin


@dataclass(frozen=True)
class Reason:
    """A feature that carried a match: what it gave to the score beyond what it gives to the gallery's average picture.

    `shown_by` are the pictures of the gallery with the highest degrees of it; `name` is what these show together, if
    that can be said.
    """

    feature: int
    contribution: float
    shown_by: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Place:
    """Where in a picture a term of a condition was found: left, top, right, bottom, as fractions of the picture."""

    term: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Hit:
    """A picture that was found. Smaller distances are nearer, whatever the score; that of a condition is 1 - truth.

    `truth`, from 0 to 1, says how far the picture stands out in the gallery by what was asked for. A weak one is what
    the best of as many unrelated pictures may reach. `where` has a place for each term that was found in a region.

    `taken` is its date, as "2024-05-31T18:00:00"; `taken_from` is "camera" if the camera noted it, "file" where there
    is only the time of the file, and "unknown" in galleries of version 0.1 that were not indexed since. `words` say
    what it shows, if the gallery has words: few, and none where nothing is likely.
    """

    path: str
    distance: float
    id: int
    why: tuple[Reason, ...] = field(default=())
    taken: str = ""
    taken_from: Origin = "unknown"
    truth: float = 0.0
    is_weak: bool = False
    where: tuple[Place, ...] = ()
    words: tuple[str, ...] = ()


class Hits(list[Hit]):
    """Pictures that were found, nearest first."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> "Hits": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Hit | Hits":
        """One of them, or some, which show themselves as well."""
        return Hits(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def _repr_html_(self) -> str:
        pictures = [(hit.path, f"#{hit.id}, {percent(hit.truth)}{' (weak)' * hit.is_weak}") for hit in self]
        note = "best first; under each its id, and how far it matches" if self else ""
        return show_pictures(f"{len(self):,} {'hit' if len(self) == 1 else 'hits'}", pictures, note)


def percent(truth: float) -> str:
    """A truth as people read it; 100 % and 0 % are those of 1 and 0 alone.

    >>> percent(0.9), percent(0.999), percent(1.0), percent(0.001)
    ('90 %', '99 %', '100 %', '1 %')
    """
    rounded = round(100 * truth)
    return f"{min(max(rounded, 1), 99) if 0 < truth < 1 else rounded} %"


def weak_from(hits: Sequence[Hit]) -> int:
    """The place of the first hit from which on all are weak; as many as there are if the last is not."""
    return next((place for place in range(len(hits), 0, -1) if not hits[place - 1].is_weak), 0)


def show_pictures(title: str, pictures: Sequence[tuple[str, str]], note: str = "") -> str:
    """The first pictures of some, by path, each with a line under it, as HTML."""
    if len(pictures) > MOST_TILES:
        note = "; ".join(filter(None, (note, f"the first {MOST_TILES} are shown")))
    return tiles(title, [_tile(path, line) for path, line in pictures[:MOST_TILES]], note and f"({note})")


def _tile(path: str, line: str) -> Tile:
    name = os.path.basename(path)  # noqa: PTH119 - what is in the gallery may be no path of this machine
    try:
        return Tile(decode(path, size=TILE), path, name, line)
    except BrokenImageError:
        return Tile(None, path, name, line)
