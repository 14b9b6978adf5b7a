"""The names of what can be chosen in the algebra. Apart from it, because that loads torch, and `--help` does not."""

from typing import Final

SCORES: Final = ("degrees", "cross-entropy", "containment")
SEMANTICS: Final = ("exact", "independent")
LOGICS: Final = ("godel", "lukasiewicz", "product")
