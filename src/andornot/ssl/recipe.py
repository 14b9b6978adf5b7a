"""Recipes: everything that decides what a pretraining gives, in one validated object, from YAML and `key=value`."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from ..errors import AndornotError, unknown
from .synthesis import check_name, default_beta
from .views import Augmentation, ViewSettings


class RecipeError(AndornotError):
    """A recipe that does not exist, does not parse, or says something that cannot be."""


class Calibration(BaseModel):
    """How activations of a backbone become degrees, without training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    power: float = Field(
        default=4.0, gt=0, description="degree = rank ** power: the higher, the fewer pictures have a feature"
    )
    doubt: float = Field(
        default=0.05, ge=0, lt=1, description="probability that is spread evenly over the truth values"
    )
    levels: int = Field(default=129, ge=2, description="quantiles kept for each feature")


_SIMSIAM: Final = Augmentation()


class Recipe(BaseModel):
    """Settings of a pretraining. The defaults are the paper's, but for `crops_from`."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)

    regime: Literal["scratch", "frozen", "calibrated"] = "scratch"
    backbone: str = "resnet18"
    backbone_options: dict[str, Any] = {}
    num_features: int = Field(default=512, ge=1, description="N")
    num_values: int = Field(default=8, ge=2, description="M")
    projector_hidden: int | None = Field(default=None, ge=1, description="default: the width of the backbone")
    predictor_hidden: int = Field(default=512, ge=1)

    size: int | None = Field(default=None, ge=8, le=2048, description="side of the pictures; default: the backbone's")
    fit: Literal["crop", "squash"] = "crop"
    crops_from: Literal["centre", "original"] = Field(
        default="centre",
        description="what views are cut from: the centre square at 8/7 of the size, which is quick, or all of the "
        "picture, as in the paper; for square pictures both are the same",
    )
    views: Augmentation = Field(default=_SIMSIAM, description="what differs from SimSiam's augmentation")
    cached_views: int = Field(default=4, ge=2, description="regime frozen: views computed of each picture")

    synthesis: str = "logic"
    mixing: float = Field(default=0.5, ge=0, le=1, description="λ_mix")
    alpha: float = Field(default=0.5, ge=0, le=1)
    beta: float = Field(
        default=0.6, ge=0, le=1, description="weight of the expected value loss; 0 for other methods than logic"
    )
    prediction_temperature: float = Field(default=0.1, gt=0, description="τ_s")
    target_temperature: float = Field(default=0.04, gt=0, description="τ_t")
    centre_momentum: float = Field(default=0.9, ge=0, le=1, description="m")
    prior: float | None = Field(default=None, description="sparsity s of the prior exp(-s·k); default: DINO's centre")

    epochs: int = Field(default=500, ge=1)
    batch_size: int = Field(default=32, ge=2, description="pictures in a step, over all processes")
    learning_rate: float = Field(default=0.027, gt=0)
    learning_rate_batch: int | None = Field(default=None, ge=1, description="scale the rate by batch_size / this")
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-4, ge=0)
    accumulate: int = Field(default=1, ge=1, description="parts of a batch that are computed one after the other")
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = "32-true"
    seed: int = Field(default=0, ge=0)
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
        return self

    @field_serializer("views")
    def _what_differs(self, views: Augmentation) -> dict[str, Any]:
        return {name: value for name, value in asdict(views).items() if value != getattr(_SIMSIAM, name)}

    def view_settings(self, size: int) -> ViewSettings:
        """The augmentation at that size."""
        return ViewSettings(size, **asdict(self.views))

    @property
    def peak_learning_rate(self) -> float:
        """The rate of the first step, after scaling."""
        return self.learning_rate * (self.batch_size / self.learning_rate_batch if self.learning_rate_batch else 1)


# The keys that there are, below each key that has some.
_KEYS: Final[dict[str, Iterable[str]]] = {
    "": Recipe.model_fields,
    "calibration.": Calibration.model_fields,
    "views.": [field.name for field in fields(Augmentation)],
}


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("andornot") / "recipes"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def load_recipe(name_or_path: str | os.PathLike[str], changes: Iterable[str] = ()) -> Recipe:
    """A recipe by name, or from a YAML file, with `key=value` changes; `calibration.power=2` reaches inside.

    A text is a file if it ends in .yaml or .yml or has a slash in it; a path always is.
    """
    text = _read(name_or_path)
    try:
        settings = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError) as error:  # the second for a date like 2024-13-45
        raise RecipeError(f"{name_or_path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(settings, dict):
        raise RecipeError(f"{name_or_path} must have lines `key: value`, got a {type(settings).__name__}")
    for change in changes:
        _apply(settings, change)
    return make_recipe(settings)


def make_recipe(settings: Mapping[str, Any]) -> Recipe:
    """A recipe from plain settings, or a RecipeError that names the key and the nearest known one."""
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            prefix = "".join(f"{part}." for part in place[:-1])
            raise RecipeError(_unknown_key(place[-1], _KEYS[prefix], prefix)) from None
        message = first["msg"].removeprefix("Value error, ")
        raise RecipeError(f"{'.'.join(place)}: {message}, got {first['input']!r}" if place else message) from None


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
    except (yaml.YAMLError, ValueError):
        raise RecipeError(f'the value in "{change}" cannot be read') from None
    *outer, key = path.strip().split(".")
    for part in outer:
        inner = settings.setdefault(part, {})
        if not isinstance(inner, dict):
            raise RecipeError(f'"{part}" in "{change}" has no keys inside')
        settings = inner
    settings[key] = value


def _unknown_key(key: str, known: Iterable[str], prefix: str = "") -> str:
    return unknown("key", prefix + key, [prefix + name for name in known])
