"""The experiment on possession degrees: what the features of a model stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..data import ImageSet, open_images, training_part
from ..evaluate.experiments.degrees import Seen, degrees_outcome, look
from ..evaluate.experiments.probing import sight_of
from ..evaluate.metrics.intervals import Spread
from ..evaluate.report.outcome import Outcome, Section, Table
from ..model import Model
from .paper import PAPERS
from .plan import CALIBRATED, Plan, label
from .workspace import Workspace


def degrees(plan: Plan, workspace: Workspace) -> Outcome:
    """Sec. V-D: what features stand for, in the paper's model, and at small scale in a calibrated backbone too.

    A run with another seed has another model, where that is trained, and other halves of the pictures to choose
    features on and to measure them.
    """
    images = open_images(plan.data)
    seen = images if plan.pretrain_data == plan.data else training_part(plan.pretrain_data).train
    recipes = {PAPERS: plan.recipe({})} | ({CALIBRATED: plan.calibrated()} if plan.scale == "small" else {})
    bench = _Bench(images)
    outcomes: dict[str, Outcome] = {}
    runs: dict[str, list[dict[str, Any]]] = {}
    plan.seeds.check(recipes)
    for name, recipe in plan.seeds.chosen(recipes).items():
        models = {seed: model for seed, _, model in workspace.runs(name, seen, recipe, plan.seeds)}
        outcomes[name] = bench.outcome(models[0], 0)
        for seed in plan.seeds.of(name):
            model = models.get(seed, models[0])  # a calibrated one is the same for all
            depends = {"model": model.id, "data": plan.data, "seed": seed}
            measure = partial(bench.figures, model, seed)
            runs.setdefault(name, []).append(workspace.step(f"degrees-{label(name)}-{seed}", depends, measure))
    summary = "\n\n".join(f"{name[0].upper()}{name[1:]}: {outcome.summary}" for name, outcome in outcomes.items())
    sections = [
        replace(section, title=f"{section.title}: {name}" if len(outcomes) > 1 else section.title)
        for name, outcome in outcomes.items()
        for section in outcome.sections
    ]
    figures = {name: {**outcome.figures, "runs": runs[name]} for name, outcome in outcomes.items()}
    protocol = next(iter(outcomes.values())).protocol
    if any(len(found) > 1 for found in runs.values()):
        sections.insert(0, _over_seeds(runs))
    return Outcome("Possession degrees", summary, figures, protocol, sections)


_DEGREE_FIGURES: Final = {
    "area": "area under the ROC curve of the best feature of a class, held out",
    "own_crop": "the feature of an object is higher in its own crop",
}


class _Bench:
    """Measures one model after the other on the same pictures; the backbone runs once for all that share it."""

    def __init__(self, images: ImageSet) -> None:
        self._images = images
        self._seen: tuple[tuple[object, ...], Seen] | None = None
        self._last: tuple[tuple[str, int], Outcome] | None = None

    def outcome(self, model: Model, seed: int) -> Outcome:
        """What the features of a model stand for. The last one is known."""
        if self._last is None or self._last[0] != (model.id, seed):
            self._last = (model.id, seed), degrees_outcome(model, self._images, seed=seed, seen=self._look(model))
        return self._last[1]

    def figures(self, model: Model, seed: int) -> dict[str, float | None]:
        """The two figures that sum up an outcome; None for one that the pictures do not allow."""
        found = self.outcome(model, seed).figures
        classes, crops = found["classes"], found["crops"]
        return {
            "area": classes["mean_area_held_out"] if classes else None,
            "own_crop": crops["all"]["higher_in_own_crop"]["value"] if crops else None,
        }

    def _look(self, model: Model) -> Seen:
        sight = sight_of(model)
        if self._seen is None or self._seen[0] != sight:
            self._seen = sight, look(model, self._images)
        return self._seen[1]


def _over_seeds(runs: Mapping[str, Sequence[Mapping[str, float | None]]]) -> Section:
    rows = [
        [name, len(found), *(_spread([run[figure] for run in found]) for figure in _DEGREE_FIGURES)]
        for name, found in runs.items()
    ]
    caption = "Mean and deviation over seeds; a calibrated backbone has one model, and other halves of the pictures."
    return Section("Over seeds", content=[Table(caption, ["model", "runs", *_DEGREE_FIGURES.values()], rows)])


def _spread(values: Sequence[float | None]) -> Spread | float | None:
    known = [value for value in values if value is not None]
    return Spread.of(known) if len(known) > 1 else next(iter(known), None)
