"""What the docs say of fifty everyday words is what happens."""

import re
from pathlib import Path

from andornot.concepts import ImageNetVocabulary, NamedFeature, PhraseVocabulary, UnknownWordError, vocabulary_for
from andornot.ssl.backbones import build_backbone

PAGE = Path(__file__).parent.parent.parent / "docs" / "words.md"


def kind_of(words: ImageNetVocabulary | PhraseVocabulary, word: str) -> str:
    try:
        return "Named features" if isinstance(words.meaning(word), NamedFeature) else "Nouns"
    except UnknownWordError:
        return "Taken for another word" if words.phrase(word).taken_for else "Approximate"


def test_the_lists_of_fifty_words_are_as_they_came_out():
    words = vocabulary_for(build_backbone("efficientnet-lite0"))
    section = PAGE.read_text().partition("## Fifty")[2]
    lists = re.findall(r"^- \*\*([^(]*) \((\d+)\):\*\*((?:[^\n]|\n  )*)", section, re.MULTILINE)
    told = {word: kind for kind, _, listed in lists for word in " ".join(listed.split()).split(", ")}
    assert len(told) == sum(int(count) for _, count, _ in lists) == 50
    for word, kind in told.items():
        assert kind_of(words, word) == kind, word
