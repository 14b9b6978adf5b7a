"""Names of scores, semantics and logics, for `--help`, which must not import torch."""

from typing import Final

SCORES: Final = ("degrees", "cross-entropy", "reverse-cross-entropy", "containment")
SEMANTICS: Final = ("exact", "independent")
LOGICS: Final = ("godel", "lukasiewicz", "product")
