"""Conditions beside the paper's operators and arithmetic, on labelled pictures, with a frozen backbone.

    python benchmarks/study_conditions.py table --cache maps/ --data voc:VOCdevkit
    python benchmarks/study_conditions.py table --cache maps/ --data scenes

- `voc:PATH`: VOC2007 is the gallery. Queries are pictures of VOC2007, which are left out of their own hits, and of
  VOC2012. Pairs of classes that at least 25 pictures of the gallery show together: 56, with their order. Top 20.
- `scenes`: 1,100 drawn pictures, queries from 2,400 others, all pairs of 24 things. Top 10.
- `digits`: 2,000 digits of MNIST, queries from 400 others, and 360 pairs of those laid over each other. Top 20.

A picture `a` shows nothing but a, `ab` nothing but both. Studies: `table` (the comparison), `settings` (what else was
tried), `spaces` (what is compared), `windows` (regions), `copies` (dimensions; photographs only), `sizes` (galleries
from 100 pictures on, and how many neighbours), `weak` (truths that unrelated pictures reach), `speed`.
Feature maps are computed once and kept in the folder `--cache`: a minute for 1,000 pictures.
"""

import argparse
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import normalize

from andornot import Representation
from andornot.data import ImageSet, open_images
from andornot.data.resizing import square_pixels
from andornot.evaluate.metrics.intervals import bootstrap
from andornot.gallery.likeness.components import fit_components, to_bytes
from andornot.gallery.likeness.neighbours import expand, neighbours_in
from andornot.gallery.likeness.products import best_region, similarities
from andornot.gallery.likeness.truth import HALF_TRUE, scale_of
from andornot.logic.distance import SCORES
from andornot.ssl.backbones import Window, build_backbone, optimise_for_inference, windows_of
from andornot.ssl.calibration import CalibratedHead
from andornot.ssl.recipe import load_recipe
from timing import best_ratio, settle

BACKBONE = "efficientnet-lite0"
VALUES = 8
SIZE = 224
WHOLE, REGION = 128, 64
EXAMPLES = 12
WEIGHTS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


class Seen(NamedTuple):
    """Feature maps `(n, C, h, w)` in half precision, and labels `(n, classes)`."""

    maps: Tensor
    labels: Tensor


@torch.no_grad()
def look(file: Path, count: int, picture: Callable[[int], Tensor], labels: Tensor) -> Seen:
    """The maps of pictures, each uint8 `(C, size, size)`, from the file if it is there."""
    if not file.exists():
        backbone = optimise_for_inference(build_backbone(BACKBONE))
        network: Any = backbone.network
        parts = []
        for start in range(0, count, 16):
            batch = torch.stack([picture(number) for number in range(start, min(start + 16, count))])
            parts.append(network.extract_features(backbone.normalise(batch.float() / 255)).half())
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"maps": torch.cat(parts), "labels": labels}, file)
    stored = torch.load(file, weights_only=True, mmap=True)
    return Seen(stored["maps"], stored["labels"].bool())


def read(images: ImageSet, number: int) -> Image.Image:
    pixels = images.images[number].expand(3, -1, -1)
    return Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())


def look_at(source: str, file: Path) -> Seen:
    images = open_images(source)
    if images.labels is None:
        raise SystemExit(f"{source} has no labels")
    return look(file, len(images), lambda number: square_pixels(read(images, number), SIZE), images.labels)


def look_at_copies(voc: Path, file: Path, seed: int) -> tuple[Seen, Tensor]:
    """Copies of 300 photographs, cropped, mirrored and compressed hard; and which ones they are of."""
    images = open_images(f"voc:{voc}?years=2007")
    chosen = np.random.default_rng(seed).choice(len(images), 300, replace=False).repeat(3)

    def copy(number: int) -> Tensor:
        image = read(images, int(chosen[number]))
        if number % 3 == 0:
            width, height = image.size
            image = image.crop((int(0.08 * width), int(0.08 * height), int(0.92 * width), int(0.92 * height)))
        elif number % 3 == 1:
            image = ImageOps.mirror(image)
        else:
            image.save(written := io.BytesIO(), "JPEG", quality=30)
            image = Image.open(written).convert("RGB")
        return square_pixels(image, SIZE)

    return look(file, len(chosen), copy, torch.zeros(len(chosen), 1)), torch.from_numpy(chosen)


def pooled(maps: Tensor, window: Window, power: float = 1) -> Tensor:
    """A window of maps, by the mean or a generalised one, `(n, C)`."""
    parts = []
    for part in torch.split(maps, 512):
        inside = part[:, :, window.top : window.bottom, window.left : window.right].float().flatten(2)
        parts.append(inside.mean(-1) if power == 1 else inside.pow(power).mean(-1).pow(1 / power))
    return torch.cat(parts)


def everything(maps: Tensor) -> Window:
    return Window(0, maps.shape[2], 0, maps.shape[3])


@torch.no_grad()
def degrees_of(head: CalibratedHead, activations: Tensor) -> Tensor:
    return torch.cat([Representation(head(part), validate=False).degrees for part in torch.split(activations, 512)])


class Draw(NamedTuple):
    """Queries of a pair of classes, numbers of pictures: a and b `(T, 12)`, ab `(T,)`."""

    first: int
    second: int
    a: Tensor
    b: Tensor
    ab: Tensor

    def reversed(self) -> "Draw":
        """The same with b in the place of a."""
        return Draw(self.second, self.first, self.b, self.a, self.ab)


@dataclass
class Task:
    """Which pictures are asked for and searched. Where `inside`, the first queries are the gallery's pictures."""

    gallery: Seen
    queries: Seen
    inside: bool
    top: int
    draws: list[Draw]

    def rates(self, score: Callable[[Draw], Tensor], own: Callable[[Draw], Tensor]) -> Tensor:
        """Shares `(ordered pairs, 3)` of a, of b and of both among the hits; `own` pictures `(T, m)` are left out."""
        rows = []
        for draw in self.draws:
            for asked in (draw, draw.reversed()):
                found = score(asked).clone()
                if self.inside:
                    found = left_out(found, own(asked))
                hits = self.gallery.labels[found.topk(self.top, dim=1).indices]
                a, b = hits[..., asked.first], hits[..., asked.second]
                rows.append([float(shown.float().mean()) for shown in (a, b, a & b)])
        return torch.tensor(rows)


def left_out(scores: Tensor, own: Tensor) -> Tensor:
    """Scores `(T, n)` without a query's own pictures `(T, m)`; numbers from n on are not in the gallery."""
    spare = int(own.max()) + 1 - scores.shape[1]
    padded = torch.cat([scores, scores.new_zeros(len(scores), max(spare, 0))], 1)
    return padded.scatter(1, own, -torch.inf)[:, : scores.shape[1]]


def make_task(gallery: Seen, queries: Seen, *, inside: bool, top: int, enough: int, draws: int, seed: int) -> Task:
    generator = np.random.default_rng(seed)
    count = queries.labels.sum(1)

    def showing(*classes: int) -> np.ndarray:
        return np.flatnonzero((queries.labels[:, list(classes)].all(1) & (count == len(classes))).numpy())

    def draw(pictures: np.ndarray) -> Tensor:
        return torch.from_numpy(np.stack([generator.choice(pictures, EXAMPLES, replace=False) for _ in range(draws)]))

    drawn = []
    for a in range(gallery.labels.shape[1]):
        for b in range(a + 1, gallery.labels.shape[1]):
            together = int((gallery.labels[:, a] & gallery.labels[:, b]).sum())
            alone, both = [showing(a), showing(b)], showing(a, b)
            if together >= enough and len(both) and min(map(len, alone)) >= EXAMPLES:
                drawn.append(
                    Draw(a, b, draw(alone[0]), draw(alone[1]), torch.from_numpy(generator.choice(both, draws)))
                )
    return Task(gallery, queries, inside, top, drawn)


@dataclass
class Searched:
    """A gallery as it is searched, `whole` `(n, 128)` and `regions` `(n, R, 64)` in bytes; and queries `(m, 128)`."""

    whole: Tensor
    regions: Tensor
    queries: Tensor
    inside: bool

    def expanded(self, queries: Tensor, own: Tensor, neighbours: int | None = None) -> Tensor:
        """Queries `(Q, 128)` with their neighbours, of which their `own` pictures `(Q, m)` are none."""
        count = neighbours_in(len(self.whole)) if neighbours is None else neighbours
        found = similarities(self.whole, queries)
        if self.inside:
            found = left_out(found, own)
        values, places = found.topk(count, dim=1)
        return expand(queries, self.whole[places].float() / 127, values)

    def as_whole(self, queries: Tensor) -> Tensor:
        """Truths `(Q, n)` by the whole picture."""
        return truth(similarities(self.whole, queries))

    def somewhere(self, queries: Tensor) -> Tensor:
        """Truths `(Q, n)` by the best region."""
        return truth(best_region(self.regions, self.short(queries)))

    def short(self, queries: Tensor) -> Tensor:
        """Queries as regions are compared, `(Q, 64)`."""
        return normalize(queries[:, : self.regions.shape[2]], dim=1)


def truth(found: Tensor) -> Tensor:
    return scale_of(found).truth(found)


def index(task: Task, *, power: float = 1, windows: list[Window] | None = None) -> Searched:
    """The gallery of a task, calibrated on itself."""
    maps = task.gallery.maps
    own = pooled(maps, everything(maps), power)
    asked = pooled(task.queries.maps, everything(maps), power)
    head = calibrated(own)
    components = fit_components(degrees := degrees_of(head, own), WHOLE)
    regions = [
        to_bytes(components.project(degrees_of(head, pooled(maps, window, power)), REGION))
        for window in (windows_of(maps.shape[2], maps.shape[3]) if windows is None else windows)
    ]
    return Searched(
        to_bytes(components.project(degrees)),
        torch.stack(regions, 1),
        components.project(degrees_of(head, asked)),
        task.inside,
    )


def like(pictures: Tensor) -> Tensor:
    """The mean of examples `(T, m, d)`, each without what all pictures share."""
    return normalize(pictures.mean(1), dim=1)


def own_pictures(kind: str, examples: int = 1) -> Callable[[Draw], Tensor]:
    """The pictures `(T, m)` that a query is made of."""
    parts: dict[str, Callable[[Draw], list[Tensor]]] = {
        "a": lambda draw: [draw.a[:, :examples]],
        "ab": lambda draw: [draw.ab[:, None]],
        "a and b": lambda draw: [draw.a[:, :examples], draw.b[:, :examples]],
        "ab and not b": lambda draw: [draw.ab[:, None], draw.b[:, :examples]],
    }
    return lambda draw: torch.cat(parts[kind](draw), 1)


def tuned(options: Mapping[float, Tensor], worth: Callable[[Tensor], Tensor], task: Task) -> tuple[Tensor, list[float]]:
    """For each pair the rates of the setting that is best on the pairs that share no class with it."""
    names, pairs = list(options), [{draw.first, draw.second} for draw in task.draws for _ in range(2)]
    worths = torch.stack([worth(options[name]) for name in names])
    rows, chosen = [], []
    for number, pair in enumerate(pairs):
        apart = [other for other, classes in enumerate(pairs) if not classes & pair]
        chosen.append(names[int(worths[:, apart].mean(1).argmax())])
        rows.append(options[chosen[-1]][number])
    return torch.stack(rows), chosen


def both_shown(rates: Tensor) -> Tensor:
    return rates[:, 2]


def a_less_b(rates: Tensor) -> Tensor:
    return rates[:, 0] - rates[:, 1]


def show(name: str, rates: Tensor, note: str = "") -> None:
    a, b, both = (bootstrap(rates[:, column : column + 1]) for column in range(3))
    figures = "".join(f"{f.value:9.3f} ({f.low:.3f} to {f.high:.3f})" for f in (a, b, both))
    print(f"{name:46}{figures}  {note}", flush=True)


def show_tuned(name: str, options: Mapping[float, Tensor], worth: Callable[[Tensor], Tensor], task: Task) -> None:
    rates, chosen = tuned(options, worth, task)
    counts = ", ".join(f"{value:g} x {chosen.count(value)}" for value in sorted(set(chosen)))
    show(name, rates, f"chosen: {counts}")


def study_table(task: Task) -> None:
    """The paper's operators, arithmetic, and conditions."""
    maps = task.gallery.maps
    gallery, asked = (pooled(seen.maps, everything(maps)) for seen in (task.gallery, task.queries))
    head = calibrated(gallery)

    def represent(rows: Tensor) -> Representation:
        with torch.no_grad():
            return Representation(head(asked[rows]), validate=False)

    degrees = normalize(degrees_of(head, gallery), dim=1)

    def by_degrees(queries: Representation) -> Tensor:
        return SCORES["degrees"].query(queries) @ degrees.T

    def one(rows: Tensor) -> Representation:
        return represent(rows[:, 0])

    print("the paper's operators, cosine of degrees")
    show("a | b", task.rates(lambda draw: by_degrees(one(draw.a) | one(draw.b)), own_pictures("a and b")))
    show(
        "ab & ~b", task.rates(lambda draw: by_degrees(represent(draw.ab) & ~one(draw.b)), own_pictures("ab and not b"))
    )
    show("ab - b", task.rates(lambda draw: by_degrees(represent(draw.ab) - one(draw.b)), own_pictures("ab and not b")))
    print("arithmetic, cosine of raw features")
    raw, queries = normalize(gallery, dim=1), normalize(asked, dim=1)
    show("a", task.rates(lambda draw: queries[draw.a[:, 0]] @ raw.T, own_pictures("a")))
    show("ab: a real picture with both", task.rates(lambda draw: queries[draw.ab] @ raw.T, own_pictures("ab")))
    mean = task.rates(lambda draw: (queries[draw.a[:, 0]] + queries[draw.b[:, 0]]) @ raw.T, own_pictures("a and b"))
    show("mean of a and b", mean)

    def subtraction(weight: float) -> Tensor:
        return task.rates(
            lambda draw: (queries[draw.ab] - weight * queries[draw.b[:, 0]]) @ raw.T, own_pictures("ab and not b")
        )

    subtracted = {weight: subtraction(weight) for weight in WEIGHTS}
    for weight, rates in subtracted.items():
        show(f"ab - {weight:g}·b", rates)
    show_tuned("ab - w·b, w by a less b on other classes", subtracted, a_less_b, task)
    print("conditions")
    searched = index(task)
    short = searched.queries
    show("ab: a real picture with both", task.rates(lambda draw: searched.as_whole(short[draw.ab]), own_pictures("ab")))
    for count in (1, 3, 5, EXAMPLES):
        print(f"like, {count} examples" if count > 1 else "one example")
        show_conditions(task, searched, count)


def show_conditions(task: Task, searched: Searched, examples: int) -> None:
    """`a`, `a and b`, `ab and not b`, with so many examples of a and of b."""
    asked = searched.queries

    def somewhere(rows: Tensor) -> Tensor:
        return searched.somewhere(searched.expanded(like(asked[rows[:, :examples]]), rows[:, :examples]))

    def without(weight: float) -> Tensor:
        return task.rates(
            lambda draw: searched.as_whole(asked[draw.ab]) * (1 - somewhere(draw.b)) ** weight,
            own_pictures("ab and not b", examples),
        )

    alone = task.rates(lambda draw: searched.as_whole(like(asked[draw.a[:, :examples]])), own_pictures("a", examples))
    show("a", alone)
    show("a and b", task.rates(lambda draw: somewhere(draw.a) * somewhere(draw.b), own_pictures("a and b", examples)))
    for weight in (0.5, 1.0, 2.0):
        show(f"ab and not {weight:g}*b", without(weight))


def study_settings(task: Task) -> None:
    """Other truths, other ways to join them, neighbours and regions; the settings' best on other classes."""
    searched = index(task)
    asked = searched.queries
    used = torch.unique(
        torch.cat([rows.flatten() for draw in task.draws for rows in (draw.a[:, 0], draw.b[:, 0], draw.ab)])
    )
    place = torch.full((int(used.max()) + 1,), -1)
    place[used] = torch.arange(len(used))

    def found(neighbours: int) -> tuple[Tensor, Tensor]:
        queries = searched.expanded(asked[used], used[:, None], neighbours) if neighbours else asked[used]
        return similarities(searched.whole, queries), best_region(searched.regions, searched.short(queries))

    def measure(name: str, ab: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """`a and b` with truths a, `ab and not b` with truths ab and b; all `(used, n)`."""
        together = task.rates(lambda draw: a[place[draw.a[:, 0]]] * a[place[draw.b[:, 0]]], own_pictures("a and b"))
        without = task.rates(
            lambda draw: ab[place[draw.ab]] * (1 - b[place[draw.b[:, 0]]]), own_pictures("ab and not b")
        )
        a_left, b_left = without[:, 0].mean(), without[:, 1].mean()
        print(f"{name:46} both {together[:, 2].mean():.3f}   a {a_left:.3f}, b {b_left:.3f}", flush=True)
        return together, without

    plain, _ = found(0)
    whole, region = found(neighbours_in(len(searched.whole)))
    print(f"{'':46} a and b    ab and not b")
    chosen = truth(plain), truth(region), truth(region)
    measure("as chosen", *chosen)
    measure("all as a whole", chosen[0], truth(whole), truth(whole))
    measure("all by the best region", chosen[1], chosen[1], chosen[1])
    measure("ab with its neighbours", truth(whole), chosen[1], chosen[1])
    for neighbours in (0, 5, 10, 40):
        other = truth(found(neighbours)[1])
        measure(f"{neighbours} neighbours", chosen[0], other, other)
    above = [(values - values.median(1, keepdim=True).values).clamp(min=0) for values in (plain, region)]
    scaled = [values / values.amax(1, keepdim=True) for values in above]
    measure("above the median, 1 at the largest", scaled[0], scaled[1], scaled[1])
    ranks = [(values.argsort(1).argsort(1) + 0.5) / values.shape[1] for values in (plain, region)]
    measure("percentile", ranks[0], ranks[1], ranks[1])
    measure("percentile, to the power 8", ranks[0] ** 8, ranks[1] ** 8, ranks[1] ** 8)
    measure("percentile; in `not` to the power 8", ranks[0], ranks[1], ranks[1] ** 8)
    smaller = task.rates(
        lambda draw: torch.minimum(chosen[1][place[draw.a[:, 0]]], chosen[1][place[draw.b[:, 0]]]),
        own_pictures("a and b"),
    )
    print(f"{'minimum instead of the product':46} both {smaller[:, 2].mean():.3f}")
    together, without = {}, {}
    for half in (0.5, 1.0, 1.25, 1.5, 2.0, 3.0):
        shifted = [torch.sigmoid(torch.logit(values.double()) + HALF_TRUE - half).float() for values in chosen]
        together[half], without[half] = measure(f"half true at {half:g} deviations", *shifted)
    show_tuned("a and b, half true by other classes", together, both_shown, task)
    show_tuned("ab and not b, half true by other classes", without, a_less_b, task)


def study_spaces(task: Task) -> None:
    """What pictures are compared by: as a whole, in all dimensions, and in few."""
    maps = task.gallery.maps
    for power in (1.0, 3.0):
        gallery, asked = (pooled(seen.maps, everything(maps), power) for seen in (task.gallery, task.queries))
        head = calibrated(gallery)
        degrees, of_queries = degrees_of(head, gallery), degrees_of(head, asked)
        directions, of_asked = normalize(degrees, dim=1), normalize(of_queries, dim=1)
        components = fit_components(degrees, 256)
        spaces = {
            "raw features": (gallery, asked),
            "raw features, centred": (gallery - gallery.mean(0), asked - gallery.mean(0)),
            "degrees": (degrees, of_queries),
            "degrees, centred": (degrees - degrees.mean(0), of_queries - degrees.mean(0)),
            "directions, centred": (directions - directions.mean(0), of_asked - directions.mean(0)),
            "beyond the mean": (components.beyond_mean(degrees), components.beyond_mean(of_queries)),
        }
        for dimensions in (256, 128, 64, 32):
            both = components.project(degrees, dimensions), components.project(of_queries, dimensions)
            spaces[f"beyond the mean, {dimensions} components"] = both
        for name, (pictures, queries) in spaces.items():
            compare_space(
                f"{name}, pooled by power {power:g}", task, normalize(pictures, dim=1), normalize(queries, dim=1)
            )


def compare_space(name: str, task: Task, pictures: Tensor, queries: Tensor) -> None:
    def measured(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(truth(queries[rows] @ pictures.T) for rows in (draw.a[:, 0], draw.b[:, 0], draw.ab))  # type: ignore[return-value]

    alone = task.rates(lambda draw: queries[draw.a[:, 0]] @ pictures.T, own_pictures("a"))[:, 0].mean()
    both = task.rates(lambda draw: measured(draw)[0] * measured(draw)[1], own_pictures("a and b"))[:, 2].mean()
    left = task.rates(lambda draw: measured(draw)[2] * (1 - measured(draw)[1]), own_pictures("ab and not b")).mean(0)
    print(f"{name:56} a {alone:.3f}   both {both:.3f}   a {left[0]:.3f}, b {left[1]:.3f}", flush=True)


def study_windows(task: Task) -> None:
    """Regions: other grids of a map of 7 x 7, and another mean over a window."""
    grids = {"2 x 2, of 4": (4, (0, 3)), "3 x 3, of 3": (3, (0, 2, 4)), "4 x 4, of 3": (3, (0, 1, 3, 4))}
    for power in (1.0, 3.0):
        for name, (long, starts) in grids.items():
            windows = [Window(top, top + long, left, left + long) for top in starts for left in starts]
            searched = index(task, power=power, windows=windows)
            asked = searched.queries

            def somewhere(rows: Tensor, searched: Searched = searched, asked: Tensor = asked) -> Tensor:
                return searched.somewhere(searched.expanded(asked[rows[:, 0]], rows[:, :1]))

            both = task.rates(lambda draw: somewhere(draw.a) * somewhere(draw.b), own_pictures("a and b"))

            def left(draw: Draw, searched: Searched = searched, asked: Tensor = asked) -> Tensor:
                return searched.as_whole(asked[draw.ab]) * (
                    1 - searched.somewhere(searched.expanded(asked[draw.b[:, 0]], draw.b[:, :1]))
                )

            without = task.rates(left, own_pictures("ab and not b")).mean(0)
            figures = f"both {both[:, 2].mean():.3f}   a {without[0]:.3f}, b {without[1]:.3f}"
            print(f"{name}, pooled by power {power:g}: {figures}", flush=True)


def study_copies(task: Task, voc: Path, cache: Path, seed: int) -> None:
    """The share of copies whose nearest picture is the original, by the number of components."""
    maps = task.gallery.maps
    copies, originals = look_at_copies(voc, cache / "copies.pt", seed)
    gallery, asked = (pooled(seen.maps, everything(maps)) for seen in (task.gallery, copies))
    head = calibrated(gallery)
    degrees, of_copies = degrees_of(head, gallery), degrees_of(head, asked)
    components = fit_components(degrees, 256)
    full = normalize(of_copies, dim=1) @ normalize(degrees, dim=1).T
    rows = {"degrees": full}
    for dimensions in (256, 128, 64, 32):
        pictures, queries = (components.project(values, dimensions) for values in (degrees, of_copies))
        rows[f"{dimensions} components, a byte each"] = found = similarities(to_bytes(pictures), queries)
        values, places = found.topk(neighbours_in(len(pictures)), dim=1)
        rows[f"{dimensions} components, with neighbours"] = expand(queries, pictures[places], values) @ pictures.T
    for name, found in rows.items():
        right = (found.argmax(1) == originals).float().view(-1, 3).mean(0)
        print(f"{name:40} cropped {right[0]:.3f}, mirrored {right[1]:.3f}, compressed {right[2]:.3f}", flush=True)


def study_sizes(task: Task, seed: int) -> None:
    """Parts of the gallery: how much truths differ from those in all of it, and how many neighbours help."""
    searched = index(task)
    order = torch.randperm(len(searched.whole), generator=torch.Generator().manual_seed(seed))
    asked = searched.queries
    sampled = torch.unique(torch.cat([draw.a[:, 0] for draw in task.draws]))
    everywhere = similarities(searched.whole, asked[sampled])
    for size in (5, 20, 50, 100, 300, 1000, 3000):
        if size >= len(order):
            continue
        chosen = order[:size].sort().values
        apart = (truth(everywhere[:, chosen]) - scale_of(everywhere).truth(everywhere[:, chosen])).abs()
        print(f"{size} pictures: truths differ by {apart.mean():.3f} in the mean", end="")
        if size >= 100:
            part = Task(
                Seen(task.gallery.maps, task.gallery.labels[chosen]), task.queries, False,
                1 + task.top * size // len(order), task.draws,
            )  # fmt: skip
            inside = Searched(searched.whole[chosen], searched.regions[chosen], asked, False)
            # A query's own picture may be in the part: of the gallery's own pictures only those elsewhere are drawn.
            own = (
                torch.isin(torch.arange(len(asked)), chosen)
                if task.inside
                else torch.zeros(len(asked), dtype=torch.bool)
            )
            for neighbours in (0, 1, 2, 5, 10, 20, 40):

                def score(draw: Draw, neighbours: int = neighbours, inside: Searched = inside) -> Tensor:
                    truths = [
                        inside.somewhere(inside.expanded(asked[rows], rows[:, None], neighbours))
                        for rows in (draw.a[:, 0], draw.b[:, 0])
                    ]
                    return truths[0] * truths[1]

                kept = Task(part.gallery, part.queries, False, part.top, [outside(draw, own) for draw in part.draws])
                rates = kept.rates(score, own_pictures("a and b"))
                print(f"; {neighbours}: {rates[:, 2].nanmean():.3f}", end="", flush=True)
        print()


def outside(draw: Draw, inside: Tensor) -> Draw:
    """The draws whose pictures a and b are not inside a part."""
    kept = ~(inside[draw.a[:, 0]] | inside[draw.b[:, 0]])
    return Draw(draw.first, draw.second, draw.a[kept], draw.b[kept], draw.ab[kept])


def study_weak(task: Task, seed: int) -> None:
    """Truths of pictures that share no class with the query, and of those that share one."""
    searched = index(task)
    used = torch.unique(torch.cat([draw.a[:, 0] for draw in task.draws] + [draw.ab for draw in task.draws]))
    queries = searched.queries[used]
    unrelated = (task.queries.labels[used].float() @ task.gallery.labels.float().T) == 0
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.stack([row[torch.randperm(len(row), generator=generator)] for row in queries])
    expanded = searched.expanded(queries, used[:, None])
    kinds = {"as a whole": searched.as_whole(queries), "somewhere": searched.somewhere(expanded)}
    for name, truths in kinds.items():
        for kind, values in (("unrelated", truths[unrelated]), ("related", truths[~unrelated])):
            some = values[torch.randperm(len(values), generator=generator)[:1_000_000]]
            quantiles = torch.quantile(some, torch.tensor([0.5, 0.9, 0.99, 0.999, 0.9999]))
            print(f"{name}, {kind}: " + ", ".join(f"{value:.3f}" for value in quantiles.tolist()))
    for name, truths in (("as a whole", searched.as_whole(shuffled)), ("somewhere", searched.somewhere(shuffled))):
        best = truths.amax(1)
        print(f"{name}, the best of a shuffled query: median {best.median():.3f}, 0.95 {best.quantile(0.95):.3f}")


def study_speed(pictures: int = 50_000) -> None:
    """A condition of three terms, all of it, beside one search by degrees; made-up pictures, one thread."""
    settle()
    generator = torch.Generator().manual_seed(0)
    degrees = normalize(torch.rand(pictures, 1280, generator=generator), dim=1).half()
    query = normalize(torch.rand(1, 1280, generator=generator), dim=1)
    block = torch.empty(816, 1280)

    def by_degrees() -> Tensor:
        scores = torch.empty(1, pictures)
        for start in range(0, pictures, len(block)):
            part = block[: len(degrees[start : start + len(block)])].copy_(degrees[start : start + len(block)])
            scores[:, start : start + len(part)] = query @ part.T
        return scores.topk(50).values

    searched = Searched(
        torch.randint(-40, 41, (pictures, WHOLE), dtype=torch.int8, generator=generator),
        torch.randint(-50, 51, (pictures, 9, REGION), dtype=torch.int8, generator=generator),
        normalize(torch.randn(3, WHOLE, generator=generator), dim=1),
        False,
    )

    def condition() -> Tensor:
        queries = searched.expanded(searched.queries, torch.empty(3, 0, dtype=torch.int64))
        a, b, c = best_region(searched.regions, searched.short(queries))[:, None]
        sample = torch.arange(0, pictures, max(1, pictures // 2000))
        truths = [scale_of(values[:, sample]).truth(values) for values in (a, b, c)]
        return (truths[0] * truths[1] * (1 - truths[2])).topk(50).values

    ratio, mine, theirs = best_ratio(condition, by_degrees)
    print(f"{pictures:,} pictures: three terms {1000 * mine:.0f} ms, one search by degrees {1000 * theirs:.0f} ms")
    print(f"{ratio:.2f} of the time; {WHOLE + 9 * REGION} bytes a picture")


def calibrated(activations: Tensor) -> CalibratedHead:
    return CalibratedHead(activations.shape[1], VALUES, load_recipe("photos").calibration).fit(activations)


def open_task(data: str, cache: Path, seed: int) -> Task:
    if data.startswith("voc:"):
        gallery = look_at(f"{data}?years=2007", cache / "voc2007.pt")
        others = look_at(f"{data}?years=2012", cache / "voc2012.pt")
        queries = Seen(torch.cat([gallery.maps, others.maps]), torch.cat([gallery.labels, others.labels]))
        return make_task(gallery, queries, inside=True, top=20, enough=25, draws=15, seed=seed)
    if data == "scenes":
        gallery = look_at("scenes:?count=1100", cache / "scenes.pt")
        queries = look_at("scenes:?count=2400&split=test", cache / "scenes-test.pt")
        return make_task(gallery, queries, inside=False, top=10, enough=0, draws=3, seed=seed)
    if data == "digits":
        gallery, queries = look_at_digits(cache, seed)
        return make_task(gallery, queries, inside=False, top=20, enough=0, draws=8, seed=seed)
    raise SystemExit("--data is voc:PATH, scenes or digits")


def look_at_digits(cache: Path, seed: int) -> tuple[Seen, Seen]:
    """2,000 digits to find; 400 others to ask with, and 8 of each pair of classes laid over each other."""
    images = open_images("digits")
    order = np.random.default_rng(seed).permutation(len(images))
    labels = images.labels
    assert labels is not None

    def digit(number: int) -> Tensor:
        return square_pixels(read(images, number), SIZE)

    kept, asked = order[:2000], order[2000:2400]
    gallery = look(cache / "digits.pt", len(kept), lambda place: digit(int(kept[place])), labels[kept])
    of_class = [[int(number) for number in order[2400:] if labels[number, one]] for one in range(10)]
    pairs = [
        (of_class[a][8 * b + turn], of_class[b][8 * a + turn]) for a in range(10) for b in range(a) for turn in range(8)
    ]
    every = [(int(number), int(number)) for number in asked] + pairs
    both = torch.stack([labels[first] | labels[second] for first, second in every])
    queries = look(
        cache / "digits-queries.pt",
        len(every),
        lambda place: torch.maximum(digit(every[place][0]), digit(every[place][1])),
        both,
    )
    return gallery, queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    studies = ("table", "settings", "spaces", "windows", "copies", "sizes", "weak", "speed")
    parser.add_argument("study", choices=studies)
    parser.add_argument("--data", default="scenes", help="voc:PATH, scenes or digits (default: scenes)")
    parser.add_argument("--cache", type=Path, default=Path("maps"), help="folder of the feature maps (default: maps)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.study == "speed":
        study_speed()
        return
    task = open_task(options.data, options.cache, options.seed)
    found = f"{len(task.gallery.labels):,} pictures, {2 * len(task.draws)} ordered pairs of classes"
    print(f"{options.study}, {options.data.split(':')[0]}: {found}, top {task.top}, seed {options.seed}", flush=True)
    if options.study == "copies":
        study_copies(task, Path(options.data.removeprefix("voc:")), options.cache, options.seed)
    elif options.study in ("sizes", "weak"):
        {"sizes": study_sizes, "weak": study_weak}[options.study](task, options.seed)
    else:
        plain = {"table": study_table, "settings": study_settings, "spaces": study_spaces, "windows": study_windows}
        plain[options.study](task)


if __name__ == "__main__":
    main()
