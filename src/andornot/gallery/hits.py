"""Results of a search: `Hit`, and `Hits`, a list that displays itself in a notebook."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, SupportsIndex, overload

from ..concepts import WordNote
from ..data import BrokenImageError, decode
from ..notebook import MOST_TILES, TILE, Tile, tiles
from .records import Origin

Strength = Literal["strong", "maybe", "weak"]


@dataclass(frozen=True)
class Reason:
    """A feature that contributed to a match. The contribution is relative to that of the gallery's average image.

    `shown_by` are the images of the gallery with the highest degrees of the feature; `name` is a word for what they
    have in common, if there is one.
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
    """An image found by a search. Smaller distances are better for every score; for a condition it is 1 - truth.

    `truth`, from 0 to 1, is the probability of a word; for an example it tells how far the image stands out in the
    gallery. `strength` is "strong" if at least 80 % of such hits are right, "weak" if it may be a chance match, else
    "maybe". `boxes` has a box for each term that was located, `terms` the truth of each term of a condition. `taken` is
    the image's date, such as "2024-05-31T18:00:00"; `taken_from` is "camera" if it comes from EXIF, and "file" if it is
    the modification time. `words` are the few words likely for the image, with probabilities, if the gallery has words.
    """

    path: str
    distance: float
    id: int
    why: tuple[Reason, ...] = field(default=())
    taken: str = ""
    taken_from: Origin = "file"
    truth: float = 0.0
    strength: Strength = "maybe"
    boxes: tuple[TermBox, ...] = ()
    words: Mapping[str, float] = field(default_factory=dict, hash=False)
    terms: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def is_weak(self) -> bool:
        """Whether it may be a chance match."""
        return self.strength == "weak"


class Hits(list[Hit]):
    """The hits of a search, best first.

    `notes` explain how unknown words were interpreted; `understood` is the formula that plain text was read as.
    """

    def __init__(self, hits: Iterable[Hit] = (), notes: Sequence[WordNote] = (), understood: str = "") -> None:
        super().__init__(hits)
        self.notes, self.understood = tuple(notes), understood

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> "Hits": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Hit | Hits":
        """Return a hit, or a slice as `Hits`."""
        found = super().__getitem__(index)
        return found if isinstance(found, Hit) else Hits(found, self.notes, self.understood)

    def _repr_html_(self) -> str:
        images = [(hit.path, f"#{hit.id}, {percent(hit.truth)}{' (weak)' * hit.is_weak}") for hit in self]
        note = "best first; under each its id, and how far it matches" if self else ""
        note = "; ".join(filter(None, (note, *map(str, self.notes))))
        return show_images(f"{len(self):,} {'hit' if len(self) == 1 else 'hits'}", images, note)


def percent(truth: float) -> str:
    """Return a truth in percent; only exactly 1 is 100 % and only exactly 0 is 0 %.

    >>> percent(0.9), percent(0.999), percent(1.0), percent(0.001)
    ('90 %', '99 %', '100 %', '1 %')
    """
    rounded = round(100 * truth)
    return f"{min(max(rounded, 1), 99) if 0 < truth < 1 else rounded} %"


def weak_from(hits: Sequence[Hit]) -> int:
    """Return the index from which all hits are weak; the number of hits if the last one is not weak."""
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
