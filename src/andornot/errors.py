"""The base class of all errors that a user can fix, and messages for unknown names."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

# A longer list hides the nearest name instead of helping.
_FEW: Final = 12
# Two letters that changed places make a word less like what was meant than a letter too many does.
_SWAPPED_AMONG: Final = 8


class AndornotError(ValueError):
    """An error that the user can fix: one line that says what is wrong, where, and what to do.

    The command line prints it and exits with code 2. Any other exception is a bug.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class MissingPackageError(AndornotError, ImportError):
    """A package that is not installed or cannot be imported; the message says what to install."""


class Stopped(Exception):  # noqa: N818  # not an error: the user asked for it
    """Work that was stopped by the user; the message says how to resume."""


def printable(text: str) -> str:
    r"""Return the text on one line, with unprintable characters and bytes as escapes.

    >>> print(printable("new\nline"))
    new\nline
    """
    shown = (character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return "".join(shown)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Return a message for an unknown name: the nearest known one, and all of them unless they are many.

    >>> print(unknown("source", "digit", ["digits", "scenes"]))
    unknown source "digit"; did you mean "digits"? Choose from digits, scenes
    >>> print(unknown("source", "xyz", ["digits", "scenes"]))
    unknown source "xyz" (choose from digits, scenes)
    """
    names = list(known)
    listed = ", ".join(names) if names else "none"
    near = spelled_like(str(name), names, 1)
    if not near:
        return f'unknown {kind} "{name}" (choose from {listed})'
    also = f" Choose from {listed}" if len(names) <= _FEW else ""
    return f'unknown {kind} "{name}"; {did_you_mean(near)}{also}'


def spelled_like(name: str, known: Iterable[str], count: int) -> list[str]:
    """Return the known names most like one, ignoring case; names with the same letters come first.

    >>> spelled_like("BEACH.jpg", ["bench.jpg", "Beach.JPG"], 1), spelled_like("dgo", ["dingo", "dog"], 1)
    (['Beach.JPG'], ['dog'])
    """
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, n=count + _SWAPPED_AMONG)
    near.sort(key=lambda one: sorted(one) != sorted(name.casefold()))
    return [folded[one] for one in near[:count]]


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question for names that may have been meant.

    >>> did_you_mean(["cat.jpg", "car.jpg"])
    'did you mean "cat.jpg", "car.jpg"?'
    """
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"did you mean {quoted}?"
