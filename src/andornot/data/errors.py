"""What can go wrong with pictures, in one line for the person who reads it."""

from collections.abc import Iterable
from difflib import get_close_matches


class DataError(ValueError):
    """A mistake in what was asked for: a path, a source, an option or a file that is not what it should be.

    Its message is one line, whatever characters the name of a file has.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BrokenImageError(DataError):
    """A picture that cannot be read: its `name` (a path, mostly) and the `reason`."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")

    def __reduce__(self) -> tuple[type["BrokenImageError"], tuple[str, str]]:
        return type(self), (self.name, self.reason)


def printable(text: str) -> str:
    r"""The text on one line; what no terminal shows, and bytes that are no text, as escapes.

    >>> print(printable("new\nline"))
    new\nline
    """
    shown = (character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return "".join(shown)


def unknown(kind: str, name: str, known: Iterable[str]) -> DataError:
    """An error that names what is unknown, the nearest that is known, and all that there are.

    >>> print(unknown("source", "digit", ["digits", "scenes"]))
    unknown source "digit"; did you mean "digits"? There are digits, scenes
    """
    names = list(known)
    nearest = get_close_matches(name, names, n=1)
    hint = f'; did you mean "{nearest[0]}"? There are ' if nearest else ", there are "
    return DataError(f'unknown {kind} "{name}"{hint}{", ".join(names) if names else "none"}')
