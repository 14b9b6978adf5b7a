"""What formulas mean: both semantics against enumeration, and the laws that hold and fail."""

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from formulas import NAMES, formulas
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import TRUTH_FUNCTIONS, exact_distribution, independent_distribution, random_representation

import andornot as aon
from andornot import Formula, FormulaError, Representation
from andornot.logic import evaluation


def named(seed: int, n: int = 3, m: int = 5, names=NAMES, batch=()) -> dict[str, Representation]:
    generator = np.random.default_rng(seed)
    return {name: random_representation(generator, n, m, batch) for name in names}


seeds, sizes = st.integers(0, 2**32), st.integers(2, 9)


@settings(max_examples=150)
@given(text=formulas(), seed=seeds, m=sizes)
def test_exact_agrees_with_the_enumeration_of_all_outcomes(text, seed, m):
    formula, values = Formula(text), named(seed, m=m)
    result = formula.evaluate(values)
    np.testing.assert_allclose(result.probs, exact_distribution(formula, values), atol=1e-10, rtol=0)
    Representation(result.probs)


@settings(max_examples=100)
@given(text=formulas(leaves=8), seed=seeds, m=st.integers(2, 6))
def test_independent_agrees_with_the_enumeration_operator_by_operator(text, seed, m):
    formula, values = Formula(text), named(seed, n=2, m=m)
    result = formula.evaluate(values, semantics="independent")
    np.testing.assert_allclose(result.probs, independent_distribution(formula, values, "godel"), atol=1e-10, rtol=0)
    Representation(result.probs)


@pytest.mark.parametrize("logic", ["lukasiewicz", "product"])
@settings(max_examples=40)
@given(data=st.data(), seed=seeds, m=st.integers(2, 6))
def test_other_logics_agree_with_the_enumeration_operator_by_operator(logic, data, seed, m):
    formula = Formula(data.draw(formulas(counting=logic == "lukasiewicz", leaves=8)))
    values = named(seed, n=2, m=m)
    result = formula.evaluate(values, semantics="independent", logic=logic)
    np.testing.assert_allclose(result.probs, independent_distribution(formula, values, logic), atol=1e-10, rtol=0)


LAWS = {
    "commutative or": ("a | b", "b | a"),
    "commutative and": ("a & b", "b & a"),
    "associative or": ("a | (b | c)", "(a | b) | c"),
    "associative and": ("a & (b & c)", "(a & b) & c"),
    "distributive and": ("a & (b | c)", "(a & b) | (a & c)"),
    "distributive or": ("a | (b & c)", "(a | b) & (a | c)"),
    "absorption or": ("a | (a & b)", "a"),
    "absorption and": ("a & (a | b)", "a"),
    "idempotent or": ("a | a", "a"),
    "idempotent and": ("a & a", "a"),
    "De Morgan or": ("~(a | b)", "~a & ~b"),
    "De Morgan and": ("~(a & b)", "~a | ~b"),
    "double negation": ("~~a", "a"),
    "one of three": ("at_least(1, a, b, c)", "a | b | c"),
    "all of three": ("at_least(3, a, b, c)", "a & b & c"),
    "two of three": ("at_least(2, a, b, c)", "(a & b) | (a & c) | (b & c)"),
    "two of three, by median": ("at_least(2, a, b, c)", "(a | b) & (a | c) & (b | c)"),
    "twice the same": ("at_least(2, a, a, b)", "a"),
    "Kleene": ("(a & ~a) | (b | ~b)", "b | ~b"),
}
# These name an image twice on one side, and then a second, independent copy of it changes the result.
FAIL_WHEN_INDEPENDENT = {
    "distributive and",
    "distributive or",
    "absorption or",
    "absorption and",
    "idempotent or",
    "idempotent and",
    "two of three",
    "two of three, by median",
    "twice the same",
    "Kleene",
}


@pytest.mark.parametrize("law", LAWS)
@given(seed=seeds, m=sizes)
def test_laws_of_a_lattice_with_negation_hold_for_exact(law, seed, m):
    left, right = (Formula(text).evaluate(named(seed, m=m)) for text in LAWS[law])
    assert left.isclose(right, 1e-12)


@pytest.mark.parametrize("law", sorted(LAWS.keys() - FAIL_WHEN_INDEPENDENT))
@given(seed=seeds, m=sizes)
def test_laws_without_a_repeated_name_hold_for_independent_too(law, seed, m):
    left, right = (Formula(text).evaluate(named(seed, m=m), "independent") for text in LAWS[law])
    assert left.isclose(right, 1e-12)


@pytest.mark.parametrize("law", sorted(FAIL_WHEN_INDEPENDENT))
def test_laws_with_a_repeated_name_fail_for_independent(law):
    some = Representation([[0.7, 0.3]])
    left, right = (Formula(t).evaluate(dict.fromkeys("abc", some), "independent") for t in LAWS[law])
    assert not left.isclose(right, 0.01)


@pytest.mark.parametrize("semantics", ["exact", "independent"])
def test_bounds_are_neutral_and_absorbing(semantics):
    values = named(0) | {
        "nothing": Representation(torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64).expand(3, 5)),
        "everything": Representation(torch.tensor([0, 0, 0, 0, 1.0], dtype=torch.float64).expand(3, 5)),
    }
    for text, expected in {
        "a | nothing": "a",
        "a & everything": "a",
        "a & nothing": "nothing",
        "a | everything": "everything",
        "~nothing": "everything",
    }.items():
        assert Formula(text).evaluate(values, semantics).isclose(values[expected], 1e-12)


@given(seed=seeds, m=sizes)
def test_kleene_a_and_not_a_is_never_more_than_b_or_not_b_as_stochastic_order(seed, m):
    values = named(seed, m=m)
    low, high = (Formula(text).evaluate(values).probs.cumsum(-1) for text in ("a & ~a", "b | ~b"))
    assert (low - high >= -1e-12).all()


def test_an_image_and_its_opposite_are_not_nothing():
    """Many-valued logic has no excluded middle: where a feature is half there, `a & ~a` is half there too."""
    half = Representation([[0.0, 1.0, 0.0]])
    assert Formula("a & ~a").evaluate({"a": half}).degrees.item() == 0.5


@given(text=formulas(), seed=seeds)
def test_crisp_images_make_both_semantics_the_same(text, seed):
    generator = np.random.default_rng(seed)
    values = {n: Representation(torch.eye(4)[torch.from_numpy(generator.integers(0, 4, 3))]) for n in NAMES}
    formula = Formula(text)
    assert formula.evaluate(values).isclose(formula.evaluate(values, "independent"), 1e-6)


@given(seed=seeds)
def test_formulas_that_name_each_image_once_mean_the_same_in_both(seed):
    formula, values = Formula("at_least(2, a | b, ~c, d)"), named(seed)
    assert formula.evaluate(values) == formula.evaluate(values, "independent")


@given(seed=seeds)
def test_operators_in_python_and_formulas_agree(seed):
    a, b, c, _ = (values := named(seed)).values()
    for text, result in {
        "(a | b) & ~c": (a | b) & ~c,
        "a - b": a - b,
        "a & (~b | (c & b))": a.without(b, keep=c),
        "at_least(2, a, b, c)": aon.at_least(2, [a, b, c]),
    }.items():
        assert Formula(text).evaluate(values, "independent").isclose(result, 1e-15)


@pytest.mark.parametrize("semantics", ["exact", "independent"])
@pytest.mark.parametrize("text", ["a & (b | a)", "~a - b", "at_least(2, a, b, a)", "(a | ~a) & b"])
def test_batches_are_evaluated_as_if_one_by_one(text, semantics):
    many, few = named(0, batch=(4, 1))["a"], named(1, batch=(5,))["b"]
    together = Formula(text).evaluate({"a": many, "b": few}, semantics)
    assert together.batch_shape == (4, 5)
    for i in range(4):
        for j in range(5):
            single = Formula(text).evaluate({"a": many[i, 0], "b": few[j]}, semantics)
            assert together[i, j].isclose(single, 1e-14)


@given(seed=seeds)
def test_minus_with_a_repeated_name_agrees_with_enumeration(seed):
    values = named(seed)
    for text in (
        "a - a",
        "a - (a - b)",
        "(a - b) | (b - a)",
        "(a | b) - (a & b)",
        "~(a - b) & a",
        "at_least(2, a - b, b - a, c)",
    ):
        result = Formula(text).evaluate(values)
        np.testing.assert_allclose(result.probs.numpy(), exact_distribution(Formula(text), values), atol=1e-12)
    assert Formula("a - (a - b)").evaluate(values).isclose(values["a"] & values["b"], 1e-12)
    assert Formula("a - a").evaluate(values).degrees.abs().max() < 1e-12


def test_minus_with_too_many_repeated_names_says_what_would_be_right():
    values = {name: random_representation(np.random.default_rng(0), 2, 8) for name in "abcdef"}
    text = " | ".join(f"({one} - {two})" for one, two in itertools.permutations("abcdef", 2))
    with pytest.raises(FormulaError, match=r'write "a & ~b" for "a - b", .* use semantics="independent"'):
        Formula(text).evaluate(values)
    Formula(text).evaluate(values, "independent")
    Formula(text.replace("-", "& ~")).evaluate(values)


def counting_formula(pairs: int) -> str:
    """Every third name occurs twice, and nothing can be simplified or taken apart."""
    parts = (f"(n{i} | n{i + 1}), (n{i} & n{i + 2})" for i in range(0, 3 * pairs, 3))
    return f"at_least({pairs}, {', '.join(parts)})"


@pytest.mark.parametrize("text", [counting_formula(10), "(a - b) | (b - c) | (c - d) | (d - e) | (e - a)"])
def test_a_formula_that_would_take_long_is_refused_before_it_starts(text):
    """Of stand-ins that nobody could compute with: the error comes from the formula and the shapes alone."""
    formula = Formula(text)
    nothing = Representation(torch.empty(1280, 8, device="meta"), validate=False)
    expected = r'semantics="exact" would take about \d+ (s|min), more than the 5 s .*semantics="independent"$'
    with pytest.raises(FormulaError) as caught:
        formula.evaluate(dict.fromkeys(formula.names, nothing))
    assert re.match(expected, caught.value.message)
    with pytest.raises(FormulaError) as again:
        formula.cost((1280, 8))
    assert again.value.message == caught.value.message
    formula.evaluate(dict.fromkeys(formula.names, nothing), "independent")


def test_the_cost_grows_with_the_shape_and_is_asked_for_every_time():
    formula = Formula(counting_formula(6))
    seconds = [formula.cost(shape).seconds for shape in ((2, 3), (1280, 8), (4, 1280, 8))]
    assert seconds == sorted(seconds)
    with pytest.raises(FormulaError, match="would take about"):
        formula.cost((20_000, 32))


def test_a_large_batch_of_what_is_quick_is_not_refused():
    assert Formula("(a - b) | (b - a)").cost((10_000, 128, 8)).seconds > evaluation.MAX_SECONDS


def test_parts_that_share_no_name_cost_what_they_cost_alone():
    one, ten = (" | ".join(f"(a{i} & (b{i} | ~a{i}))" for i in range(count)) for count in (1, 10))
    alone, together = (Formula(text).cost((1280, 8)).seconds for text in (one, ten))
    assert together < 20 * alone


@pytest.mark.parametrize("text", ["(a | b) & (a | ~c)", "(a - b) | (b - a)", "at_least(2, a, b | a, c, ~b)"])
def test_features_are_computed_some_at_a_time_where_memory_is_short(text, monkeypatch):
    formula, values = Formula(text), named(0, n=7, batch=(2,))
    whole = formula.evaluate(values)
    monkeypatch.setattr(evaluation, "_MAX_BYTES", 4000)
    assert formula.cost((2, 7, 5), torch.float64).features_at_once in (1, 2, 3)
    assert formula.cost((2, 7, 5), torch.float64).bytes <= 4000
    assert formula.evaluate(values).isclose(whole, 1e-15)


@pytest.mark.parametrize("semantics", ["exact", "independent"])
def test_counting_many_operands_is_refused_before_it_starts(semantics):
    names = [f"n{number}" for number in range(600)]
    formula = Formula(f"a & at_least(300, {', '.join(names)})")
    nothing = Representation(torch.empty(1280, 8, device="meta"), validate=False)
    with pytest.raises(FormulaError, match=r"^this at_least would take about \d+\.?\d* s, more than the 5 s") as error:
        formula.evaluate(dict.fromkeys(formula.names, nothing), semantics)
    assert error.value.position == formula.text.index("at_least")
    with pytest.raises(FormulaError, match="give it fewer operands"):
        formula.cost((1280, 8))


@pytest.mark.parametrize("text", ["at_least(2, a, b, c)", "at_least(2, a, b | c, d) - e"])
def test_counting_without_repeated_names_takes_some_features_at_a_time(text, monkeypatch):
    formula, values = Formula(text), named(0, n=7, names="abcde", batch=(2,))
    whole = formula.evaluate(values)
    monkeypatch.setattr(evaluation, "_MAX_BYTES", 4000)
    assert formula.cost((2, 7, 5), torch.float64).features_at_once < 7
    assert formula.cost((2, 7, 5), torch.float64).bytes <= 4000
    assert formula.evaluate(values).isclose(whole, 1e-15)


# Evaluates a formula, and prints by how many bytes the peak of memory grew.
COUNT = """
import pathlib, re, sys, torch
from andornot import Formula, Representation
count, k = int(sys.argv[1]), int(sys.argv[2])
names = [f"n{number}" for number in range(count)]
values = {name: Representation.from_logits(torch.randn(1280, 8)) for name in names}
formula = Formula(f"at_least({k}, {', '.join(names)})")
Formula("at_least(2, n0, n1, n2)").evaluate(values)
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
before = peak()
formula.evaluate(values)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("count", "k"), [(100, 50), pytest.param(300, 150, marks=pytest.mark.slow)])
def test_counting_takes_no_more_memory_than_it_may(count, k):
    command = [sys.executable, "-c", COUNT, str(count), str(k)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 2**27


@pytest.mark.parametrize(
    "text", ["a & (b | ~a)", "(a - b) | (b - a)", "at_least(2, a, b | a, c)", "at_least(2, a, b, c)"]
)
@pytest.mark.parametrize("batch", [(0,), (3, 0)])
def test_of_an_empty_batch_the_result_is_empty(text, batch):
    formula, values = Formula(text), named(0, batch=batch)
    assert formula.evaluate(values).probs.shape == (*batch, 3, 5)
    assert formula.cost((*batch, 3, 5)).bytes == 0


@pytest.mark.parametrize("shape", [(), (8,), (0, 8), (3, 1)])
def test_the_cost_of_what_is_no_shape_is_told(shape):
    with pytest.raises(ValueError, match=r"expected a shape \(..., N, M\)"):
        Formula("a & (b | a)").cost(shape)


def test_a_name_that_the_laws_remove_still_shapes_the_result():
    values = {"a": named(0)["a"], "b": named(1, batch=(5,))["b"]}
    assert Formula("a & a | a & a & (b | ~b) & a").evaluate(values).batch_shape == (5,)


@given(seed=seeds)
def test_what_is_nothing_is_exactly_nothing_not_rounding(seed):
    """A crisp image has nothing of its own opposite: what is left must not look like a direction."""
    probs = torch.zeros(50, 8)
    probs[:, 0] = torch.rand(50, generator=torch.Generator().manual_seed(seed))
    probs[:, -1] = 1 - probs[:, 0]
    values = {"a": Representation(probs), "b": Representation(torch.rand(50, 8).softmax(-1))}
    for text in ("a & ~a", "a & b & ~a", "(a & ~a) | (a & ~a & b)", "b - b", "b - (a | b)", "(a & b) - b"):
        assert (Formula(text).evaluate(values).degrees == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_exact_keeps_the_dtype_and_rounds_once(dtype):
    formula, values = Formula("(a | b) & (a | c) & ~(b & a)"), named(3)
    single = {name: Representation(r.probs.to(dtype)) for name, r in values.items()}
    result = formula.evaluate(single)
    assert result.dtype == dtype
    double = formula.evaluate({name: r.to(torch.float64) for name, r in single.items()})
    assert result.isclose(double, 4 * torch.finfo(dtype).eps)
    Representation(result.probs)


@pytest.mark.parametrize("text", ["a & (b | a)", "at_least(2, a, b, ~a)"])
def test_gradients_flow_through_exact(text):
    logits = torch.randn(2, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def result(logits):
        a, b = Representation.from_logits(logits)
        return Formula(text).evaluate({"a": a, "b": b}).probs

    assert torch.autograd.gradcheck(result, logits)


def test_ten_repeated_names_are_fine_and_eleven_are_told():
    def over(count: int) -> tuple[Formula, dict[str, Representation]]:
        names = [f"n{i}" for i in range(count)]
        pairs = [f"({x} & ~{y} | {y})" for x, y in zip(names, names[1:] + names[:1], strict=True)]
        return Formula(" & ".join(pairs)), named(0, n=1, m=3, names=names)

    ten, values = over(10)
    np.testing.assert_allclose(ten.evaluate(values).probs, exact_distribution(ten, values), atol=1e-10)
    eleven, values = over(11)
    with pytest.raises(FormulaError, match=r'11 names occur more than once.*semantics="independent"'):
        eleven.evaluate(values)
    eleven.evaluate(values, semantics="independent")


def test_exact_with_another_logic_is_fine_until_a_name_repeats():
    values = named(0)
    for logic in TRUTH_FUNCTIONS:
        Formula("a & ~b").evaluate(values, logic=logic)
    with pytest.raises(FormulaError, match='"exact" is Gödel\'s alone, and "a" occurs more than once') as caught:
        Formula("b & a - a").evaluate(values, logic="product")
    assert caught.value.position == 4


def test_two_of_three_in_product_logic_points_at_the_spot():
    with pytest.raises(FormulaError, match="not defined in product logic") as caught:
        Formula("a & at_least(2, a, b, c)").evaluate(named(0), "independent", "product")
    assert caught.value.position == 4


@pytest.mark.parametrize(
    ("text", "known", "hint"),
    [
        ("a & bech.jpg", ["a", "beach.jpg"], 'unknown name "bech.jpg"; did you mean "beach.jpg"?'),
        ("a-b", ["a", "b"], 'a "-" without spaces is part of a name; the difference is "a - b"'),
        ("new-dog-cat", ["new-dog", "cat"], '"-" without spaces is part of a name; the difference is "new-dog - cat"'),
        (
            "dog-235.jpg",
            ["cat-1.jpg", "dog-0235.jpg"],
            'unknown name "dog-235.jpg"; did you mean "dog-0235.jpg"[?] Besides, a "-" without spaces is part of '
            'a name; the difference is "dog - 235.jpg"',
        ),
        ("img - 1.jpg", ["img-1.jpg"], 'a "-" with a space beside it is the difference; .* in quotes'),
        ("a & ~/pics/b.jpg", ["a"], '"~" is NOT here; if "~/pics/b.jpg" is one name, put it in quotes'),
        ("a | zebra", ["a"], 'unknown name "zebra"$'),
    ],
)
def test_an_unknown_name_comes_with_what_may_have_been_meant(text, known, hint):
    values = {name: Representation([[0.5, 0.5]]) for name in known}
    with pytest.raises(FormulaError) as caught:
        Formula(text).evaluate(values)
    assert re.search(hint, caught.value.message)


def test_operands_that_do_not_fit_are_told():
    a, b = Representation([[0.5, 0.5]]), Representation([[0.5, 0.25, 0.25]])
    with pytest.raises(ValueError, match="only those of one model"):
        Formula("a & b").evaluate({"a": a, "b": b})
    with pytest.raises(TypeError, match="expected a Representation, got list"):
        Formula("a & b").evaluate({"a": a, "b": [[0.5, 0.5]]})
    with pytest.raises(ValueError, match=r'unknown semantics "fast" \(choose from exact, independent'):
        Formula("a").evaluate({"a": a}, semantics="fast")
    with pytest.raises(ValueError, match="unknown logic"):
        Formula("a").evaluate({"a": a}, logic="boole")


@pytest.mark.parametrize("semantics", ["exact", "independent"])
def test_like_is_the_mean_of_its_examples(semantics):
    r = named(7)
    a, b, c, d = r.values()
    mean = Representation((a.probs + b.probs + (c & d).probs) / 3)
    assert Formula("like(a, b, c & d)").evaluate(r, semantics).isclose(mean)
    assert Formula("like(a)").evaluate(r, semantics).isclose(a)
    nested = Representation((mean.probs + d.probs) / 2)
    assert Formula("~like(like(a, b, c & d), d) | a").evaluate(r, "independent").isclose(~nested | a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("like(a, b) & like(a, b)", "like(a, b)"),
        ("like(a, b) | (like(a,b) & c)", "like(a, b)"),
        ("like(a & a, b)", "like(a, b)"),
        ("~like(a, b)", "like(~a, ~b)"),
        ("like(a, b, c)", "like(c, a, b)"),
    ],
)
def test_like_is_one_variable_for_the_laws(left, right):
    r = named(8, m=6)
    assert Formula(left).evaluate(r).isclose(Formula(right).evaluate(r))


@settings(max_examples=100)
@given(text=formulas(like=True, leaves=8), semantics=st.sampled_from(["exact", "independent"]), seed=seeds)
def test_formulas_with_like_have_a_representation_and_a_cost(text, semantics, seed):
    formula = Formula(text)
    Representation(formula.evaluate(named(seed, n=2, m=3, batch=(2,)), semantics).probs)
    assert formula.cost((2, 3)).seconds < 5


def test_deep_and_wide_likes_need_no_recursion():
    r = named(0, n=2, m=3)
    assert Formula("like(" * 200 + "a" + ")" * 200).evaluate(r).isclose(r["a"])
    assert Formula(f"like({', '.join(['a'] * 3_000)})").evaluate(r).isclose(r["a"])
    Formula(" | ".join(["like(a)", "like(b, a)"] * 400)).evaluate(r, "independent")


def test_atoms_with_a_kind_or_a_crop_have_values_of_their_own():
    a, b, c, d = named(9).values()
    expected = ((a | b) & c) - d
    formula = Formula('(dog | word:dog) & "my dog"[0,0, .5,1] - "dog[0, 0, 0.5, 1]"')
    texts = {"dog": a, "word:dog": b, '"my dog"[0, 0, 0.5, 1]': c, "dog[0, 0, 0.5, 1]": d}
    assert formula.evaluate(texts).isclose(expected)
    assert formula.evaluate(dict(zip(formula.atoms, (a, b, c, d), strict=True))).isclose(expected)
    with pytest.raises(FormulaError) as caught:
        formula.evaluate({"dog": a})
    assert (caught.value.position, caught.value.message) == (7, "the value of word:dog is not given")


def test_a_long_formula_with_ten_repeated_names_ends():
    """The worst that the limits let in: 10,000 characters over ten names."""
    generator = np.random.default_rng(0)
    names = list("abcdefghij")
    parts = [f"({'&'.join(generator.choice(names, 3))})" for _ in range(1_100)]
    text = "|".join(part.replace("(", "~(") if i % 3 else part for i, part in enumerate(parts))[:9_990]
    text = text[: text.rindex("|")]
    formula, values = Formula(text), named(0, n=2, m=3, names=names)
    np.testing.assert_allclose(formula.evaluate(values).probs, exact_distribution(formula, values), atol=1e-10)


TOKENS = [*"abc&|~-(), ", "at_least(", "at_least(2,", "(a|b)", "&a", "-b", "|~c", "zebra", "like(", " and ", "2*"]


@settings(max_examples=500)
@given(
    text=st.lists(st.sampled_from(TOKENS), max_size=25).map("".join),
    semantics=st.sampled_from(["exact", "independent"]),
    logic=st.sampled_from(["godel", "lukasiewicz", "product"]),
)
def test_any_mixture_of_tokens_has_a_value_or_one_line_and_a_caret(text, semantics, logic):
    values = named(0, n=2, m=3, names="abc")
    told = None
    try:
        Representation(Formula(text).evaluate(values, semantics, logic).probs)
    except FormulaError as error:
        told = error
    if told is not None:
        assert "\n" not in told.message
    if told is not None and not text.strip():
        assert str(told) == told.message, "there is nothing to point at"
    elif told is not None:
        shown, caret = str(told).removeprefix(f"{told.message}\n").splitlines()
        assert caret.strip() == "^"
        assert len(caret) <= len(shown) + 1
