"""What is to be reproduced: an experiment, its data, its scale, and the recipe that follows from these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.compared_operators import Operator
from ..ssl.recipe import Recipe, load_recipe
from .catalogue import Scale
from .paper import METHODS

# Ours: few pictures have a feature.
SPARSE: Final = "logic, sparse prior"
PRIOR: Final = 0.3
# The reference that training must beat.
CALIBRATED: Final = "calibrated backbone"


def label(name: str) -> str:
    """What a model is called in names of files, and in `--seeds`.

    >>> label("logic, sparse prior"), label("N = 512, M = 8")
    ('logic-sparse-prior', 'N512-M8')
    """
    return name.replace(" = ", "").replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Seeds:
    """How many runs each model has, with the seeds 0, 1, …; some may have another number, by label, and 0 is none."""

    each: int
    of_label: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Sequence[str], default: int) -> Seeds:
        """From `3` for all models and `logic=3` for one.

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
        """The seeds of the model of that name."""
        return range(self.of_label.get(label(name), self.each))

    def chosen(self, recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
        """Those that have any runs."""
        return {name: recipe for name, recipe in recipes.items() if len(self.of(name))}

    def check(self, names: Iterable[str]) -> None:
        """An EvaluationError for a label that none of the names has."""
        known = [label(name) for name in names]
        for name, count in self.of_label.items():
            if name not in known:
                raise EvaluationError(f'--seeds {name}={count}: no model "{name}", there are {", ".join(known)}')


@dataclass(frozen=True)
class Plan:
    """All that decides an experiment."""

    experiment: str
    data: str
    pretrain_data: str
    scale: Scale
    seeds: Seeds
    recipe_name: str
    changes: tuple[str, ...] = ()
    protocol: Mapping[str, int] = field(default_factory=dict)  # what differs from the retrieval protocol of the scale
    operators: tuple[Operator, ...] | None = (
        None  # in the place of those that retrieval compares; steps know their names
    )

    def recipe(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with changes; without the prior that the package's own recipes have and the paper has not."""
        own = (f"{key}={json.dumps(value)}" for key, value in changes.items())
        return load_recipe(self.recipe_name, ("prior=null", *self.changes, *own))

    def methods(self) -> dict[str, Recipe]:
        """The paper's four methods, and ours."""
        recipes = {method: self.recipe({"synthesis": method}) for method in METHODS}
        return {**recipes, SPARSE: self.recipe({"prior": PRIOR})}

    def calibrated(self) -> Recipe:
        """A pretrained backbone as it is, its channels calibrated: the reference that training must beat."""
        return load_recipe("photos")

    def settings(self) -> dict[str, Any]:
        """What must be the same for a stopped experiment to go on; with more seeds it goes on too."""
        chosen = {"protocol": dict(self.protocol)} if self.protocol else {}
        return {
            "experiment": self.experiment,
            "data": self.data,
            "pretrain_data": self.pretrain_data,
            "scale": self.scale,
            "recipe": self.recipe({}).model_dump(mode="json"),
            **chosen,
        }
