"""The experiment on possession degrees (Sec. V-D): what the features of a model stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..data import ImageSet, open_images, train_split
from ..evaluate.experiments.degrees import ImageActivations, compute_activations, evaluate_degrees
from ..evaluate.experiments.probing import backbone_key
from ..evaluate.metrics.intervals import MeanStd
from ..evaluate.report.outcome import Outcome, Section, Table
from ..model import Model
from .paper import PROPOSED
from .plan import CALIBRATED, ExperimentPlan, label
from .workspace import Workspace


def run_degrees(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Evaluate possession degrees of the paper's model, and at small scale of a calibrated backbone.

    Each seed has its own model, if it is trained, and its own halves of the images to choose features and measure them.
    """
    images = open_images(plan.data)
    pretrain_images = images if plan.pretrain_data == plan.data else train_split(plan.pretrain_data).train
    recipes = {PROPOSED: plan.recipe({})} | ({CALIBRATED: plan.calibrated()} if plan.scale == "small" else {})
    evaluator = _DegreesEvaluator(images)
    outcomes: dict[str, Outcome] = {}
    runs: dict[str, list[dict[str, Any]]] = {}
    plan.seeds.check(recipes)
    for name, recipe in plan.seeds.chosen(recipes).items():
        models = {seed: model for seed, _, model in workspace.runs(name, pretrain_images, recipe, plan.seeds)}
        outcomes[name] = evaluator.outcome(models[0], 0)
        for seed in plan.seeds.of(name):
            model = models.get(seed, models[0])  # a calibrated backbone has one model
            depends = {"model": model.id, "data": plan.data, "seed": seed}
            measure = partial(evaluator.metrics, model, seed)
            runs.setdefault(name, []).append(workspace.step(f"degrees-{label(name)}-{seed}", depends, measure))
    summary = "\n\n".join(f"{name[0].upper()}{name[1:]}: {outcome.summary}" for name, outcome in outcomes.items())
    sections = [
        replace(section, title=f"{section.title}: {name}" if len(outcomes) > 1 else section.title)
        for name, outcome in outcomes.items()
        for section in outcome.sections
    ]
    metrics = {name: {**outcome.metrics, "runs": runs[name]} for name, outcome in outcomes.items()}
    protocol = next(iter(outcomes.values())).protocol
    if any(len(found) > 1 for found in runs.values()):
        sections.insert(0, _over_seeds(runs))
    return Outcome("Possession degrees", summary, metrics, protocol, sections)


_METRICS: Final = {
    "area": "area under the ROC curve of the best feature of a class, held out",
    "own_crop": "the feature of an object is higher in its own crop",
}


class _DegreesEvaluator:
    """Evaluates models on the same images; the backbone runs once for models that share it."""

    def __init__(self, images: ImageSet) -> None:
        self._images = images
        self._activations: tuple[tuple[object, ...], ImageActivations] | None = None
        self._last: tuple[tuple[str, int], Outcome] | None = None

    def outcome(self, model: Model, seed: int) -> Outcome:
        """Return the outcome for a model; the last one is cached."""
        if self._last is None or self._last[0] != (model.id, seed):
            self._last = (
                (model.id, seed),
                evaluate_degrees(model, self._images, seed=seed, activations=self._compute(model)),
            )
        return self._last[1]

    def metrics(self, model: Model, seed: int) -> dict[str, float | None]:
        """Return the two main metrics of an outcome; None if the images do not allow it."""
        found = self.outcome(model, seed).metrics
        classes, crops = found["classes"], found["crops"]
        return {
            "area": classes["mean_area_held_out"] if classes else None,
            "own_crop": crops["all"]["higher_in_own_crop"]["value"] if crops else None,
        }

    def _compute(self, model: Model) -> ImageActivations:
        key = backbone_key(model)
        if self._activations is None or self._activations[0] != key:
            self._activations = key, compute_activations(model, self._images)
        return self._activations[1]


def _over_seeds(runs: Mapping[str, Sequence[Mapping[str, float | None]]]) -> Section:
    rows = [
        [name, len(found), *(_mean_std([run[metric] for run in found]) for metric in _METRICS)]
        for name, found in runs.items()
    ]
    caption = "Mean and standard deviation over seeds; for a calibrated backbone only the halves of the images change."
    return Section("Over seeds", content=[Table(caption, ["model", "runs", *_METRICS.values()], rows)])


def _mean_std(values: Sequence[float | None]) -> MeanStd | float | None:
    known = [value for value in values if value is not None]
    return MeanStd.of(known) if len(known) > 1 else next(iter(known), None)
