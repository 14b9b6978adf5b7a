"""A shard: a range of a gallery's rows, searched exhaustively for the best images of a plan."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from ..concepts import Meaning
from ..logic.distance import SCORES, Score
from ..model import Model
from ..similarity import int8_dot
from .blocks import Block, CodeProjector, Part, parts_of, spans
from .condition_truth import TermTruths, positive_truth, search_block
from .errors import GalleryError
from .filters import ResolvedFilter
from .plan import Best, ConditionPlan, Matches, Nearest, SampleRows, ScorePlan, VectorPlan
from .table import ImageTable, places_in

# Images compared at once.
_BLOCK: Final = 2**15
_SPAN: Final = 2**18
# Images whose representations are in memory at once.
_REPRESENTED: Final = 256
# Vectors of other scores are cached up to this size.
_KEPT_BYTES: Final = 2**29
# Rows of a matrix product are rounded the same way only if their number is a multiple of this.
_PADDED_TO: Final = 16


class Shard:
    """A range of the rows of one version of a gallery."""

    def __init__(
        self, table: ImageTable, model: Model, number: int = 0, shards: int = 1, former: Shard | None = None
    ) -> None:
        """Open one of `shards` shards; data is read on first use.

        `former` is the shard of another version, whose cached data is reused where it is still valid.
        """
        self._table, self._model, self._number, self._shards = table, model, number, shards
        self._projector = CodeProjector(table, model)
        self._vectors: dict[str, Tensor] = {}
        known = {} if former is None else {block.part.fragment: block for block in former._blocks}
        with table.storage.reading():
            parts = parts_of(table.dataset, number, shards)
        self._blocks: list[Block] = [self._block(known.get(part.fragment), part) for part in parts]

    def _block(self, known: Block | None, part: Part) -> Block:
        shared = None if known is None else known.for_version(self._table, self._projector, part)
        return shared or Block(self._table, self._projector, part)

    def for_version(self, table: ImageTable, model: Model) -> Shard:
        """Return the shard of another version."""
        same_codes = table.state.model_id == self._table.state.model_id
        return Shard(table, model, self._number, self._shards, self if same_codes else None)

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of the only shard."""
        return [getattr(self, method)(*arguments)]

    def count(self, where: ResolvedFilter) -> int:
        """Return the number of images that pass a filter."""
        return sum(len(block.rows(where)) for block in self._blocks)

    def sample(self, ids: np.ndarray, with_regions: bool) -> SampleRows:
        """Return the codes of the images among `ids` that are in this shard."""
        found = [np.empty(0, np.int64)]
        codes = [torch.empty(0, self._projector.dimensions, dtype=torch.int8)]
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
        return SampleRows(
            np.concatenate(found),
            torch.cat(codes),
            torch.cat(regions) if regions else None,
            np.concatenate(has) if regions else None,
        )

    def support(self, meaning: Meaning, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids that are in this shard, and the support of each image for a word."""
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
        """Return the truest images of a condition; ties are broken by the lower id."""
        best = Best(1, plan.top)
        truths = [TermTruths(plan, block) for block in self._blocks]
        for block, of_block in zip(self._blocks, truths, strict=True):
            search_block(plan, block, of_block, best)
        ids = best.ids[0]
        positive, terms = np.zeros(len(ids), np.float32), np.zeros((len(plan.terms), len(ids)), np.float32)
        regions: dict[int, np.ndarray] = {}
        for block, of_block in zip(self._blocks, truths, strict=True):
            rows = _places(block, ids)
            if not len(rows):
                continue
            where = np.searchsorted(np.sort(ids), block.ids[rows])
            places = np.argsort(ids, kind="stable")[where]
            of_rows = of_block.of(rows)
            terms[:, places] = torch.stack(of_rows).float().numpy()
            positive[places] = positive_truth(plan.formula, of_rows, plan.logic).float().numpy()
            for number, found in of_block.best_regions(rows).items():
                regions.setdefault(number, np.full(len(ids), -1))[places] = found
        return Matches(ids, best.scores[0], positive, terms, regions)

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
        """Return the vectors `(n, D)` that a score compares; cached if the shard is small."""
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
    """Return the ascending row indices of the images among `ids` that are in a block."""
    return places_in(block.ids, np.unique(ids))


def _products(queries: Tensor, vectors: Tensor) -> Tensor:
    """Return the inner products `(Q, n)`; equal vectors have equal products, regardless of their row."""
    padding = -len(vectors) % _PADDED_TO
    padded = torch.nn.functional.pad(vectors, (0, 0, 0, padding))
    return (queries @ padded.T)[:, : len(vectors)]


class Shards(Protocol):
    """All shards of one version of a gallery."""

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of each shard, and return the results."""

    def for_version(self, table: ImageTable, model: Model) -> Shards:
        """Return the shards of another version, which reuse cached data that is still valid."""
