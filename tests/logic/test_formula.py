"""The query language: what parses to what, how it is written back, and how mistakes are shown."""

import pickle

import pytest
from formulas import formulas
from hypothesis import given, settings
from hypothesis import strategies as st

from andornot import Formula, FormulaError, Representation
from andornot.logic.parser import MAX_CHARACTERS, MAX_NESTING

CANONICAL = {
    # words, symbols and space
    "a": "a",
    " a&b ": "a & b",
    "!a": "~a",
    "!~a": "~~a",
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
    '"like" | "LIKE.jpg" | like.jpg': '"like" | LIKE.jpg | like.jpg',
    # several images of one thing
    "LIKE( a,b |c )": "like(a, b | c)",
    "~like(a) - like(b, like(c, d))": "~like(a) - like(b, like(c, d))",
    # atoms
    "word:dog & Image:dog": "word:dog & image:dog",
    'word : "polar bear"': 'word:"polar bear"',
    "image:'a.jpg'": "image:a.jpg",
    'word:"and"': 'word:"and"',
    "word | image": "word | image",
    "a.jpg[.1,0.20, 0.6,1]": "a.jpg[0.1, 0.2, 0.6, 1]",
    "a-b.jpg [0, 0, 1.0, 1]": "a-b.jpg[0, 0, 1, 1]",
    '"x [1].jpg"[0, 1, 300, 200]': '"x [1].jpg"[0, 1, 300, 200]',
    '"a[0, 0, 1, 1]"': '"a[0, 0, 1, 1]"',
    "image:17[0, 0, 0.00001, 1]": "image:17[0, 0, 0.00001, 1]",
    "a[0,0,1,1]-b": "a[0, 0, 1, 1] - b",
    # words join conditions, and bind weaker than symbols
    "a AND b Or NOT c": "a and b or not c",
    "(a or b) and c": "(a or b) and c",
    "a or (b and c)": "a or b and c",
    "a and (b and c)": "a and (b and c)",
    "not not a": "not not a",
    "not (not (a))": "not not a",
    "not (a and b)": "not (a and b)",
    "(not a) and b": "not a and b",
    "not ~a": "not ~a",
    "not a | b": "not (a | b)",
    "a | b and c & d": "(a | b) and (c & d)",
    "a and (b - c)": "a and (b - c)",
    "like(a, b) and at_least(1, c)": "like(a, b) and at_least(1, c)",
    # weights
    "2*a": "2*a",
    "2 * a and 0.50*b": "2*a and 0.5*b",
    "1*a and 1.0*b": "a and b",
    "1*a": "a",
    "not 2*crowd.jpg": "not 2*crowd.jpg",
    "2*2": "2*2",
    "2*(a | b)": "2*(a | b)",
    "2*((a))": "2*a",
    ".5*~a or 3.*like(a)": "0.5*~a or 3*like(a)",
    "2*a[0, 0, 2, 2]": "2*a[0, 0, 2, 2]",
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
    "a &": (3, 'expected a name or "(", found the end'),
    "& a": (0, 'expected a name or "(", found "&"'),
    "a & | b": (4, 'expected a name or "(", found "|"'),
    "a && b": (3, 'write "&" once, or "and"'),
    "a || b": (3, 'write "|" once, or "or"'),
    "-a": (0, 'stands between two operands (NOT is "~")'),
    "a ~ b": (2, 'expected "and", "or", "&", "|" or "-" before "~"'),
    "a b": (2, 'expected "and", "or", "&", "|" or "-" before "b"; if "a b" is one name, put it in quotes'),
    "my cat.jpg & b": (3, 'if "my cat.jpg" is one name, put it in quotes'),
    "a (b)": (2, 'expected "and", "or", "&", "|" or "-" before "("'),
    "(a | b": (0, 'this "(" is never closed'),
    "a & (b | (c & d)": (4, 'this "(" is never closed'),
    "a)": (1, 'this ")" closes nothing'),
    "()": (1, 'expected a name or "(", found ")"'),
    "a, b": (1, '"," stands only in at_least'),
    "(a, b)": (2, '"," stands only in at_least(…) and in like(…): write "and" or "or"'),
    "~": (1, "found the end"),
    "a & #b": (4, 'unexpected "#"; a name with such a character goes in quotes'),
    "a = b": (2, 'unexpected "="'),
    "a \\ b": (2, 'unexpected "\\"'),
    'a & "b': (4, "this quote is never closed"),
    'a & "b\\': (6, "in quotes \\ stands only before"),
    '"C:\\new"': (3, "write \\\\ for one"),
    "it's": (2, "this quote is never closed; a name with ' in it goes in double quotes"),
    'say "hi".jpg': (4, """if 'say "hi"' is one name, put it in quotes"""),
    "a + b": (2, 'unexpected "+"; write "and"'),
    '"" & a': (0, "a name cannot be empty"),
    "at_least(a, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(0, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(-1, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least(²,  b)": (9, "at_least takes a whole number from 1 first"),
    f"at_least({'9' * 5000}, b)": (9, "at_least takes a whole number from 1 first"),
    f"at_least(000000001{'9' * 5000}, b)": (9, "at_least takes a whole number from 1 first"),
    "at_least()": (9, "at_least takes a whole number from 1 first"),
    "at_least(2)": (10, 'expected ", " and the operands: at_least(2, a, b, c)'),
    "at_least(2 a)": (11, 'expected ", "'),
    "at_least(2,)": (11, 'found ")"'),
    "at_least(3, a, b)": (0, "at_least(3, …) needs 3 operands or more, and has 2"),
    "at_least(1, a": (8, 'this "(" is never closed'),
    "at_least & b": (0, 'expected "(" behind "at_least"; as a name it goes in quotes: "at_least"'),
    # several images of one thing
    "like()": (5, "like needs an image or more: like(a, b, c)"),
    "like": (0, 'expected "(" behind "like"; as a name it goes in quotes: "like"'),
    "Like & a": (0, 'as a name it goes in quotes: "Like"'),
    "like(a,)": (7, 'found ")"'),
    "like(a, b": (4, 'this "(" is never closed'),
    # words as names
    "or": (0, 'found "or"; as a name it goes in quotes: "or"'),
    "a & and": (4, 'as a name it goes in quotes: "and"'),
    "a not b": (2, 'expected "and" or "or" before "not"'),
    "a and": (5, "found the end"),
    "a and or b": (6, 'found "or"'),
    "not": (3, "found the end"),
    # conditions where terms are asked for
    "(a and b) | c": (10, 'write (a and b) or c: "|" joins images, "or" joins conditions'),
    "x & (a or b)": (2, 'write x and (a or b): "&" joins images, "and" joins conditions'),
    "(a and b) - c": (10, 'write (a and b) and not c: "-" joins images, "and not" joins conditions'),
    "a | not b": (2, "write a or not b"),
    "a | not b & c": (2, "write a or not b & c"),
    "~(a or b)": (0, 'write not (a or b): "~" is for images, "not" for conditions'),
    "~not a": (0, "write not not a"),
    f"({' and '.join('abc' * 20)}) | c": (358, "write … or c"),
    "at_least(1, a, b and c)": (17, 'at_least(…) is of images, not of conditions: write "&" for "and"'),
    "at_least(1, (not a))": (13, 'write "~" for "not"'),
    "like(a or b)": (7, 'like(…) is of images, not of conditions: write "|" for "or"'),
    # weights
    "2*a | b": (4, "a weight counts a whole term: write 2*(a | b), or 2*a or b"),
    "a | 0.5*b": (2, "a weight counts a whole term: write 0.5*(a | b), or a or 0.5*b"),
    "2*a - (b and c)": (4, "write 2*a and not (b and c)"),
    "~2*a": (0, "write not 2*a"),
    "2*(a and b)": (0, "a weight counts a term, not a condition: write 2*a and 2*b"),
    "2*not a": (0, 'the weight stands behind "not": write not 2*a'),
    "2*3*a": (0, "a term has one weight"),
    "2*(3*a)": (0, "a term has one weight"),
    "like(a, 2*b)": (8, "a weight counts a whole term: write it before like(…)"),
    "0*a": (0, 'a weight is a number from 0.001 to 1,000, such as 2 or 0.5 in 2*a, not "0"'),
    "a and -1*b": (6, 'not "-1"'),
    "nan*a": (0, 'not "nan"'),
    "inf*a": (0, 'not "inf"'),
    "1e999*a": (0, 'not "1e999"'),
    "1000.5*a": (0, 'not "1000.5"'),
    '"2"*a': (0, "a weight is a number"),
    "²*a": (0, "a weight is a number"),
    "a*b": (0, 'a weight is a number from 0.001 to 1,000, such as 2 or 0.5 in 2*a, not "a"'),
    "(a)*2": (3, "a weight stands before its term, as in 2*a"),
    "*a": (0, 'found "*"'),
    "2*": (2, "found the end"),
    # crops
    "a[]": (2, "a crop has four numbers, name[left, top, right, bottom]; a name with brackets goes in quotes"),
    "a[0, 0, 0.5]": (11, "a crop has four numbers"),
    "a[0, 0, 1, 1, 1]": (15, "a crop has four numbers"),
    "photo[1].jpg": (7, "a name with brackets goes in quotes"),
    "a[0, 0, b, 1]": (8, "a crop has four numbers"),
    'a[0, 0, "1", 1]': (8, "a crop has four numbers"),
    "a[nan, 0, 1, 1]": (2, "a crop has four numbers"),
    "a[0, 0, 1e999, 1]": (8, "a crop has four numbers"),
    "a[0, 0, 1, 1": (1, "a crop has four numbers"),
    "a[": (2, "a crop has four numbers"),
    "a[0.5, 0, 0.5, 1]": (1, "the crop is empty, with left 0.5, right 0.5; it is [left, top, right, bottom]"),
    "a[0, 30, 20, 10]": (1, "the crop is empty, with top 30, bottom 10"),
    "a[-0.1, 0, 1, 1]": (2, 'a crop begins at 0: "-0.1" is outside of the image'),
    "a[0, 0, 1.5, 1]": (8, "1.5 is outside of the image: a crop is all in fractions from 0 to 1, or all in whole"),
    "a[0, 0, 0.5, 200]": (
        8,
        "0.5 does not go with 200: a crop is all in fractions from 0 to 1, or all in whole pixels",
    ),
    f"a[0, 0, {'9' * 400}, 1]": (8, "no image is wider than 1,000,000 pixels"),
    "a[0, 0, 1, 1][0, 0, 1, 1]": (13, 'before "["'),
    "[0, 0, 1, 1]": (0, 'found "["'),
    "a]": (1, "a name with such a character goes in quotes"),
    # kinds
    "word:": (5, 'expected a name behind "word:", found the end'),
    "word:or": (5, 'as a name it goes in quotes: "or"'),
    "C:/a.jpg": (0, 'before ":" stands "word" or "image", not "C"; a name with ":" goes in quotes'),
    "word:dog[0, 0, 1, 1]": (8, "a crop is of an image, and this is a word"),
    '"word":dog': (6, 'before ":"'),
    ":dog": (0, 'found ":"'),
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
        'expected a name or "(", found "|"\n'
        "  beach.jpg & | crowd.jpg\n"
        "              ^"
    )  # fmt: skip


def test_nothing_is_pointed_at_in_a_formula_without_text():
    with pytest.raises(FormulaError) as caught:
        Formula("  ")
    assert str(caught.value) == "the formula is empty: write an image or a word, such as beach.jpg or dog"


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
    assert (str(again), again.span, again.code) == (str(caught.value), (3, 3), "missing-operand")


def test_length_is_limited():
    Formula("a" * MAX_CHARACTERS)
    with pytest.raises(FormulaError, match="10,001 characters, more than 10,000"):
        Formula("a" * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize("bracket", ["(", "~", "not ", "!", "at_least(1, ", "like(", "~("])
def test_nesting_is_limited_without_a_recursion_error(bracket):
    def nested(depth: int) -> str:
        levels = depth // 2 if bracket == "~(" else depth
        return bracket * levels + "a" + ")" * (levels * bracket.count("("))

    deep = Formula(nested(MAX_NESTING))
    assert Formula(str(deep)) == deep
    with pytest.raises(FormulaError, match="nested deeper than 200 levels"):
        Formula(nested(MAX_NESTING + 2))


@pytest.mark.parametrize(
    "sign",
    ["|", "&", " -", "-~", "&(b|c)|", "|~(a&b)-", " and ", "|b and ", ' and not"b c"or ', "[0,0,1,.9]|", " or .5*~"],
)
def test_long_formulas_are_read_and_written_back_within_the_limit(sign):
    text = sign.join(["a"] * (MAX_CHARACTERS // (len(sign) + 1)))
    assert Formula(str(Formula(text))) == Formula(text)


def test_a_formula_is_text():
    with pytest.raises(TypeError, match="a formula is a text, got NoneType"):
        Formula(None)


def test_equal_formulas_are_equal_however_written():
    assert Formula("a&(!b)") == Formula("a & ~b")
    assert len({Formula("a & b"), Formula("(a) &b"), Formula("b & a")}) == 2
    assert len({Formula("a and 1*(b|c)"), Formula("(a) AND(b | c)"), Formula("(b | c) and a")}) == 2
    assert Formula("a and b") != Formula("a & b")
    assert Formula("a") != "a"


@settings(max_examples=300)
@given(st.text())
def test_any_text_is_a_formula_or_a_formula_error(text):
    _read(text)


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(
            [
                *"ab2&|~-!(), \"'\\[]*:",
                *("not ", " and ", " or ", "at_least(", "at_least(2,", "like(", "a-b", "x.jpg"),
                *("word:", "[0, 0, .5, 1]", "[0,0,9,9]", "2*", "0.5*"),
            ]
        )
    ).map("".join)
)
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


@pytest.mark.parametrize(
    "name", ['"' * 9_000, "'" * 9_000, '"' * 3_300 + "'" * 3_300, "\\" * 4_900, '"\\' * 2_000, 'x[1]"' * 1_500]
)
@pytest.mark.parametrize("ends", ["", "&b", " and b", "[0,.5,1,1]"])
def test_the_longest_names_are_written_so_that_they_can_be_read_again(name, ends):
    written = name.replace("\\", "\\\\")
    quote = "'" if name.count('"') > name.count("'") else '"'
    formula = Formula(f"{quote}{written.replace(quote, chr(92) + quote)}{quote}{ends}")
    assert formula.names[0] == name
    assert Formula(str(formula)) == formula


def test_a_formula_shows_every_mention_of_a_name_and_where_it_stands():
    formula = Formula('at_least(2, a, "b c", a) - ~a')
    assert [mention.name for mention in formula.mentions] == ["a", "b c", "a", "a"]
    assert [formula.text[mention.start : mention.end] for mention in formula.mentions] == ["a", '"b c"', "a", "a"]
    assert formula.names == ("a", "b c")


def test_a_formula_shows_its_program():
    a, b, both = Formula("a & b").program
    assert (a.value, b.value, both.op, both.args) == ("a", "b", "and", (0, 1))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("a & & b", 1),
        ("a &", 0),
        ('a "long name"', 11),
        ("a $ b", 1),
        ("a 'b", 1),
        ("a image:b.jpg", 11),
        ("a word : 'b c' & d", 12),
        ("a 'word':b", 6),
        ("a word", 4),
        ("x:b", 1),
    ],
)
def test_an_error_says_how_long_the_piece_is_that_it_points_at(text, length):
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    start, end = caught.value.span
    assert (start, end - start) == (caught.value.position, length)


CODES = {
    "": "empty-formula",
    "a && b": "duplicate-operator",
    "a &": "missing-operand",
    "a b": "missing-operator",
    "a $ b": "unexpected-character",
    "a, b": "unexpected-comma",
    "(a": "unclosed-bracket",
    "a)": "unmatched-bracket",
    "'a": "unclosed-quote",
    '""': "empty-name",
    '"\\a"': "bad-escape",
    "x:a": "bad-kind",
    "a[0]": "bad-crop",
    "word:a[0, 0, 1, 1]": "crop-of-word",
    "0*a": "bad-weight",
    "at_least(3, a)": "bad-at-least-count",
    "(a and b) | c": "condition-in-term",
    "~" * 300 + "a": "too-deep",
    "a" * 10_001: "too-long",
}


@pytest.mark.parametrize("text", CODES, ids=CODES.values())
def test_each_mistake_has_a_code(text):
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert caught.value.code == CODES[text]


def test_unknown_names_come_with_suggestions():
    a = Representation([[0.5, 0.5]])
    with pytest.raises(FormulaError) as caught:
        Formula("beech & a").evaluate({"beach": a, "a": a})
    error = caught.value
    assert (error.code, error.span, error.suggestions) == ("unknown-name", (0, 5), ("beach",))
