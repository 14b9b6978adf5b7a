"""Operators and distances compared in the retrieval experiments.

To try a custom operator, write a function of `Operands`, wrap it in an `Operator`, and pass `[*PAPER, mine]` to
`evaluate_operability` or `reproduce`. To try a distance, add it to `SCORES` in `andornot.logic.distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...errors import EvaluationError, unknown
from ...logic import Formula, Representation, all_of, any_of, difference
from ...logic.distance import SCORES
from ...similarity import SCALE_SAMPLE, evenly, expand_among, fit_components, from_bytes, int8_dot, scale_of, to_bytes
from ..metrics.operability import Query

Space = Literal["representation", "degrees", "features"]
"""The inputs of an operator: distributions, their expected values, or the backbone's normalized activations."""

# The paper's operators are compared by degrees and both directions of the cross-entropy, others by degrees.
ALL: Final = ("degrees", "cross-entropy", "reverse-cross-entropy")
DEGREES: Final = ("degrees",)
FEATURES: Final = ("features",)


class Operands(NamedTuple):
    """Images in the space of the operator, with leading dimensions that broadcast.

    `near_b` is the mean of the gallery images nearest to b, which needs no labels.
    """

    a: Any
    b: Any
    ab: Any
    near_b: Any


@dataclass(frozen=True)
class Operator:
    """An operator that answers a query, and the distances by which it is compared.

    `function` maps `Operands` in the operator's space to a value in that space. With `weights`, its second argument is
    one of them: for each pair of classes, the one that is best on the other classes.
    """

    query: Query
    name: str
    space: Space
    function: Callable[..., Any]
    distances: tuple[str, ...] = DEGREES
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for kind, name, known in (("query", self.query, get_args(Query)), ("space", self.space, get_args(Space))):
            if name not in known:
                raise EvaluationError(f"operator {self.name!r}: {unknown(kind, name, known)}")
        if (self.space == "features") != (self.distances == FEATURES):
            raise EvaluationError(
                f'operator {self.name!r}: the distance "features" is for the space "features" and no other'
            )


def negation_power(x: Operands, power: float) -> Tensor:
    """Return `ab·(1 - b)^s`: product logic with a power of the negation of b."""
    return torch.as_tensor(x.ab * (1 - x.b) ** power)


def subtraction(x: Operands, weight: float) -> Tensor:
    """Return `ab - w·b`, the usual vector arithmetic, with negative coordinates kept."""
    return torch.as_tensor(x.ab - weight * x.b)


def lukasiewicz_difference(x: Operands, weight: float) -> Tensor:
    """Return `max(0, ab - w·b)`: the Łukasiewicz difference for w = 1."""
    return torch.as_tensor((x.ab - weight * x.b).clamp(min=0))


def solve_union(x: Operands) -> Representation:
    """Return approximately the largest x with `x | b = ab`: F_x = F_ab / F_b, the inverse of OR."""
    cumulative = [r.probs.cumsum(-1) for r in (x.ab, x.b)]
    solved = (cumulative[0] / cumulative[1].clamp(min=1e-6)).clamp(max=1)
    # A quotient of cumulative distributions may decrease, so take the running maximum.
    solved = solved.cummax(-1).values
    probs = torch.diff(solved, prepend=torch.zeros_like(solved[..., :1]), dim=-1)
    return Representation(probs / probs.sum(-1, keepdim=True).clamp(min=1e-12), validate=False)


_RELATIVE: Final = Formula("ab & (~b | (a & b))")


def relative_exact(x: Operands) -> Representation:
    """Return the relative negation with exact semantics: both mentions of b are the same variable."""
    return _RELATIVE.evaluate({"a": x.a, "b": x.b, "ab": x.ab}, semantics="exact")


_TUNED: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_POWERS: Final = (1.0, 2.0, 4.0, 8.0)

# The paper's operators; the relative negation also with exact semantics.
PAPER: Final = (
    Operator("a|b", "Gödel", "representation", lambda x: x.a | x.b, ALL),
    Operator("ab&a", "Gödel", "representation", lambda x: x.ab & x.a, ALL),
    Operator("ab&~b", "Gödel", "representation", lambda x: x.ab & ~x.b, ALL),
    Operator("ab&~b|a", "Gödel", "representation", lambda x: x.ab & (~x.b | (x.a & x.b)), ALL),
    Operator("ab&~b|a", "Gödel, exact", "representation", relative_exact, DEGREES),
)

# Vector arithmetic: the baseline.
ARITHMETIC: Final = (
    Operator("a|b", "mean of degrees", "degrees", lambda x: (x.a + x.b) / 2, DEGREES),
    Operator("a|b", "mean of features", "features", lambda x: (x.a + x.b) / 2, FEATURES),
    Operator("ab&a", "minimum of degrees", "degrees", lambda x: torch.minimum(x.ab, x.a), DEGREES),
    Operator("ab&a", "minimum of features", "features", lambda x: torch.minimum(x.ab, x.a), FEATURES),
    Operator("ab&~b", "ab - w·b of degrees, w tuned", "degrees", subtraction, DEGREES, _TUNED),
    Operator("ab&~b", "ab - w·b of features, w tuned", "features", subtraction, FEATURES, _TUNED),
)

# Other logics, and other definitions of NOT.
CANDIDATES: Final = (
    Operator("a|b", "Łukasiewicz", "representation", lambda x: any_of([x.a, x.b], "lukasiewicz"), DEGREES),
    Operator("a|b", "product", "degrees", lambda x: x.a + x.b - x.a * x.b, DEGREES),
    Operator("ab&a", "product", "degrees", lambda x: x.ab * x.a, DEGREES),
    Operator("ab&~b", "Gödel's difference", "representation", lambda x: difference(x.ab, x.b), DEGREES),
    Operator("ab&~b", "solving x | b = ab", "representation", solve_union, DEGREES),
    Operator("ab&~b", "Łukasiewicz", "representation", lambda x: all_of([x.ab, ~x.b], "lukasiewicz"), DEGREES),
    Operator("ab&~b", "ab·max(0, ab - b)", "degrees", lambda x: x.ab * lukasiewicz_difference(x, 1), DEGREES),
    Operator("ab&~b", "max(0, ab - b)", "degrees", lambda x: lukasiewicz_difference(x, 1), DEGREES),
    Operator("ab&~b", "max(0, ab - w·b), w tuned", "degrees", lukasiewicz_difference, DEGREES, _TUNED),
    Operator("ab&~b", "max(0, ab - near b)", "degrees", lambda x: (x.ab - x.near_b).clamp(min=0), DEGREES),
    Operator("ab&~b", "ab·(1 - b)", "degrees", lambda x: negation_power(x, 1), DEGREES),
    Operator("ab&~b", "ab·(1 - b)^4", "degrees", lambda x: negation_power(x, 4), DEGREES),
    Operator("ab&~b", "ab·(1 - b)^s, s tuned", "degrees", negation_power, DEGREES, _POWERS),
    Operator("ab&~b", "ab·(1 - near b)^4", "degrees", lambda x: x.ab * (1 - x.near_b) ** 4, DEGREES),
)

OPERATORS: Final = PAPER + ARITHMETIC + CANDIDATES


def check_operators(operators: Sequence[Operator]) -> None:
    """Raise an EvaluationError unless the paper's operators are among them and names are unique."""
    if not set(PAPER) <= set(operators):
        raise EvaluationError("the report needs the paper's operators as well: pass [*PAPER, mine]")
    names = [(operator.query, operator.name) for operator in operators]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise EvaluationError(f"two operators for {twice[0]} are named {twice[1]!r}: names must be unique")


def in_space(activations: Tensor, representation: Representation, space: Space) -> Any:
    """Return images in the space of an operator."""
    if space == "features":
        return torch.nn.functional.normalize(activations, dim=-1)
    return representation if space == "representation" else representation.degrees


def query_vectors(value: Any, distance: str) -> Tensor:
    """Return the vectors of queries whose inner product with gallery vectors is the score."""
    if isinstance(value, Representation):
        return SCORES[distance].query(value)
    return torch.nn.functional.normalize(value, dim=-1)


def gallery_vectors(activations: Tensor, representation: Representation, distance: str) -> Tensor:
    """Return the vectors of gallery images whose inner product with query vectors is the score."""
    if distance == "features":
        return torch.nn.functional.normalize(activations, dim=-1)
    return SCORES[distance].gallery(representation)


TRUTH: Final = "truth"
"""Shown instead of a distance in reports."""
# As in galleries.
_DIMENSIONS: Final = 128
_FIT_SAMPLE: Final = 4096


@dataclass(frozen=True)
class Condition:
    """A condition over the images a, b and ab that answers a query; `{}` in `text` is replaced by each of `weights`."""

    query: Query
    name: str
    text: str
    weights: tuple[float, ...] = ()

    @property
    def formulas(self) -> list[Formula]:
        """Return the condition with each of its weights, or once if it has none."""
        return [Formula(self.text.format(weight)) for weight in self.weights or (1.0,)]


CONDITIONS: Final = (
    Condition("a|b", "a and b", "a and b"),
    Condition("ab&~b", "ab and not b", "ab and not b"),
    Condition("ab&~b", "ab and not w*b, w tuned", "ab and not {}*b", (0.25, 0.5, 1.0, 2.0)),
)


class GalleryTruths:
    """Truths of queries for the images of a gallery, given their possession degrees `(n, N)`."""

    def __init__(self, degrees: Tensor) -> None:
        dimensions = max(2, min(_DIMENSIONS, degrees.shape[1]))
        self._components = fit_components(degrees[_evenly(len(degrees), _FIT_SAMPLE)], dimensions)
        blocks = torch.split(degrees, _FIT_SAMPLE)
        self._codes = torch.cat([to_bytes(self._components.project(block)) for block in blocks])

    def of_queries(self, degrees: Tensor, *, expanded: bool = False) -> Tensor:
        """Return truths `(q, n)` of query images with degrees `(q, N)`; `expanded` applies query expansion."""
        return self._truths(self._components.project(degrees), (), expanded)

    def of_examples(self, rows: Sequence[int], *, expanded: bool = False) -> Tensor:
        """Return truths `(n,)` of `like(…)` of some images of the gallery; `expanded` applies query expansion."""
        query = normalize(from_bytes(self._codes[list(rows)]).mean(0), dim=0)[None]
        return self._truths(query, rows, expanded)[0]

    def _truths(self, queries: Tensor, rows: Sequence[int], expanded: bool) -> Tensor:
        if expanded:
            queries = expand_among(self._codes, queries, rows)
        similarity = int8_dot(self._codes, queries)
        scale = scale_of(similarity[:, _evenly(len(self._codes), SCALE_SAMPLE)])
        return scale.truth(similarity).float()


def _evenly(count: int, most: int) -> np.ndarray:
    return evenly(np.arange(count), most)


def truth_rates(truths: Tensor, labels: Tensor, top: int) -> Tensor:
    """Return the fraction of each label among the `top` images by truth: `(..., n)`, `(n, c)` -> `(..., c)`."""
    return labels.to(truths.dtype)[truths.topk(top, dim=-1, sorted=False).indices].mean(-2)


def condition_rates(formula: Formula, first: Tensor, second: Tensor, labels: Tensor, top: int) -> Tensor:
    """Return mean rates `(c,)` over all combinations of the truths `(p, n)` and `(q, n)` of two terms."""
    # One row at a time, because all combinations would take gigabytes.
    rates = [truth_rates(formula.truth_of_terms([row, second]), labels, top).mean(0) for row in first]
    return torch.stack(rates).mean(0)
