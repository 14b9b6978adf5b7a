"""`andornot reproduce`: which experiments there are, and how each is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..data import source_of
from ..evaluate.outcome import EvaluationError, Outcome
from ..evaluate.report import write_outcome
from ..evaluate.sets import attribution
from .plan import Plan, Scale
from .searching import degrees, retrieval
from .tables import ablation, classification, multilabel
from .work import Work

# Eight things are enough for 28 pairs, each in some 36 of 3,000 pictures.
_SCENES: Final = "scenes:?count=3000&classes=dog+cat+car+ball+apple+umbrella+balloon+sun"
_SEEDS: Final = {"small": 2, "paper": 8}


@dataclass(frozen=True)
class Experiment:
    """How an experiment runs, on which embedded data unless told, and by which recipes at which scale."""

    run: Callable[[Plan, Work], Outcome]
    data: str
    small: str
    paper: str
    help: str


EXPERIMENTS: Final = {
    "classification": Experiment(
        classification, "digits", "thumbnails", "cifar10-paper", "Table 1: linear evaluation of the four methods"
    ),
    "multilabel": Experiment(
        multilabel, _SCENES, "thumbnails", "imagenet100-paper", "Table 2: mAP of one linear layer for the four methods"
    ),
    "degrees": Experiment(degrees, _SCENES, "thumbnails", "imagenet100-paper", "what each feature stands for"),
    "mnist-retrieval": Experiment(
        retrieval, "digits", "mnist", "mnist-paper", "search digits with OR, AND and NOT, over all pairs of classes"
    ),
    "voc-retrieval": Experiment(
        retrieval, "", "photos-frozen", "voc-paper", "the same on photos with one or two things"
    ),
    "scenes-retrieval": Experiment(
        retrieval, _SCENES, "photos-frozen", "voc-paper", "the same on drawn scenes, where every label is exact"
    ),
    "ablation": Experiment(ablation, "digits", "thumbnails", "cifar10-paper", "N × M at constant N·M, α and β"),
}


def reproduce(
    experiment: str,
    folder: Path,
    *,
    data: str | None = None,
    pretrain_data: str | None = None,
    scale: Scale = "small",
    seeds: int | None = None,
    changes: Sequence[str] = (),
    protocol: Mapping[str, int] | None = None,
    command: str | None = None,
) -> Outcome:
    """Trains what the experiment needs, measures, and writes `result.json` and `report.html` into the folder.

    `changes` are `key=value` for the recipe, `protocol` is what differs from the retrieval protocol of the scale.
    Stopped and called again with the same settings, it goes on where it was.
    """
    plan = make_plan(experiment, data, pretrain_data, scale, seeds, changes, protocol or {})
    start = time.perf_counter()
    work = Work(folder, plan.settings())
    outcome = EXPERIMENTS[experiment].run(plan, work)
    settings = {**plan.settings(), **attribution(plan.data), **({"command": command} if command else {})}
    write_outcome(folder, outcome, settings=settings, seed=0, seconds=time.perf_counter() - start)
    return outcome


def make_plan(
    experiment: str,
    data: str | None,
    pretrain_data: str | None,
    scale: Scale,
    seeds: int | None,
    changes: Sequence[str],
    protocol: Mapping[str, int],
) -> Plan:
    """The plan with everything that was not said filled in."""
    if experiment not in EXPERIMENTS:
        raise EvaluationError(f'unknown experiment "{experiment}", there are {", ".join(EXPERIMENTS)}')
    chosen = EXPERIMENTS[experiment]
    data = data or chosen.data
    if not data:
        raise EvaluationError(f"{experiment} needs pictures that are not embedded: say where, as in --data voc:PATH")
    if seeds is not None and seeds < 1:
        raise EvaluationError(f"--seeds {seeds}: at least one run is needed")
    if protocol and chosen.run is not retrieval:
        raise EvaluationError(
            f"--{next(iter(protocol))} is for the experiments in retrieval, {experiment} has no such number"
        )
    source = source_of(data)
    recipe = chosen.small if scale == "small" else chosen.paper
    if source == "digits" and scale == "small":
        recipe = "digits"
    elif source == "mnist":
        recipe = "mnist" if scale == "small" else "mnist-paper"
    elif (source, scale, recipe) == ("imagenet100", "paper", "cifar10-paper"):
        recipe = "imagenet100-paper"
    seeds = seeds or _SEEDS[scale]
    return Plan(experiment, data, pretrain_data or data, scale, seeds, recipe, tuple(changes), dict(protocol))
