"""What the `exact` meaning of a formula takes, known before it is computed: time on one core, and memory.

The time of each kind of step was measured on one core (benchmarks/bench_logic.py compares the sum with what formulas
take). Memory is bounded: the features of a picture are independent, and so many are computed at once as fit.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from . import exact, expansion
from . import program as p
from .program import Node, Program

MAX_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**27

_SECONDS_TO_LOOK_AT_A_NODE: Final = 5e-6
_SECONDS_OF_A_NODE: Final = 3.5e-5
_SECONDS_OF_A_PASS: Final = 2e-6
_SECONDS_OF_A_BYTE: Final = 1.3e-10


class TooLong(Exception):  # noqa: N818  # `Formula` makes the error of it
    """It would take so many seconds; infinitely many if nobody knows."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Cost(NamedTuple):
    """Seconds on one core; bytes of memory beside the operands and the result; features that are computed at once."""

    seconds: float
    bytes: int
    features_at_once: int


class Plan(NamedTuple):
    """The steps of an evaluation, how many nodes were looked at to find them, and passes over tensors that they take.

    They are gone through `cases` times.
    """

    steps: Program
    looked_at: int
    passes: int
    cases: int = 1

    def cost(self, shape: Sequence[int], item_bytes: int) -> Cost:
        """For operands that broadcast to `(..., N, M)`, of so many bytes a number."""
        of_feature = math.prod(shape) // shape[-2] * item_bytes
        seconds = _seconds(self.looked_at, len(self.steps), self.passes, of_feature * shape[-2])
        at_once = 2 * p.most_at_once(self.steps) + 5 * sum(node.op == p.NAME for node in self.steps)
        at_once += max((2 * int(node.value) for node in self.steps if node.op == p.AT_LEAST), default=0)
        features = max(1, min(shape[-2], _MAX_BYTES // (at_once * of_feature)))
        return Cost(self.cases * seconds, at_once * features * of_feature, features)


def plan_of_states(program: Program, shape: Sequence[int], item_bytes: int) -> Plan:
    """For formulas of the lattice: names take three states. Raises TooLong as soon as the plan would take too long."""
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

    steps = expansion.expand(program, spend)
    return Plan(steps, looked_at, passes)


def plan_of_values(program: Program, repeated: int, num_values: int) -> Plan:
    """For formulas with `-`: names that occur more than once take each of their values."""
    passes = sum(_passes_by_values(node, num_values) for node in program)
    return Plan(program, 0, passes, num_values**repeated)


def _passes_by_values(node: Node, num_values: int) -> int:
    if node.op == p.AT_LEAST:
        return 8 * len(node.args) * min(int(node.value), len(node.args) + 1 - int(node.value))
    return {p.NAME: 0, p.NOT: 1, p.MINUS: 3 * num_values}.get(node.op, 6)


def _seconds(looked_at: int, nodes: int, passes: int, tensor_bytes: int) -> float:
    return (
        looked_at * _SECONDS_TO_LOOK_AT_A_NODE
        + nodes * _SECONDS_OF_A_NODE
        + passes * (_SECONDS_OF_A_PASS + tensor_bytes * _SECONDS_OF_A_BYTE)
    )
