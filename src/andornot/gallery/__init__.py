"""Pictures on disk, searchable with formulas: a folder that no crash can damage."""

from .errors import EmptyQueryError, GalleryError
from .filters import Where
from .gallery import Gallery
from .hits import Hits
from .indexing import Summary
from .repairing import Repaired
from .searching import Hit, Reason

__all__ = ["EmptyQueryError", "Gallery", "GalleryError", "Hit", "Hits", "Reason", "Repaired", "Summary", "Where"]
