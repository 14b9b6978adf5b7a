"""Named operators on representations: n-ary AND and OR, other logics, and the remaining Gödel operators."""

from collections.abc import Iterable
from typing import Final, Protocol

from torch import Tensor

from .. import choices
from ..errors import AndornotError, unknown
from . import godel, lukasiewicz, product
from .representation import Representation, combine


class Logic(Protocol):
    """A many-valued logic on distributions `(..., M)`; NOT is 1 - A in all of them.

    Any module or object with these functions can be used.
    """

    def disjunction(self, a: Tensor, b: Tensor) -> Tensor:
        """Return P(A OR B)."""

    def conjunction(self, a: Tensor, b: Tensor) -> Tensor:
        """Return P(A AND B)."""

    def minus(self, a: Tensor, b: Tensor) -> Tensor:
        """Return P(A without B)."""

    def at_least(self, k: int, operands: list[Tensor]) -> Tensor:
        """Return P(at least k of the operands)."""


_FUNCTIONS: Final = ("disjunction", "conjunction", "minus", "at_least")
_IN_ORDER: Final[tuple[Logic, ...]] = (godel, lukasiewicz, product)
_BY_NAME: Final = dict(zip(choices.LOGICS, _IN_ORDER, strict=True))


def get_logic(logic: str | Logic) -> Logic:
    """Return a logic by name; a custom `Logic` is returned unchanged."""
    if isinstance(logic, str):
        if logic not in _BY_NAME:
            raise AndornotError(unknown("logic", logic, _BY_NAME))
        return _BY_NAME[logic]
    missing = [name for name in _FUNCTIONS if not callable(getattr(logic, name, None))]
    if missing:
        raise AndornotError(f"a logic has the functions {', '.join(_FUNCTIONS)}; this one lacks {', '.join(missing)}")
    return logic


def any_of(representations: Iterable[Representation], logic: str | Logic = "godel") -> Representation:
    """Return the OR of any number of representations: the features that any of them has.

    >>> crisp = Representation([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])   # three images, one feature
    >>> any_of(crisp).degrees
    tensor([1.])
    """
    return at_least(1, representations, logic)


def all_of(representations: Iterable[Representation], logic: str | Logic = "godel") -> Representation:
    """Return the AND of any number of representations: the features that all of them share."""
    operands = list(representations)
    return at_least(len(operands), operands, logic)


def at_least(k: int, representations: Iterable[Representation], logic: str | Logic = "godel") -> Representation:
    """Return the features that at least k representations have: the k-th largest truth value in Gödel logic.

    In Łukasiewicz logic it is `A_1 + … + A_n - (k - 1)`, clipped to [0, 1]. In every logic, k = 1 is OR and k = n is
    AND; product logic supports only these two.

    >>> a, b, c = Representation([[[0.0, 1.0]], [[0.5, 0.5]], [[1.0, 0.0]]])
    >>> at_least(2, [a, b, c]).degrees
    tensor([0.5000])
    """
    chosen = get_logic(logic)
    operands = list(representations)
    if not operands:
        raise ValueError("nothing to combine: give at least one representation")
    if not 1 <= k <= len(operands):
        raise ValueError(f"at_least({k}, …) of {len(operands)} representations: k goes from 1 to {len(operands)}")
    return combine(lambda *probs: chosen.at_least(k, list(probs)), *operands)


def implication(a: Representation, b: Representation) -> Representation:
    """Return Gödel's `a → b`: 1 where A ≤ B, else B. Read: "what a has, b has too"."""
    return combine(godel.implication, a, b)


def coimplication(a: Representation, b: Representation) -> Representation:
    """Return the dual of `implication`: 0 where A ≥ B, else B. Read: "what b has beyond a"."""
    return combine(godel.coimplication, a, b)


def difference(a: Representation, b: Representation) -> Representation:
    """Return Gödel's difference: A where A > B, else 0; the least x with `a ≤ b | x`. It is `coimplication(b, a)`.

    Unlike `a - b`, which is A - B where A > B, it keeps the full degree of these features.
    """
    return combine(godel.difference, a, b)


def godel_not(a: Representation) -> Representation:
    """Return Gödel's negation: 1 where A = 0, else 0. Unlike `~a` it is crisp, and not an involution."""
    return combine(godel.strict_negation, a)
