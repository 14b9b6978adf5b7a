"""The plan of an experiment (data, scale, seeds, recipes), and its folder, from which it can be resumed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load_file

from ..data import ImageSet, source_of
from ..errors import EvaluationError, unknown
from ..evaluate.experiments.config import option_name
from ..evaluate.experiments.operators import Operator, check_operators
from ..evaluate.experiments.probing import hash_weights
from ..evaluate.report.writing import to_json_data
from ..files import write_text
from ..model import DESCRIPTION, Model, new_backbone
from ..pretraining import pretrain, view_activations
from ..ssl.batches import ActivationBatches
from ..ssl.checkpoint import write_tensors
from ..ssl.recipe import Recipe, load_recipe
from .catalogue import EXPERIMENTS, Scale
from .paper import METHODS, UNTRAINED

# Not in the paper: a prior under which few images have a feature.
SPARSE: Final = "logic, sparse prior"
PRIOR: Final = 0.3
_NO_TRAINING: Final = {"epochs": 1, "learning_rate": 1e-9, "weight_decay": 0}
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
    """Number of runs of each model, with seeds 0, 1, …; `of_label` has exceptions by label, 0 to skip a model."""

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
        """Return the recipe with changes, and without the prior of our recipes, which is not in the paper."""
        own = (f"{key}={json.dumps(value)}" for key, value in changes.items())
        return load_recipe(self.recipe_name, ("prior=null", *self.changes, *own))

    def methods(self) -> dict[str, Recipe]:
        """Return the recipes of the paper's four methods, of logic with a sparse prior, and of an untrained network."""
        recipes = {method: self.recipe({"synthesis": method}) for method in METHODS}
        return {**recipes, SPARSE: self.recipe({"prior": PRIOR}), UNTRAINED: self.untrained()}

    def untrained(self) -> Recipe:
        """Return a recipe with a learning rate that is too small to change any weight."""
        return self.recipe(_NO_TRAINING)

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
    """Create a plan, with defaults for everything that is None."""
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
        # Without models there is nothing to lose, so the folder can be reused with other settings.
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
        """Return the model with this name; train or calibrate it if it does not exist."""
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
        # A pretrained backbone is the same for all seeds and takes most of the time, so compute it for one seed only.
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
        """Return the result of `measure` as plain data; it is stored, and measured again only if `depends` changes."""
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
