"""`andornot reproduce`: which experiments there are, and how each is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..data import source_of, training_part
from ..errors import unknown
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.compared_operators import Operator, check_operators
from ..evaluate.experiments.retrieval import option_of
from ..evaluate.experiments.sets import attribution, gallery_and_queries
from ..evaluate.report.outcome import Outcome
from ..evaluate.report.writing import write_outcome
from .degrees import degrees
from .estimate import features_seconds, probe_seconds, search_seconds, training_seconds
from .paper import PAPERS
from .plan import Plan, Scale, Seeds
from .retrieval import retrieval, retrieval_protocol
from .tables import ablation, classification, multilabel, multilabel_ablation
from .workspace import Workspace

# Eight things are enough for 28 pairs, each in some 36 of 3,000 pictures.
_SCENES: Final = "scenes:?count=3000&classes=dog+cat+car+ball+apple+umbrella+balloon+sun"
# The paper has eight runs for its tables, and says of no other experiment that it was done more than once.
_ONE: Final[Mapping[Scale, int]] = {"small": 1, "paper": 1}


@dataclass(frozen=True)
class Experiment:
    """How an experiment runs, on which embedded data unless told, and by which recipes at which scale."""

    run: Callable[[Plan, Workspace], Outcome]
    data: str
    small: str
    paper: str
    help: str
    seeds: Mapping[Scale, int]


EXPERIMENTS: Final = {
    "classification": Experiment(
        classification,
        "digits",
        "thumbnails",
        "cifar10-paper",
        "Table 1: linear evaluation of the four methods",
        {"small": 5, "paper": 8},
    ),
    "multilabel": Experiment(
        multilabel,
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        "Table 2: mAP of one linear layer for the four methods",
        {"small": 3, "paper": 8},
    ),
    "degrees": Experiment(degrees, _SCENES, "photos-frozen", "imagenet100-paper", "what each feature stands for", _ONE),
    "mnist-retrieval": Experiment(
        retrieval,
        "digits",
        "mnist",
        "mnist-paper",
        "search digits with OR, AND and NOT, over all pairs of classes",
        _ONE,
    ),
    "voc-retrieval": Experiment(
        retrieval, "", "photos-frozen", "voc-paper", "the same on photos with one or two things", _ONE
    ),
    "scenes-retrieval": Experiment(
        retrieval, _SCENES, "photos-frozen", "voc-paper", "the same on drawn scenes, where every label is exact", _ONE
    ),
    "ablation": Experiment(
        ablation,
        "digits",
        "thumbnails",
        "cifar10-paper",
        "the lower half of Table 1: N × M at constant N·M; α and β",
        {"small": 3, "paper": 8},
    ),
    "multilabel-ablation": Experiment(
        multilabel_ablation,
        _SCENES,
        "photos-frozen",
        "imagenet100-paper",
        "the lower half of Table 2: N × M at constant N·M",
        {"small": 3, "paper": 8},
    ),
}


def reproduce(
    experiment: str,
    folder: Path,
    *,
    data: str | None = None,
    pretrain_data: str | None = None,
    scale: Scale = "small",
    seeds: int | Sequence[str] | None = None,
    changes: Sequence[str] = (),
    protocol: Mapping[str, int] | None = None,
    operators: Sequence[Operator] | None = None,
    command: str | None = None,
) -> Outcome:
    """Trains what the experiment needs, measures, and writes `result.json` and `report.html` into the folder.

    `seeds` is the number of runs of each model, or texts such as `["1", "logic=3"]`. `changes` are `key=value` for the
    recipe, `protocol` is what differs from the retrieval protocol of the scale; `operators` are compared instead of
    ours, as in `[*PAPER, mine]`, and what was measured is known by their names.
    Stopped and called again with the same settings, it goes on where it was.
    """
    plan = make_plan(experiment, data, pretrain_data, scale, seeds, changes, protocol or {}, operators)
    start = time.perf_counter()
    workspace = Workspace(folder, plan.settings())
    outcome = EXPERIMENTS[experiment].run(plan, workspace)
    settings = {
        **settings_of(plan),
        **attribution(plan.data),
        **({"command": command} if command else {}),
    }
    write_outcome(folder, outcome, settings=settings, seed=0, seconds=time.perf_counter() - start)
    return outcome


def settings_of(plan: Plan) -> dict[str, Any]:
    """All that decides a result."""
    return {**plan.settings(), "seeds": {"each": plan.seeds.each, **plan.seeds.of_label}}


def estimate_seconds(plan: Plan) -> float:
    """Roughly how long an experiment takes from the beginning, on two cores."""
    pictures = len(training_part(plan.pretrain_data).train)
    recipes = plan.seeds.chosen(plan.methods())
    if plan.experiment.endswith("ablation"):
        recipes = dict.fromkeys(map(str, range(5 if plan.experiment.startswith("multilabel") else 9)), plan.recipe({}))
    if plan.experiment == "degrees":
        recipes = {PAPERS: plan.recipe({})}
    runs = {name: len(plan.seeds.of(name)) for name in recipes}
    seconds = features_seconds(plan.recipe({}), pictures)
    seconds += sum(training_seconds(recipe, pictures, runs[name]) for name, recipe in recipes.items())
    if EXPERIMENTS[plan.experiment].run is not retrieval:
        return seconds + probe_seconds(pictures, sum(runs.values()))
    gallery, _ = gallery_and_queries(plan.data)
    return seconds + search_seconds(gallery, retrieval_protocol(plan), sum(runs.values()))


def make_plan(
    experiment: str,
    data: str | None,
    pretrain_data: str | None,
    scale: Scale,
    seeds: int | Sequence[str] | None,
    changes: Sequence[str],
    protocol: Mapping[str, int],
    operators: Sequence[Operator] | None = None,
) -> Plan:
    """The plan with everything that was not said filled in."""
    if experiment not in EXPERIMENTS:
        raise EvaluationError(unknown("experiment", experiment, EXPERIMENTS))
    chosen = EXPERIMENTS[experiment]
    data = data or chosen.data
    if not data:
        raise EvaluationError(f"{experiment} needs pictures that are not embedded: say where, as in --data voc:PATH")
    texts = [str(seeds)] if isinstance(seeds, int) else list(seeds or ())
    runs = Seeds.parse(texts, chosen.seeds[scale])
    if protocol and chosen.run is not retrieval:
        raise EvaluationError(
            f"{option_of(next(iter(protocol)))} is for the experiments in retrieval, {experiment} has no such number"
        )
    if operators is not None:
        if chosen.run is not retrieval:
            raise EvaluationError(f"operators are compared by the experiments in retrieval, and {experiment} is none")
        check_operators(operators)
    source = source_of(data)
    recipe = chosen.small if scale == "small" else chosen.paper
    if source == "digits" and scale == "small":
        recipe = "digits"
    elif source == "mnist":
        recipe = "mnist" if scale == "small" else "mnist-paper"
    elif (source, scale, recipe) == ("imagenet100", "paper", "cifar10-paper"):
        recipe = "imagenet100-paper"
    return Plan(
        experiment,
        data,
        pretrain_data or data,
        scale,
        runs,
        recipe,
        tuple(changes),
        dict(protocol),
        None if operators is None else tuple(operators),
    )
