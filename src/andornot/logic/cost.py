"""What the `exact` meaning of a formula takes, known before it is computed: time on one core, and memory.

The time of each kind of step was measured on one core (benchmarks/bench_logic.py compares the sum with what formulas
take). Memory is bounded: the features of an image are independent, and so many are computed at once as fit.
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


class EvaluationPlan(NamedTuple):
    """The steps of an evaluation, how many nodes were looked at to find them, and passes over tensors that they take.

    They are gone through `cases` times. `counters` is the number of tensors that an `at_least` counts in.
    """

    steps: Program
    looked_at: int
    passes: int
    counters: int
    cases: int = 1

    def cost(self, shape: Sequence[int], item_bytes: int) -> Cost:
        """Return the cost for operands that broadcast to `(..., N, M)`, with that many bytes per number."""
        of_feature = math.prod(shape) // shape[-2] * item_bytes
        seconds = _seconds(self.looked_at, len(self.steps), self.passes, of_feature * shape[-2])
        at_once = 2 * p.most_at_once(self.steps) + 5 * sum(node.op == p.NAME for node in self.steps) + self.counters
        # Of an empty batch a feature takes no memory at all.
        features = max(1, min(shape[-2], _MAX_BYTES // max(1, at_once * of_feature)))
        return Cost(self.cases * seconds, at_once * features * of_feature, features)


def plan_of_states(program: Program, shape: Sequence[int], item_bytes: int) -> EvaluationPlan:
    """EvaluationPlan a formula of the lattice: names take three states. Raises TooLong if it would take too long."""
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
    counters = max((2 * int(node.value) for node in steps if node.op == p.AT_LEAST), default=0)
    return EvaluationPlan(steps, looked_at, passes, counters)


def plan_of_values(program: Program, repeated: int, num_values: int) -> EvaluationPlan:
    """EvaluationPlan a formula with `-`, or with no repeated name: repeated names take each of their values."""
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
