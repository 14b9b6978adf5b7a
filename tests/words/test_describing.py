"""What a picture shows, in nouns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andornot.words import describe, wordnet_nouns
from andornot.words.describing import _GENERAL, _LIKELY

NOUNS = wordnet_nouns()


def named(*words: str) -> list[int]:
    """The first class of each word."""
    return [NOUNS.look_up(word).classes[0] for word in words]


def shown(probabilities: dict[int, float]) -> list[str]:
    return [noun.word for noun in describe(probabilities)]


def test_six_likely_breeds_are_a_dog():
    breeds = named("Chihuahua", "beagle", "boxer", "collie", "pug", "golden retriever")
    assert shown(dict.fromkeys(breeds, 0.15)) == ["dog"]


def test_one_sure_class_has_its_own_name():
    assert shown(dict(zip(named("golden retriever", "beagle"), (0.9, 0.05), strict=True))) == ["golden retriever"]


def test_several_terriers_are_a_terrier_or_a_dog_but_no_hunting_dog():
    """People do not say the nouns between."""
    terriers = NOUNS.look_up("terrier").classes[:8]
    assert shown(dict.fromkeys(terriers, 0.1)) in (["terrier"], ["dog"])
    hunting = [c for c in NOUNS.look_up("hunting dog").classes if c not in NOUNS.look_up("terrier").classes]
    assert shown(dict.fromkeys(hunting[::4], 0.1)) == ["dog"]


def test_two_things_are_two_nouns_the_likelier_first():
    probabilities = dict(zip(named("pug", "sofa"), (0.4, 0.5), strict=True))
    assert shown(probabilities) == ["studio couch", "pug"]


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
