"""Near duplicates: images that were cropped or saved again, and bursts."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn.functional import normalize

from .records import ImageRecord
from .table import ImageTable

# Images whose degrees have at least this cosine are near duplicates: docs/api.md, "Stacks".
NEARLY_EQUAL: Final = 0.92
# Pairs whose codes have a lower cosine are skipped without comparing degrees.
PERHAPS_EQUAL: Final = 0.85
# Images and pairs compared at once.
_ROWS: Final = 2048
_PAIRS: Final = 2**16


class DuplicateImage(NamedTuple):
    """An image of a group: the first image, an exact copy of an earlier one, or a near copy of the first."""

    id: int
    path: str
    size: int
    copy: Literal["", "exact", "near"]


def group_duplicates(first_of: Mapping[int, int | None], table: ImageTable) -> list[list[DuplicateImage]]:
    """Return groups of duplicates, the largest first; `first_of` maps each copy to the first image of its group."""
    groups: dict[int, list[int]] = {}
    for identity, first in first_of.items():
        groups.setdefault(identity if first is None else first, []).append(identity)
    chosen = sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)
    return [list(_marked(table.get_many(group))) for group in chosen]


def _marked(records: list[ImageRecord]) -> Iterator[DuplicateImage]:
    seen: set[bytes] = set()
    for record in records:
        is_exact = record.digest in seen
        yield DuplicateImage(record.id, record.path, record.size, "exact" if is_exact else "near" if seen else "")
        seen.add(record.digest)


def stacked_on(codes: Tensor, degrees_of: Callable[[np.ndarray], Tensor]) -> list[int | None]:
    """Return for each row of `codes` `(n, d)` the index of the first earlier near duplicate; else None.

    Candidates are found by their codes and confirmed by `degrees_of` their rows, `(k, N)`. A near duplicate cannot
    itself have near duplicates, so a gradually changing series does not become one stack.

    >>> stacked_on(Tensor([[10, 0], [0, 10], [9, 1], [10, 1]]), lambda places: Tensor([[9, 1], [1, 9], [9, 2]]))
    [None, None, None, 0]
    """
    places: list[int | None] = [None] * len(codes)
    earlier, later = _similar_pairs(codes)
    # Few images have candidates, and only their degrees are needed.
    doubtful = np.unique(np.concatenate([earlier, later]))
    if not len(doubtful):
        return places
    degrees = normalize(degrees_of(doubtful).float(), dim=-1)
    rows = [np.searchsorted(doubtful, side) for side in (earlier, later)]
    for start in range(0, len(earlier), _PAIRS):
        one, other = (degrees[side[start : start + _PAIRS]] for side in rows)
        equal = ((one * other).sum(-1) >= NEARLY_EQUAL).numpy()
        pairs = zip(later[start : start + _PAIRS][equal], earlier[start : start + _PAIRS][equal], strict=True)
        for place, before in pairs:
            if places[place] is None and places[before] is None:
                places[place] = int(before)
    return places


def _similar_pairs(codes: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows with similar codes, `(k,)` each: the earlier and the later row, sorted by the later one."""
    directions = normalize(codes.float(), dim=-1)
    earlier, later = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, len(codes), _ROWS):
        alike = (directions[start : start + _ROWS] @ directions[: start + _ROWS].T).numpy() >= PERHAPS_EQUAL
        rows, columns = np.nonzero(np.tril(alike, start - 1))
        earlier.append(columns)
        later.append(rows + start)
    return np.concatenate(earlier), np.concatenate(later)
