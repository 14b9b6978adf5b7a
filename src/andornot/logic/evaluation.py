"""The representation of a term: by the paper's formulas, or exactly."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

import torch
from torch import Tensor

from ..progress import format_duration
from . import exact, godel
from . import program as p
from .cost import MAX_SECONDS, Cost, EvaluationPlan, TooLong, plan_of_states, plan_of_values
from .operators import Logic
from .program import Node, Program
from .representation import Representation, combine, common_shape, wide_dtype
from .tokens import FormulaError, FormulaErrorCode
from .writing import write_term

# Of the lattice; a plan goes that deep.
MAX_REPEATED_NAMES: Final = 10


class TermEvaluation:
    """The program of a term in pieces without `like`, which is an atom to what it stands in: the mean of its examples.

    A representation knows no gallery that it could be centered on; whoever has one may take the mean of directions.
    """

    def __init__(self, program: Program, text: str, positions: Mapping[int, int]) -> None:
        nodes = list(program)

        def piece(root: int) -> _Piece:
            kept = p.needed(nodes, root)
            return _Piece(p.part(nodes, kept), text, {new: positions[old] for new, old in enumerate(kept)})

        # What an example needs comes before it.
        self._likes: dict[str, list[_Piece]] = {}
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


class _Piece:
    """A program over names, and what evaluates it; errors point at the `positions` of its nodes in `text`."""

    def __init__(self, program: Program, text: str, positions: Mapping[int, int]) -> None:
        self._program, self._text, self._positions = program, text, positions
        self._names = [str(node.value) for node in program if node.op == p.NAME]
        self._repeated = tuple(name for name, count in p.mentions(program).items() if count > 1)
        self._has_minus = any(node.op == p.MINUS for node in program)
        self._at_least = next((index for index, node in enumerate(program) if node.op == p.AT_LEAST), None)
        self._plan: EvaluationPlan | None = None

    def evaluate(self, values: Mapping[str, Representation], semantics: str, logic: Logic) -> Representation:
        """Return the representation, given that of each name at least."""
        operands = [values[name] for name in self._names]
        if semantics == "independent" or not self._repeated:

            def independent(*probs: Tensor) -> Tensor:
                return self._evaluate_independent(self._named(probs), logic)

            if self._at_least is None or logic is not godel:
                return combine(independent, *operands)
            # Counting takes many times the memory of its operands.
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
            # A name that the laws remove from the formula still has a say in the shape of the result.
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
        """Return the steps of an exact evaluation; cached if they do not depend on the shape."""
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
        """Return an error that points at the last of the repeated names."""
        return self._error(self._program.index(Node(p.NAME, (), self._repeated[-1])), message, code)

    def _error(self, node: int, message: str, code: FormulaErrorCode) -> FormulaError:
        return FormulaError(message, self._text, self._positions[node], code=code)

    def _named(self, probs: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self._names, probs, strict=True))

    def _evaluate_by_values(self, probs: Mapping[str, Tensor], logic: Logic) -> Tensor:
        """Evaluate with repeated names at each of their values in turn: `-` is no operation of the lattice."""
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
    """Return the kernel, applied to that many features at a time."""

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
