"""Image representations that you can compute with: `a | b`, `a & b`, `~a`."""

from typing import TYPE_CHECKING, Any

from .logic import (
    Formula,
    FormulaError,
    Representation,
    all_of,
    any_of,
    at_least,
    coimplication,
    containment,
    cross_entropy,
    degree_distance,
    difference,
    expected_bce,
    godel_not,
    implication,
)
from .version import __version__

if TYPE_CHECKING:
    from .gallery import Gallery
    from .model import Model

__all__ = [
    "Formula",
    "FormulaError",
    "Gallery",
    "Model",
    "Representation",
    "__version__",
    "all_of",
    "any_of",
    "at_least",
    "coimplication",
    "containment",
    "cross_entropy",
    "degree_distance",
    "difference",
    "expected_bce",
    "godel_not",
    "implication",
]


def __getattr__(name: str) -> Any:
    """Heavy parts are loaded when they are used."""
    if name == "Model":
        from .model import Model

        return Model
    if name == "Gallery":
        from .gallery import Gallery

        return Gallery
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
