"""The paper's experiments, each with one command, at a size that the machine can carry."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .catalogue import EVERYTHING, EXPERIMENTS

if TYPE_CHECKING:
    from .everything import reproduce_all
    from .experiments import reproduce

__all__ = ["EVERYTHING", "EXPERIMENTS", "reproduce", "reproduce_all"]

_ELSEWHERE: Final = {"reproduce": ".experiments", "reproduce_all": ".everything"}


def __getattr__(name: str) -> Any:
    """What runs an experiment is loaded when it is used first: it loads torch."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE[name], __name__), name)
