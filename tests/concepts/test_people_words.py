"""People's words for named features, and the sizes at which images are encoded."""

import pytest

from andornot.concepts import OTHER_WORDS, find_name, vocabulary_for
from andornot.concepts.people_words import SENSES
from andornot.data.converting import choose_size
from andornot.ssl.backbones import build_backbone

NAMES = ("couch", "tv", "cell phone", "dining table", "bicycle", "airplane", "child")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("sofa", "couch"),
        ("television", "tv"),
        ("Monitor", "tv"),
        ("cellphone", "cell phone"),
        ("phone", "cell phone"),
        ("Cell-Phone", "cell phone"),
        ("dining_table", "dining table"),
        ("bike", "bicycle"),
        ("plane", "airplane"),
        ("kid", "child"),
        ("couch", "couch"),
    ],
)
def test_people_have_other_words(word, name):
    assert find_name(word, NAMES) == name


@pytest.mark.parametrize("word", ["giraffe", "", "sofas bed"])
def test_a_word_for_nothing_is_none(word):
    assert find_name(word, NAMES) is None


def test_a_word_of_a_feature_that_is_not_there_is_none():
    assert find_name("sofa", ("dog",)) is None


def test_a_named_feature_comes_before_another_word_for_one():
    assert find_name("ball", ("sports ball", "ball")) == "ball"


def test_no_word_stands_for_two_features():
    words = [word for others in OTHER_WORDS.values() for word in others]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("width", "height", "size"),
    [
        (4000, 3000, (256, 192)),
        (3000, 4000, (192, 256)),
        (6000, 4000, (256, 192)),
        (1920, 1080, (288, 160)),
        (1080, 1920, (160, 288)),
        (1000, 1000, (224, 224)),
        (12000, 2000, (384, 128)),
    ],
)
def test_the_size_follows_the_aspect_ratio(width, height, size):
    assert choose_size(width / height) == size


def test_every_size_is_about_as_much_work():
    sizes = {choose_size(aspect / 100) for aspect in range(10, 1000)}
    assert len(sizes) == 7
    assert all(45 <= (width // 32) * (height // 32) <= 49 for width, height in sizes)
    assert all(width % 32 == height % 32 == 0 for width, height in sizes)


@pytest.mark.parametrize("aspect", [0, -1, float("nan"), float("inf")])
def test_no_size_for_an_impossible_aspect_ratio(aspect):
    with pytest.raises(ValueError, match="positive number"):
        choose_size(aspect)


def test_a_word_for_two_things_says_which_was_meant():
    words = vocabulary_for(build_backbone("efficientnet-lite0"))
    assert set(SENSES) <= set(words.heads.names)
    assert str(words.meaning("Kites").note) == "Kites: taken for the toy"
    assert words.meaning("computer mouse").note is None
    assert words.meaning("dog").note is None
