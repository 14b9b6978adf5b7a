"""What an image shows, in nouns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andornot.concepts import describe, wordnet_nouns
from andornot.concepts.descriptions import _GENERAL, _LIKELY, basic_noun

NOUNS = wordnet_nouns()


def named(*words: str) -> list[int]:
    """The first class of each word."""
    return [NOUNS.look_up(word).classes[0] for word in words]


def shown(probabilities: dict[int, float]) -> list[str]:
    return [noun.word for noun in describe(probabilities)]


def test_six_likely_breeds_are_a_dog():
    breeds = named("Chihuahua", "beagle", "boxer", "collie", "pug", "golden retriever")
    assert shown(dict.fromkeys(breeds, 0.15)) == ["dog"]


def test_one_sure_class_has_its_own_name_if_people_say_it():
    assert shown(dict(zip(named("zebra", "goose"), (0.9, 0.05), strict=True))) == ["zebra"]
    assert shown(dict(zip(named("golden retriever", "beagle"), (0.9, 0.05), strict=True))) == ["dog"]


@pytest.mark.parametrize(
    ("special", "said"),
    {
        "sorrel": "horse",
        "whippet": "dog",
        "Brittany spaniel": "dog",
        "terrier": "dog",
        "studio couch": "sofa",
        "Egyptian cat": "cat",
        "sports car": "car",
        "minivan": "car",
        "airliner": "plane",
        "robin": "bird",
        "wine bottle": "bottle",
        "laptop": "computer",
        "bullet train": "train",
        "scuba diver": "person",
        "bullfrog": "frog",
    }.items(),
)
def test_special_nouns_give_way_to_the_word_that_people_say(special, said):
    assert basic_noun(NOUNS.look_up(special).synset).word == said


@pytest.mark.parametrize("word", ["zebra", "goose", "bicycle", "television", "pizza", "desk", "dining table", "dog"])
def test_what_people_say_stays(word):
    assert basic_noun(NOUNS.look_up(word).synset).word == word


def test_the_word_that_people_say_is_the_one_met_most_for_its_kinds():
    """As said in words: count by count, over all that may stand for a noun."""
    organism = NOUNS.look_up("organism").synset
    for synset in NOUNS.synsets:
        best, highest = synset, (synset.count + 0.1) / synset.kinds**0.65
        for above in sorted(synset.ancestors, key=lambda other: -len(other.ancestors)):
            senses = {sense for noun, sense in above.nouns if noun == above.word}
            small = above.kinds <= 80 or organism in above.ancestors
            score = (above.count + 0.1) / above.kinds**0.65
            if len(above.classes) <= 120 and small and max(senses) <= 2 and score > highest:
                best, highest = above, score
        assert basic_noun(synset) is best


def test_no_word_is_so_general_that_it_says_nothing():
    said = {basic_noun(synset).word for synset in NOUNS.synsets if synset.own_class is not None}
    assert not said & {"entity", "whole", "object", "artifact", "animal", "mammal", "machine", "system", "equipment"}


def test_several_terriers_are_a_dog_and_no_hunting_dog():
    """People do not say the nouns between."""
    terriers = NOUNS.look_up("terrier").classes[:8]
    assert shown(dict.fromkeys(terriers, 0.1)) == ["dog"]
    hunting = [c for c in NOUNS.look_up("hunting dog").classes if c not in NOUNS.look_up("terrier").classes]
    assert shown(dict.fromkeys(hunting[::4], 0.1)) == ["dog"]


def test_two_things_are_two_nouns_the_likelier_first():
    probabilities = dict(zip(named("pug", "sofa"), (0.4, 0.5), strict=True))
    assert shown(probabilities) == ["sofa", "dog"]


def test_cats_and_dogs_are_not_a_domestic_animal():
    animals = [*NOUNS.look_up("domestic cat").classes, *named("pug", "beagle", "collie", "boxer", "Chihuahua")]
    assert set(shown(dict.fromkeys(animals, 0.1))) == {"cat", "dog"}


@pytest.mark.parametrize("probabilities", [{}, dict.fromkeys(range(1000), 0.001), {3: 0.0}])
def test_what_is_nothing_in_particular_has_no_noun(probabilities):
    assert shown(probabilities) == []


@given(st.dictionaries(st.integers(0, 999), st.floats(0.01, 1), min_size=1, max_size=12))
def test_nouns_are_likely_and_special_and_do_not_repeat_each_other(probabilities):
    whole = sum(probabilities.values())
    found = describe(probabilities)
    for noun in found:
        share = sum(weight for number, weight in probabilities.items() if number in noun.synset.classes) / whole
        assert share == pytest.approx(noun.probability)
        assert share >= _LIKELY + len(noun.synset.classes) / 1000 - 1e-9
        assert len(noun.synset.classes) <= _GENERAL
        assert not any(other.synset in noun.synset.ancestors for other in found)
    assert [noun.probability for noun in found] == sorted((noun.probability for noun in found), reverse=True)


def test_few_stored_classes_describe_as_all_of_them_do():
    full = dict.fromkeys(range(1000), 1e-5) | dict(zip(named("pug", "sofa"), (0.5, 0.4), strict=True))
    few = dict(sorted(full.items(), key=lambda item: -item[1])[:16])
    assert shown(few) == shown(full)
