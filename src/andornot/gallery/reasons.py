"""Why a picture was found: the features that carried its match, and the pictures that show each of them most."""

from collections.abc import Callable
from typing import Final

import numpy as np
from torch import Tensor

from .centred import evenly
from .errors import GalleryError
from .filters import Selection
from .hits import Reason
from .records import entry_of
from .vectors import Degrees, Sources, Vectors
from .word_truths import WordTruths

ReasonsOf = Callable[[int, np.ndarray], list[tuple[Reason, ...]]]
"""For a query, by its number, and rows that it found: why."""

_REASONS: Final = 5
_SHOWN_BY: Final = 3
# Pictures that stand for the average one, and rows that are looked at together.
_SAMPLE: Final = 512
_BLOCK: Final = 8192


class Reasons:
    """Tells why, in one state of a gallery."""

    def __init__(self, sources: Sources, degrees: Degrees, words: WordTruths, everything: Selection) -> None:
        self._sources, self._degrees, self._words, self._everything = sources, degrees, words, everything
        self._most: dict[int, tuple[tuple[str, ...], str]] = {}

    def why(self, query: Tensor, rows: np.ndarray, vectors: Vectors) -> list[tuple[Reason, ...]]:
        """For each row the features that carried its match with a query that is compared by these vectors."""
        if not len(rows):
            return []
        order = np.argsort(rows)
        hits = vectors.take(rows[order])[np.argsort(order)]
        beyond = query * (hits - vectors.take(evenly(self._everything.rows, _SAMPLE)).mean(0))
        num_features = self._sources.model.num_features
        if beyond.shape[1] % num_features:
            raise GalleryError(
                "why cannot be told by this score: its vectors have not as many numbers for each feature"
            )
        given = beyond.view(len(rows), num_features, -1).sum(-1)
        values, features = given.topk(min(_REASONS, num_features), dim=1)
        self._look_for(sorted({*features.flatten().tolist()}))
        return [
            tuple(
                Reason(feature, value, *self._most[feature])
                for value, feature in zip(of_hit, features[number].tolist(), strict=True)
                if value > 0
            )
            for number, of_hit in enumerate(values.tolist())
        ]

    def _look_for(self, features: list[int]) -> None:
        """The paths of the pictures with the highest degree of each feature, and its name, looked for once."""
        best: list[tuple[float, int]]
        unknown = np.array([feature for feature in features if feature not in self._most], np.int64)
        candidates: dict[int, list[tuple[float, int]]] = {feature: [] for feature in unknown.tolist()}
        used = self._everything.rows
        for start in range(0, len(used) if len(unknown) else 0, _BLOCK):
            rows = used[start : start + _BLOCK]
            degrees = self._degrees.of_features(rows, unknown)
            for column, feature in enumerate(unknown.tolist()):
                best = candidates[feature]
                top = np.argsort(-degrees[:, column], kind="stable")[:_SHOWN_BY]
                best += [(-float(degrees[place, column]), int(rows[place])) for place in top]
                best.sort()
                del best[_SHOWN_BY:]
        records = self._sources.snapshot
        for feature, best in candidates.items():
            rows = np.array([row for _, row in best], np.int64)
            paths = tuple(entry_of(records, identity).picture.path for identity in records.ids_of_rows(rows).tolist())
            shown = self._words.describe_together(rows)
            self._most[feature] = paths, shown[0].word if shown else ""


def no_reasons(_: int, rows: np.ndarray) -> list[tuple[Reason, ...]]:
    """Where nobody asks why, or it cannot be told."""
    return [()] * len(rows)
