"""A choice out of a sequence, made without touching what is not asked for."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")


class Chosen(Sequence[T], Generic[T]):
    """The items at the given positions; each is fetched when it is asked for.

    >>> Chosen("abcdef", np.array([5, 0, 0]))[0]
    'f'
    """

    def __init__(self, items: Sequence[T], indices: np.ndarray) -> None:
        self._items = items
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "Chosen[T]": ...
    def __getitem__(self, index: int | slice) -> "T | Chosen[T]":
        if isinstance(index, slice):
            return Chosen(self._items, self._indices[index])
        return self._items[int(self._indices[index])]

    def __iter__(self) -> Iterator[T]:
        return (self._items[int(index)] for index in self._indices)
