"""A shard: a range of a gallery's rows, scanned exactly for the best images of a planned query."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from ..logic.distance import SCORES, Score
from ..model import Model
from ..similarity import int8_dot
from ..words import ImageNetVocabulary, Meaning, PhraseVocabulary, WordError, vocabulary_for
from .blocks import Block, CodeProjector, Part, parts_of, spans
from .condition_truth import TermTruths, positive_truth, search_block
from .errors import GalleryError
from .filters import ResolvedFilter
from .plan import Best, ConditionPlan, Matches, Nearest, SampleRows, ScorePlan, VectorPlan
from .table import ImageTable

# Images whose vectors are compared at once.
_BLOCK: Final = 2**15
_SPAN: Final = 2**18
# Images whose representations are in memory at once.
_REPRESENTED: Final = 256
# Vectors of other scores are kept in memory up to this size.
_KEPT_BYTES: Final = 2**29
# The last rows of a product are rounded differently unless their number is a multiple of this.
_PADDED_TO: Final = 16


class Shard:
    """A range of the rows of one version of a gallery."""

    def __init__(
        self,
        table: ImageTable,
        model: Model,
        words: ImageNetVocabulary | PhraseVocabulary | None,
        number: int = 0,
        shards: int = 1,
    ) -> None:
        self._table, self._model, self._words = table, model, words
        self._number, self._shards = number, shards
        self._projector = CodeProjector(table, model)
        self._blocks = [Block(table, self._projector, words, part) for part in self._parts(table)]
        self._vectors: dict[str, Tensor] = {}

    @property
    def model_id(self) -> str:
        """The id of the model whose codes it holds."""
        return self._table.state.model_id

    def _parts(self, table: ImageTable) -> list[Part]:
        with table.storage.reading():
            return parts_of(table.dataset, self._number, self._shards)

    def for_version(self, table: ImageTable, model: Model) -> Shard:
        """Return the shard of another version, which shares what is in memory and still valid."""
        shard = Shard.__new__(Shard)
        shard._table, shard._model, shard._words = table, model, self._words
        shard._number, shard._shards, shard._vectors = self._number, self._shards, {}
        shard._projector = CodeProjector(table, model)
        old = {block.part.fragment: block for block in self._blocks}
        shard._blocks = []
        for part in self._parts(table):
            known = old.get(part.fragment)
            reused = None if known is None else known.for_version(table, shard._projector, part)
            shard._blocks.append(reused or Block(table, shard._projector, self._words, part))
        return shard

    def count(self, where: ResolvedFilter) -> int:
        """Return how many images pass a filter."""
        return sum(len(block.rows(where)) for block in self._blocks)

    def sample(self, ids: np.ndarray, with_regions: bool) -> SampleRows:
        """Return the codes of those of some images that are in this shard, in the order of their ids."""
        found = [np.empty(0, np.int64)]
        codes = [torch.empty(0, self._projector.components.axes.shape[1], dtype=torch.int8)]
        regions: list[Tensor] = []
        has = [np.empty(0, bool)]
        for block in self._blocks:
            rows = _places(block, ids)
            if not len(rows):
                continue
            found.append(block.ids[rows])
            codes.append(block.codes(rows))
            if with_regions:
                regions.append(block.regions(rows))
                has.append(block.has_regions(rows))
        all_ids = np.concatenate(found)
        order = np.argsort(all_ids, kind="stable")
        by_id = torch.from_numpy(order)
        return SampleRows(
            all_ids[order],
            torch.cat(codes)[by_id],
            torch.cat(regions)[by_id] if regions else None,
            np.concatenate(has)[order] if regions else None,
        )

    def support(self, meaning: Meaning, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return those of some images that are in this shard, and how far each supports a word."""
        found, support = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for block in self._blocks:
            rows = _places(block, ids)
            found.append(block.ids[rows])
            support.append(block.support(meaning).numpy()[rows])
        return np.concatenate(found), np.concatenate(support)

    def best_by_word(self, meaning: Meaning, count: int) -> Nearest:
        """Return the images that support a word most."""
        best = Best(1, count)
        for block in self._blocks:
            best.add(block.ids, block.support(meaning)[None].float())
        return Nearest(best.ids, best.scores)

    def nearest(self, plan: VectorPlan) -> Nearest:
        """Return the images nearest to vectors, by the codes of whole images."""
        best = Best(len(plan.vectors), plan.top)
        for block in self._blocks:
            for rows in spans(block.rows(plan.filter), _SPAN):
                best.add(block.ids[rows], int8_dot(block.codes(rows), plan.vectors))
        return Nearest(best.ids, best.scores)

    # --- conditions -------------------------------------------------------------------------------------------------

    def search(self, plan: ConditionPlan) -> Matches:
        """Return the truest images of a condition; of equal ones the lower id first."""
        best = Best(1, plan.top)
        truths = [TermTruths(plan, block) for block in self._blocks]
        for block, of_block in zip(self._blocks, truths, strict=True):
            search_block(plan, block, of_block, best)
        ids = best.ids[0]
        positive = np.zeros(len(ids), np.float32)
        regions: dict[int, np.ndarray] = {}
        for block, of_block in zip(self._blocks, truths, strict=True):
            rows = _places(block, ids)
            if not len(rows):
                continue
            where = np.searchsorted(np.sort(ids), block.ids[rows])
            places = np.argsort(ids, kind="stable")[where]
            positive[places] = positive_truth(plan.formula, of_block.of(rows), plan.logic).float().numpy()
            for number, found in of_block.best_regions(rows).items():
                regions.setdefault(number, np.full(len(ids), -1))[places] = found
        return Matches(ids, best.scores[0], positive, regions)

    # --- other scores -----------------------------------------------------------------------------------------------

    def compare(self, plan: ScorePlan) -> Nearest:
        """Return the images nearest to representations by a score other than the default one."""
        best = Best(len(plan.queries), plan.top)
        passing = [(block, block.rows(plan.filter)) for block in self._blocks]
        score = SCORES[plan.score] if isinstance(plan.score, str) else plan.score
        if isinstance(score, Score):
            asked = score.query(plan.queries).float()
            for block, rows in passing:
                for part in spans(rows, _BLOCK):
                    vectors = self._score_vectors(plan.score, score, block, part, asked.shape[1])
                    best.add(block.ids[part], _products(asked, vectors))
            return Nearest(best.ids, best.scores)
        for block, rows in passing:
            for part in spans(rows, _REPRESENTED):
                images = self._model.encode_activations(self._activations(block.ids[part]))
                distances = score(plan.queries, images)
                if distances.shape != (len(plan.queries), len(part)):
                    raise GalleryError(
                        f"a score takes queries (Q, N, M) and images (G, N, M) to distances (Q, G): this one made "
                        f"{tuple(distances.shape)} of Q = {len(plan.queries)} and G = {len(part)}"
                    )
                best.add(block.ids[part], -distances.float())
        return Nearest(best.ids, best.scores)

    def _score_vectors(self, name: object, score: Score, block: Block, rows: np.ndarray, dimensions: int) -> Tensor:
        """Return the vectors `(n, D)` that a score compares; those of a small shard are kept in memory."""
        total = sum(map(len, self._blocks))
        if not isinstance(name, str) or 4 * total * dimensions > _KEPT_BYTES:
            return self._compute_vectors(score, block.ids[rows], dimensions)
        key = f"{name} {block.part.fragment} {block.part.start}"
        if key not in self._vectors:
            self._vectors[key] = self._compute_vectors(score, block.ids, dimensions)
        return self._vectors[key][torch.from_numpy(rows)]

    def _compute_vectors(self, score: Score, ids: np.ndarray, dimensions: int) -> Tensor:
        parts = [torch.empty(0, dimensions)]
        for part in spans(ids, _REPRESENTED):
            made = score.gallery(self._model.encode_activations(self._activations(part)))
            if made.shape[1:] != (dimensions,):
                raise GalleryError(
                    f"a score takes the inner product of two vectors: this one's have {dimensions} numbers for a "
                    f"query, and {made.shape[-1]} for an image"
                )
            parts.append(made)
        return torch.cat(parts)

    def _activations(self, ids: np.ndarray) -> Tensor:
        return torch.from_numpy(self._table.activations(ids)).float()


def _places(block: Block, ids: np.ndarray) -> np.ndarray:
    """Return the places, ascending, of those of some images that are in a block."""
    wanted = np.unique(ids)
    places = np.searchsorted(block.ids, wanted)
    inside = places < len(block.ids)
    places, wanted = places[inside], wanted[inside]
    return np.asarray(places[block.ids[places] == wanted])


def _products(queries: Tensor, vectors: Tensor) -> Tensor:
    """Return the inner products `(Q, n)`; equal vectors have equal products wherever they are."""
    padding = -len(vectors) % _PADDED_TO
    padded = torch.nn.functional.pad(vectors, (0, 0, 0, padding))
    return (queries @ padded.T)[:, : len(vectors)]


class Shards(Protocol):
    """All shards of one version of a gallery."""

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of each shard, and return what they answer."""

    def for_version(self, table: ImageTable, model: Model) -> Shards:
        """Return the shards of another version, which share what is in memory and still valid."""


class LocalShard:
    """One shard in this process, with all rows."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    @classmethod
    def open(cls, table: ImageTable, model: Model) -> LocalShard:
        """Open the shard of a version; nothing is read before it is asked."""
        return cls(Shard(table, model, model_words(model)))

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of the shard."""
        return [getattr(self._shard, method)(*arguments)]

    def for_version(self, table: ImageTable, model: Model) -> LocalShard:
        """Return the shard of another version."""
        return LocalShard(self._shard.for_version(table, model))


def model_words(model: Model) -> ImageNetVocabulary | PhraseVocabulary | None:
    """Return the words of a model, if it has any."""
    try:
        return vocabulary_for(model)
    except WordError:
        return None
