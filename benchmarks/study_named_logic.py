"""The paper's operators on named degrees and on calibrated ones: share of the first 20 images that show a, and b.

    PYTHONPATH=tools python benchmarks/study_named_logic.py --voc VOCdevkit/VOC2007 --work work

`--work` is the folder of `tools/train_concepts.py` after its stage `encode`. Queries are an image of a and nothing
else, one of b and nothing else, and one of both, drawn for each ordered pair of kinds that at least 10 images show
together, and not ranked. Named degrees are the probabilities p of the heads: (1 - p, p) for M = 2, and split between
the two nearest of the truth values 0, 1/7, …, 1 for M = 8. Calibrated degrees are those of the default photo model.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

import andornot as aon
from andornot.concepts import load_heads
from concept_training.data import Voc
from concept_training.encoding import MapCache

TOP: Final = 20
DRAWS: Final = 3
NEED: Final = 10
R = aon.Representation
QUERIES: Final[dict[str, Callable[[R, R, R], R]]] = {
    "a": lambda a, _b, _ab: a,
    "ab": lambda _a, _b, ab: ab,
    "a|b": lambda a, b, _ab: a | b,
    "ab&a": lambda a, _b, ab: ab & a,
    "ab&~b": lambda _a, b, ab: ab & ~b,
    "ab - b": lambda _a, b, ab: ab - b,
    "relative": lambda a, b, ab: ab.without(b, keep=a),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--voc", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    heads, ids, named, pooled = load_heads(), [], [], []
    for shard in MapCache(options.work / "voc").shards():
        for row, name in enumerate(shard.ids):
            maps = shard.maps(row)
            ids.append(name)
            named.append(heads.probabilities(maps)[0])
            pooled.append(maps.mean((2, 3))[0])
    shown = torch.from_numpy(Voc(options.voc).labels(ids)[0])
    p = torch.from_numpy(np.stack(named))
    calibrated = aon.Model.pretrained().encode_activations(torch.from_numpy(np.stack(pooled)))
    print(f"{'':24}" + "".join(f"{query:>17}" for query in QUERIES))
    for name, images in (("named, M = 2", split(p, 2)), ("named, M = 8", split(p, 8)), ("calibrated", calibrated)):
        for compared, distance in (("degrees", aon.degree_distance), ("cross-entropy", aon.cross_entropy)):
            rates = measure(images, shown, distance)
            cells = "".join(f"   {a:.2f} {b:.2f} {both:.2f}" for a, b, both in rates.tolist())
            print(f"{name + ', ' + compared:24}{cells}", flush=True)


def split(p: Tensor, values: int) -> R:
    """Return probabilities `(n, K)` as distributions over truth values whose expectation they are."""
    at = p.clamp(0, 1) * (values - 1)
    low = at.floor().clamp(max=values - 2)
    places = torch.arange(values)
    share = (at - low)[..., None]
    return R((places == low[..., None]) * (1 - share) + (places == low[..., None] + 1) * share)


def measure(images: R, shown: Tensor, distance: Callable[[R, R], Tensor]) -> Tensor:
    """Return the shares of a, of b, and of both among the first images of each query, `(queries, 3)`."""
    rng, alone = np.random.default_rng(0), shown.sum(1) == 1
    together = shown.T.float() @ shown.float()
    pairs = [(a, b) for a, b in np.argwhere(together.numpy() >= NEED).tolist() if a != b]
    rates = []
    for a, b in pairs:
        for _ in range(DRAWS):
            masks = (shown[:, a] & alone, shown[:, b] & alone, shown[:, a] & shown[:, b])
            rows = [int(rng.choice(mask.nonzero()[:, 0].numpy())) for mask in masks]
            asked = R.stack([query(*(images[row] for row in rows)) for query in QUERIES.values()])
            distances = distance(asked, images)
            distances[:, rows] = torch.inf
            hits = shown[distances.topk(TOP, largest=False).indices]
            found = torch.stack([hits[..., a], hits[..., b], hits[..., a] & hits[..., b]], -1)
            rates.append(found.float().mean(1))
    return torch.stack(rates).mean(0)


if __name__ == "__main__":
    main()
