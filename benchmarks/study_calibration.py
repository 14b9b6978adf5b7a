"""How well calibrated features retrieve, by their settings and by the size of the folder they were calibrated on.

    python benchmarks/study_calibration.py settings --data 'voc:/data/VOCdevkit?years=2007&split=trainval'
    python benchmarks/study_calibration.py scores   --data …
    python benchmarks/study_calibration.py folders  --data 'scenes:?count=3000&seed=1' \\
        --gallery-pictures 30 --queries 5 --pair 5
    python benchmarks/study_calibration.py model    --data … --model model/

The protocol is the paper's retrieval. The gallery has as many pictures of each class that has enough of them without
any other class. Queries are other pictures: `a` and `b` with one class, `ab` with exactly these two. A figure is the
share of class a in the 20 nearest pictures, averaged over all combinations, then over ordered pairs (a, b); `plain` is
that of `a` over all classes, `(b)` the share of b for `ab&~b`. Features are computed once and kept in the folder
`--cache`.
"""

import argparse
import hashlib
import operator
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andornot import Representation, cross_entropy, degree_distance
from andornot.data import open_images
from andornot.model import Model
from andornot.ssl.backbones import build_backbone, optimise_for_inference
from andornot.ssl.calibration import CalibratedHead
from andornot.ssl.recipe import Calibration, load_recipe

COLUMNS = ("plain", "a", "ab", "a|b", "ab&a", "ab&~b", "(b)")
DISTANCES = {"degrees": degree_distance, "cross-entropy": cross_entropy}
BACKBONE = "efficientnet-lite0"
TOP = 20
VALUES = 8


class Method(NamedTuple):
    """How pictures are written down, combined, and compared; all of them broadcast over leading dimensions."""

    encode: Callable[[Tensor], Any]
    union: Callable[[Any, Any], Any]
    common: Callable[[Any, Any], Any]
    without: Callable[[Any, Any], Any]
    distance: Callable[[Any, Any], Tensor]


class Features(NamedTuple):
    """Pooled features `(n, width)` and labels `(n, classes)` of a data set."""

    features: Tensor
    labels: Tensor


class Retrieval(NamedTuple):
    """The protocol's choice: numbers of pictures."""

    gallery: Tensor
    gallery_classes: Tensor
    singles: dict[int, Tensor]
    pairs: dict[tuple[int, int], Tensor]
    rest: Tensor


@torch.no_grad()
def load_features(source: str, cache: Path) -> Features:
    """Features of all pictures, from the cache if they are there."""
    file = cache / f"features-{hashlib.sha256(f'{BACKBONE} {source}'.encode()).hexdigest()[:12]}.pt"
    if not file.exists():
        backbone = optimise_for_inference(build_backbone(BACKBONE))
        pictures = open_images(source).pictures(backbone.size)
        if pictures.labels is None:
            raise SystemExit(f"{source} has no labels")
        parts = [backbone(pictures[start : start + 32].float() / 255) for start in range(0, len(pictures), 32)]
        cache.mkdir(parents=True, exist_ok=True)
        torch.save({"features": torch.cat(parts), "labels": pictures.labels}, file)
    return Features(**torch.load(file, weights_only=True))


def choose(labels: Tensor, options: argparse.Namespace) -> Retrieval:
    """Splits pictures into gallery, queries and the rest, from which others may calibrate."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(options.seed))
    count = labels.sum(1)
    gallery, classes, singles = [], [], {}
    for number in range(labels.shape[1]):
        alone = order[(labels[order, number]) & (count[order] == 1)]
        if len(alone) >= options.gallery + options.queries:
            gallery.append(alone[: options.gallery])
            classes += [number] * options.gallery
            singles[number] = alone[options.gallery :][: options.queries]
    pairs = {}
    for a in singles:
        for b in singles:
            both = order[labels[order, a] & labels[order, b] & (count[order] == 2)]
            if a < b and len(both) >= options.pair:
                pairs[a, b] = both[: options.queries]
    queries = torch.cat([*singles.values(), *pairs.values()])
    rest = order[~torch.isin(order, queries)]
    return Retrieval(torch.cat(gallery), torch.tensor(classes), singles, pairs, rest)


def godel_method(head: torch.nn.Module, distance: str) -> Method:
    """The operators of the paper on representations."""
    return Method(
        torch.no_grad()(lambda features: Representation(head(features), validate=False)),
        operator.or_,
        operator.and_,
        lambda x, y: x & ~y,
        DISTANCES[distance],
    )


def product_method(head: torch.nn.Module) -> Method:
    """Product logic and the cosine, on degrees alone: the degree of a product is the product of the degrees."""
    encode = godel_method(head, "degrees").encode
    return Method(
        lambda features: encode(features).degrees,
        lambda x, y: x + y - x * y,
        operator.mul,
        lambda x, y: x * (1 - y),
        negative_cosine,
    )


def vector_method(weight: float) -> Method:
    """Arithmetic on raw features of length 1, and their cosine: what people do today."""
    return Method(
        lambda features: torch.nn.functional.normalize(features, dim=-1),
        lambda x, y: x + y,
        torch.minimum,
        lambda x, y: x - weight * y,
        negative_cosine,
    )


def negative_cosine(query: Tensor, gallery: Tensor) -> Tensor:
    return -torch.nn.functional.normalize(query, dim=-1) @ torch.nn.functional.normalize(gallery, dim=-1).T


def measure(method: Method, data: Features, retrieval: Retrieval) -> dict[str, float]:
    """The figures of `COLUMNS`: means over classes (plain), or over ordered pairs of classes."""
    gallery = method.encode(data.features[retrieval.gallery])

    def rates(query: Any, *classes: int) -> list[float]:
        """Shares of classes among the nearest, mean over all queries."""
        distances = method.distance(query, gallery).reshape(-1, len(retrieval.gallery))
        nearest = retrieval.gallery_classes[distances.topk(TOP, largest=False).indices]
        return [float((nearest == number).float().mean()) for number in classes]

    singles = {number: method.encode(data.features[chosen]) for number, chosen in retrieval.singles.items()}
    plain = {number: rates(query, number)[0] for number, query in singles.items()}
    if not retrieval.pairs:
        return {"plain": sum(plain.values()) / len(plain)}
    rows = []
    for (first, second), chosen in retrieval.pairs.items():
        both = method.encode(data.features[chosen])
        either = method.union(singles[first][:, None], singles[second])
        for a, b in ((first, second), (second, first)):
            row = [sum(plain.values()) / len(plain), plain[a], *rates(both, a), *rates(either, a)]
            row += rates(method.common(both[:, None], singles[a]), a)
            row += rates(method.without(both[:, None], singles[b]), a, b)
            rows.append(row)
    return dict(zip(COLUMNS, torch.tensor(rows).mean(0).tolist(), strict=True))


def calibrated(features: Tensor, values: int = VALUES, **settings: Any) -> CalibratedHead:
    return CalibratedHead(features.shape[1], values, Calibration(**settings)).fit(features)


def study_settings(data: Features, retrieval: Retrieval) -> None:
    """Powers and doubts, calibrated on the gallery."""
    folder = data.features[retrieval.gallery]
    for weight in (0.5, 1.0):
        show(f"raw features, ab - {weight:g} b", measure(vector_method(weight), data, retrieval))
    print("product logic, cosine of degrees")
    for power in (1, 2, 4, 8, 16):
        for doubt in (0.01, 0.05, 0.1, 0.2, 0.4):
            method = product_method(calibrated(folder, power=power, doubt=doubt))
            show(f"power {power}, doubt {doubt:g}", measure(method, data, retrieval))


def study_scores(data: Features, retrieval: Retrieval) -> None:
    """Gödel logic by both distances, and the number of truth values."""
    folder = data.features[retrieval.gallery]
    changes: list[dict[str, Any]] = [{"doubt": 0.01}, {"doubt": 0.05}, {"doubt": 0.2}, {"doubt": 0.2, "power": 8}]
    changes += [{"doubt": 0.2, "values": 4}, {"doubt": 0.2, "values": 16}]
    for distance in DISTANCES:
        print(f"Gödel logic, {distance}")
        for change in changes:
            method = godel_method(calibrated(folder, **change), distance)
            name = ", ".join(f"{key} {value:g}" for key, value in change.items())
            show(name, measure(method, data, retrieval))


def study_folders(data: Features, retrieval: Retrieval) -> None:
    """Calibrated on a few pictures that are no queries: the plain figure, mean over four random folders."""
    width = data.features.shape[1]
    head = CalibratedHead(width, VALUES, load_recipe("photos").calibration)
    ranks = torch.linspace(0, 1, head.settings.levels, dtype=torch.float64)
    inner = ranks.clamp(0.5 / head.settings.levels, 1 - 0.5 / head.settings.levels)
    exponential = -torch.log1p(-inner)
    batch_norm = expected_activations()

    def observed(folder: Tensor) -> Tensor:
        return torch.quantile(folder, ranks, dim=0).T

    def assumed(folder: Tensor) -> Tensor:
        return folder.mean(0).unsqueeze(1) * exponential

    def blended(folder: Tensor) -> Tensor:
        return torch.lerp(assumed(folder), observed(folder), len(folder) / (len(folder) + 20))

    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "ranks alone": observed,
        "channel's mean": assumed,
        "both, n : 20": blended,
        "mean of all channels": lambda folder: folder.mean() * exponential.expand(width, -1),
        "batch norm's mean": lambda _: batch_norm.unsqueeze(1) * exponential,
        "fit": lambda folder: head.fit(folder).quantiles.double(),
    }
    features = data.features.double()
    relation = torch.corrcoef(torch.stack([features.mean(0).log(), batch_norm.log()]))[0, 1]
    print(f"{(features == 0).double().mean():.0%} of the activations are 0; deviation / mean is ", end="")
    print(f"{(features.std(0) / features.mean(0)).median():.2f} in the median channel; ", end="")
    print(f"correlation of log mean and log batch norm's mean: {relation:.2f}")
    plain_only = retrieval._replace(pairs={})
    show("raw features", measure(vector_method(1.0), data, plain_only))
    sizes = (1, 3, 5, 10, 20, 50, 200, 1000)
    print(f"{'pictures in the folder':32}" + "".join(f"{size:>9}" for size in sizes))
    for name, way in ways.items():
        row = dict.fromkeys(map(str, sizes), 0.0)
        for size in sizes:
            for seed in range(4):
                order = torch.randperm(len(retrieval.rest), generator=torch.Generator().manual_seed(seed))
                head.quantiles.copy_(way(data.features[retrieval.rest[order[:size]]].double()))
                figures = measure(product_method(head), data, plain_only)
                row[str(size)] += figures["plain"] / 4
        show(name, row)


def expected_activations() -> Tensor:
    """Each channel's mean without any picture: E[min(max(x, 0), 6)] of the last batch norm's N(bias, weight²)."""
    norm: Any = build_backbone(BACKBONE).network._bn1
    draws = torch.randn(10_000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    activations: Tensor = (norm.bias.detach() + norm.weight.detach() * draws).clamp(0, 6)
    return activations.mean(0)


def show(name: str, figures: dict[str, float]) -> None:
    print(f"{name:32}" + "".join(f"{value:9.3f}" for value in figures.values()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    studies = {"settings": study_settings, "scores": study_scores, "folders": study_folders}
    parser.add_argument("study", choices=[*studies, "model"])
    parser.add_argument("--data", default="scenes:?count=3000&seed=1", help="labelled pictures")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "andornot-study")
    parser.add_argument(
        "--gallery-pictures",
        dest="gallery",
        type=int,
        metavar="N",
        default=45,
        help="pictures of each class in the gallery",
    )
    parser.add_argument(
        "--queries", type=int, default=10, help="query pictures of each class, and at most of each pair"
    )
    parser.add_argument("--pair", type=int, default=10, help="pictures with two classes that a pair needs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scatter", action="store_true", help="scale each channel by exp of a normal random number")
    parser.add_argument("--model", type=Path, help="study a model with the same backbone, and its own head")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_features(options.data, options.cache)
    if options.scatter:
        scales = torch.randn(data.features.shape[1], generator=torch.Generator().manual_seed(0)).exp()
        data = data._replace(features=data.features * scales)
    retrieval = choose(data.labels, options)
    print(f"{len(retrieval.singles)} classes, {len(retrieval.pairs)} pairs, {len(retrieval.gallery)} in the gallery")
    print(f"{'':32}" + "".join(f"{name:>9}" for name in COLUMNS))
    if options.study == "model":
        head = Model.load(options.model).head
        for distance in DISTANCES:
            show(f"Gödel logic, {distance}", measure(godel_method(head, distance), data, retrieval))
        show("product logic, degrees", measure(product_method(head), data, retrieval))
    else:
        studies[options.study](data, retrieval)
    return 0


if __name__ == "__main__":
    sys.exit(main())
