"""What the truth of a word is made of: whole picture or best window, temperature, calibration, classes kept.

python benchmarks/study_words.py 'voc:/data/VOCdevkit?years=2007' --word cow=cattle --word pottedplant=flowerpot
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import torch
from torch import Tensor

from andornot.data import ImageSet, open_images
from andornot.evaluate.experiments.words import SPELLINGS, pair_figures, pairs_of
from andornot.evaluate.metrics.average_precision import average_precision
from andornot.evaluate.metrics.precision import precision_at
from andornot.model import Model
from andornot.ssl.backbones import build_backbone, cut_windows
from andornot.ssl.recipe import make_recipe
from andornot.words import KeptClasses, truth_of, wordnet_nouns
from andornot.words.classes import class_weights
from andornot.words.nouns import NUM_CLASSES

TOP: Final = 20
BUILT: Final = "√, T = 2.0, 0.95 quantile, 96 kept"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="labelled pictures")
    parser.add_argument("--word", action="append", default=[], metavar="CLASS=WORD")
    options = parser.parse_args()
    images = open_images(options.data)
    spelled = {**SPELLINGS, **dict(given.split("=", 1) for given in options.word)}
    nouns = wordnet_nouns()
    known = [c for c, name in enumerate(images.class_names) if spelled.get(name, name) in nouns]
    columns = [list(nouns.look_up(spelled.get(images.class_names[c], images.class_names[c])).classes) for c in known]
    logits, labels = seen(images)
    print(f"{len(logits):,} pictures, {len(known)} names, efficientnet-lite0, top {TOP}")
    compare(logits, labels[:, known], columns)
    choose_elsewhere(logits, labels[:, known], columns)


def seen(images: ImageSet) -> tuple[Tensor, Tensor]:
    """Logits `(n, 10, 1000)` of whole pictures and their windows, and labels."""
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated"})
    backbone = build_backbone("efficientnet-lite0").eval()
    model = Model.calibrated(backbone, torch.rand(2, backbone.width), recipe)
    pictures = images.pictures(model.size)
    parts = [
        torch.cat(
            [backbone.classify(maps)[:, None], backbone.classify(cut_windows(maps)).view(len(maps), -1, 1000)], 1
        ).half()
        for maps in model.look(pictures)
    ]
    return torch.cat(parts), torch.as_tensor(pictures.labels) > 0


def compare(logits: Tensor, labels: Tensor, columns: list[list[int]]) -> None:
    """Prints a row for each way to make truth of the logits, for names that stand for these classes."""

    def summed(weights: Tensor) -> Tensor:
        return torch.stack([weights[..., column].sum(-1) for column in columns], -1).clamp(max=1)

    def print_row(name: str, support: Tensor, calibrate: Callable[[Tensor], Tensor] = truth_of) -> None:
        truth = torch.stack([calibrate(column) for column in support.T], 1)
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures(truth, labels))} |", flush=True)

    print(f"| | precision at {TOP} | mAP | a and b: both | a and not b: a | b |\n| --- | --- | --- | --- | --- | --- |")
    for temperature in (1.0, 1.4, 2.0, 3.0):
        probabilities = [(part.float() / temperature).softmax(-1) for part in logits.unbind(1)]
        whole, best = probabilities[0], torch.stack(probabilities[1:]).amax(0)
        print_row(f"whole picture, T = {temperature}", summed(whole))
        print_row(f"best window, T = {temperature}", summed(best))
        print_row(f"√(whole · best), T = {temperature}", summed((whole * best).sqrt()))
    weights = class_weights(logits[:, 0].float(), logits[:, 1:].float())
    print_row("not calibrated", summed(weights), lambda support: support)
    print_row("half the truth at the mean", summed(weights), lambda support: truth_of(support, float(support.mean())))
    for keep in (8, 16, 32, 64, 96, 128, 192):
        print_row(f"{keep} classes kept", summed(KeptClasses.of(weights, keep).evidence()))


def choose_elsewhere(logits: Tensor, labels: Tensor, columns: list[list[int]]) -> None:
    """Prints what remains if the way to make truth is chosen on other names than it is measured on.

    For each name, and for each pair of names, the way is chosen that is best on all names and pairs without it: by the
    sum of the five figures, b counted against it.
    """
    pairs = pairs_of(labels)
    tables = {way: Table.of(truth, labels, pairs) for way, truth in ways(logits, columns)}
    chosen: Counter[str] = Counter()

    def best_without(*left_out: int) -> Table:
        way = max(tables, key=lambda way: tables[way].mark(left_out))
        chosen[way] += 1
        return tables[way]

    names = [best_without(name).names[name] for name in range(len(columns))]
    asked = [best_without(*pair).pairs[pair] for pair in pairs]
    print(f"\nchosen on all other names, out of {len(tables)} ways; {len(names)} names, {len(asked)} ordered pairs")
    print_means("chosen on other names", names, asked)
    print_means(f"as it is built ({BUILT})", [*tables[BUILT].names.values()], [*tables[BUILT].pairs.values()])
    print("chosen:", ", ".join(f"{way} ({times} times)" for way, times in chosen.most_common()))


def print_means(name: str, *figures: Sequence[tuple[float, ...]]) -> None:
    """Prints the means of figures of names, and of figures of pairs, in a row."""
    means = (sum(column) / len(column) for rows in figures for column in zip(*rows, strict=True))
    print(f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |")


@dataclass(frozen=True)
class Table:
    """For one way to make truth: precision and average precision of each name; of each pair both, a and b."""

    names: Mapping[int, tuple[float, ...]]
    pairs: Mapping[tuple[int, int], tuple[float, ...]]

    @classmethod
    def of(cls, truth: Tensor, labels: Tensor, pairs: Sequence[tuple[int, int]]) -> Self:
        """Measures truth `(n, names)`."""
        names = {
            c: (precision_at(TOP, truth[:, c], labels[:, c]), average_precision(truth[:, c], labels[:, c]))
            for c in range(labels.shape[1])
        }
        joined = {}
        for a, b in pairs:
            rest = truth[:, a] * (1 - truth[:, b])
            joined[a, b] = (
                precision_at(TOP, truth[:, a] * truth[:, b], labels[:, a] & labels[:, b]),
                precision_at(TOP, rest, labels[:, a]),
                precision_at(TOP, rest, labels[:, b]),
            )
        return cls(names, joined)

    def mark(self, left_out: Sequence[int]) -> float:
        """How good it is without some names."""
        names = [figures for name, figures in self.names.items() if name not in left_out]
        pairs = [figures for pair, figures in self.pairs.items() if not set(pair) & set(left_out)]
        mean = [sum(column) / len(column) for rows in (names, pairs) for column in zip(*rows, strict=True)]
        return float(sum(mean[:4]) - mean[4])


def ways(logits: Tensor, columns: list[list[int]]) -> Iterator[tuple[str, Tensor]]:
    """All ways that are compared, each with the truth of each name `(n, names)`."""
    calibrations = {f"{quantile} quantile": (quantile, 0.01, 0.3) for quantile in (0.9, 0.95, 0.98)}
    calibrations |= {"at 0.02": (0.5, 0.02, 0.02), "unclipped": (0.95, 0.001, 0.999)}
    for temperature in (1.0, 1.4, 2.0, 3.0):
        probabilities = [(part.float() / temperature).softmax(-1) for part in logits.unbind(1)]
        whole, best = probabilities[0], torch.stack(probabilities[1:]).amax(0)
        for weighing, weights in (("whole", whole), ("best", best), ("√", (whole * best).sqrt())):
            for kept in (96, 1000):
                seen = KeptClasses.of(weights, kept).evidence() if kept < NUM_CLASSES else weights
                support = torch.stack([seen[:, column].sum(-1).clamp(max=1) for column in columns], 1)
                for calibration, (quantile, least, most) in calibrations.items():
                    half = support.quantile(quantile, 0).clamp(least, most)
                    truth = torch.stack([*map(truth_of, support.T, half.tolist())], 1)
                    yield f"{weighing}, T = {temperature}, {calibration}, {kept} kept", truth


def figures(truth: Tensor, labels: Tensor) -> tuple[float, ...]:
    """Precision, mAP, what `a and b` finds of both, and `a and not b` of a and of b."""
    names = range(labels.shape[1])
    precision = sum(precision_at(TOP, truth[:, c], labels[:, c]) for c in names) / len(names)
    average = sum(average_precision(truth[:, c], labels[:, c]) for c in names) / len(names)
    pairs = pair_figures({"": truth}, labels, TOP)[""]
    return precision, average, pairs["and_both"], pairs["and_not_a"], pairs["and_not_b"]


if __name__ == "__main__":
    main()
