"""What the docs say of fifty everyday words is what happens."""

import re
from pathlib import Path

from andornot.words import UnknownWordError, wordnet_nouns

PAGE = Path(__file__).parent.parent.parent / "docs" / "words.md"


def what_happens(word: str) -> tuple[str, str]:
    try:
        noun = wordnet_nouns().look_up(word)
    except UnknownWordError as error:
        return "", str(error)
    return str(len(noun.classes)), noun.name


def test_the_table_of_fifty_words_is_as_it_came_out():
    rows = re.findall(r"^\| (\w[^|]*) \| (\d*) ?\| ([^|]+) \|", PAGE.read_text().partition("## Fifty")[2], re.MULTILINE)
    told = {word: (classes, happens) for word, classes, happens in rows if word != "word"}
    assert len(told) == 50
    for word, (classes, happens) in told.items():
        found_classes, found = what_happens(word)
        assert classes == found_classes, word
        assert happens.startswith(found), word
