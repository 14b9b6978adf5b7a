"""What may be asked, and within which limits."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, create_model

from ..gallery import SearchOptions, Where
from ..gallery.browsing import Order
from ..gallery.options import Option, options_of
from .formulas import MAX_CHARACTERS
from .uploads import PREFIX

MAX_TOP: Final = 1000
_LARGEST: Final = 2**53 - 1  # what JavaScript can count to

Id = Annotated[int, Path(ge=1, le=_LARGEST, description="of a picture of the gallery")]
FeatureNumber = Annotated[int, Path(ge=0, le=_LARGEST)]
UploadName = Annotated[str, Path(pattern=f"^{PREFIX}[0-9a-f]{{16}}$")]
Top = Annotated[int, Query(ge=1, le=MAX_TOP, description="how many pictures")]
Offset = Annotated[int, Query(ge=0, le=_LARGEST)]
Limit = Annotated[int, Query(ge=1, le=1000)]
FormulaText = Annotated[str, Query(max_length=MAX_CHARACTERS, description="such as `12 & ~cat.jpg`")]
PictureText = Annotated[str, Query(min_length=1, max_length=300, description="an id, a file name or an upload")]
FileName = Annotated[str, Query(max_length=300, description="what the picture is called, to be shown")]
Version = Annotated[
    str, Query(max_length=100, description="the `version` of the picture: the answer may then be kept for ever")
]
# What is other here than in the process.
_LIMITS: Final[dict[str, dict[str, Any]]] = {
    "top": {"default": 48, "ge": 1, "le": MAX_TOP},
    "folder": {"max_length": 1000, "description": "only pictures in this folder, as `/api/folders` calls it"},
    "label": {"max_length": 300},
    "after": {"max_length": 30},
    "before": {"max_length": 30},
    "min_truth": {"ge": 0, "le": 1},
    "expand": {"ge": 0, "le": MAX_TOP},
}

Model = TypeVar("Model", bound=BaseModel)


def _with_options(settings: type) -> Callable[[type[Model]], type[Model]]:
    """Gives a model a parameter for each option of a search, in its own words."""
    parameters = {o.name: _parameter(o) for o in options_of(settings)}

    def derive(model: type[Model]) -> type[Model]:
        derived: type[Model] = create_model(  # type: ignore[call-overload]
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **parameters
        )
        return derived

    return derive


def _parameter(option: Option) -> tuple[Any, Any]:
    choices = option.choices if option.default is not None else option.choices and ("", *option.choices)
    default = "" if option.default is None else option.default  # a text that is empty stands for none
    settings = {"default": default, "description": option.help, **_LIMITS.get(option.name, {})}
    return Literal[choices] if choices else option.kind, Field(**settings)


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @property
    def options(self) -> SearchOptions:
        """What is asked for, in the gallery's words."""
        return SearchOptions.of({name: None if value == "" else value for name, value in self})


@_with_options(Where)
class Listed(_Asked):
    """A part of the gallery."""

    offset: int = Field(0, ge=0, le=_LARGEST)
    limit: int = Field(100, ge=1, le=1000)
    order: Order = "id"


@_with_options(SearchOptions)
class Searched(_Asked):
    """A search."""

    formula: str = Field(max_length=MAX_CHARACTERS, description="such as `12 & ~cat.jpg`")


class Downloaded(Searched):
    """A search whose hits are to be kept."""

    format: Literal["zip", "csv"] = "zip"
