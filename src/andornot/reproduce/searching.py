"""The experiments in which pictures are searched (MNIST, VOC, scenes), and that on possession degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import mean, stdev
from typing import Any, Final

import torch

from ..data import ImageSet, open_images, training_part
from ..evaluate.degrees import degrees_outcome
from ..evaluate.operability import Measurement, Row, measure_operability, summarise
from ..evaluate.operators import ARITHMETIC, OPERATORS, PAPER, Operator
from ..evaluate.outcome import Outcome, Section, Spread, Table
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
from ..evaluate.retrieval_report import draw_hits, retrieval_outcome
from ..evaluate.sets import gallery_and_queries
from ..model import Model
from .paper import BASELINES, PAPERS
from .plan import Plan, label
from .work import Work

CALIBRATED: Final = "calibrated backbone"

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


def retrieval(plan: Plan, work: Work) -> Outcome:
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
        operators = PAPER + ARITHMETIC if name in BASELINES else OPERATORS
        found = []
        for _, run, model in work.runs(name, images, recipe, plan.seeds):
            depends = {
                "model": model.id,
                "protocol": asdict(protocol),
                "task": task.counts(),
                "operators": [f"{operator.query} {operator.name} {operator.distances}" for operator in operators],
            }
            measured = work.step(run, depends, partial(bench.measure, model, operators))
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

    def measure(self, model: Model, operators: Sequence[Operator]) -> dict[str, Any]:
        backbone = digest(model.backbone), model.size, model.recipe.fit
        if self._last is not None and self._last[0] == backbone:
            encoded = self._last[1].represented_by(model)
        else:
            encoded = encode_retrieval(model, self._task)
            self._last = backbone, encoded
        return measure_operability(encoded, top=self._protocol.top, operators=operators).to_data()


def degrees(plan: Plan, work: Work) -> Outcome:
    """Sec. V-D: what features stand for, in the paper's model, and at small scale in a calibrated backbone too.

    A run with another seed has another model, where that is trained, and other halves of the pictures to choose
    features on and to measure them.
    """
    images = open_images(plan.data)
    seen = images if plan.pretrain_data == plan.data else training_part(plan.pretrain_data).train
    recipes = {PAPERS: plan.recipe({})} | ({CALIBRATED: plan.calibrated()} if plan.scale == "small" else {})
    outcomes: dict[str, Outcome] = {}
    runs: dict[str, list[dict[str, Any]]] = {}
    plan.seeds.check(recipes)
    for name, recipe in plan.seeds.chosen(recipes).items():
        models = {seed: model for seed, _, model in work.runs(name, seen, recipe, plan.seeds)}
        for seed in plan.seeds.of(name):
            model = models.get(seed, models[0])  # a calibrated one is the same for all
            depends = {"model": model.id, "data": plan.data, "seed": seed}
            measure = partial(_degree_figures, model, images, seed)
            runs.setdefault(name, []).append(work.step(f"degrees-{label(name)}-{seed}", depends, measure))
        outcomes[name] = degrees_outcome(models[0], images)
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


def _degree_figures(model: Model, images: ImageSet, seed: int) -> dict[str, float | None]:
    """The two figures that sum up an outcome; None for one that the pictures do not allow."""
    found = degrees_outcome(model, images, seed=seed).figures
    classes, crops = found["classes"], found["crops"]
    return {
        "area": classes["mean_area_held_out"] if classes else None,
        "own_crop": crops["all"]["higher_in_own_crop"]["value"] if crops else None,
    }


def _over_seeds(runs: Mapping[str, Sequence[Mapping[str, float | None]]]) -> Section:
    rows = [
        [name, len(found), *(_spread([run[figure] for run in found]) for figure in _DEGREE_FIGURES)]
        for name, found in runs.items()
    ]
    caption = "Mean and deviation over seeds; a calibrated backbone has one model, and other halves of the pictures."
    return Section("Over seeds", content=[Table(caption, ["model", "runs", *_DEGREE_FIGURES.values()], rows)])


def _spread(values: Sequence[float | None]) -> Spread | float | None:
    known = [value for value in values if value is not None]
    return Spread(mean(known), stdev(known)) if len(known) > 1 else next(iter(known), None)


def _without_queries(images: ImageSet, task: Retrieval) -> ImageSet:
    """Pictures that are asked with are not trained on."""
    asked: set[str] = set()
    for pictures in (*task.singles.values(), *task.pairs.values()):
        parts: tuple[Any, ...] = tuple(pictures) if isinstance(pictures, Mixture) else (pictures,)
        asked.update(name for part in parts for name in part.names)
    return images.subset(torch.tensor([name not in asked for name in images.names]))
