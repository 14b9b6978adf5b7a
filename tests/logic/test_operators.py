"""Every operator against the enumeration of all truth values."""

from fractions import Fraction
from functools import reduce
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import TRUTH_FUNCTIONS, counting, distribution, random_representation

import andornot as aon
from andornot import Representation
from andornot.errors import AndornotError
from andornot.logic import godel, lukasiewicz

ONE, ZERO = Fraction(1), Fraction(0)

BINARY = {
    "a | b": (lambda a, b: a | b, max),
    "a & b": (lambda a, b: a & b, min),
    "a - b": (lambda a, b: a - b, lambda a, b: max(a - a, a - b)),
    "implication": (aon.logic.implication, lambda a, b: ONE if a <= b else b),
    "coimplication": (aon.logic.coimplication, lambda a, b: ZERO if a >= b else b),
    "difference": (aon.logic.difference, lambda a, b: a if a > b else ZERO),
}
UNARY = {
    "~a": (lambda a: ~a, lambda a: 1 - a),
    "godel_not": (aon.logic.godel_not, lambda a: ONE if a == 0 else ZERO),
}


@st.composite
def operands(draw, count):
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    return [random_representation(generator, n, m) for _ in range(count)]


def assert_close(result: Representation, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(result.probs.numpy(), expected, atol=tolerance, rtol=0)
    Representation(result.probs)  # still a valid one: no negative, no NaN, sums of 1


@pytest.mark.parametrize("name", BINARY)
@given(pair=operands(2))
def test_binary_operators_agree_with_enumeration(name, pair):
    operator, truth = BINARY[name]
    assert_close(operator(*pair), distribution(truth, pair))


@pytest.mark.parametrize("name", UNARY)
@given(one=operands(1))
def test_unary_operators_agree_with_enumeration(name, one):
    operator, truth = UNARY[name]
    assert_close(operator(*one), distribution(truth, one))


@given(triple=operands(3))
def test_relative_negation_agrees_with_enumeration_of_four_independent_operands(triple):
    a, b, keep = triple
    expected = distribution(lambda a, b, keep, again: min(a, max(1 - b, min(keep, again))), [a, b, keep, b])
    assert_close(a.without(b, keep=keep), expected)


def test_the_relative_negation_is_told_what_to_keep_because_minus_is_the_plain_one():
    a = Representation([[0.5, 0.5]])
    with pytest.raises(TypeError, match="keep"):
        a.without(a)


@pytest.mark.parametrize("logic", ["godel", "lukasiewicz"])
@given(data=st.data(), count=st.integers(1, 4))
def test_at_least_agrees_with_enumeration_in_every_logic_that_counts(logic, data, count):
    several = data.draw(operands(count))
    for k in range(1, count + 1):
        assert_close(aon.at_least(k, several, logic=logic), distribution(counting(logic, k), several))


@pytest.mark.parametrize("logic", TRUTH_FUNCTIONS)
@given(pair=operands(2))
def test_or_and_and_of_every_logic_agree_with_enumeration(logic, pair):
    functions = TRUTH_FUNCTIONS[logic]
    assert_close(aon.any_of(pair, logic=logic), distribution(functions["or"], pair))
    assert_close(aon.all_of(pair, logic=logic), distribution(functions["and"], pair))


@pytest.mark.parametrize("logic", TRUTH_FUNCTIONS)
@given(several=operands(4))
def test_one_of_n_is_or_and_n_of_n_is_and(logic, several):
    functions = TRUTH_FUNCTIONS[logic]

    def folded(op: str) -> np.ndarray:
        return reduce(
            lambda left, right: Representation(torch.from_numpy(distribution(functions[op], [left, right]))), several
        ).probs.numpy()

    assert_close(aon.at_least(1, several, logic), folded("or"))
    assert_close(aon.at_least(4, several, logic), folded("and"))
    assert aon.any_of(several, logic) == aon.at_least(1, several, logic)
    assert aon.all_of(several, logic) == aon.at_least(4, several, logic)


@given(triple=operands(3))
def test_product_logic_multiplies_degrees(triple):
    expected = torch.stack([r.degrees for r in triple]).prod(0)
    torch.testing.assert_close(aon.all_of(triple, logic="product").degrees, expected)
    missing = torch.stack([1 - r.degrees for r in triple]).prod(0)
    torch.testing.assert_close(aon.any_of(triple, logic="product").degrees, 1 - missing)


def test_product_logic_has_no_two_of_three():
    a = Representation([[0.5, 0.5]])
    with pytest.raises(ValueError, match="not defined in product logic"):
        aon.at_least(2, [a, a, a], logic="product")


@pytest.mark.parametrize("k", [1, 3, 20, 38, 40])
def test_at_least_of_many_operands_is_a_poisson_binomial_tail(k):
    """P(at least k of 40 coins) from NumPy's polynomial product; M = 2 makes each feature such a coin."""
    generator = np.random.default_rng(k)
    heads = generator.random((40, 5))
    result = aon.at_least(k, [Representation(np.stack([1 - p, p], -1)) for p in heads])
    for feature in range(5):
        counts = reduce(np.convolve, [[1 - p, p] for p in heads[:, feature]])
        np.testing.assert_allclose(result.degrees[feature], counts[k:].sum(), rtol=1e-10)


@pytest.mark.parametrize("m", range(2, 10))
def test_crisp_representations_behave_as_plain_truth_values(m):
    eye = torch.eye(m, dtype=torch.float64)
    values = torch.linspace(0, 1, m, dtype=torch.float64)
    a, b = Representation(eye.unsqueeze(1).unsqueeze(1)), Representation(eye.unsqueeze(1))  # all m × m pairs
    left, right = values[:, None, None], values[:, None]
    torch.testing.assert_close((a | b).degrees, torch.maximum(left, right), atol=1e-15, rtol=0)
    torch.testing.assert_close((a & b).degrees, torch.minimum(left, right), atol=1e-15, rtol=0)
    torch.testing.assert_close((~b).degrees, 1 - right, atol=1e-15, rtol=0)
    for result in (a | b, a & b, ~a, aon.logic.difference(a, b), aon.logic.implication(a, b)):
        assert ((result.probs == 0) | (result.probs == 1)).all()


def test_the_papers_equations_at_four_truth_values():
    """Eqs. (p_or), (p_land), (p_neg), term by term as printed, n = 4."""
    a, b = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
    printed_or = [a[i] * b[: i + 1].sum() + b[i] * a[: i + 1].sum() - a[i] * b[i] for i in range(4)]
    printed_and = [a[i] * b[i:].sum() + b[i] * a[i:].sum() - a[i] * b[i] for i in range(4)]
    printed_not = [a[4 - 1 - i] for i in range(4)]
    ra, rb = Representation(a[None]), Representation(b[None])
    assert_close(ra | rb, np.array([printed_or]))
    assert_close(ra & rb, np.array([printed_and]))
    assert_close(~ra, np.array([printed_not]))
    assert_close(ra | rb, np.array([[0.04, 0.17, 0.33, 0.46]]))  # and by hand


@pytest.mark.parametrize("operator", ["or", "and", "any_of", "all_of", "at_least", "implication", "difference"])
def test_tiny_probabilities_are_right_relative_to_themselves_in_float32(operator):
    generator = np.random.default_rng(5)
    exact = []
    for _ in range(3):
        weights = 10.0 ** generator.uniform(-14, 0, (50, 6))
        exact.append(Representation(weights / weights.sum(-1, keepdims=True)))
    apply = {
        "or": lambda a, b, _: a | b,
        "and": lambda a, b, _: a & b,
        "any_of": lambda *r: aon.any_of(r),
        "all_of": lambda *r: aon.all_of(r),
        "at_least": lambda *r: aon.at_least(2, r),
        "implication": lambda a, b, _: aon.logic.implication(a, b),
        "difference": lambda a, b, _: aon.logic.difference(a, b),
    }[operator]
    single = apply(*(Representation(r.probs.float()) for r in exact)).probs.double()
    double = apply(*(Representation(r.probs.float().double(), validate=False) for r in exact)).probs
    assert double[double > 0].min() < 1e-12
    large_enough = double > 1e-37  # below it float32 itself has fewer digits
    relative = ((single - double).abs() / double)[large_enough]
    assert relative.max() < 1e-5


def test_accuracy_does_not_depend_on_settings_for_fast_products():
    weights = 10.0 ** torch.empty(200, 8, dtype=torch.float64).uniform_(-12, 0)
    a = Representation((weights / weights.sum(-1, keepdim=True)).float())
    expected = (a | a).probs, (a & a).probs
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        results = (a | a).probs, (a & a).probs
    finally:
        torch.set_float32_matmul_precision(before)
    with torch.autocast("cpu", torch.bfloat16):
        results_in_autocast = (a | a).probs, (a & a).probs
    for got in (results, results_in_autocast):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_keep_the_dtype_and_stay_valid(dtype):
    logits = torch.randn(3, 4, 16, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
    a, b, c = (Representation.from_logits(x.to(dtype)) for x in logits)
    for logic in TRUTH_FUNCTIONS:
        for result in (a | b, a & b, ~a, a - b, aon.any_of([a, b, c], logic), aon.all_of([a, b, c], logic)):
            assert result.dtype == dtype
            Representation(result.probs)


def test_long_chains_in_half_precision_stay_valid():
    r = Representation.from_logits(torch.randn(200, 32, 8, generator=torch.Generator().manual_seed(0)).half())
    for result in (aon.any_of(r), aon.all_of(r), aon.at_least(100, r)):
        Representation(result.probs)


def test_mixed_dtypes_promote():
    a, b = Representation([[0.5, 0.5]]), Representation(torch.tensor([[0.25, 0.75]], dtype=torch.float64))
    assert (a | b).dtype == torch.float64


@pytest.mark.parametrize("logic", TRUTH_FUNCTIONS)
def test_gradients_flow_through_every_operator(logic):
    logits = torch.randn(3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def everything(logits):
        a, b, c = Representation.from_logits(logits)
        results = [aon.any_of([a, b, c], logic), aon.all_of([a, b, c], logic)]
        if logic == "godel":
            results += [a | b, a & b, ~a, a - b, a.without(b, keep=c), aon.at_least(2, [a, b, c])]
            results += [
                aon.logic.implication(a, b),
                aon.logic.coimplication(a, b),
                aon.logic.difference(a, b),
                aon.logic.godel_not(a),
            ]
        return torch.stack([r.probs for r in results])

    assert torch.autograd.gradcheck(everything, logits)


@pytest.mark.parametrize("logic", TRUTH_FUNCTIONS)
def test_leading_dimensions_broadcast_as_if_looped(logic):
    generator = np.random.default_rng(0)
    a = random_representation(generator, 3, 5, (4, 1))
    b = random_representation(generator, 3, 5, (6,))
    for operator in (aon.any_of, aon.all_of):
        together = operator([a, b], logic)
        assert together.batch_shape == (4, 6)
        for i in range(4):
            for j in range(6):
                assert together[i, j].isclose(operator([a[i, 0], b[j]], logic), 1e-15)


def test_operators_run_where_the_tensors_are():
    """The meta device stands for any that is not the CPU: a constant left on the CPU would be an error."""
    a = Representation(torch.rand(2, 3, 4, device="meta"))
    f = aon.Formula("at_least(2, a, ~a, b - a) | a & b")
    for logic in TRUTH_FUNCTIONS:
        assert aon.any_of([a, a, a], logic).device.type == "meta"
        assert aon.all_of([a, a, a], logic).device.type == "meta"
    for result in (
        a | a,
        a & a,
        ~a,
        aon.at_least(2, [a, a, a]),
        aon.logic.implication(a, a),
        aon.logic.difference(a, a),
    ):
        assert result.device.type == "meta"
    assert f.evaluate({"a": a, "b": a}).device.type == "meta"
    assert a.degrees.device.type == "meta"
    for distance in (aon.cross_entropy, aon.degree_distance, aon.containment, aon.logic.expected_bce):
        assert distance(a, a).device.type == "meta"


def test_operands_are_left_as_they_were():
    a, b = random_representation(np.random.default_rng(0), 3, 4), random_representation(np.random.default_rng(1), 3, 4)
    before = a.probs.clone(), b.probs.clone()
    _ = a | b, a & b, ~a, aon.at_least(1, [a, b]), aon.all_of([a, b], "lukasiewicz"), aon.any_of([a, b], "product")
    assert torch.equal(a.probs, before[0])
    assert torch.equal(b.probs, before[1])


def test_a_single_operand_is_itself():
    a = random_representation(np.random.default_rng(0), 3, 4)
    for logic in TRUTH_FUNCTIONS:
        assert aon.any_of([a], logic) == aon.all_of([a], logic) == a


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: aon.any_of([a][:0]), "at least one representation"),
        (lambda a: aon.at_least(3, [a, a]), "k goes from 1 to 2"),
        (lambda a: aon.at_least(0, [a, a]), "k goes from 1 to 2"),
        (lambda a: aon.any_of([a, a], logic="goedel"), r'unknown logic "goedel".*did you mean "godel"'),
        (lambda a: a | Representation([[0.5, 0.5]] * 2), "N=1, M=2 and N=2, M=2; only those of one model"),
        (lambda a: a[None][[0, 0]] | a[None][[0, 0, 0]], r"do not broadcast: \(2,\), \(3,\)"),
    ],
)
def test_mistakes_are_told_in_one_clear_line(call, message):
    with pytest.raises(ValueError, match=message):
        call(Representation([[0.5, 0.5]]))


@pytest.mark.parametrize(
    "call", [lambda a: a | 1, lambda a: a & a.probs, lambda a: 1 - a, lambda a: aon.any_of([a, 1])]
)
def test_operands_of_another_kind_are_a_type_error(call):
    with pytest.raises(TypeError):
        call(Representation([[0.5, 0.5]]))


# --- a logic of one's own -------------------------------------------------------------------------------------------


@pytest.fixture
def pair():
    generator = np.random.default_rng(0)
    return [random_representation(generator, 3, 5) for _ in range(2)]


class Noted:
    """Łukasiewicz', which notes what it was asked for."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        function = getattr(lukasiewicz, name)
        return lambda *operands: self.asked.append(name) or function(*operands)


def test_a_logic_of_ones_own_is_asked_for_everything_but_not(pair):
    a, b = pair
    mine = Noted()
    for operator in (aon.any_of, aon.all_of):
        assert torch.equal(operator([a, b], mine).probs, operator([a, b], "lukasiewicz").probs)
    formula = aon.Formula("((a | b) & ~a) - at_least(2, a, b)")
    results = [formula.evaluate({"a": a, "b": b}, "independent", logic) for logic in (mine, lukasiewicz, "lukasiewicz")]
    assert torch.equal(results[0].probs, results[2].probs)
    assert torch.equal(results[1].probs, results[2].probs), "a module is an object, too"
    assert mine.asked == ["at_least", "at_least", "disjunction", "conjunction", "at_least", "minus"]


def test_what_a_logic_of_ones_own_lacks_is_named(pair):
    with pytest.raises(AndornotError, match="lacks minus, at_least"):
        aon.any_of(pair, SimpleNamespace(disjunction=lukasiewicz.disjunction, conjunction=lukasiewicz.conjunction))


def test_exact_semantics_is_godels_alone(pair):
    a, b = pair
    values = {"a": a, "b": b}
    with pytest.raises(aon.FormulaError, match="is Gödel's alone"):
        aon.Formula("a & (b | a)").evaluate(values, logic=lukasiewicz)
    by_object = aon.Formula("a & (b | a)").evaluate(values, logic=godel)
    assert torch.equal(by_object.probs, aon.Formula("a & (b | a)").evaluate(values).probs)
