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
        pictures = [(hit.path, f"#{hit.id}, {hit.distance:.3f}") for hit in self]
        note = "nearest first; under each its id and its distance" if self else ""
        return show_pictures(f"{len(self):,} {'hit' if len(self) == 1 else 'hits'}", pictures, note)


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
