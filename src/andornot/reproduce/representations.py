"""The experiments on representations: possession degrees (Sec. V-D), and retrieval (Sec. V-E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch

from ..data import ImageSet, open_images, train_split
from ..evaluate.experiments.config import RetrievalConfig, change_config
from ..evaluate.experiments.degrees import ImageActivations, compute_activations, evaluate_degrees
from ..evaluate.experiments.operability import measure_operability
from ..evaluate.experiments.operators import ARITHMETIC, CONDITIONS, OPERATORS, PAPER, Condition, Operator
from ..evaluate.experiments.probing import backbone_key
from ..evaluate.experiments.retrieval import EncodedTask, Mixture, RetrievalTask, choose_images, encode_task
from ..evaluate.experiments.retrieval_report import draw_hits, report_retrieval
from ..evaluate.experiments.sets import gallery_and_queries
from ..evaluate.metrics.intervals import MeanStd
from ..evaluate.metrics.operability import Measurement, RetrievalRow, summarize_runs
from ..evaluate.report.outcome import Outcome, Section, Table
from ..model import Model
from .paper import BASELINES, PROPOSED, UNTRAINED
from .plan import CALIBRATED, ExperimentPlan, Workspace, label

# The defaults are the paper's. VOC 2007 has too few images for them. A gallery of scenes has all images, so that some
# show both classes.
CONFIGS: Final = {
    ("mnist-retrieval", "small"): RetrievalConfig(),
    ("mnist-retrieval", "paper"): RetrievalConfig(),
    ("voc-retrieval", "small"): RetrievalConfig(images_per_class=15, top=20, gallery=40, min_per_class=40),
    ("voc-retrieval", "paper"): RetrievalConfig(),
    ("scenes-retrieval", "small"): RetrievalConfig(images_per_class=15, gallery=None, min_per_class=50, top=20),
    ("scenes-retrieval", "paper"): RetrievalConfig(gallery=None, min_per_class=200),
}


def run_retrieval(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Compare all queries and operators for the four methods, for a sparse prior, and for a calibrated backbone."""
    config = change_config(CONFIGS[plan.experiment, plan.scale], plan.retrieval)
    gallery, queries = gallery_and_queries(plan.data)
    task = choose_images(gallery, queries, config)
    if plan.pretrain_data != plan.data:
        images = train_split(plan.pretrain_data).train
    else:
        images = gallery if queries is not None else _without_queries(gallery, task)
    recipes = plan.methods()
    if plan.experiment != "mnist-retrieval":
        recipes[CALIBRATED] = plan.calibrated()
    evaluator = _RetrievalEvaluator(task, config.top)
    rows: dict[str, list[RetrievalRow]] = {}
    first_models: dict[str, Model] = {}
    plan.seeds.check(recipes)
    for name, recipe in plan.seeds.chosen(recipes).items():
        # Operators for NOT that are not in the paper are only compared for our models.
        operators = plan.operators or (PAPER + ARITHMETIC if name in (*BASELINES, UNTRAINED) else OPERATORS)
        conditions = () if name in (*BASELINES, UNTRAINED) or plan.operators else CONDITIONS
        found = []
        for _, run, model in workspace.runs(name, images, recipe, plan.seeds):
            depends = {
                "model": model.id,
                "config": config.model_dump(),
                "task": task.counts(),
                "operators": [f"{operator.query} {operator.name} {operator.distances}" for operator in operators],
                **({"conditions": [condition.name for condition in conditions]} if conditions else {}),
            }
            measured = workspace.step(run, depends, partial(evaluator.measure, model, operators, conditions))
            found.append(Measurement.from_data(measured))
            first_models.setdefault(name, model)
        rows[name] = summarize_runs(found, seed=config.seed)
    title = {"mnist": "Retrieval on MNIST", "voc": "Retrieval on VOC", "scenes": "Retrieval on scenes"}
    # The paper's model with its distance, then the last model (ours) with the distance of searches.
    shown = dict.fromkeys(
        [(PROPOSED if PROPOSED in rows else list(rows)[-1], "cross-entropy"), (list(rows)[-1], "degrees")]
    )
    hits = [figure for name, distance in shown for figure in draw_hits(name, first_models[name], task, distance)]
    name = title[plan.experiment.partition("-")[0]]
    return report_retrieval(name, rows, task, config, hits, first=PROPOSED)


class _RetrievalEvaluator:
    """Evaluate models on the same task; the backbone runs once for models that share it."""

    def __init__(self, task: RetrievalTask, top: int) -> None:
        self._task, self._top = task, top
        self._last: tuple[tuple[object, ...], EncodedTask] | None = None

    def measure(self, model: Model, operators: Sequence[Operator], conditions: Sequence[Condition]) -> dict[str, Any]:
        key = backbone_key(model)
        if self._last is not None and self._last[0] == key:
            encoded = self._last[1].with_heads_of(model)
        else:
            encoded = encode_task(model, self._task)
            self._last = key, encoded
        return measure_operability(encoded, top=self._top, operators=operators, conditions=conditions).to_data()


def _without_queries(images: ImageSet, task: RetrievalTask) -> ImageSet:
    """Return the images without the query images, to train on."""
    names: set[str] = set()
    for queries in (*task.singles.values(), *task.pairs.values()):
        parts: tuple[Any, ...] = tuple(queries) if isinstance(queries, Mixture) else (queries,)
        names.update(name for part in parts for name in part.names)
    return images.subset(torch.tensor([name not in names for name in images.names]))


def run_degrees(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Evaluate possession degrees of the paper's model, an untrained one, and at small scale a calibrated backbone.

    Each seed has its own model (if it is trained), and its own halves of the images to choose and measure features.
    """
    images = open_images(plan.data)
    pretrain_images = images if plan.pretrain_data == plan.data else train_split(plan.pretrain_data).train
    recipes = {PROPOSED: plan.recipe({}), UNTRAINED: plan.untrained()} | (
        {CALIBRATED: plan.calibrated()} if plan.scale == "small" else {}
    )
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
    """Evaluate models on the same images; the backbone runs once for models that share it."""

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
