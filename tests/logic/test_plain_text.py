"""Queries as people type them: 250 phrases with the formulas they should become, and what always holds."""

from pathlib import Path

import pytest
from formulas import conditions, formulas, written
from hypothesis import example, given
from hypothesis import strategies as st

from andornot import Formula, FormulaError
from andornot.logic.plain_text import NameKind, read_plain_text

WORDS = """dog, cat, bird, person, people, car, sofa, bed, table, ball, beach, sea, snow, umbrella, horse, bicycle, man,
woman, child, city, bus, train, boat, bottle, cake, coffee, cup, flower, flying, hat, house, pizza, skis, street, crane,
sunglasses, bear, traffic light, hot dog, birthday cake, teddy bear, fire hydrant, wine glass, polar bear, brown bear,
living room, group of people, in flight, picture frame, beach house"""
KNOWN: dict[str, NameKind] = {
    **dict.fromkeys(WORDS.replace("\n", " ").split(", "), "word"),
    **dict.fromkeys(("a.jpg", "b.jpg", "beach.jpg", "crowd.jpg", "my dog.jpg", "2", "12", "13"), "image"),
    "our house": "definition",
}
PHRASES = [
    tuple(part.strip() for part in line.split(" => "))
    for line in (Path(__file__).parent / "phrases.txt").read_text(encoding="utf-8").splitlines()
    if " => " in line and not line.startswith("#")
]
# Words of all tables, names, signs.
JOINTS = "and or not no without nor neither but with on a the photos of , ; + - -dog ! ? & ( ) like except"
PIECES = [*KNOWN, "gazebo", *JOINTS.split()]


def kind_of(name: str) -> NameKind:
    lower = name.lower()
    return KNOWN.get(name) or KNOWN.get(lower) or KNOWN.get(lower.removesuffix("s")) or ""


@pytest.mark.parametrize(("phrase", "formula"), PHRASES, ids=[phrase for phrase, _ in PHRASES])
def test_a_phrase_becomes_a_formula(phrase: str, formula: str) -> None:
    assert str(read_plain_text(phrase, kind_of)) == formula


def test_there_are_two_hundred_phrases() -> None:
    assert len(set(PHRASES)) >= 200


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)))
@example("-")
@example('"')
@example("except")
@example("- ' 's")
def test_no_text_is_an_error_and_what_was_understood_is_understood_again(text: str) -> None:
    read = read_plain_text(text, kind_of)
    assert read_plain_text(str(read), kind_of) == read
    if read.formula != text:
        try:
            Formula(read.formula)
        except FormulaError:
            assert text.startswith(read.formula)  # a wrong formula, without what follows "except"


@given(st.one_of(formulas(like=True), conditions(formulas()).map(written)))
def test_a_strict_formula_stays_as_it_is(text: str) -> None:
    assert read_plain_text(text, kind_of) == (text, ())
    assert read_plain_text(text, lambda _: "") == (text, ())


@given(
    st.lists(st.sampled_from(["dog", "cat", "gazebo", "beach.jpg", "and", "or", "not", "-"]), min_size=1).map(" ".join)
)
def test_whatever_the_strict_grammar_reads_keeps_its_meaning(text: str) -> None:
    try:
        formula = Formula(text)
    except FormulaError:
        return
    assert Formula(read_plain_text(text, kind_of).formula) == formula


def test_a_very_long_text_is_left_to_the_strict_grammar() -> None:
    for text in ("dog " * 101, "dog " * 5000):
        assert read_plain_text(text, kind_of).formula == text
