"""The folder of an experiment: what is finished in it is used again, so a stopped experiment goes on where it was."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load_file

from ..data import ImageSet
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.probing import digest
from ..evaluate.report.writing import plain
from ..files import write_text
from ..model import DESCRIPTION, Model, new_backbone
from ..pretraining import pretrain, view_activations
from ..ssl.batches import ActivationBatches
from ..ssl.checkpoint import write_tensors
from ..ssl.recipe import Recipe
from .plan import Seeds, label

SETTINGS: Final = "settings.json"
# What the activations of views depend on; with the seed other views are drawn, and new weights where none are given.
_DECIDING: Final = {
    "backbone",
    "backbone_options",
    "size",
    "fit",
    "crops_from",
    "views",
    "cached_views",
    "mixing",
    "seed",
}


def say(text: str) -> None:
    """Tells the user how far it is."""
    print(text, file=sys.stderr, flush=True)


class Workspace:
    """Models and measurements of one experiment in a folder. `settings` are all that decides what they are.

    `announcement` is said before the first of them is made: where there is nothing to do, or nothing can be done, not.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], announcement: str = "") -> None:
        self._announcement = announcement
        self.folder, self._models = folder, folder / "models"
        self._settings = json.dumps(plain(settings), indent=2) + "\n"
        file = folder / SETTINGS
        # Where nothing was made yet, nothing is lost: after a mistake the same folder may be used.
        if self._models.exists() and file.exists() and _settings_in(file) != json.loads(self._settings):
            raise EvaluationError(
                f"{folder} holds an experiment with other settings ({file.name} says which): choose another -o"
            )

    def runs(self, name: str, images: ImageSet, recipe: Recipe, seeds: Seeds) -> Iterator[tuple[int, str, Model]]:
        """For each seed, the model of that recipe, and what it is called in the folder."""
        # Without training nothing depends on the seed.
        for seed in seeds.of(name)[:1] if recipe.regime == "calibrated" else seeds.of(name):
            run = f"{label(name)}-{seed}"
            yield seed, run, self.model(run, images, recipe.model_copy(update={"seed": seed}))

    def model(self, name: str, images: ImageSet, recipe: Recipe) -> Model:
        """The model of that name, trained or calibrated now if it is not there yet."""
        folder = self._models / name
        if (folder / DESCRIPTION).exists():
            model = Model.load(folder)
            if model.recipe.model_copy(update={"checkpoint_seconds": recipe.checkpoint_seconds}) != recipe:
                raise EvaluationError(f"{folder} holds a model of another recipe: remove it, or choose another -o")
            return model
        doing = "calibrating" if recipe.regime == "calibrated" else "pretraining"
        self._say(f"{name}: {doing} on {len(images):,} pictures")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / SETTINGS, self._settings)
        features = self._view_activations(images, recipe) if recipe.regime == "frozen" else None
        return pretrain(images, folder, recipe, cached=features, resume=True, say=lambda _: None)

    def _say(self, text: str) -> None:
        if self._announcement:
            say(self._announcement)
            self._announcement = ""
        say(text)

    def _view_activations(self, images: ImageSet, recipe: Recipe) -> ActivationBatches:
        """Features of views, the same for each method, because the backbone does not change: computed once."""
        first = recipe.model_copy(update={"seed": 0})
        backbones = [digest(new_backbone(of_seed, images.channels)) for of_seed in (first, recipe)]
        # A pretrained backbone is the same for all seeds, and takes most of the time: its views are drawn once.
        recipe = first if backbones[0] == backbones[1] else recipe
        name = hashlib.sha256(recipe.model_dump_json(include=_DECIDING).encode()).hexdigest()[:12]
        file = self.folder / "features" / f"{name}.safetensors"
        try:
            return ActivationBatches(**load_file(file))
        except (FileNotFoundError, SafetensorError, TypeError):
            computed = view_activations(images, recipe)
        file.parent.mkdir(exist_ok=True)
        write_tensors(file, vars(computed))
        return computed

    def step(self, name: str, depends: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """What `measure` gives, as plain data; measured once as long as what it depends on stays the same."""
        file = self.folder / "steps" / f"{name}.json"
        wanted = json.loads(json.dumps(plain(depends)))
        # What is missing, damaged or of something else is measured.
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["depends"] == wanted:
                return kept["result"]
        self._say(f"{name}: measuring")
        result = plain(measure())
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"depends": wanted, "result": result}) + "\n")
        return result


def _settings_in(file: Path) -> Any:
    """Without the number of runs, which version 0.1 wrote with them: each has a model of its own."""
    try:
        kept = dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise EvaluationError(
            f"{file} is damaged, and nobody knows of what {file.parent} is: choose another -o"
        ) from None
    return {key: value for key, value in kept.items() if key != "seeds"}
