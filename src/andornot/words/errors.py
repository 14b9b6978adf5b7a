"""What can go wrong with a word, in one line for the person who typed it."""

from ..errors import AndornotError

# A word that is longer was no word: it is cut where it is shown.
_SHOWN = 40


class WordError(AndornotError):
    """A word that cannot be asked for, or a model that has none."""


class UnknownWordError(WordError):
    """A word that means nothing to the model; `nearest` are words that do."""

    def __init__(self, message: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest


def shortened(word: str) -> str:
    """The word as an error shows it.

    >>> shortened("dog"), len(shortened("x" * 10_000))
    ('dog', 41)
    """
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"
