"""The algebra: pure tensor maths. It knows no images and no files."""

from .distance import Score, containment, cross_entropy, degree_distance, expected_bce
from .formula import Formula
from .operators import all_of, any_of, at_least, coimplication, difference, godel_not, implication
from .parser import FormulaError
from .representation import Representation

__all__ = [
    "Formula",
    "FormulaError",
    "Representation",
    "Score",
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
