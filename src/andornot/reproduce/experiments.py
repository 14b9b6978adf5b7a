"""`andornot reproduce`: how an experiment is planned and run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data import source_of, training_part
from ..errors import unknown
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.compared_operators import Operator, check_operators
from ..evaluate.experiments.protocol import option_of
from ..evaluate.experiments.sets import attribution, gallery_and_queries
from ..evaluate.report.outcome import Outcome
from ..evaluate.report.writing import write_outcome
from .catalogue import DEFAULT_SCALE, EXPERIMENTS, Scale
from .estimate import features_seconds, in_words, probe_seconds, search_seconds, training_seconds
from .paper import PAPERS
from .plan import Plan, Seeds
from .retrieval import retrieval_protocol
from .workspace import Workspace


def reproduce(
    experiment: str,
    folder: Path,
    *,
    data: str | None = None,
    pretrain_data: str | None = None,
    scale: Scale = DEFAULT_SCALE,
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
    how_long = f"about {in_words(estimate_seconds(plan))} on two cores from the beginning"
    workspace = Workspace(folder, plan.settings(), f"{experiment}: {how_long}; stopped, the same command goes on")
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
    if not EXPERIMENTS[plan.experiment].searches:
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
    if protocol and not chosen.searches:
        raise EvaluationError(
            f"{option_of(next(iter(protocol)))} is for the experiments in retrieval, {experiment} has no such number"
        )
    if operators is not None:
        if not chosen.searches:
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
    short = chosen.shortened.get(source, chosen.shortened.get("", ())) if scale == "small" else ()
    return Plan(
        experiment,
        data,
        pretrain_data or data,
        scale,
        runs,
        recipe,
        (*short, *changes),
        dict(protocol),
        None if operators is None else tuple(operators),
    )
