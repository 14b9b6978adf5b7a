"""What can go wrong with a gallery, in one line for the person who reads it."""

from ..errors import AndornotError
from ..logic import FormulaError


class GalleryError(AndornotError):
    """A mistake in what was asked of a gallery."""


class DamagedError(GalleryError):
    """A file of the gallery that does not hold what was written to it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; andornot index --repair drops what is damaged and encodes it anew")


class EmptyQueryError(FormulaError):
    """A query that is like no picture more than like any other."""

    def __init__(self, text: str) -> None:
        super().__init__("nothing is left to look for: this has no feature more than any other", text, 0)

    def __reduce__(self) -> tuple[type["EmptyQueryError"], tuple[str]]:  # type: ignore[override]
        return type(self), (self.text,)


class LockedError(GalleryError):
    """Another process writes this gallery at the moment."""
