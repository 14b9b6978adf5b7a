"""Evaluate terms to representations, with the paper's or exact semantics, and estimate the cost of the latter.

The time of each kind of step was measured on one core (benchmarks/bench_logic.py compares estimates with measured
times). Memory is bounded: features are independent, so only as many as fit are computed at once.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ..progress import format_duration
from . import exact, godel
from . import program as p
from .operators import Logic
from .program import Node, Program, write_term
from .representation import Representation, combine, common_shape, wide_dtype
from .tokens import FormulaError, FormulaErrorCode

MAX_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**27

_SECONDS_TO_LOOK_AT_A_NODE: Final = 5e-6
_SECONDS_OF_A_NODE: Final = 3.5e-5
_SECONDS_OF_A_PASS: Final = 2e-6
_SECONDS_OF_A_BYTE: Final = 1.3e-10


class TooLong(Exception):  # noqa: N818  # internal: converted to a FormulaError
    """Raised if an evaluation would take too long; `seconds` is the estimate, infinite if unknown."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Cost(NamedTuple):
    """Seconds on one core, bytes of memory besides operands and result, and features computed at once."""

    seconds: float
    bytes: int
    features_at_once: int


class EvaluationPlan(NamedTuple):
    """The steps of an evaluation, the number of nodes visited to plan them, and their passes over tensors.

    The steps are run `cases` times. `counters` is the number of tensors in which an `at_least` counts.
    """

    steps: Program
    looked_at: int
    passes: int
    counters: int
    cases: int = 1

    def cost(self, shape: Sequence[int], item_bytes: int) -> Cost:
        """Return the cost for operands that broadcast to `(..., N, M)`, with `item_bytes` bytes per number."""
        of_feature = math.prod(shape) // shape[-2] * item_bytes
        seconds = _seconds(self.looked_at, len(self.steps), self.passes, of_feature * shape[-2])
        at_once = 2 * p.most_at_once(self.steps) + 5 * sum(node.op == p.NAME for node in self.steps) + self.counters
        # The features of an empty batch take no memory: avoid a division by zero.
        features = max(1, min(shape[-2], _MAX_BYTES // max(1, at_once * of_feature)))
        return Cost(self.cases * seconds, at_once * features * of_feature, features)


def plan_of_states(program: Program, shape: Sequence[int], item_bytes: int) -> EvaluationPlan:
    """Plan a formula without `-`, with three states per repeated name. Raises TooLong if it would take too long."""
    looked_at = nodes = passes = 0
    tensor_bytes = math.prod(shape) * item_bytes

    def spend(node: Node | None, done: float) -> None:
        nonlocal looked_at, nodes, passes
        if node is None:
            looked_at += 1
        else:
            nodes += 1
            passes += exact.passes(node)
        if (seconds := _seconds(looked_at, nodes, passes, tensor_bytes)) > MAX_SECONDS:
            raise TooLong(seconds / done if done else math.inf)

    steps = exact.expand(program, spend)
    counters = max((2 * int(node.value) for node in steps if node.op == p.AT_LEAST), default=0)
    return EvaluationPlan(steps, looked_at, passes, counters)


def plan_of_values(program: Program, repeated: int, num_values: int) -> EvaluationPlan:
    """Plan a formula with `-`, or without repeated names, by running over all values of the repeated names."""
    passes = sum(_passes_by_values(node, num_values) for node in program)
    counters = max((5 * _counted(node) + len(node.args) for node in program if node.op == p.AT_LEAST), default=0)
    return EvaluationPlan(program, 0, passes, counters, num_values**repeated)


def _passes_by_values(node: Node, num_values: int) -> int:
    if node.op == p.AT_LEAST:
        return 5 * len(node.args) * _counted(node)
    return {p.NAME: 0, p.NOT: 1, p.MINUS: 3 * num_values}.get(node.op, 6)


def _counted(node: Node) -> int:
    """Return how many counts `godel.at_least` tracks."""
    return min(int(node.value), len(node.args) + 1 - int(node.value))


def _seconds(looked_at: int, nodes: int, passes: int, tensor_bytes: int) -> float:
    return (
        looked_at * _SECONDS_TO_LOOK_AT_A_NODE
        + nodes * _SECONDS_OF_A_NODE
        + passes * (_SECONDS_OF_A_PASS + tensor_bytes * _SECONDS_OF_A_BYTE)
    )


# --- terms ------------------------------------------------------------------------------------------------------------

# For formulas without `-`; it is the largest depth of a plan.
MAX_REPEATED_NAMES: Final = 10


class TermEvaluation:
    """The evaluation of a term, split at each `like`, which is evaluated first and is then an atom like any other.

    `like` is the mean of its examples' distributions. Searches in a gallery may use the mean of centered directions
    instead, which needs the gallery.
    """

    def __init__(self, program: Program, text: str, positions: Mapping[int, int]) -> None:
        nodes = list(program)

        def piece(root: int) -> _TermPiece:
            kept = p.needed(nodes, root)
            return _TermPiece(p.part(nodes, kept), text, {new: positions[old] for new, old in enumerate(kept)})

        # In program order, so that nested examples are evaluated first.
        self._likes: dict[str, list[_TermPiece]] = {}
        for index, node in enumerate(program):
            if node.op == p.LIKE:
                name = write_term(p.part(program, p.needed(program, index)))
                self._likes[name] = [piece(arg) for arg in node.args]
                nodes[index] = Node(p.NAME, (), name)
        self._whole = piece(len(nodes) - 1)

    def evaluate(self, values: Mapping[str, Representation], semantics: str, logic: Logic) -> Representation:
        """Return the representation, given that of each atom by its text."""
        known = dict(values)
        for name, examples in self._likes.items():
            known[name] = combine(_mean, *(example.evaluate(known, semantics, logic) for example in examples))
        return self._whole.evaluate(known, semantics, logic)

    def cost(self, shape: Sequence[int], dtype: torch.dtype) -> Cost:
        """Return the cost of an exact evaluation; raise a FormulaError if it is too high for one image."""
        whole = self._whole.cost(shape, dtype)
        costs = [whole, *(example.cost(shape, dtype) for like in self._likes.values() for example in like)]
        return Cost(sum(cost.seconds for cost in costs), max(cost.bytes for cost in costs), whole.features_at_once)


class _TermPiece:
    """A program without `like`, and its evaluation; errors point at the `positions` of its nodes in `text`."""

    def __init__(self, program: Program, text: str, positions: Mapping[int, int]) -> None:
        self._program, self._text, self._positions = program, text, positions
        self._names = [str(node.value) for node in program if node.op == p.NAME]
        self._repeated = tuple(name for name, count in p.mentions(program).items() if count > 1)
        self._has_minus = any(node.op == p.MINUS for node in program)
        self._at_least = next((index for index, node in enumerate(program) if node.op == p.AT_LEAST), None)
        self._plan: EvaluationPlan | None = None

    def evaluate(self, values: Mapping[str, Representation], semantics: str, logic: Logic) -> Representation:
        """Return the representation, given those of all names."""
        operands = [values[name] for name in self._names]
        if semantics == "independent" or not self._repeated:

            def independent(*probs: Tensor) -> Tensor:
                return self._evaluate_independent(self._named(probs), logic)

            if self._at_least is None or logic is not godel:
                return combine(independent, *operands)
            # Counting needs many times the memory of its operands.
            shape, dtype = common_shape(operands), _common_dtype(operands)
            cost = self._checked_cost(plan_of_values(self._program, 0, shape[-1]), shape, dtype)
            return combine(_in_parts(independent, cost.features_at_once), *operands)
        if logic is not godel:
            message = f'semantics="exact" is Gödel\'s alone, and {_shown(self._repeated[0])} occurs more than once'
            raise self._refused(f'{message}; use semantics="independent"', "unsupported")
        shape, dtype = common_shape(operands), _common_dtype(operands)
        plan = self._planned(shape[-2:], dtype)
        features_at_once = self._checked_cost(plan, shape, dtype).features_at_once

        def kernel(*probs: Tensor) -> Tensor:
            named = self._named(probs)
            # Names that simplification removed still contribute to the shape of the result.
            kept = (*shape[:-2], probs[0].shape[-2], shape[-1])
            if self._has_minus:
                return self._evaluate_by_values(named, logic).expand(kept)
            return exact.evaluate(plan.steps, named).expand(kept)

        return combine(_in_parts(kernel, features_at_once), *operands)

    def cost(self, shape: Sequence[int], dtype: torch.dtype) -> Cost:
        """Return the cost of an exact evaluation; raise a FormulaError if it is too high for one image."""
        return self._checked_cost(self._planned(shape[-2:], dtype), shape, dtype)

    def _checked_cost(self, plan: EvaluationPlan, shape: Sequence[int], dtype: torch.dtype) -> Cost:
        of_one = plan.cost(shape[-2:], dtype.itemsize)
        if of_one.seconds > MAX_SECONDS:
            raise self._too_long(of_one.seconds)
        return plan.cost(shape, dtype.itemsize)

    def _planned(self, shape: Sequence[int], dtype: torch.dtype) -> EvaluationPlan:
        """Return the plan of an exact evaluation, cached if it does not depend on the shape."""
        if self._has_minus or not self._repeated:
            return plan_of_values(self._program, len(self._repeated), shape[-1])
        if self._plan is None:
            if len(self._repeated) > MAX_REPEATED_NAMES:
                message = f"{len(self._repeated)} names occur more than once, more than the {MAX_REPEATED_NAMES} that"
                raise self._refused(
                    f'{message} semantics="exact" can take; use semantics="independent"', "too-expensive"
                )
            try:
                self._plan = plan_of_states(self._program, shape, dtype.itemsize)
            except TooLong as too_long:
                raise self._too_long(too_long.seconds) from None
        return self._plan

    def _too_long(self, seconds: float) -> FormulaError:
        count = len(self._repeated)
        if self._at_least is not None and not count:
            message = f"this at_least would take {_duration(seconds)}, more than the {MAX_SECONDS:.0f} s that it may"
            return self._error(self._at_least, f"{message}; give it fewer operands", "too-expensive")
        why = (
            f"{count} names occur more than once" if count > 1 else f"{_shown(self._repeated[0])} occurs more than once"
        )
        instead = 'write "a & ~b" for "a - b", ' if self._has_minus else ""
        return self._refused(
            f'semantics="exact" would take {_duration(seconds)}, more than the {MAX_SECONDS:.0f} s that it may: {why}; '
            f'{instead}repeat fewer names, or use semantics="independent"',
            "too-expensive",
        )

    def _refused(self, message: str, code: FormulaErrorCode) -> FormulaError:
        """Return an error that points at the last repeated name."""
        return self._error(self._program.index(Node(p.NAME, (), self._repeated[-1])), message, code)

    def _error(self, node: int, message: str, code: FormulaErrorCode) -> FormulaError:
        return FormulaError(message, self._text, self._positions[node], code=code)

    def _named(self, probs: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self._names, probs, strict=True))

    def _evaluate_by_values(self, probs: Mapping[str, Tensor], logic: Logic) -> Tensor:
        """Evaluate for each value of the repeated names in turn, because `-` is not a lattice operation."""
        like = probs[self._repeated[0]]
        values = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
        total = torch.zeros((), dtype=like.dtype, device=like.device)
        for chosen in itertools.product(range(len(values)), repeat=len(self._repeated)):
            fixed = dict(zip(self._repeated, (values[value] for value in chosen), strict=True))
            weights = [probs[name][..., value, None] for name, value in zip(self._repeated, chosen, strict=True)]
            total = total + reduce(torch.mul, weights) * self._evaluate_independent({**probs, **fixed}, logic)
        return total

    def _evaluate_independent(self, probs: Mapping[str, Tensor], logic: Logic) -> Tensor:
        def apply(position: int, node: Node, operands: list[Tensor]) -> Tensor:
            if node.op == p.NAME:
                return probs[str(node.value)]
            if node.op == p.NOT:
                return godel.negation(operands[0])
            if node.op == p.OR:
                return logic.disjunction(*operands)
            if node.op == p.AND:
                return logic.conjunction(*operands)
            if node.op == p.MINUS:
                return logic.minus(*operands)
            try:
                return logic.at_least(int(node.value), operands)
            except ValueError as error:
                raise self._error(position, str(error), "unsupported") from None

        return p.run(self._program, apply)


def _common_dtype(operands: Sequence[Representation]) -> torch.dtype:
    return wide_dtype(reduce(torch.promote_types, (operand.dtype for operand in operands)))


def _in_parts(kernel: Callable[..., Tensor], features_at_once: int) -> Callable[..., Tensor]:
    """Return a kernel that is applied to `features_at_once` features at a time."""

    def in_parts(*probs: Tensor) -> Tensor:
        if features_at_once >= probs[0].shape[-2]:
            return kernel(*probs)
        parts = zip(*(torch.split(one, features_at_once, -2) for one in probs), strict=True)
        return torch.cat([kernel(*part) for part in parts], -2)

    return in_parts


def _mean(*probs: Tensor) -> Tensor:
    return reduce(torch.add, probs) / len(probs)


def _shown(name: str) -> str:
    return name if name.startswith('"') else f'"{name}"'


def _duration(seconds: float) -> str:
    return "very long" if math.isinf(seconds) else f"about {format_duration(seconds)}"
