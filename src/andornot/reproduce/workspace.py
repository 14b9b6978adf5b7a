"""The folder of an experiment: finished models and measurements are reused, so that it can be resumed."""

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
from ..evaluate.experiments.probing import hash_weights
from ..evaluate.report.writing import to_json_data
from ..files import write_text
from ..model import DESCRIPTION, Model, new_backbone
from ..pretraining import pretrain, view_activations
from ..ssl.batches import ActivationBatches
from ..ssl.checkpoint import write_tensors
from ..ssl.recipe import Recipe
from .plan import Seeds, label

SETTINGS: Final = "settings.json"
# The fields of a recipe that the activations of views depend on.
_ACTIVATION_FIELDS: Final = {
    "backbone",
    "backbone_options",
    "size",
    "fit",
    "crop_source",
    "views",
    "cached_views",
    "mixup_lambda",
    "seed",
}


def print_status(text: str) -> None:
    """Print a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)


class Workspace:
    """Models and measurements of one experiment in a folder, determined by `settings`."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self._models = folder, folder / "models"
        self._settings = json.dumps(to_json_data(settings), indent=2) + "\n"
        file = folder / SETTINGS
        # Without models nothing is lost: the folder can be reused after a mistake.
        if self._models.exists() and file.exists() and _settings_in(file) != json.loads(self._settings):
            raise EvaluationError(
                f"{folder} has an experiment with other settings (see {file.name}): choose another -o"
            )

    def runs(self, name: str, images: ImageSet, recipe: Recipe, seeds: Seeds) -> Iterator[tuple[int, str, Model]]:
        """Yield seed, name and model of each run of a recipe."""
        # Calibration does not depend on the seed.
        for seed in seeds.of(name)[:1] if recipe.regime == "calibrated" else seeds.of(name):
            run = f"{label(name)}-{seed}"
            yield seed, run, self.model(run, images, recipe.model_copy(update={"seed": seed}))

    def model(self, name: str, images: ImageSet, recipe: Recipe) -> Model:
        """Return the model of that name; train or calibrate it if it does not exist."""
        folder = self._models / name
        if (folder / DESCRIPTION).exists():
            model = Model.load(folder)
            if model.recipe.model_copy(update={"checkpoint_seconds": recipe.checkpoint_seconds}) != recipe:
                raise EvaluationError(f"{folder} has a model of another recipe: remove it, or choose another -o")
            return model
        doing = "calibrating" if recipe.regime == "calibrated" else "pretraining"
        print_status(f"{name}: {doing} on {len(images):,} images")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / SETTINGS, self._settings)
        features = self._view_activations(images, recipe) if recipe.regime == "frozen" else None
        return pretrain(images, folder, recipe, cached=features, resume=True, say=lambda _: None)

    def _view_activations(self, images: ImageSet, recipe: Recipe) -> ActivationBatches:
        """Return activations of views, computed once for all methods, because the backbone is frozen."""
        first = recipe.model_copy(update={"seed": 0})
        backbones = [hash_weights(new_backbone(of_seed, images.channels)) for of_seed in (first, recipe)]
        # A pretrained backbone is the same for all seeds and takes most of the time: draw its views once.
        recipe = first if backbones[0] == backbones[1] else recipe
        name = hashlib.sha256(recipe.model_dump_json(include=_ACTIVATION_FIELDS).encode()).hexdigest()[:12]
        file = self.folder / "features" / f"{name}.safetensors"
        try:
            return ActivationBatches(**load_file(file))
        except (FileNotFoundError, SafetensorError, TypeError):
            computed = view_activations(images, recipe)
        file.parent.mkdir(exist_ok=True)
        write_tensors(file, vars(computed))
        return computed

    def step(self, name: str, depends: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """Return the result of `measure` as plain data, measured again only if `depends` has changed."""
        file = self.folder / "steps" / f"{name}.json"
        wanted = json.loads(json.dumps(to_json_data(depends)))
        # Measure again what is missing or damaged.
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            saved = json.loads(file.read_text(encoding="utf-8"))
            if saved["depends"] == wanted:
                return saved["result"]
        print_status(f"{name}: measuring")
        result = to_json_data(measure())
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"depends": wanted, "result": result}) + "\n")
        return result


def _settings_in(file: Path) -> Any:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise EvaluationError(f"{file} is damaged: choose another -o") from None
