"""From what people type to the classes that it stands for."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from andornot.concepts import UnknownWordError, truth_of, wordnet_nouns
from andornot.concepts.nouns import NUM_CLASSES, Synset, base_forms

NOUNS = wordnet_nouns()


def below(synset: Synset) -> set[int]:
    """The classes below a synset, found by asking of each class what it is."""
    found = set()
    for leaf in NOUNS.synsets:
        waiting, above = [leaf], set()
        while waiting:
            above.add(one := waiting.pop())
            waiting += one.parents
        if leaf.own_class is not None and synset in above:
            found.add(leaf.own_class)
    return found


def test_the_table_has_every_class_once():
    assert sorted(s.own_class for s in NOUNS.synsets if s.own_class is not None) == list(range(NUM_CLASSES))
    assert all(synset.classes for synset in NOUNS.synsets)


def test_one_meaning_stands_above_all():
    (root,) = [synset for synset in NOUNS.synsets if not synset.parents]
    assert root.word == "entity"
    assert len(root.classes) == NUM_CLASSES


@pytest.mark.parametrize("word", ["dog", "bird", "vehicle", "furniture", "person", "domestic animal", "tench"])
def test_a_noun_stands_for_all_classes_below_it(word):
    noun = NOUNS.look_up(word)
    assert set(noun.classes) == below(noun.synset)


SPELLINGS = {
    "Dog": "dog.n.01",
    "DOGS": "dog.n.01",
    "polar bear": "polar_bear.n.01",
    "Polar-Bears": "polar_bear.n.01",
    "dining_table": "dining_table.n.01",
    "diningtable": "dining_table.n.01",
    "diningtables": "dining_table.n.01",
    " tee   shirt ": "tee_shirt.n.01",
    "mice": "mouse.n.04",
    "wolves": "wolf.n.01",
    "geese": "goose.n.01",
    "people": "person.n.01",
    "buses": "bus.n.01",
    "foxes": "fox.n.01",
    "couches": "couch.n.01",
    "butterflies": "butterfly.n.01",
    "firemen": None,
    "ｄｏｇ": "dog.n.01",
    "crane": "crane.n.04",
    "crane.n.05": "crane.n.05",
    "Cranes.N.5": "crane.n.05",
}


@pytest.mark.parametrize("word", SPELLINGS)
def test_a_word_may_be_spelled_in_many_ways(word):
    wanted = SPELLINGS[word]
    if wanted is None:
        with pytest.raises(UnknownWordError):
            NOUNS.look_up(word)
    else:
        assert NOUNS.look_up(word).name == wanted
        assert (word in NOUNS) == (".n." not in word.lower())


def test_of_several_senses_the_most_frequent_with_classes_is_taken_and_told():
    crane, mouse, dog = map(NOUNS.look_up, ("crane", "mouse", "dog"))
    assert set(crane.classes) != set(NOUNS.look_up("crane.n.05").classes)
    assert "a rarer sense" in str(mouse)
    assert mouse.passed_over == 3
    assert str(dog).startswith("dog.n.01: a member of the genus Canis")
    assert dog.passed_over == NOUNS.look_up("crane.n.05").passed_over == 0


def test_the_words_own_spelling_comes_before_its_base_form():
    """WordNet has `cows` among the nouns for cattle, but no class is a cow."""
    assert NOUNS.look_up("cows").synset is NOUNS.look_up("cattle").synset
    assert list(base_forms("cows", {})) == ["cows", "cow"]


UNKNOWN = {
    "beach": ('no class shows "beach"; near it are "shore", "geological formation"', "shore"),
    "beaches": ('no class shows "beaches"; near it are "shore"', "shore"),
    "cow": ('no class shows "cow"; near it is "cattle"', "cattle"),
    "books": ('no class shows "books"; near it is "product"', "product"),
    "river": ('no class shows "river"', None),
    "red car": ('no class shows "red car", but one shows "car"', "car"),
    "elefant": ('unknown word "elefant"; did you mean "elephant"', "elephant"),
    "mouse.n.01": ("no class shows mouse.n.01; there is mouse.n.04 (a hand-operated electronic device", None),
    "mouse.n.1004": ('unknown word "mouse.n.1004"', None),
    "xqzw": ('unknown word "xqzw"; words are nouns of WordNet that have classes of ImageNet below them', None),
    "": ("the word is empty", None),
    " - ": ("the word is empty", None),
}


@pytest.mark.parametrize("word", UNKNOWN)
def test_an_unknown_word_gets_the_nearest(word):
    message, nearest = UNKNOWN[word]
    with pytest.raises(UnknownWordError) as error:
        NOUNS.look_up(word)
    assert str(error.value).startswith(message)
    assert (error.value.nearest[:1] or (None,))[0] == nearest


def test_what_is_near_is_known():
    for near in NOUNS._near.values():
        assert all(noun in NOUNS for noun in near.split())


def test_completion_is_what_begins_so():
    assert "dog" in NOUNS.complete("do")
    assert NOUNS.complete("Polar-B") == ["polar bear"]
    assert NOUNS.complete("zzz") == []
    assert len(NOUNS.complete("")) == len(NOUNS)


def looked_up(word: str) -> str:
    try:
        return NOUNS.look_up(word).name
    except UnknownWordError as error:
        return str(error)


@given(st.text(max_size=40) | st.from_regex(r"[a-z' .\-\"]{1,30}\.n\.\d{1,30}", fullmatch=True))
def test_any_text_is_a_noun_or_one_line(word):
    line = looked_up(word)
    assert line.isprintable()
    assert len(line) < 400


@pytest.mark.parametrize("word", ["x" * 10_000, "dog " * 2_500, "s" * 10_000, "🐶" * 10_000, '"' * 10_000, "\0\n" * 99])
def test_ten_thousand_letters_are_one_short_line(word):
    assert len(looked_up(word)) < 400


def test_threads_that_load_the_table_at_once_get_the_same_one():
    """In a process of its own, where it is not loaded yet: synsets of two tables are different."""
    code = """
import threading
from concurrent.futures import ThreadPoolExecutor
from andornot.concepts import wordnet_nouns

start = threading.Barrier(8)
def load(_):
    start.wait()
    return id(wordnet_nouns())

with ThreadPoolExecutor(8) as threads:
    print(len(set(threads.map(load, range(8)))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_noun_of_more_classes_needs_more_support_to_be_true():
    """The logit of the truth is a line in that of the support and in the logarithm of the number of classes."""
    for word in ("zebra", "cat", "dog"):
        noun, support = wordnet_nouns().look_up(word), torch.tensor([0.01, 0.2, 0.9])
        expected = torch.sigmoid(torch.logit(support) + 2.79 - 0.673 * math.log(len(noun.classes)))
        assert torch.allclose(truth_of(support, noun.half), expected)
