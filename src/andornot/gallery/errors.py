"""What can go wrong with a gallery, in one line for the person who reads it."""

from ..errors import AndornotError


class GalleryError(AndornotError):
    """A mistake in what was asked of a gallery."""


class QueryError(GalleryError):
    """A query that this gallery cannot answer. The line is for whoever asks, and names no path."""


class NeedsFolderError(QueryError):
    """What a gallery in Milvus alone cannot tell, and the one in its folder can."""


class DamagedError(GalleryError):
    """A file of the gallery that does not hold what was written to it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; andornot index --repair drops what is damaged and encodes it anew")


class LockedError(GalleryError):
    """Another process writes this gallery at the moment."""
