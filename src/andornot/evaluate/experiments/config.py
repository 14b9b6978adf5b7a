"""Configuration of experiments and of the retrieval task. It does not import torch, so that `--help` is fast."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import EvaluationError, unknown


class ExperimentConfig(BaseModel):
    """Base of frozen, validated configurations. The description of a field is the error message for a bad value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise EvaluationError(self._explain(error.errors()[0])) from None

    @classmethod
    def _explain(cls, error: Mapping[str, Any]) -> str:
        """Return the message for the first error that pydantic found."""
        if error["type"] == "value_error":
            return str(error["ctx"]["error"])
        name = str(error["loc"][0])
        if error["type"] == "extra_forbidden":
            return unknown("setting", name, cls.model_fields)
        return cls.error_message(name, cls.model_fields[name].description or error["msg"], error["input"])

    @classmethod
    def error_message(cls, name: str, expected: str, value: object) -> str:
        """Return the message for a bad value."""
        return f"{expected if name in expected else f'{name}: {expected}'}, not {json.dumps(value, default=str)}"

    def changed(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return type(self)(**{**self.model_dump(), **changes})


_Count = Annotated[int, Field(ge=1, description="it must be 1 or more")]
_CountOrAll = Annotated[int | None, Field(ge=1, description="it must be 1 or more, or 0 for all images")]


class RetrievalConfig(ExperimentConfig):
    """Settings of the retrieval task; the defaults are the paper's. `gallery=None` uses all images."""

    images_per_class: _Count = 30  # query images of each of a, b and ab; all combinations of two operands are used
    top: _Count = 50  # hits that count
    gallery: _CountOrAll = 200  # gallery images of each class; sets with one class per image use all
    min_per_class: _Count = 200  # a class takes part if this many images show only it
    min_per_pair: _Count = 5  # a pair takes part if this many images show exactly its two classes
    seed: int = 0

    @classmethod
    def error_message(cls, name: str, expected: str, value: object) -> str:
        """Return the message for a bad value, with the name of the command-line option."""
        return f"{option_name(name)} {value}: {expected}"


def change_config(base: RetrievalConfig, changes: Mapping[str, int]) -> RetrievalConfig:
    """Return the configuration with some numbers changed; a gallery of 0 means all images."""
    numbers: dict[str, int | None] = dict(changes)
    if numbers.get("gallery") == 0:
        numbers["gallery"] = None
    return base.changed(**numbers)


def option_name(field: str) -> str:
    """Return the command-line option of a field of `RetrievalConfig`.

    >>> option_name("min_per_class"), option_name("gallery")
    ('--min-per-class', '--gallery-images')
    """
    return "--gallery-images" if field == "gallery" else f"--{field.replace('_', '-')}"
