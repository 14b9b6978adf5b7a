"""Reproduction of the paper's experiments, at the paper's scale or at a small one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .catalogue import ALL, EXPERIMENTS

if TYPE_CHECKING:
    from .run import reproduce, reproduce_all

__all__ = ["ALL", "EXPERIMENTS", "reproduce", "reproduce_all"]

_LAZY: Final = ("reproduce", "reproduce_all")


def __getattr__(name: str) -> Any:
    """Import the functions on first use: they load torch."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".run", __name__), name)
