"""What the truth of a word is made of: whole picture or best window, temperature, calibration, classes kept.

python benchmarks/study_words.py 'voc:/data/VOCdevkit?years=2007' --word cow=cattle --word pottedplant=flowerpot
"""

import argparse
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from andornot.data import ImageSet, open_images
from andornot.evaluate.experiments.words import SPELLINGS, pair_figures
from andornot.evaluate.metrics.average_precision import average_precision
from andornot.evaluate.metrics.precision import precision_at
from andornot.model import Model
from andornot.ssl.backbones import build_backbone, cut_windows
from andornot.ssl.recipe import make_recipe
from andornot.words import KeptClasses, truth_of, wordnet_nouns
from andornot.words.classes import class_weights

TOP: Final = 20


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
        names = range(len(columns))
        precision = sum(precision_at(TOP, support[:, c], labels[:, c]) for c in names) / len(names)
        average = sum(average_precision(support[:, c], labels[:, c]) for c in names) / len(names)
        pairs = pair_figures({name: truth}, labels, TOP)[name]
        figures = precision, average, pairs["and_both"], pairs["and_not_a"], pairs["and_not_b"]
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |", flush=True)

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


if __name__ == "__main__":
    main()
