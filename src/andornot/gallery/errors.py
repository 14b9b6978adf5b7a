"""Errors of galleries: one line for the person who reads it."""

from ..errors import AndornotError


class GalleryError(AndornotError):
    """A mistake in what was asked of a gallery."""


class QueryError(GalleryError):
    """A query that this gallery cannot answer. Its message names no path: it is also sent to remote users."""


class FilterError(GalleryError):
    """A filter that names a folder, a label or a date that there is not."""


class DamagedError(GalleryError):
    """A gallery whose files do not hold what was written to them."""

    def __init__(self, address: str, what: str) -> None:
        super().__init__(
            f"{address} is damaged: {what}; andornot index --repair encodes what is damaged again, "
            "and if that fails, index the images again into a new folder"
        )


class LockedError(GalleryError):
    """Another process is writing this gallery."""
