"""The plan of an experiment: its data, scale, seeds, and the recipes of its models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..data import source_of
from ..errors import unknown
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.config import option_name
from ..evaluate.experiments.operators import Operator, check_operators
from ..ssl.recipe import Recipe, load_recipe
from .catalogue import EXPERIMENTS, Scale
from .paper import METHODS

# Ours: a prior by which few images have a feature.
SPARSE: Final = "logic, sparse prior"
PRIOR: Final = 0.3
# The baseline for training.
CALIBRATED: Final = "calibrated backbone"


def label(name: str) -> str:
    """Return the label of a model in file names and in `--seeds`.

    >>> label("logic, sparse prior"), label("N = 512, M = 8")
    ('logic-sparse-prior', 'N512-M8')
    """
    return name.replace(" = ", "").replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Seeds:
    """Number of runs of each model, with seeds 0, 1, …; `of_label` has exceptions, where 0 leaves a model out."""

    each: int
    of_label: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Sequence[str], default: int) -> Seeds:
        """Parse `3` for all models and `logic=3` for one.

        >>> Seeds.parse(["1", "logic=3"], default=5)
        Seeds(each=1, of_label={'logic': 3})
        """
        of_label: dict[str, int] = {}
        for text in texts:
            name, equals, count = text.rpartition("=")
            if not count.strip().isdecimal():
                raise EvaluationError(f"--seeds {text}: expected a number of runs, as in --seeds 3 or --seeds logic=3")
            if equals:
                of_label[name.strip()] = int(count)
            else:
                default = int(count)
        if not max(default, *of_label.values(), 0):
            raise EvaluationError(f"--seeds {' '.join(texts)}: at least one run is needed")
        return cls(default, of_label)

    def of(self, name: str) -> range:
        """Return the seeds of a model."""
        return range(self.of_label.get(label(name), self.each))

    def chosen(self, recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
        """Return the recipes of models with at least one run."""
        return {name: recipe for name, recipe in recipes.items() if len(self.of(name))}

    def check(self, names: Iterable[str]) -> None:
        """Raise an EvaluationError for a label that matches no name."""
        known = [label(name) for name in names]
        for name, count in self.of_label.items():
            if name not in known:
                raise EvaluationError(f"--seeds {name}={count}: no such model (choose from {', '.join(known)})")


@dataclass(frozen=True)
class ExperimentPlan:
    """Everything that determines an experiment. `retrieval` and `operators` replace the defaults of the scale."""

    experiment: str
    data: str
    pretrain_data: str
    scale: Scale
    seeds: Seeds
    recipe_name: str
    changes: tuple[str, ...] = ()
    retrieval: Mapping[str, int] = field(default_factory=dict)
    operators: tuple[Operator, ...] | None = None

    def recipe(self, changes: Mapping[str, Any]) -> Recipe:
        """Return the recipe with changes, without the prior of our recipes, which the paper does not have."""
        own = (f"{key}={json.dumps(value)}" for key, value in changes.items())
        return load_recipe(self.recipe_name, ("prior=null", *self.changes, *own))

    def methods(self) -> dict[str, Recipe]:
        """Return the recipes of the paper's four methods, and of logic with a sparse prior."""
        recipes = {method: self.recipe({"synthesis": method}) for method in METHODS}
        return {**recipes, SPARSE: self.recipe({"prior": PRIOR})}

    def calibrated(self) -> Recipe:
        """Return the recipe of a calibrated pretrained backbone, the baseline for training."""
        return load_recipe("photos")

    def settings(self) -> dict[str, Any]:
        """Return the settings that must not change when an experiment is resumed; seeds may be added."""
        changed = {"retrieval": dict(self.retrieval)} if self.retrieval else {}
        return {
            "experiment": self.experiment,
            "data": self.data,
            "pretrain_data": self.pretrain_data,
            "scale": self.scale,
            "recipe": self.recipe({}).model_dump(mode="json"),
            **changed,
        }


def make_plan(
    experiment: str,
    data: str | None,
    pretrain_data: str | None,
    scale: Scale,
    seeds: int | Sequence[str] | None,
    changes: Sequence[str],
    retrieval: Mapping[str, int],
    operators: Sequence[Operator] | None = None,
) -> ExperimentPlan:
    """Return the plan, with defaults for everything that is None."""
    if experiment not in EXPERIMENTS:
        raise EvaluationError(unknown("experiment", experiment, EXPERIMENTS))
    chosen = EXPERIMENTS[experiment]
    data = data or chosen.data
    if not data:
        raise EvaluationError(f"{experiment} needs images that are not embedded: pass --data voc:PATH")
    texts = [str(seeds)] if isinstance(seeds, int) else list(seeds or ())
    runs = Seeds.parse(texts, chosen.seeds[scale])
    if retrieval and not chosen.retrieval:
        raise EvaluationError(
            f"{option_name(next(iter(retrieval)))} is for retrieval experiments, and {experiment} is not one"
        )
    if operators is not None:
        if not chosen.retrieval:
            raise EvaluationError(f"operators are for retrieval experiments, and {experiment} is not one")
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
    return ExperimentPlan(
        experiment,
        data,
        pretrain_data or data,
        scale,
        runs,
        recipe,
        (*short, *changes),
        dict(retrieval),
        None if operators is None else tuple(operators),
    )
