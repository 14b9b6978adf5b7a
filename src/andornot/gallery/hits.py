"""`Hit`: an image that was found, and why; `Hits`: what a search found, a list that shows itself in a notebook."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex, overload

from ..data import BrokenImageError, decode
from ..notebook import MOST_TILES, TILE, Tile, tiles
from .records import Origin


@dataclass(frozen=True)
class Reason:
    """A feature that carried a match: what it gave to the score beyond what it gives to the gallery's average image.

    `shown_by` are the images of the gallery with the highest degrees of it; `name` is what these show together, if
    that can be said.
    """

    feature: int
    contribution: float
    shown_by: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class TermBox:
    """The box of a term in an image: left, top, right, bottom, as fractions of the image."""

    term: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Hit:
    """An image that was found. Smaller distances are nearer, whatever the score; that of a condition is 1 - truth.

    `truth`, from 0 to 1, says how far the image stands out in the gallery by what was asked for. A weak one is what
    the best of as many unrelated images may reach. `boxes` has a box for each term that was found in a region.

    `taken` is its date, as "2024-05-31T18:00:00"; `taken_from` is "camera" if the camera noted it, and "file" where
    there is only the time of the file. `words` say what it shows, if the gallery has words: few, and none where nothing
    is likely.
    """

    path: str
    distance: float
    id: int
    why: tuple[Reason, ...] = field(default=())
    taken: str = ""
    taken_from: Origin = "file"
    truth: float = 0.0
    is_weak: bool = False
    boxes: tuple[TermBox, ...] = ()
    words: tuple[str, ...] = ()


class Hits(list[Hit]):
    """Images that were found, nearest first."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> "Hits": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Hit | Hits":
        """Return a hit, or a slice as `Hits`."""
        return Hits(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def _repr_html_(self) -> str:
        images = [(hit.path, f"#{hit.id}, {percent(hit.truth)}{' (weak)' * hit.is_weak}") for hit in self]
        note = "best first; under each its id, and how far it matches" if self else ""
        return show_images(f"{len(self):,} {'hit' if len(self) == 1 else 'hits'}", images, note)


def percent(truth: float) -> str:
    """Return a truth in percent; only 1 is 100 % and only 0 is 0 %.

    >>> percent(0.9), percent(0.999), percent(1.0), percent(0.001)
    ('90 %', '99 %', '100 %', '1 %')
    """
    rounded = round(100 * truth)
    return f"{min(max(rounded, 1), 99) if 0 < truth < 1 else rounded} %"


def weak_from(hits: Sequence[Hit]) -> int:
    """Return the index from which on all hits are weak; the number of hits if the last one is not."""
    return next((place for place in range(len(hits), 0, -1) if not hits[place - 1].is_weak), 0)


def show_images(title: str, images: Sequence[tuple[str, str]], note: str = "") -> str:
    """Return the first images, each with a caption, as HTML."""
    if len(images) > MOST_TILES:
        note = "; ".join(filter(None, (note, f"the first {MOST_TILES} are shown")))
    return tiles(title, [_tile(path, line) for path, line in images[:MOST_TILES]], note and f"({note})")


def _tile(path: str, line: str) -> Tile:
    name = os.path.basename(path)  # noqa: PTH119 - what is in the gallery may be no path of this machine
    try:
        return Tile(decode(path, size=TILE), path, name, line)
    except BrokenImageError:
        return Tile(None, path, name, line)
