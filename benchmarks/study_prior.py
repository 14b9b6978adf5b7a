"""Operators on held-out digits, for models with and without a prior:

    python benchmarks/study_prior.py model/ model-without-prior/

The paper's retrieval on MNIST in small: for each ordered pair of classes (a, b), ten held-out digits of each and all
100 combinations; ab is one digit over the other (Mixup, ½). A figure is the share of class a among the 50 nearest
training digits, averaged over combinations and the 90 pairs.
"""

import argparse
from collections.abc import Callable
from itertools import permutations

from torch import Tensor

from andornot import Formula, Model, Representation, cross_entropy, degree_distance
from andornot.data import Pictures, open_images
from andornot.evaluate.knn import single_classes
from andornot.ssl.synthesis import mix_pictures

FORMULAS = ("a", "b", "ab", "a | b", "ab & a", "ab & b", "ab & ~b", "ab & (~b | (a & b))")
PICTURES, TOP = 10, 50
Distance = Callable[[Representation, Representation], Tensor]


def share_of_class(hits: Tensor, classes: Tensor, wanted: int) -> float:
    return (classes[hits] == wanted).float().mean().item()


def occurrence_rates(model: Model, train: Pictures, test: Pictures, distance: Distance) -> dict[str, float]:
    """The rate of class a for each formula, averaged over all pairs."""
    classes, held_out = single_classes(train.labels), single_classes(test.labels)
    assert classes is not None
    assert held_out is not None
    gallery = model.encode(train)
    chosen = {digit: test[(held_out == digit).nonzero().flatten()[:PICTURES]].float() / 255 for digit in range(10)}
    known = {digit: model.encode(pictures) for digit, pictures in chosen.items()}
    rates: dict[str, list[float]] = {formula: [] for formula in FORMULAS}
    for a, b in permutations(range(10), 2):
        mixed = mix_pictures(chosen[a].unsqueeze(1), chosen[b].unsqueeze(0)).flatten(0, 1)
        both = model.encode(mixed)
        values = {"a": known[a][:, None], "b": known[b][None]}
        values["ab"] = Representation.stack([both[start : start + PICTURES] for start in range(0, len(both), PICTURES)])
        for formula in FORMULAS:
            query = Formula(formula).evaluate(values, semantics="independent")
            hits = distance(query, gallery).topk(TOP, largest=False).indices
            rates[formula].append(share_of_class(hits, classes, a))
    return {formula: sum(of_pairs) / len(of_pairs) for formula, of_pairs in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="folders of models for digits")
    options = parser.parse_args()
    distances: dict[str, Distance] = {"cosine of degrees": degree_distance, "cross-entropy": cross_entropy}
    print(f"{'':<36}" + "".join(f"{formula:>21}" for formula in FORMULAS))
    for folder in options.models:
        model = Model.load(folder)
        train, test = (open_images("digits", split=split).pictures(model.size) for split in ("train", "test"))
        for name, distance in distances.items():
            rates = occurrence_rates(model, train, test, distance)
            print(f"{folder[-17:]:<18}{name:<18}" + "".join(f"{rates[formula]:>21.2f}" for formula in FORMULAS))


if __name__ == "__main__":
    main()
