"""Recipes: validated settings of a pretraining run, from YAML and `key=value`."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from ..errors import AndornotError, unknown
from .losses import check_name, default_beta
from .views import Augmentation, ViewSettings


class RecipeError(AndornotError):
    """Raised for a recipe that does not exist, cannot be parsed, or has invalid settings."""


class Calibration(BaseModel):
    """Settings of calibration, which turns activations of a backbone into degrees without training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    power: float = Field(
        default=4.0, gt=0, description="degree = rank ** power: the higher, the fewer images have a feature"
    )
    smoothing: float = Field(
        default=0.05, ge=0, lt=1, description="probability that is spread evenly over the truth values"
    )
    levels: int = Field(default=129, ge=2, le=100_000, description="quantiles kept for each feature")


_SIMSIAM: Final = Augmentation()
# The longest value shown in an error message, in characters.
_LONGEST: Final = 100


class Recipe(BaseModel):
    """Settings of a pretraining run. The defaults are the paper's, except for `crop_source`."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)

    regime: Literal["scratch", "frozen", "calibrated"] = "scratch"
    backbone: str = "resnet18"
    backbone_options: dict[str, Any] = {}
    num_features: int = Field(default=512, ge=1, le=1_000_000, description="N")
    num_values: int = Field(default=8, ge=2, le=10_000, description="M")
    projector_hidden: int | None = Field(
        default=None, ge=1, le=1_000_000, description="default: the width of the backbone"
    )
    projector_layers: int = Field(default=3, ge=1, le=10, description="3 in SimSiam, 2 in its experiments on CIFAR-10")
    predictor_hidden: int = Field(default=512, ge=1, le=1_000_000)

    size: int | None = Field(default=None, ge=8, le=2048, description="side of the images; default: the backbone's")
    fit: Literal["crop", "squash", "whole"] = Field(
        default="crop",
        description="what is encoded: the center square, all of the image as a square, or all of it with its aspect "
        "ratio and about as many pixels, which only efficientnet-lite0 can; others then take the center square",
    )
    crop_source: Literal["center", "original"] = Field(
        default="center",
        description="what views are cut from: the center square at 8/7 of the size, which is quick, or all of the "
        "image, as in the paper; for square images both are the same",
    )
    views: Augmentation = Field(default=_SIMSIAM, description="what differs from SimSiam's augmentation")
    cached_views: int = Field(default=4, ge=2, le=10_000, description="regime frozen: views computed of each image")

    synthesis: str = "logic"
    loss: str | None = Field(default=None, description="name of a loss of your own, which `pretrain` was given")
    mixup_lambda: float = Field(default=0.5, ge=0, le=1, description="λ_mix")
    alpha: float = Field(default=0.5, ge=0, le=1)
    beta: float = Field(
        default=0.6, ge=0, le=1, description="weight of the expected value loss; 0 for other methods than logic"
    )
    decorrelation: float = Field(
        default=0.0, ge=0, le=1e6, description="weight of the penalty on correlated features; 0 in the paper"
    )
    prediction_temperature: float = Field(default=0.1, gt=0, description="τ_s")
    target_temperature: float = Field(default=0.04, gt=0, description="τ_t")
    center_momentum: float = Field(
        default=0.9, ge=0, le=1, description="m; without a prior it changes nothing, because batch norms center logits"
    )
    prior: float | None = Field(
        default=None,
        ge=-1_000,
        le=1_000,
        description="sparsity s of the prior exp(-s·k); default: none, as in the paper",
    )

    epochs: int = Field(default=500, ge=1, le=1_000_000_000)
    steps: int | None = Field(
        default=None, ge=1, le=1_000_000_000_000, description="steps of the training, in the place of epochs"
    )
    batch_size: int = Field(default=32, ge=2, le=1_000_000_000, description="images in a step, over all processes")
    learning_rate: float = Field(default=0.027, gt=0, le=1e6)
    lr_reference_batch: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="scale the rate by batch_size / this"
    )
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-4, ge=0, le=1e6)
    accumulate: int = Field(
        default=1, ge=1, le=1_000_000, description="parts of a batch that are computed one after the other"
    )
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = "32-true"
    seed: int = Field(default=0, ge=0, lt=2**63)
    checkpoint_seconds: float = Field(
        default=60.0, ge=0, description="how much a killed run loses at most; changes nothing else"
    )

    calibration: Calibration = Calibration()

    @model_validator(mode="before")
    @classmethod
    def _beta_of_the_method(cls, settings: Any) -> Any:
        if isinstance(settings, Mapping) and "beta" not in settings:
            return {**settings, "beta": default_beta(settings.get("synthesis", "logic"))}
        return settings

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        check_name(self.synthesis)
        for key in ("name", "channels"):
            if key in self.backbone_options:
                raise ValueError(f'backbone_options has no "{key}": the name is `backbone`, the images have channels')
        return self

    @field_serializer("views")
    def _what_differs(self, views: Augmentation) -> dict[str, Any]:
        return {name: value for name, value in asdict(views).items() if value != getattr(_SIMSIAM, name)}

    @property
    def square_fit(self) -> Literal["crop", "squash"]:
        """How images are made square where that is required."""
        return "squash" if self.fit == "squash" else "crop"

    def view_settings(self, size: int) -> ViewSettings:
        """Return the augmentation for views of this size."""
        return ViewSettings(size, **asdict(self.views))

    def head_settings(self, width: int) -> dict[str, int]:
        """Return the settings that determine the shapes of the heads for activations of this width."""
        return {
            "num_features": self.num_features,
            "num_values": self.num_values,
            "projector_hidden": self.projector_hidden or width,
            "predictor_hidden": self.predictor_hidden,
            "projector_layers": self.projector_layers,
        }

    @property
    def peak_learning_rate(self) -> float:
        """The learning rate of the first step, after scaling."""
        return self.learning_rate * (self.batch_size / self.lr_reference_batch if self.lr_reference_batch else 1)


# The valid keys, by parent key.
_KEYS: Final[dict[str, Iterable[str]]] = {
    "": Recipe.model_fields,
    "calibration.": Calibration.model_fields,
    "views.": [field.name for field in fields(Augmentation)],
}


def recipe_names() -> list[str]:
    """Return the names of the recipes in the package."""
    folder = resources.files("andornot") / "recipes"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def load_recipe(name_or_path: str | os.PathLike[str], changes: Iterable[str] = (), **overrides: Any) -> Recipe:
    """Load a recipe by name or from a YAML file, with some settings changed.

    A string is a file name if it ends in .yaml or .yml or contains a slash. `changes` are `key=value` strings as on the
    command line; `calibration.power=2` sets a nested key.

    >>> recipe = load_recipe("photos", seed=1, calibration={"power": 2})
    >>> recipe.seed, recipe.calibration.power, recipe.calibration.smoothing
    (1, 2.0, 0.2)
    """
    text = _read(name_or_path)
    try:
        settings = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError) as error:  # ValueError for a date like 2024-13-45
        raise RecipeError(f"{name_or_path} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise RecipeError(f"{name_or_path} is nested too deep") from None
    if not isinstance(settings, dict):
        raise RecipeError(f"{name_or_path} must have lines `key: value`, got a {type(settings).__name__}")
    for change in changes:
        _apply(settings, change)
    for key, value in overrides.items():
        nested = settings.get(key)
        settings[key] = {**nested, **value} if isinstance(nested, dict) and isinstance(value, Mapping) else value
    return make_recipe(settings)


def make_recipe(settings: Mapping[str, Any]) -> Recipe:
    """Validate settings; the RecipeError for an unknown key suggests the closest valid one."""
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            prefix = "".join(f"{part}." for part in place[:-1])
            raise RecipeError(_unknown_key(place[-1], _KEYS[prefix], prefix)) from None
        message = first["msg"].removeprefix("Value error, ")
        raise RecipeError(f"{'.'.join(place)}: {message}, got {_shown(first['input'])}" if place else message) from None


def _read(name_or_path: str | os.PathLike[str]) -> str:
    if not isinstance(name_or_path, str) or name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        try:
            return Path(name_or_path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise RecipeError(f"cannot read the recipe {name_or_path}: {reason}") from None
    file = resources.files("andornot") / "recipes" / f"{name_or_path}.yaml"
    if not file.is_file():
        raise RecipeError(unknown("recipe", name_or_path, recipe_names()))
    return file.read_text(encoding="utf-8")


def _apply(settings: dict[str, Any], change: str) -> None:
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise RecipeError(f'"{change}" is not of the form key=value, for example epochs=20')
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise RecipeError(f'the value in "{_cut(change)}" cannot be read') from None
    *outer, key = path.strip().split(".")
    for part in outer:
        inner = settings.setdefault(part, {})
        if not isinstance(inner, dict):
            raise RecipeError(f'"{part}" in "{change}" has no keys inside')
        settings = inner
    settings[key] = value


def _shown(value: Any) -> str:
    """Return a value as shown in a message."""
    try:
        return _cut(repr(value))
    except (RecursionError, ValueError):  # nested too deep, or a number of too many digits
        return f"a {type(value).__name__}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _unknown_key(key: str, known: Iterable[str], prefix: str = "") -> str:
    return unknown("key", prefix + key, [prefix + name for name in known])
