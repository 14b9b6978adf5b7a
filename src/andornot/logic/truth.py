"""Compute the truth of a condition for each image from that of its terms: tensors `(..., images)` from 0 to 1.

NOT is 1 - t in every logic. A weight is how often a term counts. In an `and`, 2*a is t·t (a power of the truth), and in
an `or` its dual, 1 - (1 - t)·(1 - t). So a higher weight means more influence in both, and De Morgan's laws hold with
weights as well. After `not`, the weight applies to the negated term: `a and not 2*b` is a·(1 - b)².
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import choices
from ..errors import AndornotError, unknown
from . import program as p
from .program import Builder, Node, Program


class TruthLogic(NamedTuple):
    """AND and OR of two truth degrees."""

    conjunction: Callable[[Tensor, Tensor], Tensor]
    disjunction: Callable[[Tensor, Tensor], Tensor]


_GODEL: Final = TruthLogic(torch.minimum, torch.maximum)
_LUKASIEWICZ: Final = TruthLogic(lambda a, b: (a + b - 1).clamp(min=0), lambda a, b: (a + b).clamp(max=1))
_PRODUCT: Final = TruthLogic(torch.mul, lambda a, b: torch.addcmul(a, b, 1 - a))
_TRUTH_FUNCTIONS: Final = dict(zip(choices.LOGICS, (_GODEL, _LUKASIEWICZ, _PRODUCT), strict=True))


def truth(steps: Program, terms: Sequence[Tensor], logic: str) -> Tensor:
    """Compute the truth of a condition with these `steps`, without checks."""
    if logic not in _TRUTH_FUNCTIONS:
        raise AndornotError(unknown("logic", logic, _TRUTH_FUNCTIONS))
    chosen = _TRUTH_FUNCTIONS[logic]

    def apply(_: int, node: Node, operands: list[Tensor]) -> Tensor:
        if node.op == p.TERM:
            return terms[int(node.value)]
        if node.op == p.NOT:
            return 1 - operands[0]
        if node.op == p.POWER:
            return operands[0] ** float(node.value)
        return (chosen.conjunction if node.op == p.AND else chosen.disjunction)(*operands)

    return p.run(steps, apply)


def checked(truths: Mapping[str, Tensor] | Mapping[str, np.ndarray]) -> list[Tensor]:
    """Return the truths of terms as tensors, or raise an error for the first invalid one. Arrays are copied."""
    tensors = {term: _as_tensor(term, given) for term, given in truths.items()}
    for term, degrees in tensors.items():
        if degrees.numel():
            low, high = degrees.aminmax()
            if not (low >= 0 and high <= 1):
                wrong = degrees[~((degrees >= 0) & (degrees <= 1))].flatten()[0].item()
                raise AndornotError(f'a truth goes from 0 to 1; one of "{term}" is {wrong:g}')
    try:
        # torch.broadcast_shapes would import sympy, which takes half a second.
        np.broadcast_shapes(*(degrees.shape for degrees in tensors.values()))
    except ValueError:
        shapes = ", ".join(f'"{term}" {tuple(degrees.shape)}' for term, degrees in tensors.items())
        raise AndornotError(f"these truths are of different images: {shapes}") from None
    return list(tensors.values())


def _as_tensor(term: str, given: object) -> Tensor:
    """Return degrees as a float tensor. Arrays are copied: torch does not support read-only or reversed ones."""
    if isinstance(given, Tensor):
        if given.is_complex():
            raise _no_numbers(term, str(given.dtype))
        return given if given.is_floating_point() else given.float()
    try:
        array = np.array(given)
    except ValueError as error:  # lists of different lengths
        raise _no_numbers(term, str(error)) from None
    if array.dtype.kind not in "biuf":
        raise _no_numbers(term, type(given).__name__ if array.dtype.kind == "O" else str(array.dtype))
    # Convert to native byte order and to a dtype that torch supports.
    wide = {"float16": np.float16, "float32": np.float32}.get(array.dtype.name, np.float64)
    return torch.from_numpy(array.astype(wide if array.dtype.kind == "f" else np.float32))


def _no_numbers(term: str, what: str) -> AndornotError:
    return AndornotError(f'the truth of "{term}" must be numbers from 0 to 1, a tensor or an array, got {what}')


def steps_of(condition: Program) -> Program:
    """Return the condition with weights replaced by powers."""
    table = Builder()
    moved: list[int] = []

    def negated(index: int) -> int:
        op, args, _ = table.nodes[index]
        return args[0] if op == p.NOT else table.add(p.NOT, [index])

    def counted(index: int, op: str) -> int:
        """Return a node of the condition as an operand of `op`."""
        negations = 0
        root = index
        while condition[root].op == p.NOT:
            root, negations = condition[root].args[0], negations + 1
        if condition[root].op != p.WEIGHT:
            return moved[index]
        literal = moved[condition[root].args[0]]
        if negations % 2:
            literal = negated(literal)
        exponent = float(condition[root].value)
        if op == p.AND:
            return table.add(p.POWER, [literal], exponent)
        return negated(table.add(p.POWER, [negated(literal)], exponent))

    for node in condition:
        if node.op in (p.AND, p.OR):
            moved.append(table.add(node.op, [counted(arg, node.op) for arg in node.args]))
        elif node.op == p.NOT:
            moved.append(negated(moved[node.args[0]]))
        else:
            # The effect of a weight depends on the operation that it is an operand of.
            moved.append(moved[node.args[0]] if node.op == p.WEIGHT else table.add(node.op, [], node.value))
    return table.program(counted(len(condition) - 1, p.AND))


def signs_of(condition: Program) -> tuple[set[int], set[int]]:
    """Return the indices of the terms that occur without negation, and of those that occur with it."""
    plain, negated = {len(condition) - 1}, set[int]()
    found: tuple[set[int], set[int]] = set(), set()
    for index in range(len(condition) - 1, -1, -1):
        node = condition[index]
        for signs, own, other in ((0, plain, negated), (1, negated, plain)):
            if index in own:
                if node.op == p.TERM:
                    found[signs].add(int(node.value))
                (other if node.op == p.NOT else own).update(node.args)
    return found
