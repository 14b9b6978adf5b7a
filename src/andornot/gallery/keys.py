"""Ids by what they are looked up by: sorted runs of keys on disk, in pages with a checksum each.

A commit adds a run; runs of the same size become one now and then. Nothing is taken out: what is found is a hint, and
who asks looks whether it is still so.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

ENTRY: Final = np.dtype([("key", "<u4"), ("id", "<i8")])
_PAGE: Final = np.dtype([("first", "<u4"), ("count", "<u4"), ("offset", "<i8"), ("crc", "<u4")])
_IN_PAGE: Final = 2048
# So many runs of about one size become one.
_MANY: Final = 8

Read = Callable[[int, int], bytes]
Put = Callable[[bytes], int]


def keys_of(name: bytes, digest: bytes) -> tuple[int, int]:
    """The key of a file name, and that of a digest; another one for the same bytes."""
    return zlib.crc32(name), zlib.crc32(digest, 1)


class Keys:
    """What an index says of the runs."""

    def __init__(self, runs: Sequence[np.ndarray]) -> None:
        self._runs = list(runs)
        self._sizes = [int(run["count"].sum()) for run in runs]

    @classmethod
    def none(cls) -> "Keys":
        """Of nobody."""
        return cls([])

    @classmethod
    def of_bytes(cls, content: bytes, pages_of_runs: Sequence[int]) -> "Keys":
        """What `to_bytes` made."""
        pages = np.frombuffer(content, _PAGE)
        if sum(pages_of_runs) != len(pages):
            raise ValueError("another number of pages")
        return cls(np.split(pages, np.cumsum(pages_of_runs)[:-1]) if pages_of_runs else [])

    def to_bytes(self) -> bytes:
        """The pages of all runs."""
        return b"".join(run.tobytes() for run in self._runs)

    @property
    def pages_of_runs(self) -> list[int]:
        """How many pages each run has."""
        return [len(run) for run in self._runs]

    def __len__(self) -> int:
        return sum(self._sizes)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self) * ENTRY.itemsize

    def find(self, key: int, read: Read) -> np.ndarray | None:
        """The ids that were ever added with a key, which ascend; None if what would tell it is damaged."""
        found = [np.empty(0, np.int64)]
        for run in self._runs:
            # Equal keys may be on several pages: the first of them may end the page before the one it begins.
            first = max(int(np.searchsorted(run["first"], key)) - 1, 0)
            for page in run[first : int(np.searchsorted(run["first"], key, "right"))]:
                entries = _read(page, read)
                if entries is None:
                    return None
                keys = entries["key"]
                found.append(entries["id"][np.searchsorted(keys, key) : np.searchsorted(keys, key, "right")])
        return np.unique(np.concatenate(found))

    def is_whole(self, read: Read) -> bool:
        """Whether nothing is damaged."""
        return all(_read(page, read) is not None for run in self._runs for page in run)

    def with_more(self, entries: np.ndarray, read: Read, put: Put) -> "Keys":
        """The same with more, which are written by `put`. What is damaged is a ValueError."""
        runs, sizes = list(self._runs), list(self._sizes)
        while len(runs) >= _MANY - 1 and sizes[1 - _MANY] <= _MANY * len(entries):
            pages = [_read(page, read) for run in runs[1 - _MANY :] for page in run]
            whole = [page for page in pages if page is not None]
            if len(whole) < len(pages):
                raise ValueError("a damaged page of keys")
            entries = np.concatenate([*whole, entries])
            del runs[1 - _MANY :], sizes[1 - _MANY :]
        if not len(entries):
            return Keys(runs)
        ordered = entries[np.argsort(entries["key"], kind="stable")]
        written = []
        for start in range(0, len(ordered), _IN_PAGE):
            part = ordered[start : start + _IN_PAGE]
            content = part.tobytes()
            written.append((part["key"][0], len(part), put(content), zlib.crc32(content)))
        return Keys([*runs, np.array(written, _PAGE)])


def _read(page: np.void, read: Read) -> np.ndarray | None:
    size = int(page["count"]) * ENTRY.itemsize
    content = read(int(page["offset"]), size)
    return np.frombuffer(content, ENTRY) if len(content) == size and zlib.crc32(content) == page["crc"] else None
