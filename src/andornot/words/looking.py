"""What pictures show, by a model that looks at them now."""

from collections.abc import Sequence
from typing import Any

from ..model import Model
from .classes import NamedClasses
from .describing import Shown
from .errors import WordError
from .meaning import Words


def describe_pictures(model: Model, words: Words, pictures: Sequence[Any]) -> list[list[Shown]]:
    """What pictures show, which are files or whatever else a model takes."""
    nouns = nouns_of(model, words)
    seen = (nouns.evidence(maps).cpu() for maps in model.look(pictures, progress=False))
    return [shown for evidence in seen for shown in nouns.describe_all(evidence)]


def nouns_of(model: Model, words: Words) -> NamedClasses:
    """The words of a model, if it can say some by itself; a WordError if it can only be asked."""
    if not isinstance(words, NamedClasses):
        raise WordError(
            f"{model.backbone.name} knows any phrase, and so has no list of words to describe pictures with"
        )
    return words
