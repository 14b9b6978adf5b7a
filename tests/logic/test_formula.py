"""The query language: what parses to what, how it is written back, and how mistakes are shown."""

import pickle

import pytest
from formulas import formulas
from hypothesis import given, settings
from hypothesis import strategies as st

from andornot import Formula, FormulaError
from andornot.logic.parser import MAX_CHARACTERS, MAX_NESTING

CANONICAL = {
    # words, symbols and space
    "a": "a",
    " a&b ": "a & b",
    "a AND b Or NOT c": "a & b | ~c",
    "!a": "~a",
    "not not a": "~~a",
    "a\n|\tb": "a | b",
    # precedence: not, and, or; - binds like and; left to right
    "a | b & c": "a | b & c",
    "(a | b) & c": "(a | b) & c",
    "~a & b": "~a & b",
    "~(a & b)": "~(a & b)",
    "a - b & c": "a - b & c",
    "a & b - c": "a & b - c",
    "a - (b & c)": "a - (b & c)",
    "(a - b) - c": "a - b - c",
    "a - (b - c)": "a - (b - c)",
    "a & (b & c)": "a & (b & c)",
    "((a)) | ((b | c))": "a | (b | c)",
    "~a - ~b": "~a - ~b",
    # counting
    "AT_LEAST( 2 ,a,b|c , ~d )": "at_least(2, a, b | c, ~d)",
    "at_least(01, a)": "at_least(1, a)",
    "~at_least(1, a, b) & c": "~at_least(1, a, b) & c",
    "at_least(2, a, at_least(1, b, c))": "at_least(2, a, at_least(1, b, c))",
    # names
    "beach.jpg & ~crowd.jpg": "beach.jpg & ~crowd.jpg",
    "./new/cat.png - ../b_2.JPG": "./new/cat.png - ../b_2.JPG",
    "img-001.jpg": "img-001.jpg",
    "a--b": "a--b",
    "a -b": "a - b",
    "a- b": "a - b",
    "(a)-b": "a - b",
    '"a"-b': "a - b",
    "a-(b)": "a - b",
    "a-~b": "a - ~b",
    "Zoë/naïve-café.jpg | 浜辺.jpg": "Zoë/naïve-café.jpg | 浜辺.jpg",
    "e\u0301te\u0301.jpg": "e\u0301te\u0301.jpg",
    "2 & 3": "2 & 3",
    "andy | nothing | orange": "andy | nothing | orange",
    '"plain.jpg"': "plain.jpg",
    "'single quotes.jpg'": '"single quotes.jpg"',
    '"it\'s"': '"it\'s"',
    r'"a \"b\" \\ c"': r'"a \"b\" \\ c"',
    '"and" & "NOT" | "at_least"': '"and" & "NOT" | "at_least"',
    '"a & ~b"': '"a & ~b"',
    '"-a" - "b-"': '"-a" - "b-"',
    "at_least & b": '"at_least" & b',
}


@pytest.mark.parametrize("text", CANONICAL)
def test_formulas_are_written_back_in_one_minimal_way(text):
    formula = Formula(text)
    assert str(formula) == CANONICAL[text]
    assert Formula(str(formula)) == formula
    assert repr(formula) == f"Formula({CANONICAL[text]!r})"
    assert formula.text == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(a | b) & ~c", ("a", "b", "c")),
        ("b & a & b", ("b", "a")),
        ("at_least(2, x, y, x)", ("x", "y")),
        ('"a b" | \'a b\' | "a\\"b"', ("a b", 'a"b')),
        ("a-b.jpg", ("a-b.jpg",)),
        ("a - b.jpg", ("a", "b.jpg")),
        ("A & a", ("A", "a")),
    ],
)
def test_names_in_order_of_first_mention(text, names):
    assert Formula(text).names == names


ERRORS = {
    # text: (position, message)
    "": (0, "the formula is empty"),
    "   ": (3, "the formula is empty"),
    "a &": (3, 'expected a name, "~" or "(", found the end'),
    "& a": (0, 'expected a name, "~" or "(", found "&"'),
    "a & | b": (4, 'expected a name, "~" or "(", found "|"'),
    "a && b": (3, 'write "&" once'),
    "a || b": (3, 'write "|" once'),
    "-a": (0, 'stands between two operands (NOT is "~")'),
    "a ~ b": (2, 'expected "&", "|" or "-" before "~"'),
    "a b": (2, 'if "a b" is one name, put it in quotes'),
    "my cat.jpg & b": (3, 'if "my cat.jpg" is one name, put it in quotes'),
    "a (b)": (2, 'expected "&", "|" or "-" before "("'),
    "(a | b": (0, 'this "(" is never closed'),
    "a & (b | (c & d)": (4, 'this "(" is never closed'),
    "a)": (1, 'this ")" closes nothing'),
    "()": (1, 'expected a name, "~" or "(", found ")"'),
    "a, b": (1, '"," stands only between the operands of at_least'),
    "(a, b)": (2, '"," stands only between the operands of at_least'),
    "~": (1, "found the end"),
    "a & #b": (4, 'unexpected "#"; a name with such a character goes in quotes'),
    "a = b": (2, 'unexpected "="'),
    "a \\ b": (2, 'unexpected "\\"'),
    'a & "b': (4, "this quote is never closed"),
    'a & "b\\': (6, "in quotes \\ stands only before"),
    '"C:\\new"': (3, "write \\\\ for one"),
    "it's": (2, "this quote is never closed"),
    '"" & a': (0, "a name cannot be empty"),
    "at_least(a, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(0, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(-1, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(²,  b)": (9, "at_least takes a whole number from 1 first"),
    f"at_least({'9' * 5000}, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least()": (9, "at_least takes a whole number from 1 first"),
    "at_least(2)": (10, 'expected ", " and the operands: at_least(2, a, b, c)'),
    "at_least(2 a)": (11, 'expected ", "'),
    "at_least(2,)": (11, 'found ")"'),
    "at_least(3, a, b)": (0, "at_least(3, …) needs 3 operands or more, and has 2"),
    "at_least(1, a": (8, 'this "(" is never closed'),
}


@pytest.mark.parametrize("text", ERRORS)
def test_mistakes_are_shown_at_their_spot(text):
    position, message = ERRORS[text]
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert caught.value.position == position
    assert message in caught.value.message
    assert caught.value.text == text


def test_the_caret_stands_under_the_spot():
    with pytest.raises(FormulaError) as caught:
        Formula("beach.jpg & | crowd.jpg")
    assert str(caught.value) == (
        'expected a name, "~" or "(", found "|"\n'
        "  beach.jpg & | crowd.jpg\n"
        "              ^"
    )  # fmt: skip


def test_the_caret_counts_the_columns_of_wide_letters_and_accents():
    with pytest.raises(FormulaError) as caught:
        Formula("浜辺 & e\u0301 & | b")
    shown, caret = str(caught.value).splitlines()[1:]
    assert shown == "  浜辺 & e\u0301 & | b"
    assert caret == " " * (2 + 4 + 3 + 1 + 3) + "^"


def test_of_a_long_formula_only_the_part_around_the_spot_is_shown():
    text = "a | " * 500 + "& | " + "b | " * 500 + "b"
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    shown, caret = str(caught.value).splitlines()[1:]
    assert len(shown) < 80
    assert shown[caret.index("^")] == "&"


def test_line_breaks_in_a_formula_do_not_break_the_message():
    with pytest.raises(FormulaError) as caught:
        Formula("a &\n\n| b")
    assert len(str(caught.value).splitlines()) == 3


def test_errors_survive_pickling():
    with pytest.raises(FormulaError) as caught:
        Formula("a &")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.position) == (str(caught.value), 3)


def test_length_is_limited():
    Formula("a" * MAX_CHARACTERS)
    with pytest.raises(FormulaError, match="10,001 characters, more than 10,000"):
        Formula("a" * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize("bracket", ["(", "~", "not ", "!", "at_least(1, ", "~("])
def test_nesting_is_limited_without_a_recursion_error(bracket):
    def nested(depth: int) -> str:
        levels = depth // 2 if bracket == "~(" else depth
        return bracket * levels + "a" + ")" * (levels * bracket.count("("))

    deep = Formula(nested(MAX_NESTING))
    assert Formula(str(deep)) == deep
    with pytest.raises(FormulaError, match="nested deeper than 200 levels"):
        Formula(nested(MAX_NESTING + 2))


@pytest.mark.parametrize("sign", ["|", "&", " -", "-~", "&(b|c)|", "|~(a&b)-"])
def test_long_formulas_are_read_and_written_back_within_the_limit(sign):
    text = sign.join(["a"] * (MAX_CHARACTERS // (len(sign) + 1)))
    assert Formula(str(Formula(text))) == Formula(text)


def test_a_formula_is_text():
    with pytest.raises(TypeError, match="a formula is a text, got NoneType"):
        Formula(None)


def test_equal_formulas_are_equal_however_written():
    assert Formula("a and (not b)") == Formula("a & ~b")
    assert len({Formula("a & b"), Formula("(a) and b"), Formula("b & a")}) == 2
    assert Formula("a") != "a"


@settings(max_examples=300)
@given(st.text())
def test_any_text_is_a_formula_or_a_formula_error(text):
    _read(text)


@settings(max_examples=500)
@given(st.lists(st.sampled_from([*"ab&|~-!(), \"'\\", "not", "at_least(", "at_least(2,", "a-b", "x.jpg"])).map("".join))
def test_any_mixture_of_tokens_is_a_formula_or_a_formula_error(text):
    _read(text)


def _read(text: str) -> None:
    try:
        formula = Formula(text)
    except FormulaError as error:
        spot, message = error.position, error.message
    else:
        spot, message = 0, "none"
        assert Formula(str(formula)) == formula
        assert str(Formula(str(formula))) == str(formula)
    assert 0 <= spot <= len(text)
    assert message


@settings(max_examples=200)
@given(formulas(names=("a", "b-c.jpg", '"not"', '"a b"', "'q\"uote'")))
def test_canonical_text_parses_to_the_same_tree_and_has_no_needless_bracket(text):
    formula = Formula(text)
    written = str(formula)
    assert Formula(written) == formula
    assert Formula(written).names == formula.names
    for opening in (i for i, character in enumerate(written) if character == "("):
        if written[:opening].endswith("at_least"):
            continue
        closing = _partner(written, opening)
        without = f"{written[:opening]} {written[opening + 1 : closing]} {written[closing + 1 :]}"
        assert Formula(without) != formula


def _partner(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise AssertionError(f"unbalanced: {text}")


@given(st.text(min_size=1))
def test_any_name_can_be_quoted(name):
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    formula = Formula(f"{quoted} & x")
    assert formula.names[0] == name
    assert Formula(str(formula)).names[0] == name


def test_a_formula_shows_every_mention_of_a_name_and_where_it_stands():
    formula = Formula('at_least(2, a, "b c", a) - ~a')
    assert [mention.name for mention in formula.mentions] == ["a", "b c", "a", "a"]
    assert [formula.text[start:end] for _, start, end in formula.mentions] == ["a", '"b c"', "a", "a"]
    assert formula.names == ("a", "b c")


def test_a_formula_shows_its_program():
    a, b, both = Formula("a & b").program
    assert (a.value, b.value, both.op, both.args) == ("a", "b", "and", (0, 1))


@pytest.mark.parametrize(
    ("text", "length"), [("a & & b", 1), ("a &", 0), ('a "long name"', 11), ("a $ b", 1), ("a 'b", 1)]
)
def test_an_error_says_how_long_the_piece_is_that_it_points_at(text, length):
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert caught.value.length == length
