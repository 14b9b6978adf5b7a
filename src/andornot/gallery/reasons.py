"""Explanations of hits: the features that contributed most, and the images with the highest degree of each."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ..logic.distance import Score
from ..model import Model
from ..similarity import evenly
from .errors import GalleryError
from .hits import Reason
from .projections import degrees_of
from .table import ImageTable
from .words import GalleryWords

_REASONS: Final = 5
_SHOWN_BY: Final = 3
# Sample size for the average image.
_AVERAGE_SAMPLE: Final = 512
# Images searched for the highest degree of a feature; a sample in a larger gallery.
_SHOWN_SAMPLE: Final = 20_000
_ROWS_AT_ONCE: Final = 1024


class Explainer:
    """Explains hits, in one version of a gallery."""

    def __init__(self, table: ImageTable, model: Model, words: GalleryWords) -> None:
        self._table, self._model, self._words = table, model, words
        self._shown: dict[int, tuple[tuple[str, ...], str]] = {}

    def explain(self, query: Tensor, ids: np.ndarray, score: Score) -> Sequence[tuple[Reason, ...]]:
        """Return for each image the features that contributed most to its score with a query `(D,)`.

        A contribution is relative to that of the average image.
        """
        if not len(ids):
            return []
        average = self._vectors(score, evenly(self._table.ids, _AVERAGE_SAMPLE)).mean(0)
        beyond = query * (self._vectors(score, ids) - average)
        num_features = self._model.num_features
        if beyond.shape[1] % num_features:
            raise GalleryError("why is not supported for this score: its vectors have no numbers for each feature")
        given = beyond.view(len(ids), num_features, -1).sum(-1)
        values, features = given.topk(min(_REASONS, num_features), dim=1)
        self._find_shown(sorted({*features.flatten().tolist()}))
        return [
            tuple(
                Reason(feature, value, *self._shown[feature])
                for value, feature in zip(of_hit, features[number].tolist(), strict=True)
                if value > 0
            )
            for number, of_hit in enumerate(values.tolist())
        ]

    def _vectors(self, score: Score, ids: np.ndarray) -> Tensor:
        parts = [
            score.gallery(self._model.encode_activations(torch.from_numpy(self._table.activations(part)).float()))
            for part in np.split(ids, range(_ROWS_AT_ONCE, len(ids), _ROWS_AT_ONCE))
        ]
        return torch.cat(parts)

    @cached_property
    def _sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids `(n,)` and degrees `(n, N)` of the images that are searched for examples of a feature."""
        ids = evenly(self._table.ids, _SHOWN_SAMPLE)
        parts = [
            degrees_of(self._model, torch.from_numpy(self._table.activations(part))).half().numpy()
            for part in np.split(ids, range(_ROWS_AT_ONCE, len(ids), _ROWS_AT_ONCE))
        ]
        return ids, np.concatenate(parts)

    def _find_shown(self, features: list[int]) -> None:
        """Find the images with the highest degree of each feature, and a word for what they have in common."""
        for feature in features:
            if feature in self._shown:
                continue
            ids, degrees = self._sample
            best = ids[np.argsort(-degrees[:, feature].astype(np.float32), kind="stable")[:_SHOWN_BY]]
            paths = tuple(record.path for record in self._table.get_many(best))
            shown = self._words.describe_together(best)
            self._shown[feature] = paths, shown[0].word if shown else ""
