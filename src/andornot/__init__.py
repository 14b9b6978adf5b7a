"""Image representations that you can compute with: `a | b`, `a & b`, `~a`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import logic as logic
    from .gallery import Gallery
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

# Where the public names are, but for those of the algebra.
_ELSEWHERE = {"Gallery": ".gallery", "Model": ".model"}


def __getattr__(name: str) -> Any:
    """A name is loaded when it is used first: torch takes a second, and `andornot --help` needs none of it."""
    if name == "logic":
        return import_module(".logic", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_ELSEWHERE.get(name, ".logic"), __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "logic"})
