"""The words of one state of a gallery, to be completed while they are typed, and those that tell most of it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ..words.spelling import plain


class WordCount(NamedTuple):
    """A word, and how many pictures show it."""

    word: str
    pictures: int


class WordIndex:
    """Words with counts. `is_ready`: words can be asked for, be there a list of them or not."""

    def __init__(self, counts: Mapping[str, int], telling: Sequence[WordCount] = (), is_ready: bool = True) -> None:
        self._counts, self.telling, self.is_ready = counts, telling, is_ready

    def beginning(self, text: str) -> list[WordCount]:
        """The words that begin so, and after them those of several words one of which does.

        Of each, those that tell something come first, and then those that most pictures show.

        >>> index = WordIndex({"polar bear": 3, "bear": 5, "beard": 0, "dog": 9})
        >>> [word for word, _ in index.beginning("Bear")]
        ['bear', 'beard', 'polar bear']
        """
        start = plain(text)
        found = dict.fromkeys([*self._from(self._starts, start), *self._from(self._inner, start)])
        return list(found)

    def _from(self, sorted_words: Sequence[tuple[str, str]], start: str) -> list[WordCount]:
        first = bisect_left(sorted_words, (start, ""))
        found = []
        for beginning, word in sorted_words[first:]:
            if not beginning.startswith(start):
                break
            found.append(WordCount(word, self._counts[word]))
        return sorted(found, key=lambda one: (one.word not in self._tells, -one.pictures))

    @cached_property
    def _tells(self) -> frozenset[str]:
        return frozenset(word for word, _ in self.telling)

    @cached_property
    def _starts(self) -> list[tuple[str, str]]:
        return sorted((word, word) for word in self._counts)

    @cached_property
    def _inner(self) -> list[tuple[str, str]]:
        """Each word by what it is from its second part on."""
        return sorted(
            (" ".join(parts[at:]), word)
            for word in self._counts
            for parts in [word.split()]
            for at in range(1, len(parts))
        )


NO_WORDS = WordIndex({}, is_ready=False)
