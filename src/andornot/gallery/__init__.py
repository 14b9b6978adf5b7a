"""Pictures on disk, searchable with formulas: a folder that no crash can damage."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import GalleryError
from .options import SearchOptions, Where

if TYPE_CHECKING:
    from .asking import EmptyQueryError
    from .gallery import Gallery
    from .hits import Hit, Hits, Place, Reason
    from .indexing import Summary
    from .repairing import Repaired

__all__ = [
    "EmptyQueryError",
    "Gallery",
    "GalleryError",
    "Hit",
    "Hits",
    "Place",
    "Reason",
    "Repaired",
    "SearchOptions",
    "Summary",
    "Where",
]

_MODULES = {
    "EmptyQueryError": "asking",
    "Gallery": "gallery",
    "Hit": "hits",
    "Hits": "hits",
    "Place": "hits",
    "Reason": "hits",
    "Repaired": "repairing",
    "Summary": "indexing",
}


def __getattr__(name: str) -> Any:
    """A name is loaded when it is used first: torch takes a second, and the options of a search need none of it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
