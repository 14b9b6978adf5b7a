"""Errors of galleries. Each message is one line for the user."""

from ..errors import AndornotError


class GalleryError(AndornotError):
    """An invalid request to a gallery."""


class QueryError(GalleryError):
    """A query that this gallery cannot answer. Its message names no path: it is also sent to remote users."""


class FilterError(GalleryError):
    """A filter with an unknown folder or label, or an invalid date."""


class DamagedError(GalleryError):
    """A gallery whose files are damaged or missing."""

    def __init__(self, address: str, what: str) -> None:
        super().__init__(
            f"{address} is damaged: {what}; andornot index --repair encodes what is damaged again, "
            "and if that fails, index the images again into a new folder"
        )


class LockedError(GalleryError):
    """Another process is writing this gallery."""
