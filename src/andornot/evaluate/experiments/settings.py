"""What the settings of all experiments have in common: they are checked, do not change, and say what would be right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ...errors import unknown
from ..errors import EvaluationError


class Settings(BaseModel):
    """Settings whose fields are described by what they must be: the description is the message about a wrong one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise EvaluationError(self._wrong(error.errors()[0])) from None

    @classmethod
    def _wrong(cls, error: Mapping[str, Any]) -> str:
        """What to say of the first mistake that pydantic found."""
        if error["type"] == "value_error":
            return str(error["ctx"]["error"])
        name = str(error["loc"][0])
        if error["type"] == "extra_forbidden":
            return unknown("setting", name, cls.model_fields)
        return cls.complaint(name, cls.model_fields[name].description or error["msg"], error["input"])

    @classmethod
    def complaint(cls, name: str, right: str, given: object) -> str:
        """The line about a value that is not right."""
        return f"{right if name in right else f'{name}: {right}'}, not {json.dumps(given, default=str)}"

    def changed(self, **changes: Any) -> Self:
        """The same with some changes, which are checked too."""
        return type(self)(**{**self.model_dump(), **changes})
