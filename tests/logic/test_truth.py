"""Conditions: what they are made of, their truth in each image, and the laws that it keeps."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import torch
from formulas import conditions, formulas, written
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import truth_of_condition

from andornot import AndornotError, Formula, FormulaError
from andornot.logic import Atom, Crop, program

LOGICS = ("godel", "lukasiewicz", "product")
NAMES = ("a", "b", "c")
# All combinations of a few truths of three terms.
GRID = torch.tensor(list(itertools.product([0.0, 0.1, 0.5, 0.8, 1.0], repeat=3)), dtype=torch.float64).T
TRUTHS = dict(zip(NAMES, GRID, strict=True))


def truth(text: str, logic: str = "product", truths=TRUTHS) -> torch.Tensor:
    formula = Formula(text)
    return formula.truth({str(term): truths[str(term)] for term in formula.terms}, logic)


# --- what a condition is made of ------------------------------------------------------------------------------------

TERMS = {
    # text: (terms, positive terms, negative terms)
    "a": ("a", "a", ""),
    "~a": ("~a", "~a", ""),
    "1*a": ("a", "a", ""),
    "2*a": ("a", "a", ""),
    "not a": ("a", "", "a"),
    "not not a": ("a", "a", ""),
    "c and a or c and b": ("c a b", "c a b", ""),
    "a or b and c": ("a b c", "a b c", ""),
    "a and not (b|c)": ("a b | c", "a", "b | c"),
    "not (a and not (b or not 2*c))": ("a b c", "b", "a c"),
    "a and not a": ("a", "a", "a"),
    "2*(a&b) and not (a&b) or b": ("a & b b", "a & b b", "a & b"),
}


@pytest.mark.parametrize("text", TERMS)
def test_the_terms_of_a_condition_come_once_in_the_order_of_first_mention(text):
    formula = Formula(text)
    found = [" ".join(map(str, terms)) for terms in (formula.terms, formula.positive_terms, formula.negative_terms)]
    assert tuple(found) == TERMS[text]
    assert all(not term.is_condition and term.terms == (term,) for term in formula.terms)


@pytest.mark.parametrize(
    ("text", "is_condition"),
    [
        *((text, False) for text in ("a", "a | b - ~c", "like(a, b)", "1*a", "(a)", "at_least(1, a)")),
        *((text, True) for text in ("a and b", "a or b", "not a", "2*a", "not not a")),
    ],
)
def test_words_and_weights_make_a_condition(text, is_condition):
    assert Formula(text).is_condition == is_condition


def test_the_atoms_of_a_formula_have_a_kind_and_a_crop():
    formula = Formula('word:dog and "b c.jpg"[0, 0.5, 1, 1] & image:dog or dog and word:dog and 7[0, 1, 2, 3]')
    assert formula.names == ("dog", "b c.jpg", "7")
    assert formula.atoms == (
        Atom("dog", "word"),
        Atom("b c.jpg", crop=Crop(0, 0.5, 1, 1)),
        Atom("dog", "image"),
        Atom("dog"),
        Atom("7", crop=Crop(0, 1, 2, 3)),
    )
    assert [atom.crop.in_pixels for atom in formula.atoms if atom.crop] == [False, True]
    pieces = [formula.text[mention.start : mention.end] for mention in formula.mentions]
    assert pieces == ["word:dog", '"b c.jpg"[0, 0.5, 1, 1]', "image:dog", "dog", "word:dog", "7[0, 1, 2, 3]"]


def test_errors_of_a_term_point_into_the_whole_condition():
    formula = Formula("a and not   (b|c)")
    second = formula.terms[1]
    assert (second.text, second.names) == ("b | c", ("b", "c"))
    error = second.error_at("c", "what is c?")
    assert (error.text, error.position) == (formula.text, 15)
    with pytest.raises(FormulaError) as caught:
        second.evaluate({"b": torch.ones(1)})
    assert (caught.value.text, caught.value.position) == (formula.text, 15)
    assert formula.error_at(Atom("c"), "what is c?").position == 15


def test_the_examples_of_like_can_be_asked_for():
    formula = Formula("like(a, b & c) and not (like(d) | e)")
    several, other = formula.terms
    assert list(map(str, several.examples)) == ["a", "b & c"]
    assert (several.likes, other.examples) == ((several,), ())
    assert list(map(str, other.likes)) == ["like(d)"]
    assert list(map(str, other.likes[0].examples)) == ["d"]
    assert Formula("like(like(a, b), a)").examples == (Formula("like(a, b)"), Formula("a"))


@pytest.mark.parametrize("text", ["a and b", "a | b"])
def test_formulas_survive_pickling(text):
    assert pickle.loads(pickle.dumps(Formula(text))) == Formula(text)


CONDITIONS_FOR_TERMS = {
    "a and b": (2, '"and" makes this a condition, which has a truth in each image and no representation; "&" joins'),
    "a or b and c": (2, '"or" makes this a condition'),
    "not a": (0, '"not" makes this a condition, which has a truth in each image and no representation; "~" is for'),
    "2*a": (0, "a weight makes this a condition"),
}


@pytest.mark.parametrize("text", CONDITIONS_FOR_TERMS)
@pytest.mark.parametrize(
    "use",
    [lambda f: f.evaluate({}), lambda f: f.cost((2, 3)), lambda f: f.program, lambda f: f.examples, lambda f: f.likes],
)
def test_a_condition_where_a_term_is_asked_for_is_told_at_the_word_that_makes_it_one(use, text):
    position, message = CONDITIONS_FOR_TERMS[text]
    with pytest.raises(FormulaError) as caught:
        use(Formula(text))
    assert caught.value.position == position
    assert message in caught.value.message


# --- truth ----------------------------------------------------------------------------------------------------------


def test_a_condition_has_a_truth_in_each_image():
    values = {"a": torch.tensor([1.0, 0.5, 0.5]), "b | c": torch.tensor([0.0, 0.5, 1.0])}
    formula = Formula("a and not (b | c)")
    assert formula.truth(values).tolist() == [1, 0.25, 0]
    assert formula.truth(values, logic="godel").tolist() == [1, 0.5, 0]
    assert formula.truth(values, "lukasiewicz").tolist() == [1, 0, 0]


def test_a_term_alone_is_as_true_as_it_is():
    value = torch.tensor([0.25, 1.0])
    assert torch.equal(Formula("a|b").truth({"a | b": value}), value)


@pytest.mark.parametrize("logic", LOGICS)
@settings(max_examples=150)
@given(conditions(st.sampled_from(NAMES)), st.tuples(*3 * [st.integers(0, 16).map(lambda i: i / 16)]))
def test_truth_agrees_with_the_definition(logic, tree, values):
    given_truths = dict(zip(NAMES, values, strict=True))
    expected = truth_of_condition(tree, given_truths, logic)
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in given_truths.items()}
    assert truth(written(tree), logic, tensors).item() == pytest.approx(expected, abs=1e-9)


LAWS = [
    # both sides are as true in every logic
    ("a and b", "b and a"),
    ("a or b", "b or a"),
    ("a and (b and c)", "a and b and c"),
    ("a or (b or c)", "a or b or c"),
    ("not (a and b)", "not a or not b"),
    ("not (a or b)", "not a and not b"),
    ("not (a and 2*b)", "not a or not 2*b"),
    ("not (a or 0.5*b)", "not a and not 0.5*b"),
    ("not (2*a and not 3*b or c)", "(not 2*a or 3*b) and not c"),
    ("not not a", "a"),
    ("not not 2*a and b", "2*a and b"),
    ("not not 2*a or b", "2*a or b"),
    ("not not (a and 2*b)", "a and 2*b"),
    ("1*a and b", "a and b"),
    ("1*a or not 1.0*b", "a or not b"),
]
GODEL_LAWS = [
    ("a and a", "a"),
    ("a or a", "a"),
    ("a and (a or b)", "a"),
    ("a or (a and b)", "a"),
    ("a and (b or c)", "(a and b) or (a and c)"),
    ("a or (b and c)", "(a or b) and (a or c)"),
]
PRODUCT_LAWS = [
    # a weight counts a term as often
    ("2*a", "a and a"),
    ("2*a and b", "a and a and b"),
    ("2*a or b", "a or a or b"),
    ("b and not 3*a", "b and not a and not a and not a"),
    ("b or not 2*a", "b or not a or not a"),
]
LUKASIEWICZ_LAWS = [("a and (not a or b)", "b and (not b or a)")]


@pytest.mark.parametrize(
    ("logic", "left", "right"),
    [(logic, *law) for logic in LOGICS for law in LAWS]
    + [("godel", *law) for law in GODEL_LAWS]
    + [("product", *law) for law in PRODUCT_LAWS]
    + [("lukasiewicz", *law) for law in LUKASIEWICZ_LAWS],
)
def test_laws(logic, left, right):
    torch.testing.assert_close(truth(left, logic), truth(right, logic), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("text", "value"), [("a or not a", 1.0), ("a and not a", 0.0)])
def test_lukasiewicz_has_no_third(text, value):
    assert (truth(text, "lukasiewicz") == value).all()


@pytest.mark.parametrize("logic", LOGICS)
@settings(max_examples=100)
@given(conditions(st.sampled_from(NAMES)), st.integers(0, 2**32 - 1))
def test_truth_goes_from_0_to_1_and_is_crisp_for_crisp_terms(logic, tree, seed):
    random = torch.rand(3, 50, generator=torch.Generator().manual_seed(seed))
    for values in (random, random.half(), random.round(), random.double(), random**20):
        found = truth(written(tree), logic, dict(zip(NAMES, values, strict=True)))
        assert found.dtype == values.dtype
        assert ((found >= 0) & (found <= 1)).all()
        if values.frac().eq(0).all():
            assert found.frac().eq(0).all()


@pytest.mark.parametrize("logic", LOGICS)
@settings(max_examples=100)
@given(conditions(st.sampled_from(NAMES)), st.sampled_from(NAMES), st.integers(0, 2**32 - 1))
def test_truth_rises_with_positive_terms_and_falls_with_negative_ones(logic, tree, name, seed):
    formula = Formula(written(tree))
    random = torch.rand(4, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    before = dict(zip(NAMES, random, strict=False))
    after = {**before, name: torch.maximum(before[name], random[3])}
    change = truth(formula.text, logic, after) - truth(formula.text, logic, before)
    if Formula(name) not in formula.negative_terms:
        assert (change >= -1e-12).all()
    if Formula(name) not in formula.positive_terms:
        assert (change <= 1e-12).all()


@pytest.mark.parametrize("logic", LOGICS)
@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("a and {}*b", -1),
        ("a and not {}*b", -1),
        ("{}*b", -1),
        ("not {}*b", -1),
        ("(a or c) and not {}*b", -1),
        ("a or {}*b", 1),
        ("a or not {}*b", 1),
    ],
)
def test_a_larger_weight_is_stricter_in_an_and_and_more_generous_in_an_or(logic, text, sign):
    truths = [truth(text.format(weight), logic) for weight in (0.001, 0.5, 1, 1.5, 2, 8, 1000)]
    for lighter, heavier in itertools.pairwise(truths):
        assert (sign * (heavier - lighter) >= -1e-12).all()
    assert (sign * (truths[-1] - truths[0])).max() > 0.1


def test_a_weight_of_a_negated_term_is_a_power_of_the_negation():
    values = {"a": torch.tensor([1.0]), "b": torch.tensor([0.5])}
    assert Formula("a and not 2*b").truth(values).item() == 0.25
    assert Formula("a and not 0.5*b").truth(values).item() == pytest.approx(0.5**0.5)


def test_truths_broadcast_and_come_block_by_block():
    formula = Formula("a and not b or 2*c")
    a, b, c = torch.rand(2, 1, 100), torch.rand(100), torch.rand(3, 100)
    whole = formula.truth({"a": a, "b": b, "c": c})
    assert whole.shape == (2, 3, 100)
    blocks = [
        formula.truth_of_terms([a[..., i : i + 30], b[i : i + 30], c[..., i : i + 30]]) for i in range(0, 100, 30)
    ]
    assert torch.equal(torch.cat(blocks, -1), whole)


def test_arrays_give_an_array_and_nothing_given_is_changed():
    a, b = np.array([0.5, 1.0], np.float32), np.array([0.5, 0.0], np.float32)
    found = Formula("a or not b").truth({"a": a, "b": b})
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    assert found.tolist() == [0.75, 1]
    assert (a.tolist(), b.tolist()) == ([0.5, 1], [0.5, 0])
    assert Formula("a and b").truth({"a": np.array([True]), "b": np.array([0.5])}).tolist() == [0.5]
    assert Formula("a").truth({"a": torch.empty(0)}).shape == (0,)


@pytest.mark.parametrize(
    "keys",
    [("x y.jpg", "b|c"), ('"x y.jpg"', " b |c"), ("'x y.jpg'", "(b | c)"), (Formula('"x y.jpg"'), Formula("b|c"))],
)
def test_the_truth_of_a_term_is_given_by_its_text_its_name_or_itself(keys):
    values = dict(zip(keys, torch.tensor([[0.5], [0.5]]), strict=True))
    assert Formula('"x y.jpg" and (b | c)').truth(values).item() == 0.25


ONE = torch.ones(2)
BAD_TRUTHS = [
    ({"a": ONE}, 'the truth of "b | c" is not given'),
    ({"a": ONE, "b": ONE}, 'unknown term "b" (choose from a, b | c)'),
    ({"a": ONE, "c | b": ONE}, 'unknown term "c | b"; did you mean "b | c"?'),
    ({"a": ONE, "b | c": ONE, "": ONE}, 'unknown term ""'),
    ({"a": ONE, "b | c": ONE, 3: ONE}, 'unknown term "3"'),
    ({"a": ONE, "b|c": ONE, "b | c": ONE}, 'the truth of "b | c" is given twice'),
    ({"a": ONE, "b | c": 2 * ONE}, 'a truth goes from 0 to 1; one of "b | c" is 2'),
    ({"a": -ONE, "b | c": ONE}, 'a truth goes from 0 to 1; one of "a" is -1'),
    ({"a": ONE, "b | c": torch.tensor([0.5, torch.nan])}, 'one of "b | c" is nan'),
    ({"a": ONE, "b | c": torch.ones(3)}, 'these truths are of different images: "a" (2,), "b | c" (3,)'),
]


@pytest.mark.parametrize(("values", "message"), BAD_TRUTHS)
def test_wrong_truths_are_told_in_one_line(values, message):
    with pytest.raises(AndornotError) as caught:
        Formula("a and not (b | c)").truth(values)
    told = caught.value.message if isinstance(caught.value, FormulaError) else str(caught.value)
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize("text", ["a", "not a", "a and b"])
def test_any_array_of_degrees_is_taken(text):
    plain = {"a": np.linspace(0, 1, 6), "b": np.linspace(1, 0, 6)}
    wanted = Formula(text).truth({name: plain[name] for name in Formula(text).names})

    def frozen(array):
        array = array.copy()
        array.flags.writeable = False
        return array

    makers = {
        "reversed": lambda array: array[::-1].copy()[::-1],
        "every second": lambda array: np.repeat(array, 2)[::2],
        "read-only": frozen,
        "other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
        "long": lambda array: array.astype(np.longdouble),
        "list": list,
    }
    for make in makers.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = Formula(text).truth({name: make(plain[name]) for name in Formula(text).names})
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("given", [torch.tensor([0.5, 1.0]), np.array([0.5, 1.0]), np.array([0.5, 1.0], np.float32)])
def test_a_result_shares_no_memory_with_what_was_given(given):
    result = Formula("a").truth({"a": given})
    result[:] = 0
    assert given.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "NoneType"),
        (np.array([1j]), "complex128"),
        (torch.tensor([0.5 + 0j]), "torch.complex64"),
        ("x", "<U1"),
        (np.array(["x"]), "<U1"),
        ([[0.5], [0.5, 1.0]], "inhomogeneous"),
        ([None], "list"),
        ({}, "dict"),
    ],
)
@pytest.mark.parametrize("text", ["a", "a and not b"])
def test_what_are_no_degrees_is_told_in_one_line(given, what, text):
    values = dict.fromkeys(Formula(text).names, given)
    with pytest.raises(AndornotError, match=rf'^the truth of "a" must be numbers from 0 to 1, .*{what}'):
        Formula(text).truth(values)


def test_an_unknown_logic_is_told():
    with pytest.raises(AndornotError, match='unknown logic "goedel"; did you mean "godel"'):
        Formula("a").truth({"a": ONE}, logic="goedel")


@pytest.mark.parametrize("word", ["and", "or"])
def test_a_thousand_terms_are_no_trouble(word):
    names = [f"x{number}" for number in range(900)]
    formula = Formula(f" {word} ".join(names))
    assert Formula(str(formula)) == formula
    assert len(formula.terms) == 900
    value = 1.0 if word == "and" else 0.0
    assert formula.truth(dict.fromkeys(names, torch.full((3,), value))).tolist() == [value] * 3


# --- both levels ----------------------------------------------------------------------------------------------------

ATOMS = ("a", "b-c.jpg", '"not"', '"a b"', "word:dog", "a[0, 0, .5, 1]", "image:a[0, 1, 20, 30]", '"a[0, 0, 0.5, 1]"')


@settings(max_examples=300)
@given(conditions(formulas(names=ATOMS, like=True, leaves=4), leaves=6))
def test_conditions_are_written_back_in_one_way_that_reads_the_same(tree):
    formula = Formula(written(tree))
    again = Formula(str(formula))
    assert again == formula
    assert str(again) == str(formula)
    assert (again.names, again.atoms, again.terms) == (formula.names, formula.atoms, formula.terms)
    for term in formula.terms:
        assert Formula(str(term)) == term
        assert Formula(term.text) == term


@settings(max_examples=100)
@given(conditions(formulas(names=ATOMS, like=True, leaves=4), leaves=6))
def test_the_tightest_way_to_write_a_condition_reads_the_same(tree):
    formula = Formula(written(tree))
    tight = program.write(formula.condition, [term.program for term in formula.terms], roomy=False)
    assert Formula(tight) == formula
    assert len(tight) <= len(str(formula))
