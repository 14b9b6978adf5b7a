"""The experiments that can be reproduced, separate from their code, which imports torch, so that `--help` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Scale = Literal["small", "paper"]
DEFAULT_SCALE: Final = "small"

ALL: Final = "all"

# Eight classes have 28 pairs, each in about 36 of 3,000 images.
_SCENES: Final = "scenes:?count=3000&classes=dog+cat+car+ball+apple+umbrella+balloon+sun"
_SHORT_TABLES: Final = {"digits": ("epochs=5",), "mnist": ("epochs=1",)}
_SHORT_HEADS: Final = {"": ("epochs=20", "cached_views=2")}
# The paper reports eight runs for its tables, and no number for the other experiments.
_ONE: Final[Mapping[Scale, int]] = {"small": 1, "paper": 1}
_TABLE: Final[Mapping[Scale, int]] = {"small": 3, "paper": 8}
_SINGLE_LABEL: Final = ("cifar10", "imagenet100", "mnist", "imagefolder")
_MULTILABEL: Final = ("voc", "coco", "scenes")


@dataclass(frozen=True)
class Experiment:
    """Embedded data ("" if none), recipe at each scale, number of runs, and sources that `all` uses for it.

    `shortened` has changes of the recipe at small scale by source ("" for any other), so that an experiment on embedded
    data takes half an hour on two cores.
    """

    help: str
    data: str
    small: str
    paper: str
    seeds: Mapping[Scale, int]
    sources: tuple[str, ...]  # the paper's first
    shortened: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retrieval: bool = False


EXPERIMENTS: Final = {
    "classification": Experiment(
        "Table 1: linear evaluation of the four methods",
        "digits",
        "thumbnails",
        "cifar10-paper",
        {"small": 5, "paper": 8},
        _SINGLE_LABEL,
        _SHORT_TABLES,
    ),
    "multilabel": Experiment(
        "Table 2: mAP of one linear layer for the four methods",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        _TABLE,
        _MULTILABEL,
        _SHORT_HEADS,
    ),
    "degrees": Experiment(
        "Sec. V-D: what each feature stands for",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        _ONE,
        ("coco", "voc", "scenes"),
        _SHORT_HEADS,
    ),
    "mnist-retrieval": Experiment(
        "Sec. V-E: search digits with OR, AND and NOT",
        "digits",
        "mnist",
        "mnist-paper",
        _ONE,
        ("mnist",),
        retrieval=True,
    ),
    "voc-retrieval": Experiment(
        "the same on photos with one or two objects",
        "",
        "photos-frozen",
        "voc-paper",
        _ONE,
        ("voc",),
        _SHORT_HEADS,
        retrieval=True,
    ),
    "scenes-retrieval": Experiment(
        "the same on synthetic scenes, where every label is exact",
        _SCENES,
        "photos-frozen",
        "voc-paper",
        _ONE,
        ("scenes",),
        _SHORT_HEADS,
        retrieval=True,
    ),
    "ablation": Experiment(
        "the lower half of Table 1: N × M at constant N·M; α and β",
        "digits",
        "thumbnails",
        "cifar10-paper",
        _TABLE,
        _SINGLE_LABEL,
        _SHORT_TABLES,
    ),
    "multilabel-ablation": Experiment(
        "the lower half of Table 2: N × M at constant N·M",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        _TABLE,
        _MULTILABEL,
        _SHORT_HEADS,
    ),
}
