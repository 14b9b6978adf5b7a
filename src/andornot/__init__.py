"""Image representations that you can compute with: `a | b`, `a & b`, `~a`."""

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

__all__ = [
    "Formula",
    "FormulaError",
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
