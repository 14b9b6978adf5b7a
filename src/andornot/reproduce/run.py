"""Run one experiment (`reproduce`) or all of them (`reproduce_all`), and write the reports."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..data import SOURCES, open_images
from ..data.specs import parse_spec
from ..errors import EvaluationError
from ..evaluate.experiments.operators import Operator
from ..evaluate.experiments.sets import attribution
from ..evaluate.report.outcome import Cell, Link, Outcome, Section, Table
from ..evaluate.report.writing import REPORT, RESULT, to_json_data, write_outcome
from ..progress import format_duration
from .catalogue import DEFAULT_SCALE, EXPERIMENTS, Scale
from .paper import Claim, Verdict, judge
from .plan import ExperimentPlan, Workspace, make_plan, print_status
from .representations import run_degrees, run_retrieval
from .tables import run_ablation, run_classification, run_multilabel, run_multilabel_ablation

_RUN: Final[dict[str, Callable[[ExperimentPlan, Workspace], Outcome]]] = {
    "classification": run_classification,
    "multilabel": run_multilabel,
    "degrees": run_degrees,
    "mnist-retrieval": run_retrieval,
    "voc-retrieval": run_retrieval,
    "scenes-retrieval": run_retrieval,
    "ablation": run_ablation,
    "multilabel-ablation": run_multilabel_ablation,
}


def reproduce(
    experiment: str,
    folder: str | os.PathLike[str],
    *,
    data: str | None = None,
    pretrain_data: str | None = None,
    scale: Scale = DEFAULT_SCALE,
    seeds: int | Sequence[str] | None = None,
    changes: Sequence[str] = (),
    retrieval: Mapping[str, int] | None = None,
    operators: Sequence[Operator] | None = None,
    command: str | None = None,
) -> Outcome:
    """Train the models of an experiment, evaluate them, and write `result.json` and `report.html` to the folder.

    `seeds` is the number of runs of each model, or texts such as `["1", "logic=3"]`. `changes` are `key=value` for the
    recipe, `retrieval` changes fields of the `RetrievalConfig` of the scale, and `operators` replaces the default ones,
    e.g. `[*PAPER, mine]`; finished measurements are identified by the names of the operators. If interrupted, call it
    again with the same settings to resume.
    """
    plan = make_plan(experiment, data, pretrain_data, scale, seeds, changes, retrieval or {}, operators)
    start = time.perf_counter()
    outcome = _RUN[experiment](plan, Workspace(Path(folder), plan.settings()))
    settings = {**_result_settings(plan), **attribution(plan.data), **({"command": command} if command else {})}
    write_outcome(Path(folder), outcome, settings=settings, seed=0, seconds=time.perf_counter() - start)
    return outcome


def reproduce_all(
    folder: str | os.PathLike[str],
    *,
    data: Sequence[str] = (),
    pretrain_data: str | None = None,
    scale: Scale = DEFAULT_SCALE,
    seeds: Sequence[str] | None = None,
    changes: Sequence[str] = (),
    retrieval: Mapping[str, int] | None = None,
    command: str | None = None,
) -> Outcome:
    """Run every experiment that has images, each in its own folder, and write a page on the paper's claims.

    `data` are sources such as `mnist:PATH`; an experiment uses the first suitable one, or embedded images. Finished
    experiments are not repeated.
    """
    folder = Path(folder)
    plans = plan_all(data, pretrain_data, scale, seeds, changes, retrieval or {})
    start = time.perf_counter()
    unfinished = [name for name, plan in plans.items() if not _is_finished(folder / name, plan)]
    for name, plan in plans.items():
        print_status(f"{name:<20} {'to do' if name in unfinished else 'finished':<9} {plan.data}")
    if skipped := [name for name in EXPERIMENTS if name not in plans]:
        print_status(f"skipped, because its images are not embedded: {', '.join(skipped)} (--data voc:PATH)")
    for name in unfinished:
        print_status(f"\n{name}: {EXPERIMENTS[name].help}")
        reproduce(
            name,
            folder / name,
            data=plans[name].data,
            pretrain_data=pretrain_data,
            scale=scale,
            seeds=seeds,
            changes=changes,
            retrieval=plans[name].retrieval,
            command=command,
        )
    results = {name: json.loads((folder / name / RESULT).read_text(encoding="utf-8")) for name in plans}
    outcome = _report_claims(results)
    settings = {"data": list(data), "scale": scale, **({"command": command} if command else {})}
    write_outcome(folder, outcome, settings=settings, seed=0, seconds=time.perf_counter() - start)
    return outcome


def plan_all(
    data: Sequence[str],
    pretrain_data: str | None,
    scale: Scale,
    seeds: Sequence[str] | None,
    changes: Sequence[str],
    retrieval: Mapping[str, int],
) -> dict[str, ExperimentPlan]:
    """Return a plan for each experiment that has images."""
    if any("=" in text for text in seeds or ()):
        raise EvaluationError("--seeds LABEL=K is for a single experiment: each has different models")
    given: dict[str, str] = {}
    for text in data:
        source = parse_spec(text, SOURCES).source
        if source is None:
            raise EvaluationError(f"--data {text}: name the source, as in mnist:PATH, cifar10:PATH or voc:PATH")
        if source in given:
            raise EvaluationError(f"--data {text}: {source} was given before, as {given[source]}")
        if not any(source in experiment.sources for experiment in EXPERIMENTS.values()):
            raise EvaluationError(f"--data {text}: no experiment uses {source}")
        given[source] = text
    plans = {}
    for name, experiment in EXPERIMENTS.items():
        chosen = next((given[source] for source in experiment.sources if source in given), None)
        if name == "degrees" and chosen is not None and open_images(chosen).boxes is None:
            chosen = None  # it needs object boxes
        if chosen or experiment.data:
            numbers = retrieval if experiment.retrieval else {}
            plans[name] = make_plan(name, chosen, pretrain_data, scale, seeds, changes, numbers)
    return plans


def _result_settings(plan: ExperimentPlan) -> dict[str, Any]:
    """Return everything that determines a result."""
    return {**plan.settings(), "seeds": {"each": plan.seeds.each, **plan.seeds.of_label}}


def _is_finished(folder: Path, plan: ExperimentPlan) -> bool:
    try:
        saved = dict(json.loads((folder / RESULT).read_text(encoding="utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    wanted = to_json_data(_result_settings(plan))
    return bool({key: saved.get(key) for key in wanted} == wanted)


def _report_claims(results: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Return the page on all experiments: a summary, the claims, and links to the reports."""
    claims = [
        (name, claim)
        for name, result in results.items()
        for claim in judge(
            name,
            result["metrics"],
            result["protocol"].get("probe_input", "backbone"),
            labelled_backbone=result["settings"]["recipe"]["regime"] == "frozen",
        )
    ]
    of_paper = [claim for _, claim in claims if claim.source == "the paper"]
    counts = Counter(claim.verdict for claim in of_paper)
    summary = (
        f"Of {len(of_paper)} claims of the paper, {counts['holds']} hold here, {counts['does not hold']} do not, and "
        f"{counts['cannot be judged']} cannot be judged by these metrics.\n\n{_list_claims(of_paper)}"
    )
    ours = _list_claims([claim for _, claim in claims if claim.source == "ours"])
    sections = [
        Section("The paper's claims", content=[_claim_table(claims, "the paper")]),
        Section("Claims of ours, which the paper does not make", ours, [_claim_table(claims, "ours")]),
        Section("Reports", content=[_report_table(results)]),
    ]
    metrics = {name: [vars(claim) for of, claim in claims if of == name] for name in results}
    protocol = {"images": {name: result["settings"]["data"] for name, result in results.items()}}
    return Outcome("The paper's experiments", summary, metrics, protocol, sections)


def _list_claims(claims: Sequence[Claim]) -> str:
    """Return a paragraph of claims for each verdict."""
    titles: dict[Verdict, str] = {
        "holds": "Holds here",
        "does not hold": "Does not hold here",
        "cannot be judged": "Cannot be judged",
    }
    texts = {verdict: [claim.text for claim in claims if claim.verdict == verdict] for verdict in titles}
    return "\n\n".join(f"{titles[verdict]}: {' '.join(found)}" for verdict, found in texts.items() if found)


def _claim_table(claims: Sequence[tuple[str, Claim]], source: str) -> Table:
    rows: list[list[Cell]] = [
        [claim.text, claim.verdict, claim.evidence, claim.rule, Link(name, f"{name}/{REPORT}")]
        for name, claim in claims
        if claim.source == source
    ]
    caption = "Each verdict follows from the metrics by the rule next to it; intervals are of 95 %."
    return Table(caption, ["claim", "verdict", "metrics", "rule", "report"], rows)


def _report_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            Link(name, f"{name}/{REPORT}"),
            result["title"],
            result["settings"]["data"],
            str(result["settings"]["scale"]),
            format_duration(result["seconds"]),
        ]
        for name, result in results.items()
    ]
    return Table("Experiments and their images.", ["report", "title", "images", "scale", "duration of last run"], rows)
