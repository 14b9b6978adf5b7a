"""The logic of representations: pure tensor maths, independent of images and files."""

from .atoms import Atom, Crop
from .distance import Score, containment, cross_entropy, degree_distance, expected_bce
from .formula import Formula
from .operators import all_of, any_of, at_least, coimplication, difference, godel_not, implication
from .representation import Representation
from .tokens import FormulaError, FormulaErrorCode

__all__ = [
    "Atom",
    "Crop",
    "Formula",
    "FormulaError",
    "FormulaErrorCode",
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
