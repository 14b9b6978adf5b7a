"""What is to be reproduced: an experiment, its data, its scale, and the recipe that follows from these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..ssl.recipe import Recipe, load_recipe

Scale = Literal["small", "paper"]


@dataclass(frozen=True)
class Plan:
    """All that decides an experiment."""

    experiment: str
    data: str
    pretrain_data: str
    scale: Scale
    seeds: int
    recipe_name: str
    changes: tuple[str, ...] = ()
    protocol: Mapping[str, int] = field(default_factory=dict)  # what differs from the retrieval protocol of the scale

    def recipe(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with changes; without the prior that the package's own recipes have and the paper has not."""
        own = (f"{key}={json.dumps(value)}" for key, value in changes.items())
        return load_recipe(self.recipe_name, ("prior=null", *self.changes, *own))

    def calibrated(self) -> Recipe:
        """A pretrained backbone as it is, its channels calibrated: the reference that training must beat."""
        return load_recipe("photos")

    def settings(self) -> dict[str, Any]:
        """What must be the same for a stopped experiment to go on."""
        chosen = {"protocol": dict(self.protocol)} if self.protocol else {}
        return {
            "experiment": self.experiment,
            "data": self.data,
            "pretrain_data": self.pretrain_data,
            "scale": self.scale,
            "seeds": self.seeds,
            "recipe": self.recipe({}).model_dump(mode="json"),
            **chosen,
        }
