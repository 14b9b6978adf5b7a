"""`andornot reproduce all`: every experiment in a folder of its own, and one page that says what came of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..data import SOURCES, open_images
from ..data.specs import parse_spec
from ..evaluate.errors import EvaluationError
from ..evaluate.report.outcome import Cell, Link, Outcome, Section, Table
from ..evaluate.report.writing import REPORT, RESULT, plain, write_outcome
from .catalogue import DEFAULT_SCALE, EXPERIMENTS, Scale
from .claims import Claim, Verdict, judge
from .estimate import in_words
from .experiments import estimate_seconds, make_plan, reproduce, settings_of
from .plan import Plan
from .workspace import say

# The sources that an experiment takes, the paper's first; else it takes its embedded pictures.
_TAKES: Final = {
    "classification": ("cifar10", "imagenet100", "mnist", "imagefolder"),
    "ablation": ("cifar10", "imagenet100", "mnist", "imagefolder"),
    "multilabel": ("voc", "coco", "scenes"),
    "multilabel-ablation": ("voc", "coco", "scenes"),
    "degrees": ("coco", "voc", "scenes"),
    "mnist-retrieval": ("mnist",),
    "voc-retrieval": ("voc",),
    "scenes-retrieval": ("scenes",),
}


def reproduce_all(
    folder: Path,
    *,
    data: Sequence[str] = (),
    pretrain_data: str | None = None,
    scale: Scale = DEFAULT_SCALE,
    seeds: Sequence[str] | None = None,
    changes: Sequence[str] = (),
    protocol: Mapping[str, int] | None = None,
    command: str | None = None,
) -> Outcome:
    """Every experiment that there are pictures for; a finished one is not done again.

    `data` are sources as in `mnist:PATH`; an experiment takes the first that suits it, or embedded pictures.
    """
    plans = plan_all(data, pretrain_data, scale, seeds, changes, protocol or {})
    start = time.perf_counter()
    open_ones = [name for name, plan in plans.items() if not _is_finished(folder / name, plan)]
    _announce(plans, open_ones)
    for name in open_ones:
        say(f"\n{name}: {EXPERIMENTS[name].help}")
        reproduce(
            name,
            folder / name,
            data=plans[name].data,
            pretrain_data=pretrain_data,
            scale=scale,
            seeds=seeds,
            changes=changes,
            protocol=plans[name].protocol,
            command=command,
        )
    results = {name: json.loads((folder / name / RESULT).read_text(encoding="utf-8")) for name in plans}
    outcome = _index(results)
    settings = {"data": list(data), "scale": scale, **({"command": command} if command else {})}
    write_outcome(folder, outcome, settings=settings, seed=0, seconds=time.perf_counter() - start)
    return outcome


def plan_all(
    data: Sequence[str],
    pretrain_data: str | None,
    scale: Scale,
    seeds: Sequence[str] | None,
    changes: Sequence[str],
    protocol: Mapping[str, int],
) -> dict[str, Plan]:
    """A plan for each experiment that there are pictures for."""
    if any("=" in text for text in seeds or ()):
        raise EvaluationError("--seeds LABEL=K is for one experiment: they have different models")
    given: dict[str, str] = {}
    for text in data:
        source = _source(text)
        if source in given:
            raise EvaluationError(f"--data {text}: {source} is given already, as {given[source]}")
        given[source] = text
        if not any(source in takes for takes in _TAKES.values()):
            raise EvaluationError(f"--data {text}: no experiment takes {source}")
    plans = {}
    for name, experiment in EXPERIMENTS.items():
        chosen = next((given[source] for source in _TAKES[name] if source in given), None)
        if name == "degrees" and chosen is not None and open_images(chosen).boxes is None:
            chosen = None  # it needs boxes around objects
        if chosen or experiment.data:
            numbers = protocol if name.endswith("retrieval") else {}
            plans[name] = make_plan(name, chosen, pretrain_data, scale, seeds, changes, numbers)
    return plans


def _source(text: str) -> str:
    source = parse_spec(text, SOURCES).source
    if source is None:
        raise EvaluationError(f"--data {text}: say what it is, as in mnist:PATH, cifar10:PATH or voc:PATH")
    return source


def _is_finished(folder: Path, plan: Plan) -> bool:
    try:
        kept = dict(json.loads((folder / RESULT).read_text(encoding="utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    wanted = plain(settings_of(plan))
    return bool({key: kept.get(key) for key in wanted} == wanted)


def _announce(plans: Mapping[str, Plan], open_ones: Sequence[str]) -> None:
    """What there is to do, and roughly how long it takes."""
    seconds = {name: estimate_seconds(plans[name]) for name in open_ones}
    for name, plan in plans.items():
        say(f"{name:<20} {in_words(seconds[name]) if name in seconds else 'finished':<12} {plan.data}")
    if seconds:
        say(f"together about {in_words(sum(seconds.values()))} on two cores; stopped, the same command goes on")
    left_out = [name for name in EXPERIMENTS if name not in plans]
    if left_out:
        say(f"left out, because its pictures are not embedded: {', '.join(left_out)} (--data voc:PATH)")


def _index(results: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """The page of all experiments: first what holds, in words; then claim by claim; then the reports."""
    claims = [
        (name, claim)
        for name, result in results.items()
        for claim in judge(name, result["figures"], result["protocol"].get("reads", "backbone"))
    ]
    figures = {name: [vars(claim) for of, claim in claims if of == name] for name in results}
    sections = [
        Section("The paper's claims", content=[_claim_table(claims, "the paper")]),
        Section(
            "Ours, which the paper does not make",
            _in_words([claim for _, claim in claims if claim.whose == "ours"]),
            [_claim_table(claims, "ours")],
        ),
        Section("Reports", content=[_report_table(results)]),
    ]
    protocol = {name: result["settings"]["data"] for name, result in results.items()}
    return Outcome("The paper's experiments", _conclusion(claims), figures, {"pictures": protocol}, sections)


def _conclusion(claims: Sequence[tuple[str, Claim]]) -> str:
    """How many hold, and which do not."""
    of_paper = [claim for _, claim in claims if claim.whose == "the paper"]
    counts = Counter(claim.verdict for claim in of_paper)
    return (
        f"Of {len(of_paper)} claims of the paper, {counts['holds']} hold here, {counts['does not hold']} do not, and "
        f"{counts['cannot be judged']} cannot be judged by these figures.\n\n{_in_words(of_paper)}"
    )


def _in_words(claims: Sequence[Claim]) -> str:
    """The sentences by their verdict, a paragraph each."""
    titles: dict[Verdict, str] = {
        "holds": "What holds here",
        "does not hold": "What does not",
        "cannot be judged": "What cannot be judged",
    }
    found = {verdict: [claim.text for claim in claims if claim.verdict == verdict] for verdict in titles}
    return "\n\n".join(f"{titles[verdict]}: {' '.join(texts)}" for verdict, texts in found.items() if texts)


def _claim_table(claims: Sequence[tuple[str, Claim]], whose: str) -> Table:
    rows: list[list[Cell]] = [
        [claim.text, claim.verdict, claim.evidence, claim.rule, Link(name, f"{name}/{REPORT}")]
        for name, claim in claims
        if claim.whose == whose
    ]
    caption = "Each verdict follows from the figures by the rule beside it; intervals are of 95 %."
    return Table(caption, ["claim", "here", "figures", "rule", "report"], rows)


def _report_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = [
        [
            Link(name, f"{name}/{REPORT}"),
            result["title"],
            result["settings"]["data"],
            str(result["settings"]["scale"]),
            in_words(result["seconds"]),
        ]
        for name, result in results.items()
    ]
    return Table("What was done, on which pictures.", ["report", "", "pictures", "scale", "the last run took"], rows)
