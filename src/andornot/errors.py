"""Errors that a user can fix: the base class, unknown names, missing packages, and too little memory."""

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Final

# Longer lists of names are not shown.
_FEW: Final = 12
# Swapped letters lower the similarity ratio more than an extra letter, so they are searched among this many candidates.
_SWAPPED_AMONG: Final = 8
# Optional packages, and the extra that installs each.
EXTRAS: Final = {
    "lightning": "training",
    "matplotlib": "training",
    "scipy": "training",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlxtend": "demo",
    "ray": "ray",
    "transformers": "transformers",
    "timm": "zoo",
    "torchvision": "zoo",
}


class AndornotError(ValueError):
    """An error that the user can fix: one line that says what is wrong, where, and what to do.

    The command line prints it and exits with code 2. Any other exception is a bug.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class EvaluationError(AndornotError):
    """Raised when an experiment cannot be done with the given model, data or settings."""


class MissingPackageError(AndornotError, ImportError):
    """Raised for a package that is not installed or cannot be imported; the message says what to install."""


def require_packages(purpose: str, *packages: str) -> None:
    """Raise a MissingPackageError, which names the extra to install, for the first package that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingPackageError(f"{purpose} needs {package}: pip install 'andornot[{EXTRAS[package]}]'")


class Stopped(Exception):  # noqa: N818  # not an error: the user asked for it
    """Raised when the user stops the work; the message says how to resume."""


def printable(text: str) -> str:
    r"""Return the text on one line, with unprintable characters and bytes as escapes.

    >>> print(printable("new\nline"))
    new\nline
    """
    shown = (character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return "".join(shown)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """Return a message for an unknown name: the nearest known name, and all of them unless there are many.

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
    """Return the known names most similar to a name, ignoring case; names with the same letters come first.

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


class NotEnoughMemoryError(AndornotError):
    """Raised for work that needs more memory than this machine has."""


def total_memory() -> int | None:
    """Return the physical memory in bytes, or None if the system does not provide it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raise a NotEnoughMemoryError, before anything is allocated, if `needed` bytes exceed the physical memory."""
    total = total_memory()
    if total is not None and needed > total:
        raise NotEnoughMemoryError(
            f"{what} takes about {needed / 1e9:,.0f} GB of memory, and this machine has {total / 1e9:,.0f}; {advice}"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception is an out-of-memory error, for which torch has no class on CPU."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)
