"""How to search: each option once, with its default, its choices and what it is for.

`Gallery.search`, the command and the HTTP API make theirs from these: a new option is a line here, and its use. Nothing
but the standard library is loaded, because `andornot search --help` needs these too.
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

# Degrees again, without what all images of a gallery have in common. An OR has much of that, and would find the same
# few images whatever it is of (docs/results.md, "Hubs").
CENTERED: Final = "centered"
SEARCH_SCORES: Final = (CENTERED, *SCORES)


def _option(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str | None = None) -> Any:  # noqa: A002
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


@dataclass(frozen=True)
class Filter:
    """Which images may be found; None stands for everything.

    - `folder`: the image lies in it, at any depth; a path from here, from an indexed folder, or beside one.
    - `label`: the name of the folder that the image lies in.
    - `after`, `before`: it was taken at that time or later, and before that time, as "2024", "2024-05",
      "2024-05-31" or "2024-05-31 18:00". That is what the camera noted; images without such a note do not pass.
    - `file_dates`: for those, the time when the file was changed last.
    """

    folder: str | None = _option(None, "only images in this folder")
    label: str | None = _option(None, "only images whose own folder has this name")
    after: str | None = _option(None, "only images taken then or later, as 2024 or 2024-05-31", metavar="DATE")
    before: str | None = _option(None, "only images taken before then", metavar="DATE")
    file_dates: bool = _option(False, "use the file date if EXIF has none")


@dataclass(frozen=True)
class SearchOptions:
    """How to evaluate, to score and to select. What cannot be meant is a GalleryError.

    - `score`, for terms: "centered", what an image has beyond the gallery's average one; "degrees", "cross-entropy",
      "containment"; or your own, compared exactly: a `Score`, or a function such as `degree_distance`.
    - `semantics` is that of `Formula.evaluate`, and `logic` that of `evaluate` and of `Formula.truth`; None is "godel"
      for terms, and "product" for what joins them to a condition.
    - `min_truth`: less true hits are left out.
    - `expand`: at most so many of its nearest images say what kind of thing a term of a condition shows.
    - `include_queries`: the images that a formula names are hits of it as well.
    - `why` gives each hit the features that carried it.

    >>> SearchOptions(top=3, filter=Filter(label="dogs")).score
    'centered'
    """

    top: int = _option(10, "how many images", metavar="K")
    score: "str | Score | Distance" = _option(CENTERED, "how terms rank images", choices=SEARCH_SCORES)  # noqa: RUF009
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
    """One option, for who makes a flag or a parameter of it. `kind` is int, float, str or bool."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...]
    metavar: str | None


def options_of(settings: type) -> list[Option]:
    """Return the options of `SearchOptions`, including those of `Filter`, or of `Filter` alone.

    >>> [option.name for option in options_of(Filter)]
    ['folder', 'label', 'after', 'before', 'file_dates']
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
