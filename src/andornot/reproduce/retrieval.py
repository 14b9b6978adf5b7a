"""The retrieval experiments (Sec. V-E): MNIST, VOC, scenes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from ..data import ImageSet, train_split
from ..evaluate.experiments.conditions import CONDITIONS, Condition
from ..evaluate.experiments.config import RetrievalConfig, change_config
from ..evaluate.experiments.operability import measure_operability
from ..evaluate.experiments.operators import ARITHMETIC, OPERATORS, PAPER, Operator
from ..evaluate.experiments.probing import backbone_key
from ..evaluate.experiments.retrieval import EncodedTask, Mixture, RetrievalTask, choose_images, encode_task
from ..evaluate.experiments.retrieval_report import draw_hits, report_retrieval
from ..evaluate.experiments.sets import gallery_and_queries
from ..evaluate.metrics.operability import Measurement, RetrievalRow, summarize_runs
from ..evaluate.report.outcome import Outcome
from ..model import Model
from .paper import BASELINES, PROPOSED
from .plan import CALIBRATED, ExperimentPlan
from .workspace import Workspace

# The defaults are the paper's. VOC 2007 has too few images for them; a gallery of scenes has all images, so that some
# show both things.
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
        # Our own operators for NOT are compared for the models that would use them.
        operators = plan.operators or (PAPER + ARITHMETIC if name in BASELINES else OPERATORS)
        conditions = () if name in BASELINES or plan.operators else CONDITIONS
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
    # The paper's model by its distance, then the last, which is ours, by the distance of search.
    shown = dict.fromkeys(
        [(PROPOSED if PROPOSED in rows else list(rows)[-1], "cross-entropy"), (list(rows)[-1], "degrees")]
    )
    hits = [figure for name, distance in shown for figure in draw_hits(name, first_models[name], task, distance)]
    name = title[plan.experiment.partition("-")[0]]
    return report_retrieval(name, rows, task, config, hits, first=PROPOSED)


class _RetrievalEvaluator:
    """Evaluates models on the same task; the backbone runs once for models that share it."""

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
