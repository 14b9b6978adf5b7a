"""The file names of one state of a gallery, to be completed while they are typed."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

# Places of a text that are looked at for a word that begins there.
_LOOKED_AT: Final = 20_000
_BETWEEN: Final = "\n"


class NameIndex:
    """Names in the order of the alphabet, whatever their case. They are one text: looking through it is quick."""

    def __init__(self, names: Sequence[str]) -> None:
        folded = [name.casefold().replace(_BETWEEN, " ") for name in names]
        order = sorted(range(len(folded)), key=folded.__getitem__)
        self.positions: np.ndarray = np.array(order, np.int64)
        self._text = _BETWEEN + "".join(folded[place] + _BETWEEN for place in order)
        lengths = np.array([1, *(len(folded[place]) + 1 for place in order)], np.int64)
        self._starts = np.cumsum(lengths)[:-1]

    def find(self, beginning: str, limit: int) -> list[int]:
        """The positions of names that begin so, and then of those with a word that does, in alphabetical order.

        >>> NameIndex(["IMG_7.jpg", "beach.jpg", "my-beach.jpg", "Beat.png"]).find("bea", 3)
        [1, 3, 2]
        """
        wanted = beginning.casefold().replace(_BETWEEN, " ")
        found: dict[int, None] = {}
        for places in (self._first(wanted), self._inside(wanted)):
            for place in places:
                if len(found) == limit:
                    return list(found)
                found[int(self.positions[place])] = None
        return list(found)

    def _first(self, wanted: str) -> Iterator[int]:
        """The places of names that begin so, which are one after the other."""
        at = self._text.find(_BETWEEN + wanted)
        place = self._place(at + 1) if 0 <= at < len(self._text) - 1 else len(self._starts)
        while place < len(self._starts) and self._text.startswith(wanted, int(self._starts[place])):
            yield place
            place += 1

    def _inside(self, wanted: str) -> Iterator[int]:
        """The places of names in which a word begins so."""
        if not wanted:
            return
        at = 0
        for _ in range(_LOOKED_AT):
            at = self._text.find(wanted, at + 1)
            if at < 0:
                return
            if not self._text[at - 1].isalnum():
                yield self._place(at)

    def _place(self, at: int) -> int:
        return int(np.searchsorted(self._starts, at, "right")) - 1
