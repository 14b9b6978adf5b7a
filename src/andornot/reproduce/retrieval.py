"""The experiments in which pictures are searched: MNIST, VOC, scenes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch

from ..data import ImageSet, training_part
from ..evaluate.experiments.compared_conditions import CONDITIONS, Condition
from ..evaluate.experiments.compared_operators import ARITHMETIC, OPERATORS, PAPER, Operator
from ..evaluate.experiments.operability import measure_operability
from ..evaluate.experiments.probing import sight_of
from ..evaluate.experiments.protocol import Protocol, make_protocol
from ..evaluate.experiments.retrieval import EncodedRetrieval, Mixture, Retrieval, choose_pictures, encode_retrieval
from ..evaluate.experiments.retrieval_report import draw_hits, retrieval_outcome
from ..evaluate.experiments.sets import gallery_and_queries
from ..evaluate.metrics.operability import Measurement, Row, summarise
from ..evaluate.report.outcome import Outcome
from ..model import Model
from .paper import BASELINES, PAPERS
from .plan import CALIBRATED, Plan
from .workspace import Workspace

# The paper's numbers are the defaults of `Protocol`. VOC 2007 has too few pictures for them; a gallery of scenes is
# all pictures, so that some show both things.
_PROTOCOLS: Final = {
    ("mnist-retrieval", "small"): Protocol(),
    ("mnist-retrieval", "paper"): Protocol(),
    ("voc-retrieval", "small"): Protocol(pictures=15, top=20, gallery=40, enough=40),
    ("voc-retrieval", "paper"): Protocol(),
    ("scenes-retrieval", "small"): Protocol(pictures=15, gallery=None, enough=50, top=20),
    ("scenes-retrieval", "paper"): Protocol(gallery=None, enough=200),
}


def retrieval_protocol(plan: Plan) -> Protocol:
    """The numbers of the scale, with what was asked for."""
    return make_protocol(_PROTOCOLS[plan.experiment, plan.scale], plan.protocol)


def retrieval(plan: Plan, workspace: Workspace) -> Outcome:
    """Sec. V-E: all queries and operators for the four methods, for a sparse prior, and for a calibrated backbone."""
    protocol = retrieval_protocol(plan)
    gallery, queries = gallery_and_queries(plan.data)
    task = choose_pictures(gallery, queries, protocol)
    if plan.pretrain_data != plan.data:
        images = training_part(plan.pretrain_data).train
    else:
        images = gallery if queries is not None else _without_queries(gallery, task)
    recipes = plan.methods()
    if plan.experiment != "mnist-retrieval":
        recipes[CALIBRATED] = plan.calibrated()
    bench = _Bench(task, protocol)
    rows: dict[str, list[Row]] = {}
    pictured: dict[str, Model] = {}
    plan.seeds.check(recipes)
    for name, recipe in plan.seeds.chosen(recipes).items():
        # Answers to NOT of our own are compared where they would be used.
        operators = plan.operators or (PAPER + ARITHMETIC if name in BASELINES else OPERATORS)
        conditions = () if name in BASELINES or plan.operators else CONDITIONS
        found = []
        for _, run, model in workspace.runs(name, images, recipe, plan.seeds):
            depends = {
                "model": model.id,
                "protocol": protocol.model_dump(),
                "task": task.counts(),
                "operators": [f"{operator.query} {operator.name} {operator.distances}" for operator in operators],
                **({"conditions": [condition.name for condition in conditions]} if conditions else {}),
            }
            measured = workspace.step(run, depends, partial(bench.measure, model, operators, conditions))
            found.append(Measurement.from_data(measured))
            pictured.setdefault(name, model)
        rows[name] = summarise(found, seed=protocol.seed)
    title = {"mnist": "Retrieval on MNIST", "voc": "Retrieval on VOC", "scenes": "Retrieval on scenes"}
    # The paper's model by its distance, then the last, which is ours, as search compares it.
    shown = dict.fromkeys(
        [(PAPERS if PAPERS in rows else list(rows)[-1], "cross-entropy"), (list(rows)[-1], "degrees")]
    )
    pictures = [picture for name, distance in shown for picture in draw_hits(name, pictured[name], task, distance)]
    name = title[plan.experiment.partition("-")[0]]
    return retrieval_outcome(name, rows, task, protocol, pictures, first=PAPERS)


class _Bench:
    """Measures one model after the other at the same task; the backbone runs once for all that share it."""

    def __init__(self, task: Retrieval, protocol: Protocol) -> None:
        self._task, self._protocol = task, protocol
        self._last: tuple[tuple[object, ...], EncodedRetrieval] | None = None

    def measure(self, model: Model, operators: Sequence[Operator], conditions: Sequence[Condition]) -> dict[str, Any]:
        sight = sight_of(model)
        if self._last is not None and self._last[0] == sight:
            encoded = self._last[1].represented_by(model)
        else:
            encoded = encode_retrieval(model, self._task)
            self._last = sight, encoded
        return measure_operability(
            encoded, top=self._protocol.top, operators=operators, conditions=conditions
        ).to_data()


def _without_queries(images: ImageSet, task: Retrieval) -> ImageSet:
    """Pictures that are asked with are not trained on."""
    asked: set[str] = set()
    for pictures in (*task.singles.values(), *task.pairs.values()):
        parts: tuple[Any, ...] = tuple(pictures) if isinstance(pictures, Mixture) else (pictures,)
        asked.update(name for part in parts for name in part.names)
    return images.subset(torch.tensor([name not in asked for name in images.names]))
