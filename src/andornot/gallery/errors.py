"""What can go wrong with a gallery, in one line for the person who reads it."""

from ..data.errors import printable


class GalleryError(ValueError):
    """A mistake in what was asked of a gallery: says what is wrong, where, and what would be right."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class DamagedError(GalleryError):
    """A file of the gallery that does not hold what was written to it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; andornot index --repair drops what is damaged and encodes it anew")


class EmptyQueryError(GalleryError):
    """A query that is like no picture more than like any other."""

    def __init__(self, query: str) -> None:
        super().__init__(f"nothing is left to look for: {query} has no feature more than any other")


class LockedError(GalleryError):
    """Another process writes this gallery at the moment."""
