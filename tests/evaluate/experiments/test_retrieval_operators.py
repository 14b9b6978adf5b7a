"""The operators that are compared: what each says of crisp features, and what it promises of others."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from andornot import Representation, all_of, any_of, cross_entropy, degree_distance
from andornot.errors import EvaluationError
from andornot.evaluate.experiments.operators import (
    OPERATORS,
    Operands,
    Operator,
    gallery_vectors,
    in_space,
    query_vectors,
    relative_exact,
    solve_union,
)
from andornot.evaluate.metrics.operability import REFERENCES

BY_NAME = {(operator.query, operator.name): operator for operator in OPERATORS}


def some(seed: int, *batch: int, n: int = 5, m: int = 4) -> Representation:
    """Random distributions, some truth values of which are impossible."""
    random = torch.Generator().manual_seed(seed)
    weights = torch.rand(*batch, n, m, generator=random, dtype=torch.float64) ** 3
    weights[torch.rand(weights.shape, generator=random) < 0.3] = 0
    weights[..., 0] += weights.sum(-1) == 0
    return Representation(weights / weights.sum(-1, keepdim=True))


def crisp(values: list[float], m: int) -> Representation:
    """Features that an image has (1) or has not (0)."""
    probs = torch.zeros(len(values), m)
    probs[torch.arange(len(values)), torch.tensor(values).long() * (m - 1)] = 1
    return Representation(probs)


class Crisp(NamedTuple):
    """What the images have of a feature: 0 or 1. `w` is the operator's weight."""

    a: float
    b: float
    ab: float
    w: float | None


# What an operator says of it.
TRUTH = {
    ("a|b", "Gödel"): lambda x: max(x.a, x.b),
    ("a|b", "Łukasiewicz"): lambda x: max(x.a, x.b),
    ("a|b", "product"): lambda x: max(x.a, x.b),
    ("a|b", "mean of degrees"): lambda x: (x.a + x.b) / 2,
    ("a|b", "mean of features"): lambda x: (x.a + x.b) / 2,
    ("ab&a", "Gödel"): lambda x: min(x.ab, x.a),
    ("ab&a", "product"): lambda x: min(x.ab, x.a),
    ("ab&a", "minimum of degrees"): lambda x: min(x.ab, x.a),
    ("ab&a", "minimum of features"): lambda x: min(x.ab, x.a),
    ("ab&~b", "Gödel"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "Gödel's difference"): lambda x: min(x.ab, 1 - x.b),
    # Of all solutions the largest: what both have may have been in x as well.
    ("ab&~b", "solving x | b = ab"): lambda x: x.ab,
    ("ab&~b", "max(0, ab - b)"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "max(0, ab - w·b), w tuned"): lambda x: max(0, x.ab - x.w * x.b),
    ("ab&~b", "ab·(1 - b)"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "ab·(1 - b)^4"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "ab·(1 - b)^s, s tuned"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "ab·(1 - near b)^4"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "max(0, ab - near b)"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "Łukasiewicz"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "ab·max(0, ab - b)"): lambda x: min(x.ab, 1 - x.b),
    ("ab&~b", "ab - w·b of degrees, w tuned"): lambda x: x.ab - x.w * x.b,
    ("ab&~b", "ab - w·b of features, w tuned"): lambda x: x.ab - x.w * x.b,
    ("ab&~b|a", "Gödel"): lambda x: min(x.ab, max(1 - x.b, x.a)),
    ("ab&~b|a", "Gödel, exact"): lambda x: min(x.ab, max(1 - x.b, x.a)),
}


@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("key", BY_NAME, ids=" by ".join)
def test_the_truth_table_of_crisp_features(key, m):
    operator = BY_NAME[key]
    a, b, ab = (list(column) for column in zip(*product((0.0, 1.0), repeat=3), strict=True))
    if operator.space == "representation":
        operands = [crisp(values, m) for values in (a, b, ab, b)]
    else:
        operands = [torch.tensor(values) for values in (a, b, ab, b)]
    for weight in operator.weights or (None,):
        value = operator.function(Operands(*operands), *(() if weight is None else (weight,)))
        found = value.degrees if isinstance(value, Representation) else value
        assert found.tolist() == [TRUTH[key](Crisp(*values, weight)) for values in zip(a, b, ab, strict=True)]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: f"{operator.query} by {operator.name}")
def test_every_operator_takes_all_combinations_and_gives_queries_that_can_be_compared(operator):
    representations = [some(seed, 3) for seed in range(4)]
    features = [torch.randn(3, 7, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    pairs = zip(features, representations, strict=True)
    x = Operands(*(in_space(*pair, operator.space) for pair in pairs))
    down = x._replace(ab=x.ab[:, None], a=x.a[:, None] if operator.query == "a|b" else x.a)
    value = operator.function(down, *operator.weights[:1])
    if isinstance(value, Representation):
        Representation(value.probs)  # valid, or a ValueError
    for distance in operator.distances:
        vectors = query_vectors(value, distance)
        assert vectors.shape[:2] == (3, 3)
        assert vectors.isfinite().all()
        assert vectors.shape[-1] == gallery_vectors(features[0], representations[0], distance).shape[-1]


def test_no_two_operators_have_one_name_and_each_query_has_a_reference():
    assert len(BY_NAME) == len(OPERATORS)
    assert {operator.query for operator in OPERATORS} == set(REFERENCES)


@given(seed=st.integers(0, 10_000), m=st.integers(2, 6))
def test_solving_a_union_gives_an_x_that_makes_it(seed, m):
    x, b = some(seed, m=m), some(seed + 1, m=m)
    ab = x | b
    solved = solve_union(Operands(None, b, ab, None))
    Representation(solved.probs)  # valid, or a ValueError
    torch.testing.assert_close((solved | b).probs, ab.probs, atol=1e-6, rtol=0)


def test_what_no_union_makes_is_still_a_distribution():
    for seed in range(20):
        Representation(solve_union(Operands(None, some(seed, 9), some(seed + 50, 9), None)).probs)


def test_the_product_of_degrees_is_that_of_product_logic():
    x = Operands(a=some(0, 4), b=some(1, 4), ab=some(2, 4), near_b=some(3, 4))
    degrees = Operands(*(operand.degrees for operand in x))
    either, common, without = (
        BY_NAME[key].function(degrees) for key in (("a|b", "product"), ("ab&a", "product"), ("ab&~b", "ab·(1 - b)"))
    )
    torch.testing.assert_close(either, any_of([x.a, x.b], "product").degrees)
    torch.testing.assert_close(common, all_of([x.ab, x.a], "product").degrees)
    torch.testing.assert_close(without, all_of([x.ab, ~x.b], "product").degrees)


def test_the_exact_relative_negation_takes_b_as_one_variable():
    a, b, ab = (some(seed, n=3, m=3) for seed in range(3))
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for i, j, k in product(range(3), repeat=3):
        truth = min(k, max(2 - j, min(i, j)))
        expected[:, truth] += a.probs[:, i] * b.probs[:, j] * ab.probs[:, k]
    found = relative_exact(Operands(a, b, ab, b))
    torch.testing.assert_close(found.probs, expected)
    independent = BY_NAME["ab&~b|a", "Gödel"].function(Operands(a, b, ab, b))
    assert not found.isclose(independent)


def test_a_powers_near_b_is_the_average_and_not_b():
    x = Operands(*(torch.tensor(value) for value in (0.0, 0.9, 0.8, 0.5)))
    assert BY_NAME["ab&~b", "ab·(1 - near b)^4"].function(x).item() == pytest.approx(0.8 * 0.5**4)
    assert BY_NAME["ab&~b", "ab·(1 - b)^4"].function(x).item() == pytest.approx(0.8 * 0.1**4)


def test_inner_products_are_the_distances():
    queries, gallery = some(0, 3), some(1, 6)
    features, theirs = (torch.randn(n, 7, dtype=torch.float64) for n in (3, 6))
    products = {
        distance: query_vectors(queries, distance) @ gallery_vectors(theirs, gallery, distance).T
        for distance in ("cross-entropy", "degrees")
    }
    torch.testing.assert_close(products["cross-entropy"], -cross_entropy(queries, gallery))
    torch.testing.assert_close(products["degrees"], 1 - degree_distance(queries, gallery))
    torch.testing.assert_close(query_vectors(queries.degrees, "degrees"), query_vectors(queries, "degrees"))
    cosines = query_vectors(features, "features") @ gallery_vectors(theirs, gallery, "features").T
    expected = torch.nn.functional.cosine_similarity(features[:, None], theirs[None], dim=-1)
    torch.testing.assert_close(cosines, expected)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (("a&~b", "mine", "degrees"), "operator 'mine': unknown query \"a&~b\"; did you mean"),
        (("ab&~b", "mine", "degree"), 'operator \'mine\': unknown space "degree"; did you mean "degrees"'),
        (("ab&~b", "mine", "features"), 'the distance "features" is for the space "features"'),
    ],
)
def test_an_operator_that_cannot_be_asked_is_refused_when_it_is_made(how, message):
    with pytest.raises(EvaluationError, match=message):
        Operator(*how, lambda x: x.ab)
