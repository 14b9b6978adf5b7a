"""The slow, obvious versions: enumerate all truth values, one joint outcome after the other.

Nothing here uses the code under test, but for the nodes of an already parsed formula.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import torch

from andornot import Formula, Representation

TruthFunction = Callable[..., Fraction]


def random_representation(
    generator: np.random.Generator, n: int, m: int, batch: tuple[int, ...] = ()
) -> Representation:
    """Rows of all characters: spread out, peaked, with zeros, crisp."""
    weights = generator.exponential(size=(*batch, n, m)) ** generator.choice([0.5, 1, 4])
    weights[generator.random(weights.shape) < 0.2] = 0
    weights[..., 0] += weights.sum(-1) == 0
    return Representation(torch.from_numpy(weights / weights.sum(-1, keepdims=True)))


def distribution(function: TruthFunction, operands: Sequence[Representation]) -> np.ndarray:
    """P(function(A_1, …, A_n)) for independent A's, `(N, M)`; a value off the grid is split, keeping its mean."""
    n, m = operands[0].probs.shape
    result = np.zeros((n, m))
    grid = [Fraction(i, m - 1) for i in range(m)]
    for outcome in itertools.product(range(m), repeat=len(operands)):
        probability = np.prod([r.probs[:, i].numpy() for r, i in zip(operands, outcome, strict=True)], axis=0)
        place = function(*(grid[i] for i in outcome)) * (m - 1)
        lower = place.numerator // place.denominator
        share = float(place - lower)
        result[:, lower] += probability * (1 - share)
        if share:
            result[:, lower + 1] += probability * share
    return result


def truth_of(formula: Formula, values: Mapping[str, np.ndarray], top: int) -> np.ndarray:
    """The truth value of a formula in Gödel logic, in steps of 1/top, for arrays of outcomes."""
    results: list[np.ndarray] = []
    for op, args, value in formula.program:
        operands = [results[a] for a in args]
        if op == "name":
            result = values[value]
        elif op == "not":
            result = top - operands[0]
        elif op == "minus":
            result = np.maximum(operands[0] - operands[1], 0)
        elif op == "at_least":
            result = np.sort(np.stack(operands), axis=0)[-value]
        else:
            result = (np.minimum if op == "and" else np.maximum)(*operands)
        results.append(result)
    return results[-1]


def exact_distribution(formula: Formula, values: Mapping[str, Representation]) -> np.ndarray:
    """Each name is one random variable, however often it is mentioned: all joint outcomes of all names."""
    operands = [values[name].probs.numpy() for name in formula.names]
    n, m = operands[0].shape
    outcomes = [axis.ravel() for axis in np.indices((m,) * len(operands))]
    truth = truth_of(formula, dict(zip(formula.names, outcomes, strict=True)), m - 1)
    result = np.zeros((n, m))
    for feature in range(n):
        probability = np.prod([p[feature][i] for p, i in zip(operands, outcomes, strict=True)], axis=0)
        result[feature] = np.bincount(truth, weights=probability, minlength=m)
    return result


TRUTH_FUNCTIONS: dict[str, dict[str, TruthFunction]] = {
    "godel": {"or": max, "and": min, "minus": lambda a, b: max(Fraction(0), a - b)},
    "lukasiewicz": {
        "or": lambda a, b: min(Fraction(1), a + b),
        "and": lambda a, b: max(Fraction(0), a + b - 1),
        "minus": lambda a, b: max(Fraction(0), a - b),
    },
    "product": {"or": lambda a, b: a + b - a * b, "and": lambda a, b: a * b, "minus": lambda a, b: a * (1 - b)},
}


def independent_distribution(formula: Formula, values: Mapping[str, Representation], logic: str) -> np.ndarray:
    """Operator by operator, as the paper does: operands are independent."""
    functions = TRUTH_FUNCTIONS[logic]
    results: list[np.ndarray] = []
    for node in formula.program:
        args = [Representation(torch.from_numpy(results[a])) for a in node.args]
        if node.op == "name":
            results.append(values[node.value].probs.numpy())
        elif node.op == "not":
            results.append(distribution(lambda a: 1 - a, args))
        elif node.op == "at_least":
            results.append(distribution(counting(logic, node.value), args))
        else:
            results.append(distribution(functions[node.op], args))
    return results[-1]


def counting(logic: str, k: int) -> TruthFunction:
    if logic == "lukasiewicz":
        return lambda *values: min(Fraction(1), max(Fraction(0), sum(values, Fraction(0)) - (k - 1)))
    return lambda *values: sorted(values, reverse=True)[k - 1]


def truth_of_condition(tree: tuple, values: Mapping[str, float], logic: str, joined_by: str = "and") -> float:
    """The truth of a condition in one image, by recursion over its tree, from those of its terms."""
    kind, *rest = tree
    if kind == "term":
        return values[rest[0]]
    if kind == "weight" or (kind == "not" and _weighted(rest[0])):
        # As if the term, or its negation, were written that often.
        once, factor = _literal(tree, values)
        return once**factor if joined_by == "and" else 1 - (1 - once) ** factor
    if kind == "not":
        return 1 - truth_of_condition(rest[0], values, logic)
    a, b = (truth_of_condition(one, values, logic, kind) for one in rest)
    if logic == "godel":
        return min(a, b) if kind == "and" else max(a, b)
    if logic == "lukasiewicz":
        return max(0, a + b - 1) if kind == "and" else min(1, a + b)
    return a * b if kind == "and" else a + b - a * b


def _weighted(tree: tuple) -> bool:
    return tree[0] == "weight" or (tree[0] == "not" and _weighted(tree[1]))


def _literal(tree: tuple, values: Mapping[str, float]) -> tuple[float, float]:
    if tree[0] == "weight":
        return values[tree[2]], tree[1]
    truth, factor = _literal(tree[1], values)
    return 1 - truth, factor
