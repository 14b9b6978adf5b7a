"""Galleries: images stored with Lance and searched with formulas."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import GalleryError
from .options import Filter, SearchOptions

if TYPE_CHECKING:
    from .gallery import Gallery
    from .hits import Hit, Hits, Reason, TermBox
    from .indexing import Summary
    from .queries import EmptyQueryError
    from .repairing import Repaired

__all__ = [
    "EmptyQueryError",
    "Filter",
    "Gallery",
    "GalleryError",
    "Hit",
    "Hits",
    "Reason",
    "Repaired",
    "SearchOptions",
    "Summary",
    "TermBox",
]

_MODULES = {
    "EmptyQueryError": "queries",
    "Gallery": "gallery",
    "Hit": "hits",
    "Hits": "hits",
    "TermBox": "hits",
    "Reason": "hits",
    "Repaired": "repairing",
    "Summary": "indexing",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: importing torch takes a second, and search options do not need it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
