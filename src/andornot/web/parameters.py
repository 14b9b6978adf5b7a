"""What may be asked, and within which limits."""

from typing import Annotated, Final, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from ..gallery import Where
from ..gallery.browsing import Order
from .formulas import MAX_CHARACTERS
from .searches import Manner
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
Version = Annotated[
    str, Query(max_length=100, description="the `version` of the picture: the answer may then be kept for ever")
]
_Date = Annotated[str, Field(max_length=30, description="as 2024, 2024-05 or 2024-05-31")]


class Filtered(BaseModel):
    """Which pictures."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field("", max_length=300, description="only pictures in folders of this name")
    after: _Date = ""
    before: _Date = ""
    file_dates: bool = Field(False, description="a picture that no camera dated has the date of its file")

    @property
    def where(self) -> Where:
        """The filter; what is empty stands for everything."""
        return Where(None, self.label or None, self.after or None, self.before or None, self.file_dates)


class Listed(Filtered):
    """A part of the gallery."""

    offset: int = Field(0, ge=0, le=_LARGEST)
    limit: int = Field(100, ge=1, le=1000)
    order: Order = "id"


class Searched(Filtered):
    """A search."""

    formula: str = Field(max_length=MAX_CHARACTERS, description="such as `12 & ~cat.jpg`")
    top: int = Field(48, ge=1, le=MAX_TOP)
    score: Literal["degrees", "cross-entropy", "containment"] = "degrees"
    logic: Literal["godel", "lukasiewicz", "product"] = "godel"
    semantics: Literal["exact", "independent"] = "exact"
    why: bool = False
    include_queries: bool = False

    @property
    def manner(self) -> Manner:
        """How to search."""
        return Manner(self.top, self.score, self.semantics, self.logic, self.where, self.include_queries, self.why)


class Downloaded(Searched):
    """A search whose hits are to be kept."""

    format: Literal["zip", "csv"] = "zip"
