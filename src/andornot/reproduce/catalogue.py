"""Which experiments there are. Apart from how they run, because that loads torch, and `--help` does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ..evaluate.report.outcome import Outcome
    from .plan import Plan
    from .workspace import Workspace

Scale = Literal["small", "paper"]
DEFAULT_SCALE: Final = "small"

EVERYTHING: Final = "all"

# Eight things are enough for 28 pairs, each in some 36 of 3,000 pictures.
_SCENES: Final = "scenes:?count=3000&classes=dog+cat+car+ball+apple+umbrella+balloon+sun"
# The paper has eight runs for its tables, and says of no other experiment that it was done more than once.
_SHORT_TABLES: Final = {"digits": ("epochs=5",), "mnist": ("epochs=1",)}
_SHORT_HEADS: Final = {"": ("epochs=20", "cached_views=2")}
_ONE: Final[Mapping[Scale, int]] = {"small": 1, "paper": 1}


@dataclass(frozen=True)
class Experiment:
    """Which function runs an experiment, on which embedded data unless told, and by which recipes at which scale."""

    function: str  # in a module beside this one
    data: str
    small: str
    paper: str
    help: str
    seeds: Mapping[Scale, int]
    # Changes of the recipe at small scale by source, "" for any other: embedded data take half an hour on two cores.
    shortened: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        """Whether pictures are searched in it."""
        return self.function == "retrieval.retrieval"

    def run(self, plan: Plan, workspace: Workspace) -> Outcome:
        """What comes of it."""
        module, _, name = self.function.partition(".")
        function: Callable[[Plan, Workspace], Outcome] = getattr(import_module(f".{module}", __package__), name)
        return function(plan, workspace)


EXPERIMENTS: Final = {
    "classification": Experiment(
        "tables.classification",
        "digits",
        "thumbnails",
        "cifar10-paper",
        "Table 1: linear evaluation of the four methods",
        {"small": 5, "paper": 8},
        _SHORT_TABLES,
    ),
    "multilabel": Experiment(
        "tables.multilabel",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        "Table 2: mAP of one linear layer for the four methods",
        {"small": 3, "paper": 8},
        _SHORT_HEADS,
    ),
    "degrees": Experiment(
        "degrees.degrees",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        "what each feature stands for",
        _ONE,
        _SHORT_HEADS,
    ),
    "mnist-retrieval": Experiment(
        "retrieval.retrieval",
        "digits",
        "mnist",
        "mnist-paper",
        "search digits with OR, AND and NOT, all pairs of classes",
        _ONE,
    ),
    "voc-retrieval": Experiment(
        "retrieval.retrieval",
        "",
        "photos-frozen",
        "voc-paper",
        "the same on photos with one or two things",
        _ONE,
        _SHORT_HEADS,
    ),
    "scenes-retrieval": Experiment(
        "retrieval.retrieval",
        _SCENES,
        "photos-frozen",
        "voc-paper",
        "the same on drawn scenes, where every label is exact",
        _ONE,
        _SHORT_HEADS,
    ),
    "ablation": Experiment(
        "tables.ablation",
        "digits",
        "thumbnails",
        "cifar10-paper",
        "the lower half of Table 1: N × M at constant N·M; α and β",
        {"small": 3, "paper": 8},
        _SHORT_TABLES,
    ),
    "multilabel-ablation": Experiment(
        "tables.multilabel_ablation",
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        "the lower half of Table 2: N × M at constant N·M",
        {"small": 3, "paper": 8},
        _SHORT_HEADS,
    ),
}
