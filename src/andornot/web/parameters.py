"""Parameters of requests, with their limits."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, create_model

from ..gallery import Filter, SearchOptions
from ..gallery.options import Option, options_of
from .browsing import Order
from .formulas import MAX_CHARACTERS
from .uploads import UPLOAD_PREFIX

MAX_TOP: Final = 1000
_MAX_OFFSET: Final = 100_000
_MAX_EXCLUDED: Final = 100
_MAX_INTEGER: Final = 2**53 - 1  # the largest that JavaScript represents exactly

Id = Annotated[int, Path(ge=1, le=_MAX_INTEGER, description="the id of an image")]
FeatureNumber = Annotated[int, Path(ge=0, le=_MAX_INTEGER)]
DefinitionName = Annotated[str, Path(max_length=300)]
UploadName = Annotated[str, Path(pattern=f"^{UPLOAD_PREFIX}[0-9a-f]{{16}}$")]
Top = Annotated[int, Query(ge=1, le=MAX_TOP, description="number of images")]
Offset = Annotated[int, Query(ge=0, le=_MAX_INTEGER)]
Limit = Annotated[int, Query(ge=1, le=1000)]
FormulaText = Annotated[str, Query(max_length=MAX_CHARACTERS, description="such as `12 & ~cat.jpg`")]
ImageText = Annotated[str, Query(min_length=1, max_length=300, description="an id, a file name or an upload")]
FileName = Annotated[str, Query(max_length=300, description="the file name of the image, to be shown")]
Version = Annotated[
    str, Query(max_length=100, description="the `version` of the image: the response may then be cached forever")
]
# Settings that differ from those of the Python API.
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "top": {"default": 48, "ge": 1, "le": MAX_TOP},
    "folder": {"max_length": 1000, "description": "only images in this folder, as `/api/folders` returns it"},
    "label": {"max_length": 300},
    "after": {"max_length": 30},
    "before": {"max_length": 30},
    "min_truth": {"ge": 0, "le": 1},
    "expand": {"ge": 0, "le": MAX_TOP},
}

Model = TypeVar("Model", bound=BaseModel)


def _with_options(settings: type) -> Callable[[type[Model]], type[Model]]:
    """Add a field for each option of a search to a model."""
    parameters = {o.name: _parameter(o) for o in options_of(settings)}

    def derive(model: type[Model]) -> type[Model]:
        derived: type[Model] = create_model(  # type: ignore[call-overload]
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **parameters
        )
        return derived

    return derive


def _parameter(option: Option) -> tuple[Any, Any]:
    if option.kind is tuple:
        return list[int], Field(default=[], max_length=_MAX_EXCLUDED, description=option.help)
    choices = option.choices if option.default is not None else option.choices and ("", *option.choices)
    default = "" if option.default is None else option.default  # an empty text means None
    settings = {"default": default, "description": option.help, **_SETTINGS.get(option.name, {})}
    return Literal[choices] if choices else option.kind, Field(**settings)


class _OptionParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @property
    def options(self) -> SearchOptions:
        """The options for the gallery."""
        return SearchOptions.of({name: None if value == "" else value for name, value in self})


@_with_options(Filter)
class FilterParameters(_OptionParameters):
    """Which images to count."""


class ListParameters(FilterParameters):
    """Which images to list."""

    offset: int = Field(0, ge=0, le=_MAX_INTEGER)
    limit: int = Field(100, ge=1, le=1000)
    order: Order = "id"


@_with_options(SearchOptions)
class SearchParameters(_OptionParameters):
    """What to search."""

    formula: str = Field(max_length=MAX_CHARACTERS, description="such as `12 & ~cat.jpg`")


class LenientSearchParameters(SearchParameters):
    """What to search, while it is typed."""

    offset: int = Field(0, ge=0, le=_MAX_OFFSET, description="skip this many of the best hits")
    lenient: bool = Field(False, description="return a mistake in the formula with its corrections and status 200")


class DownloadParameters(SearchParameters):
    """What to download."""

    format: Literal["zip", "csv"] = "zip"
    weak: bool = Field(True, description="also weak hits")
