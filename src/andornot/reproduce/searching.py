"""The experiments in which pictures are searched (MNIST, VOC, scenes), and that on possession degrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import torch

from ..data import ImageSet, open_images
from ..evaluate.degrees import degrees_outcome
from ..evaluate.operability import Row
from ..evaluate.operators import ARITHMETIC, OPERATORS, PAPER, Operator
from ..evaluate.outcome import Outcome
from ..evaluate.probing import digest
from ..evaluate.retrieval import (
    EncodedRetrieval,
    Mixture,
    Protocol,
    Retrieval,
    choose_pictures,
    encode_retrieval,
    make_protocol,
)
from ..evaluate.retrieval_report import draw_hits, measure_rows, retrieval_outcome
from ..evaluate.sets import gallery_and_queries
from ..model import Model
from ..ssl.recipe import Recipe
from .paper import BASELINES, METHODS
from .plan import Plan
from .work import Work

# Ours: few pictures have a feature.
SPARSE: Final = "logic, sparse prior"
CALIBRATED: Final = "calibrated backbone"
_PRIOR: Final = 0.3

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


def retrieval(plan: Plan, work: Work) -> Outcome:
    """Sec. V-E: all queries and operators for the four methods, for a sparse prior, and for a calibrated backbone."""
    protocol = make_protocol(_PROTOCOLS[plan.experiment, plan.scale], plan.protocol)
    gallery, queries = gallery_and_queries(plan.data)
    task = choose_pictures(gallery, queries, protocol)
    images = gallery if queries is not None else _without_queries(gallery, task)
    recipes: dict[str, Recipe] = {method: plan.recipe({"synthesis": method}) for method in METHODS}
    recipes[SPARSE] = plan.recipe({"prior": _PRIOR})
    if plan.experiment != "mnist-retrieval":
        recipes[CALIBRATED] = plan.calibrated()
    rows, bench = {}, _Bench(task, protocol)
    for name, recipe in recipes.items():
        label = name.replace(", ", "-").replace(" ", "-")
        model = work.model(label, images, recipe)
        # Answers to NOT of our own are compared where they would be used.
        operators = PAPER + ARITHMETIC if name in BASELINES else OPERATORS
        depends = {
            "model": model.id,
            "protocol": asdict(protocol),
            "task": task.counts(),
            "operators": [f"{operator.query} {operator.name} {operator.distances}" for operator in operators],
        }
        found = work.step(label, depends, partial(bench.measure, model, operators))
        rows[name] = [Row.from_data(row) for row in found]
    title = {"mnist": "Retrieval on MNIST", "voc": "Retrieval on VOC", "scenes": "Retrieval on scenes"}
    pictures = draw_hits(model, task)  # of the last model, the one that the summary is about
    return retrieval_outcome(title[plan.experiment.partition("-")[0]], rows, task, protocol, pictures)


class _Bench:
    """Measures one model after the other at the same task; the backbone runs once for all that share it."""

    def __init__(self, task: Retrieval, protocol: Protocol) -> None:
        self._task, self._protocol = task, protocol
        self._last: tuple[tuple[object, ...], EncodedRetrieval] | None = None

    def measure(self, model: Model, operators: Sequence[Operator]) -> list[Row]:
        backbone = digest(model.backbone), model.size, model.recipe.fit
        if self._last is not None and self._last[0] == backbone:
            encoded = self._last[1].represented_by(model)
        else:
            encoded = encode_retrieval(model, self._task)
            self._last = backbone, encoded
        return measure_rows(encoded, self._protocol, operators=operators)


def degrees(plan: Plan, work: Work) -> Outcome:
    """Sec. V-D: what features stand for, on a calibrated backbone (small) or a trained model (paper)."""
    images = open_images(plan.data)
    recipe = plan.calibrated() if plan.scale == "small" else plan.recipe({})
    return degrees_outcome(work.model("model", images, recipe), images)


def _without_queries(images: ImageSet, task: Retrieval) -> ImageSet:
    """Pictures that are asked with are not trained on."""
    asked: set[str] = set()
    for pictures in (*task.singles.values(), *task.pairs.values()):
        parts: tuple[Any, ...] = tuple(pictures) if isinstance(pictures, Mixture) else (pictures,)
        asked.update(name for part in parts for name in part.names)
    return images.subset(torch.tensor([name not in asked for name in images.names]))
