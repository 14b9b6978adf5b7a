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

# Degrees again, without what all pictures of a gallery have in common. An OR has much of that, and would find the same
# few pictures whatever it is of (docs/results.md, "Hubs").
CENTRED: Final = "centred"
SEARCH_SCORES: Final = (CENTRED, *SCORES)


def _option(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str | None = None) -> Any:  # noqa: A002
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


@dataclass(frozen=True)
class Where:
    """Which pictures may be found; None stands for everything.

    - `folder`: the picture lies in it, at any depth; a path from here, from an indexed folder, or beside one.
    - `label`: the name of the folder that the picture lies in.
    - `after`, `before`: it was taken at that time or later, and before that time, as "2024", "2024-05",
      "2024-05-31" or "2024-05-31 18:00". That is what the camera noted; pictures without such a note do not pass.
    - `file_dates`: for those, the time when the file was changed last.
    """

    folder: str | None = _option(None, "only pictures in this folder")
    label: str | None = _option(None, "only pictures whose own folder has this name")
    after: str | None = _option(None, "only pictures taken then or later, as 2024 or 2024-05-31", metavar="DATE")
    before: str | None = _option(None, "only pictures taken before then", metavar="DATE")
    file_dates: bool = _option(False, "a picture that no camera dated has the date of its file")


@dataclass(frozen=True)
class SearchOptions:
    """How to evaluate, to score and to select. What cannot be meant is a GalleryError.

    - `score`, for terms: "centred", what a picture has beyond the gallery's average one; "degrees", "cross-entropy",
      "containment"; or your own, compared exactly: a `Score`, or a function such as `degree_distance`.
    - `semantics` is that of `Formula.evaluate`, and `logic` that of `evaluate` and of `Formula.truth`; None is "godel"
      for terms, and "product" for what joins them to a condition.
    - `min_truth`: less true hits are left out.
    - `expand`: at most so many of its nearest pictures say what kind of thing a term of a condition shows.
    - `include_queries`: the pictures that a formula names are hits of it as well.
    - `why` gives each hit the features that carried it.

    >>> SearchOptions(top=3, where=Where(label="dogs")).score
    'centred'
    """

    top: int = _option(10, "how many pictures", metavar="K")
    score: "str | Score | Distance" = _option(CENTRED, "how to compare with a term", choices=SEARCH_SCORES)  # noqa: RUF009
    semantics: str = _option(
        "exact", "a picture that is named twice is one and the same, or as in the paper not", choices=SEMANTICS
    )
    logic: str | None = _option(
        None, "what OR, AND and NOT compute (default: godel in terms, product in conditions)", choices=LOGICS
    )
    where: Where = Where()
    include_queries: bool = _option(False, "also the pictures that the formula names")
    why: bool = _option(False, "which features carried each match, and who shows them most")
    min_truth: float = _option(0.0, "only matches of at least this truth, from 0 to 1", metavar="T")
    expand: int = _option(
        20,
        "so many of its nearest pictures say what kind of thing a term of a condition shows; 0 for none",
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
        if self.where is None:
            object.__setattr__(self, "where", Where())
        elif not isinstance(self.where, Where):
            raise GalleryError(f"where must be a Where(folder=…, label=…, after=…, before=…), got {self.where!r}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SearchOptions":
        """From values by name, those of `Where` among them; other names are left alone.

        >>> options = SearchOptions.of({"top": 3, "label": "dogs", "colour": "red"})
        >>> options.top, options.where.label
        (3, 'dogs')
        """
        return cls(**_chosen(cls, values), where=Where(**_chosen(Where, values)))


class Option(NamedTuple):
    """One option, for who makes a flag or a parameter of it. `kind` is int, float, str or bool."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...]
    metavar: str | None


def options_of(settings: type) -> list[Option]:
    """The options of `SearchOptions` (those of `Where` in their place) or of `Where`.

    >>> [option.name for option in options_of(Where)]
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
    """A GalleryError for what is none of the choices."""
    if name not in choices:
        raise GalleryError(unknown(kind, name, choices))


def _chosen(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    own: tuple[Field[Any], ...] = fields(settings)
    return {one.name: values[one.name] for one in own if one.name in values and one.metadata}
