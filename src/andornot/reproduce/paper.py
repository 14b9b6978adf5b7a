"""The figures that the paper prints, to stand beside ours: mean and standard deviation of eight runs, in percent."""

from typing import Final

from ..evaluate.metrics.intervals import Spread

BASELINES: Final = ("vanilla", "mean", "maximum")
PAPERS: Final = "logic"  # the method that it proposes
METHODS: Final = (*BASELINES, PAPERS)

# Tables 1 (top-1 accuracy, linear evaluation) and 2 (mAP); by data set, then by method or by (N, M) of logic.
RESULTS: Final[dict[str, dict[str, Spread]]] = {
    "imagenet100": {
        "vanilla": Spread(72.90, 0.33),
        "mean": Spread(74.44, 1.64),
        "maximum": Spread(75.41, 0.85),
        "logic": Spread(75.41, 0.95),
        "N = 2048, M = 2": Spread(72.86, 2.63),
        "N = 1024, M = 4": Spread(74.00, 2.74),
        "N = 512, M = 8": Spread(75.41, 0.95),
        "N = 256, M = 16": Spread(73.59, 0.53),
        "N = 128, M = 32": Spread(73.74, 0.38),
    },
    "cifar10": {
        "vanilla": Spread(89.83, 0.30),
        "mean": Spread(91.24, 0.32),
        "maximum": Spread(90.72, 0.18),
        "logic": Spread(91.28, 0.22),
        "N = 2048, M = 2": Spread(90.96, 0.14),
        "N = 1024, M = 4": Spread(90.90, 0.72),
        "N = 512, M = 8": Spread(91.28, 0.22),
        "N = 256, M = 16": Spread(90.79, 0.24),
        "N = 128, M = 32": Spread(90.69, 0.49),
    },
    "voc": {
        "vanilla": Spread(61.66, 0.31),
        "mean": Spread(61.93, 0.56),
        "maximum": Spread(61.19, 0.32),
        "logic": Spread(62.26, 0.32),
        "N = 2048, M = 2": Spread(60.60, 0.99),
        "N = 1024, M = 4": Spread(61.24, 1.53),
        "N = 512, M = 8": Spread(62.26, 0.32),
        "N = 256, M = 16": Spread(61.47, 0.50),
        "N = 128, M = 32": Spread(61.85, 0.29),
    },
    "coco": {
        "vanilla": Spread(43.76, 0.29),
        "mean": Spread(44.05, 0.33),
        "maximum": Spread(43.86, 0.23),
        "logic": Spread(44.59, 0.31),
        "N = 2048, M = 2": Spread(43.59, 0.89),
        "N = 1024, M = 4": Spread(43.80, 1.06),
        "N = 512, M = 8": Spread(44.59, 0.31),
        "N = 256, M = 16": Spread(44.11, 0.33),
        "N = 128, M = 32": Spread(43.86, 0.26),
    },
}


def paper_figure(source: str, name: str) -> Spread | None:
    """What the paper has for that method on the data set of that source, as a part of 1; None where it has nothing."""
    found = RESULTS.get(source, {}).get(name)
    return None if found is None else Spread(found.mean / 100, found.deviation / 100)
