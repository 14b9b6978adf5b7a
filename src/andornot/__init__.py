"""Image representations that you can compute with: `a | b`, `a & b`, `~a`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .version import __version__

if TYPE_CHECKING:
    from . import logic as logic
    from .data import open_images
    from .errors import AndornotError
    from .gallery import Gallery
    from .logic import (
        Formula,
        FormulaError,
        Representation,
        all_of,
        any_of,
        at_least,
        containment,
        cross_entropy,
        degree_distance,
    )
    from .model import Model
    from .pretraining import pretrain
    from .ssl import load_recipe

__all__ = [
    "AndornotError",
    "Formula",
    "FormulaError",
    "Gallery",
    "Model",
    "Representation",
    "__version__",
    "all_of",
    "any_of",
    "at_least",
    "containment",
    "cross_entropy",
    "degree_distance",
    "load_recipe",
    "open_images",
    "pretrain",
]

# The modules of public names; all others are in `.logic`.
_LAZY: Final = {
    "AndornotError": ".errors",
    "Gallery": ".gallery",
    "Model": ".model",
    "load_recipe": ".ssl",
    "open_images": ".data",
    "pretrain": ".pretraining",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: torch takes a second to import, and `andornot --help` does not need it."""
    if name == "logic":
        return import_module(".logic", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_LAZY.get(name, ".logic"), __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "logic"})
