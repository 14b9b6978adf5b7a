"""One root of all mistakes that a user can mend, and one way to say that a name is unknown."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

# A longer list hides the nearest name instead of helping.
_FEW: Final = 12
# Two letters that changed places make a word less like what was meant than a letter too many does.
_SWAPPED_AMONG: Final = 8


class AndornotError(ValueError):
    """What was asked for cannot be done: one line that says what is wrong, where, and what would be right.

    The command line shows the line, and ends with exit code 2. Any other exception is a mistake of ours.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class MissingPackageError(AndornotError, ImportError):
    """A package that is not installed, or does not import; the line says what to install."""


class Stopped(Exception):  # noqa: N818  # not an error: the user asked for it
    """Work that ends early because the user said so; what it says is how to go on."""


def printable(text: str) -> str:
    r"""The text on one line; what no terminal shows, and bytes that are no text, as escapes.

    >>> print(printable("new\nline"))
    new\nline
    """
    shown = (character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return "".join(shown)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """What to say of a name that is unknown: the nearest that is known, and all that there are unless they are many.

    >>> print(unknown("source", "digit", ["digits", "scenes"]))
    unknown source "digit"; did you mean "digits"? There are digits, scenes
    >>> print(unknown("source", "xyz", ["digits", "scenes"]))
    unknown source "xyz", there are digits, scenes
    """
    names = list(known)
    listed = ", ".join(names) if names else "none"
    near = spelled_like(str(name), names, 1)
    if not near:
        return f'unknown {kind} "{name}", there are {listed}'
    also = f" There are {listed}" if len(names) <= _FEW else ""
    return f'unknown {kind} "{name}"; {did_you_mean(near)}{also}'


def spelled_like(name: str, known: Iterable[str], count: int) -> list[str]:
    """The known names that are spelled most like one; case does not matter, and the same letters come first.

    >>> spelled_like("BEACH.jpg", ["bench.jpg", "Beach.JPG"], 1), spelled_like("dgo", ["dingo", "dog"], 1)
    (['Beach.JPG'], ['dog'])
    """
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, n=count + _SWAPPED_AMONG)
    near.sort(key=lambda one: sorted(one) != sorted(name.casefold()))
    return [folded[one] for one in near[:count]]


def did_you_mean(names: Sequence[str]) -> str:
    """The question, for the names that may have been meant.

    >>> did_you_mean(["cat.jpg", "car.jpg"])
    'did you mean "cat.jpg", "car.jpg"?'
    """
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"did you mean {quoted}?"
