"""FAISS for large galleries: vectors with few dimensions of a byte each, in lists, and exact scores for the best.

A graph (HNSW) finds the neighbours of pictures, but loses those of `a & b` and `~a`, which lie off the pictures: on
210,000 digits it found 0.97 of the 50 nearest with twice the work. Lists lose nothing but what is in lists that are not
looked through, and how many must be is measured, on the gallery itself, for each kind of query.
"""

import zlib
from bisect import bisect_left
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from ...files import write_atomically
from ...progress import track
from ..filters import Selection
from ..layout import DERIVED
from ..vectors import Vectors
from .exact import Exact
from .reduction import Reduction, best_reduction, sample_queries

_FORMAT: Final = 1
# Fewer than these are compared one by one.
_FEW_ROWS: Final = 10_000
# What is measured: how many of the best of a query are found, by the kind of query that is hit worst.
MEASURED_TOP: Final = 50
_MAY_BE_LOST: Final = 0.005
_QUERIES_OF_EACH_KIND: Final = 64
_DIMENSIONS: Final = (32, 64, 96, 128, 192, 256, 384, 512)
_DEPTHS: Final = (75, 100, 150, 200, 300)
_DEEPEST: Final = 1000
# An index that finds less than this is not used.
_LEAST_RECALL: Final = 0.99
# For the reduction and the lists.
_SAMPLED_QUERIES: Final = 256
_SAMPLED_BYTES: Final = 2**27
_SAMPLED_PER_LIST: Final = 40
# How many lists are looked through is found by trying fewer and fewer.
_FEWER_LISTS: Final = 0.8
# The lists are made anew when the gallery has grown that much.
_GROWN: Final = 2
# A list is looked through if its best may be good: the mean score of its pictures and so many standard deviations.
_DEVIATIONS: Final = 2.0
_BLOCK: Final = 8192


class Faiss:
    """Searches an index if there is one for this state of the gallery, and compares what is not in it one by one."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors, self._exact = vectors, Exact(vectors)
        self._file = vectors.sources.folder / DERIVED / f"faiss-{vectors.score}.safetensors"
        self._index = _Index.read(self._file, vectors)

    @property
    def index(self) -> "_Index | None":
        """What was measured when the index was made is in here; None if there is none."""
        return self._index

    def prepare(self) -> None:
        """Makes the index, or adds to it."""
        self._exact.prepare()
        rows = self._vectors.sources.snapshot.state.rows
        index = self._index
        if rows < _FEW_ROWS or (index is not None and index.rows == rows):
            return
        if index is None or rows > _GROWN * index.made_of:
            index = _made(self._vectors, self._exact)
        else:
            index.add(self._vectors)
        index.write(self._file, self._vectors)
        self._index = index

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`."""
        if self._index is None or not self._index.is_good or len(selection) < _FEW_ROWS:
            return self._exact.search(queries, top, selection)
        top = min(top, len(selection))
        found = self._index.search(queries, top, selection)
        new = selection.rows[np.searchsorted(selection.rows, self._index.rows) :]
        if min(map(len, found)) + len(new) < top:
            return self._exact.search(queries, top, selection)
        if len(new):
            best_new, _ = self._exact.search_rows(queries, top, new)
            found = [np.concatenate(rows) for rows in zip(found, best_new, strict=True)]
        best = [self._exact.best_of(query, rows, top) for query, rows in zip(queries, found, strict=True)]
        return np.stack([rows for rows, _ in best]), np.stack([scores for _, scores in best])


class _Index:
    """Rows of a gallery with few dimensions in a FAISS index, and how thoroughly to search it."""

    def __init__(self, lists: Any, reduction: Reduction, spread: Tensor, numbers: dict[str, float]) -> None:
        self._lists, self._reduction, self._spread = lists, reduction, spread
        self._centers = torch.from_numpy(lists.quantizer.reconstruct_n(0, lists.nlist))
        self.numbers = numbers

    @property
    def rows(self) -> int:
        """How many rows are in it: the first ones."""
        return int(self._lists.ntotal)

    @property
    def lists(self) -> int:
        """How many lists there are."""
        return int(self._lists.nlist)

    @property
    def made_of(self) -> int:
        """How many there were when the lists were made."""
        return int(self.numbers["made_of"])

    @property
    def is_good(self) -> bool:
        """Whether it finds nearly all that a comparison with every picture finds."""
        return self.numbers["recall"] >= _LEAST_RECALL

    @property
    def bytes(self) -> int:
        """Memory for the codes, their numbers and the lists."""
        return int(self.rows * (self._lists.code_size + 8) + 8 * self._lists.nlist * self._lists.d)

    def add(self, vectors: Vectors) -> None:
        """Adds the rows that are not in it yet."""
        total = vectors.sources.snapshot.state.rows
        with track("search index", total - self.rows) as progress:
            for start in range(self.rows, total, _BLOCK):
                rows = np.arange(start, min(start + _BLOCK, total))
                self._lists.add(self._reduction.reduce_pictures(vectors.take(rows)))
                progress.update(len(rows))

    def search(self, queries: Tensor, top: int, selection: Selection) -> list[np.ndarray]:
        """For each query rows that may be the best ones, in no order."""
        more = max(1.0, top / MEASURED_TOP)
        return self.candidates(
            queries, int(self.numbers["depth"] * more), int(self.numbers["probes"] * more), selection.rows
        )

    def candidates(self, queries: Tensor, depth: int, probes: int, allowed: np.ndarray) -> list[np.ndarray]:
        """The `depth` best of some lists, by their scores with few dimensions."""
        reduced = self._reduction.reduce_queries(queries)
        promise = torch.from_numpy(reduced)
        promise = promise @ self._centers.T + _DEVIATIONS * (promise.square() @ self._spread.T).sqrt()
        lists = promise.topk(min(probes, self.lists), dim=1).indices.numpy()
        allowed = allowed[: np.searchsorted(allowed, self.rows)]
        selector = None
        if len(allowed) < self.rows:
            mask = np.zeros(self.rows, bool)
            mask[allowed] = True
            bits = np.packbits(mask, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
        parameters = faiss.SearchParametersIVF(sel=selector, nprobe=lists.shape[1])  # type: ignore[call-arg]
        rows = np.empty((len(queries), depth), np.int64)
        scores, unused = np.empty(rows.shape, np.float32), np.zeros(lists.shape, np.float32)
        # FAISS' own wrapper of this takes no parameters.
        arrays = [faiss.swig_ptr(array) for array in (reduced, lists, unused, scores, rows)]
        self._lists.search_preassigned_c(len(queries), arrays[0], depth, *arrays[1:], False, parameters)
        return [of_query[of_query >= 0] for of_query in rows]

    # --- on disk --------------------------------------------------------------------------------------------------

    def write(self, file: Path, vectors: Vectors) -> None:
        """In one file, with the checksum of its content."""
        content = faiss.serialize_index(self._lists)
        tensors = {
            "lists": torch.from_numpy(content),
            "spread": self._spread.contiguous(),
            **{name: part.contiguous() for name, part in self._reduction._asdict().items()},
        }
        metadata = {**_identity(vectors), **{name: repr(value) for name, value in self.numbers.items()}}
        metadata["checksum"] = str(_checksum(tensors, metadata))
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, lambda partial: save_file(tensors, partial, metadata))

    @classmethod
    def read(cls, file: Path, vectors: Vectors) -> "_Index | None":
        """What was written for this gallery and this model; None if there is nothing, or if it is damaged."""
        with suppress(OSError, safetensors.SafetensorError, KeyError, ValueError, RuntimeError):
            with safetensors.safe_open(file, "pt") as opened:
                metadata = opened.metadata()
                if any(metadata[key] != value for key, value in _identity(vectors).items()):
                    return None
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            if _checksum(tensors, metadata) != int(metadata["checksum"]):
                return None
            lists = faiss.deserialize_index(tensors.pop("lists").numpy())
            numbers = {name: float(metadata[name]) for name in ("made_of", "probes", "depth", "recall")}
            index = cls(lists, Reduction(*map(tensors.__getitem__, Reduction._fields)), tensors["spread"], numbers)
            return index if index.rows <= vectors.sources.snapshot.state.rows else None
        return None


def _identity(vectors: Vectors) -> dict[str, str]:
    state = vectors.sources.snapshot.state
    return {
        "format": str(_FORMAT),
        "score": vectors.score,
        "model": state.model_id,
        "first_file": str(state.first_file),
    }


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, str]) -> int:
    # The numbers too: one that is damaged would make searches find less, without a word.
    texts = sorted(f"{key}={value}" for key, value in metadata.items() if key != "checksum")
    total = zlib.crc32("\n".join(texts).encode())
    for name in sorted(tensors):
        total = zlib.crc32(tensors[name].numpy().data, total)
    return total


# --- making an index --------------------------------------------------------------------------------------------------


def _made(vectors: Vectors, exact: Exact) -> _Index:
    """The smallest index whose measured recall is good enough, searched no deeper than needed."""
    generator = np.random.default_rng(0)
    used = np.sort(vectors.sources.snapshot.rows)
    sample = _sample(used, _SAMPLED_BYTES // (4 * vectors.dimensions), generator)
    queries = torch.cat(list(sample_queries(vectors.sources, vectors.score, _SAMPLED_QUERIES, generator)))
    reduction = best_reduction(queries, vectors.take(sample), max(_DIMENSIONS))
    recall = cache(_Trial(vectors, exact, used, generator).recall)
    width, depth = reduction.queries.shape[1], _DEPTHS[-1]
    made: dict[int, _Index] = {}

    def is_enough(dimensions: int) -> bool:
        made[dimensions] = index = _with_lists(vectors, reduction.cut(dimensions), used, generator)
        # Half of what may be lost is lost by the dimensions, the other half by the lists that are left out.
        return recall(index, depth, index.lists) >= 1 - _MAY_BE_LOST / 2

    choices = [*(d for d in _DIMENSIONS if d < width), width]
    place = bisect_left(choices, True, key=is_enough)
    if place == len(choices):
        place, depth = place - 1, _DEEPEST
    index = made[choices[place]]
    probes = index.lists
    # Where not even that is enough, lists are left out all the same: what is searched must be less than all.
    wanted = min(1 - _MAY_BE_LOST, recall(index, depth, probes) - _MAY_BE_LOST / 2)
    while (fewer := int(_FEWER_LISTS * probes)) and recall(index, depth, fewer) >= wanted:
        probes = fewer
    depth = next((d for d in _DEPTHS if recall(index, d, probes) >= wanted), depth)
    index.numbers.update(probes=probes, depth=depth, recall=recall(index, depth, probes))
    return index


class _Trial:
    """Queries of each kind, and what they should find."""

    def __init__(self, vectors: Vectors, exact: Exact, used: np.ndarray, generator: np.random.Generator) -> None:
        self._queries = torch.cat(
            list(sample_queries(vectors.sources, vectors.score, _QUERIES_OF_EACH_KIND, generator))
        )
        self._used = used
        self._best, _ = exact.search_rows(self._queries, MEASURED_TOP, used)

    def recall(self, index: _Index, depth: int, probes: int) -> float:
        """The share of the best that is among the candidates, for the kind of query with the smallest."""
        found = index.candidates(self._queries, depth, probes, self._used)
        hits = [len(np.intersect1d(own, best)) / len(best) for own, best in zip(found, self._best, strict=True)]
        return float(np.reshape(hits, (-1, _QUERIES_OF_EACH_KIND)).mean(1).min())


def _with_lists(vectors: Vectors, reduction: Reduction, used: np.ndarray, generator: np.random.Generator) -> _Index:
    count = min(int(4 * len(used) ** 0.5), len(used) // _SAMPLED_PER_LIST)
    rows = _sample(used, _SAMPLED_PER_LIST * count, generator)
    blocks = [reduction.reduce_pictures(vectors.take(rows[s : s + _BLOCK])) for s in range(0, len(rows), _BLOCK)]
    reduced = np.concatenate(blocks)
    dimensions = reduced.shape[1]
    means = faiss.Kmeans(dimensions, count, niter=10, seed=1)
    means.train(reduced)
    centers = np.asarray(means.centroids)
    nearest = means.index.search(reduced, 1)[1][:, 0]
    # Each list's own variance; one that got no sample has none.
    sizes = np.maximum(np.bincount(nearest, minlength=count), 1)[:, None]
    spread = np.zeros((count, dimensions))
    np.add.at(spread, nearest, (reduced - centers[nearest]) ** 2)
    quantizer = faiss.IndexFlatL2(dimensions)
    quantizer.add(centers)
    kind = faiss.ScalarQuantizer.QT_8bit
    lists = faiss.IndexIVFScalarQuantizer(quantizer, dimensions, count, kind, faiss.METRIC_INNER_PRODUCT, False)
    lists.train(reduced)
    index = _Index(lists, reduction, torch.from_numpy(spread / sizes).float(), {"made_of": len(used)})
    index.add(vectors)
    return index


def _sample(rows: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    chosen: np.ndarray = generator.choice(rows, min(count, len(rows)), replace=False)
    chosen.sort()
    return chosen
