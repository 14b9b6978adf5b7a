"""What a Milvus index finds of the nearest 50, and how long a search takes, beside comparing with every picture.

    python benchmarks/bench_milvus.py                                        3,000 scenes, some minutes the first time
    python benchmarks/bench_milvus.py --data 'scenes:?count=21000&seed=3'    the figures in docs/milvus.md

Starts a server of its own (`pip install milvus==2.3.5`) in a temporary folder. The model is the one for photos,
calibrated on the gallery; the last 500 pictures are no part of it, queries are made of them. Recall is the share of the
true 50 nearest among the candidates that the engine asks for. Features are computed once and kept in `--cache`.
"""

import argparse
import operator
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pymilvus import DataType, MilvusClient  # type: ignore[import-untyped]
from torch import Tensor

from andornot import Representation
from andornot.gallery.engines.milvus import HNSW, SPARE
from andornot.gallery.engines.milvus_space import Space
from andornot.logic.distance import SCORES
from andornot.ssl.calibration import CalibratedHead
from andornot.ssl.recipe import load_recipe
from study_calibration import load_features

SERVER = Path(__file__).parent.parent / "tests" / "gallery" / "milvus_server.py"
TOP = 50
HELD_OUT = 500
EFS = (100, 200, 400)
QUERIES: dict[str, Callable[[Any, Any], Any]] = {
    "a": lambda a, _: a,
    "a|b": operator.or_,
    "a&b": operator.and_,
    "a&~b": lambda a, b: a & ~b,
}


class Plan(NamedTuple):
    """A score, the vectors that are kept, and the kinds of index to try."""

    score: str
    space: Space
    kinds: tuple[str, ...]
    name: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="scenes:?count=3000&seed=3", metavar="SOURCE", help="labelled pictures")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "andornot-study")
    parser.add_argument("--queries", type=int, default=50, help="of each kind (default: 50)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    features = load_features(options.data, options.cache).features
    recipe = load_recipe("photos")
    head = CalibratedHead(features.shape[1], recipe.num_values, recipe.calibration).fit(features[:-HELD_OUT])
    sizes = features.shape[1], recipe.num_values
    # Without the dimension that makes all vectors equally long, to see what it is for.
    raw = Space(sizes[0] * sizes[1], None)
    plans = [
        Plan("degrees", Space.of("degrees", *sizes), ("FLAT", "HNSW"), "degrees"),
        Plan("cross-entropy", Space.of("cross-entropy", *sizes), ("FLAT", "HNSW"), "cross-entropy"),
        Plan("cross-entropy", raw, ("HNSW",), "cross-entropy, raw"),
    ]
    print(f"{len(features) - HELD_OUT:,} pictures, {sizes[0]} features, {sizes[1]} values, HNSW {HNSW}")
    print(f"{'':20}{'index':>6}{'ef':>6}" + "".join(f"{kind:>8}" for kind in QUERIES) + f"{'ms':>9}{'build s':>9}")
    with runpy.run_path(str(SERVER))["MilvusServer"]() as server:
        for plan in plans:
            measure(server.client, plan, head, features, options.queries)
    return 0


def measure(client: MilvusClient, plan: Plan, head: CalibratedHead, features: Tensor, count: int) -> None:
    """Prints a line for each index of one plan."""
    gallery, queries = features[:-HELD_OUT], features[-HELD_OUT:]
    pairs = torch.randint(HELD_OUT, (2, count), generator=torch.Generator().manual_seed(0))
    a, b = (represent(head, queries[numbers]) for numbers in pairs)
    asking = {kind: SCORES[plan.score].query(make(a, b)) for kind, make in QUERIES.items()}
    truth = {kind: [torch.empty(count, 0), torch.empty(count, 0, dtype=torch.long)] for kind in QUERIES}
    create(client, plan.space)
    batch = max(1, 2**23 // (4 * plan.space.dimensions))
    for start in range(0, len(gallery), batch):
        vectors = SCORES[plan.score].gallery(represent(head, gallery[start : start + batch]))
        points = plan.space.gallery(vectors).numpy()
        client.insert("bench", [{"id": start + i, "vector": point} for i, point in enumerate(points)], timeout=60)
        for kind, best in truth.items():
            scores = torch.cat([best[0], asking[kind] @ vectors.T], 1)
            numbers = torch.arange(start, start + len(vectors)).expand(count, -1)
            best[0], places = scores.topk(min(TOP, scores.shape[1]), 1)
            best[1] = torch.cat([best[1], numbers], 1).gather(1, places)
    client.flush("bench", timeout=600)
    for index in plan.kinds:
        seconds = build(client, plan.space, index, len(gallery))
        for ef in EFS if index == "HNSW" else (0,):
            found = {kind: search(client, plan.space.queries(q).numpy(), ef) for kind, q in asking.items()}
            recalls = [recall(ids, truth[kind][1]) for kind, (ids, _) in found.items()]
            median = 1000 * float(np.median([t for _, times in found.values() for t in times]))
            line = f"{plan.name:20}{index:>6}{ef or '':>6}" + "".join(f"{share:8.3f}" for share in recalls)
            print(f"{line}{median:9.1f}{seconds:9.0f}", flush=True)
    client.drop_collection("bench", timeout=60)


@torch.no_grad()
def represent(head: CalibratedHead, features: Tensor) -> Representation:
    return Representation(head(features), validate=False)


def create(client: MilvusClient, space: Space) -> None:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=space.dimensions)
    client.create_collection("bench", schema=schema, timeout=60)


def build(client: MilvusClient, space: Space, index: str, count: int) -> float:
    """Makes an index in the place of any other, and waits until all of it is there and loaded; the seconds."""
    client.release_collection("bench", timeout=60)
    if client.list_indexes("bench"):
        client.drop_index("bench", "vector", timeout=60)
    start = time.perf_counter()
    parameters = client.prepare_index_params()
    parameters.add_index("vector", index_type=index, metric_type=space.metric, params=HNSW if index == "HNSW" else {})
    client.create_index("bench", parameters, timeout=3600)
    while client.describe_index("bench", "vector")["indexed_rows"] < count:
        time.sleep(0.5)
    seconds = time.perf_counter() - start
    client.load_collection("bench", timeout=3600)
    return seconds


def search(client: MilvusClient, points: np.ndarray, ef: int) -> tuple[list[list[int]], list[float]]:
    """The ids found for each query, and how long each took by itself.

    Nothing is written meanwhile, so that there is nothing to wait for: the engine's searches, which see all that was
    written before them, wait for a tick of the server's clock besides.
    """
    found, times = [], []
    for point in points:
        start = time.perf_counter()
        hits = client.search(
            "bench",
            [point],
            limit=TOP + SPARE,
            search_params={"params": {"ef": max(ef, TOP + SPARE)}},
            consistency_level="Eventually",
            timeout=60,
        )
        times.append(time.perf_counter() - start)
        found.append([hit["id"] for hit in hits[0]])
    return found, times


def recall(found: list[list[int]], truth: Tensor) -> float:
    shares = [len(set(ids) & set(best)) / TOP for ids, best in zip(found, truth.tolist(), strict=True)]
    return float(np.mean(shares))


if __name__ == "__main__":
    sys.exit(main())
