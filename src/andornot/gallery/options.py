"""Search options: each is defined once, with its default, choices and description.

The parameters of `Gallery.search`, of the command line and of the HTTP API are generated from these. Only the standard
library is imported, because `andornot search --help` uses this module.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..choices import LOGICS, SCORES, SEMANTICS
from ..errors import unknown
from .errors import GalleryError

if TYPE_CHECKING:
    from ..logic.distance import Distance, Score

# Degrees without their component along the gallery's mean. An OR has a large such component, so without centering it
# would find the same few images for any operands (docs/results.md, "Hubs").
CENTERED: Final = "centered"
SEARCH_SCORES: Final = (CENTERED, *SCORES)


def _option(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str | None = None) -> Any:  # noqa: A002
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


@dataclass(frozen=True)
class Filter:
    """Restricts which images can be found; None means no restriction.

    - `folder`: images in this folder, at any depth; relative to the working directory, an indexed folder or its parent.
    - `label`: the name of the image's parent folder.
    - `after`, `before`: images taken at or after a time, or before a time, given as "2024", "2024-05",
      "2024-05-31" or "2024-05-31 18:00". The time is that of the camera; images without one do not pass.
    - `file_dates`: use the file's modification time for images without a camera time.
    - `exclude`: ids of images to leave out.
    """

    folder: str | None = _option(None, "only images in this folder")
    label: str | None = _option(None, "only images whose own folder has this name")
    after: str | None = _option(None, "only images taken then or later, as 2024 or 2024-05-31", metavar="DATE")
    before: str | None = _option(None, "only images taken before then", metavar="DATE")
    file_dates: bool = _option(False, "use the file date if EXIF has none")
    exclude: tuple[int, ...] = _option((), "leave out this image; may be repeated", metavar="ID")

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "exclude", tuple(map(index, self.exclude)))
        except TypeError:
            raise GalleryError(f"exclude must be the ids of images, got {self.exclude!r}") from None


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search. Invalid values raise a GalleryError.

    - `score`, for terms: "centered" (degrees relative to the gallery's mean), "degrees", "cross-entropy",
      "containment", or your own: a `Score`, or a function such as `degree_distance`.
    - `semantics`: see `Formula.evaluate`. `logic`: see `Formula.evaluate` and `Formula.truth`; None means "godel"
      within terms and "product" between the terms of a condition.
    - `min_truth`: leave out hits with a lower truth.
    - `expand`: query expansion: the maximum number of neighbours of a term of a condition; 0 is off.
    - `include_queries`: include the images of the formula in the hits.
    - `why`: explain each hit by the features that contributed most.

    >>> SearchOptions(top=3, filter=Filter(label="dogs")).score
    'centered'
    """

    top: int = _option(10, "how many images", metavar="K")
    score: "str | Score | Distance" = _option(  # noqa: RUF009
        CENTERED, f"how terms rank images: {', '.join(SEARCH_SCORES)}", choices=SEARCH_SCORES, metavar="SCORE"
    )
    semantics: str = _option(
        "exact", "repeated names: the same variable (exact) or independent (paper)", choices=SEMANTICS
    )
    logic: str | None = _option(
        None, "what OR, AND and NOT compute (default: godel in terms, product in conditions)", choices=LOGICS
    )
    filter: Filter = Filter()
    include_queries: bool = _option(False, "also the images that the formula names")
    why: bool = _option(False, "explain each hit")
    min_truth: float = _option(0.0, "only matches of at least this truth, from 0 to 1", metavar="T")
    expand: int = _option(
        20,
        "query expansion: number of neighbours, 0 = off",
        metavar="K",
    )

    def __post_init__(self) -> None:
        for name, least in (("top", 1), ("expand", 0)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, index(value))
            except TypeError:
                raise GalleryError(f"{name} must be a whole number, got {value!r}") from None
            if value < least:
                raise GalleryError(f"{name} must be at least {least}, got {value}")
        if not isinstance(self.min_truth, int | float) or not 0 <= self.min_truth <= 1:
            raise GalleryError(f"min_truth must be a number from 0 to 1, got {self.min_truth!r}")
        if isinstance(self.score, str) or not (callable(self.score) or hasattr(self.score, "query")):
            check_choice("score", self.score, SEARCH_SCORES)
        if callable(self.score) and self.why:
            raise GalleryError("why cannot be told by a score that is a function: it looks at no feature alone")
        check_choice("semantics", self.semantics, SEMANTICS)
        if self.logic is not None:
            check_choice("logic", self.logic, LOGICS)
        if self.filter is None:
            object.__setattr__(self, "filter", Filter())
        elif not isinstance(self.filter, Filter):
            raise GalleryError(f"filter must be a Filter(folder=…, label=…, after=…, before=…), got {self.filter!r}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SearchOptions":
        """Create options from values by name, including those of `Filter`; other names are ignored.

        >>> options = SearchOptions.of({"top": 3, "label": "dogs", "colour": "red"})
        >>> options.top, options.filter.label
        (3, 'dogs')
        """
        return cls(**_chosen(cls, values), filter=Filter(**_chosen(Filter, values)))


class Option(NamedTuple):
    """An option, as needed to create a flag or parameter. `kind` is int, float, str, bool, or tuple (ids)."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...]
    metavar: str | None


def options_of(settings: type) -> list[Option]:
    """Return the options of `SearchOptions`, including those of `Filter`, or of `Filter` alone.

    >>> [option.name for option in options_of(Filter)]
    ['folder', 'label', 'after', 'before', 'file_dates', 'exclude']
    """
    found = []
    for one in fields(settings):
        if is_dataclass(one.default):
            found += options_of(type(one.default))
        else:
            kind = str if one.default is None else type(one.default)
            found.append(Option(one.name, kind, one.default, **one.metadata))
    return found


def check_choice(kind: str, name: object, choices: tuple[str, ...]) -> None:
    """Raise a GalleryError for an unknown choice."""
    if name not in choices:
        raise GalleryError(unknown(kind, name, choices))


def _chosen(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    own: tuple[Field[Any], ...] = fields(settings)
    return {one.name: values[one.name] for one in own if one.name in values and one.metadata}
