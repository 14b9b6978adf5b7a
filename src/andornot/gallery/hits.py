"""`Hits`: what a search found, a list that shows itself in a notebook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex, overload

from ..data import BrokenImageError, decode
from ..notebook import MOST_TILES, TILE, Tile, tiles

if TYPE_CHECKING:
    from .searching import Hit


class Hits(list["Hit"]):
    """Pictures that were found, nearest first."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Hits: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Hit | Hits:
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
