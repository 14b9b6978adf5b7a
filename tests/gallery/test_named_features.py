"""Named features in galleries: a word's truth is the probability of its head, as far as a byte can tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from andornot.concepts import load_heads
from andornot.gallery import Gallery
from andornot.gallery.encoding import probabilities_from_bytes, probabilities_to_bytes
from andornot.words import NamedFeature, Noun, vocabulary_for

# Half a step of a logit changes a probability by at most a quarter of it.
STEP = 1 / 16 / 2 / 4


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_a_byte_keeps_the_order_and_nearly_the_value(probabilities):
    given_, stored = np.array(probabilities), probabilities_from_bytes(probabilities_to_bytes(np.array(probabilities)))
    assert np.abs(stored - given_).max() <= STEP
    assert (np.diff(stored[np.argsort(given_)]) >= 0).all()


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    folder = tmp_path_factory.mktemp("named")
    random = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for number in range(6):
        small = random.integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(small).resize((256, 192), Image.Resampling.BICUBIC).save(folder / "photos" / f"{number}.png")
    made = Gallery.open(folder / "g", create=True)
    made.add(folder / "photos", progress=False)
    return made


def probability(gallery: Gallery, word: str) -> dict[str, float]:
    """By path, straight from the heads."""
    heads = load_heads()
    maps = np.concatenate([maps.numpy() for maps in gallery.model.iter_feature_maps(gallery.paths, progress=False)])
    return dict(zip(gallery.paths, heads.probabilities(maps)[:, heads.index(word)].tolist(), strict=True))


def test_the_truth_of_a_word_is_its_probability(gallery):
    for word, name in (("person", "person"), ("Sofas", "couch"), ("kids", "child")):
        expected = probability(gallery, name)
        hits = gallery.search(word, top=6)
        assert [hit.truth for hit in hits] == sorted((hit.truth for hit in hits), reverse=True)
        assert all(hit.truth == pytest.approx(expected[hit.path], abs=STEP) for hit in hits)


def test_and_multiplies_and_not_is_the_rest(gallery):
    dog, person = probability(gallery, "dog"), probability(gallery, "person")
    for hit in gallery.search("dog and not person", top=6):
        assert hit.truth == pytest.approx(dog[hit.path] * (1 - person[hit.path]), abs=2 * STEP)


def test_descriptions_and_completion_speak_named_features(gallery):
    names = load_heads().names
    words = gallery.words("pers")
    assert words["person"] == sum(p >= 0.5 for p in probability(gallery, "person").values())
    for path in gallery.paths:
        shown = {one.word: one.probability for one in gallery.describe(path) if one.word in names}
        assert all(p == pytest.approx(probability(gallery, word)[path], abs=STEP) for word, p in shown.items())


def test_a_narrower_word_keeps_its_own_classes(gallery):
    words = vocabulary_for(gallery.model)
    assert isinstance(words.meaning("people"), NamedFeature)
    assert words.meaning("television").name == "tv"
    assert isinstance(words.meaning("polar bear"), Noun)
    assert isinstance(words.meaning("tiger"), Noun)
    assert isinstance(words.meaning("dog.n.01"), Noun)
