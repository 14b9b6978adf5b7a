"""Named features in galleries: a word's truth is the probability of its head, as far as a byte can tell."""

import numpy as np
import pytest
from galleries import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from andornot import AndornotError
from andornot.concepts import NamedFeature, Noun, find_box, load_heads, vocabulary_for
from andornot.concepts.text_space import named_directions
from andornot.gallery import Gallery
from andornot.gallery.encoding import probabilities_from_bytes, probabilities_to_bytes

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


def test_half_of_the_similarity_of_examples_is_that_of_their_named_features(gallery, tmp_path):
    """A representation has no names: its distance is that of the degrees alone. A file elsewhere has them as well."""
    heads = load_heads()
    maps = np.concatenate([maps.numpy() for maps in gallery.model.iter_feature_maps(gallery.paths, progress=False)])
    named = named_directions(heads.probabilities(maps), heads.names)
    first = gallery.paths[0]
    by_degrees = {hit.path: 1 - hit.distance for hit in gallery.search(gallery.represent([first])[0], top=6)}
    by_names = dict(zip(gallery.paths, (named @ named[0]).tolist(), strict=True))
    hits = gallery.search(first, top=6, include_queries=True)
    assert {hit.path for hit in hits} == set(gallery.paths)
    for hit in hits:
        assert 1 - hit.distance == pytest.approx((by_degrees[hit.path] + by_names[hit.path]) / 2, abs=0.03)
    with Image.open(first) as image:
        image.save(tmp_path / "elsewhere.png", compress_level=1)
    elsewhere = gallery.search(str(tmp_path / "elsewhere.png"), top=6)
    assert [hit.id for hit in elsewhere] == [hit.id for hit in hits]
    assert [hit.truth for hit in elsewhere] == pytest.approx([hit.truth for hit in hits], abs=0.02)


def test_and_multiplies_and_not_is_the_rest(gallery):
    dog, person = probability(gallery, "dog"), probability(gallery, "person")
    for hit in gallery.search("dog and not person", top=6):
        assert hit.truth == pytest.approx(dog[hit.path] * (1 - person[hit.path]), abs=2 * STEP)
        assert hit.terms == pytest.approx({"dog": dog[hit.path], "person": person[hit.path]}, abs=STEP)


def test_the_model_says_the_same(gallery):
    degrees = gallery.model.named_degrees(gallery.paths)
    assert tuple(degrees) == load_heads().names
    assert degrees["person"].tolist() == pytest.approx([*probability(gallery, "person").values()], abs=1e-5)
    one = gallery.model.named_degrees(gallery.paths[0])
    assert one["person"].item() == pytest.approx(degrees["person"][0].item(), abs=1e-5)
    with pytest.raises(AndornotError, match="no named features"):
        tiny_model().named_degrees(gallery.paths)


def test_likely_words_have_boxes(gallery):
    heads = load_heads()
    maps = np.concatenate([maps.numpy() for maps in gallery.model.iter_feature_maps(gallery.paths, progress=False)])
    probabilities, evidence = heads.both(maps)
    column = int(probabilities.max(0).argmax())  # the likeliest of all words
    found = {hit.path: hit.boxes for hit in gallery.search(f'"{heads.names[column]}"', top=6)}
    for number, path in enumerate(gallery.paths):
        if probabilities[number, column] < 0.05:
            assert found[path] == ()
            continue
        [place] = found[path]
        assert place.term == heads.names[column]
        assert place.box == pytest.approx(find_box(evidence[number, :, :, column]), abs=1 / 255)


def test_hits_are_strong_maybe_or_weak(gallery):
    for hit in gallery.search("person", top=6):
        assert hit.strength == ("strong" if hit.truth >= 0.8 else "maybe" if hit.truth >= 0.5 else "weak")
        assert hit.is_weak == (hit.strength == "weak")


def test_descriptions_and_completion_speak_named_features(gallery):
    names = load_heads().names
    words = gallery.words("pers")
    assert words["person"] == sum(p >= 0.5 for p in probability(gallery, "person").values())
    for path in gallery.paths:
        shown = {one.word: one.probability for one in gallery.describe(path) if one.word in names}
        assert all(p == pytest.approx(probability(gallery, word)[path], abs=STEP) for word, p in shown.items())


def test_a_narrower_word_keeps_its_own_classes(gallery):
    words = vocabulary_for(gallery.model.backbone)
    assert isinstance(words.meaning("people"), NamedFeature)
    assert words.meaning("television").name == "tv"
    assert isinstance(words.meaning("polar bear"), Noun)
    assert isinstance(words.meaning("tiger"), Noun)
    assert isinstance(words.meaning("dog.n.01"), Noun)
