"""Words in a gallery: what they find, what pictures are said to show, and what is said where there are none."""

from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, save_picture, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worded import Seen, let_classes_be_named, one_clear_line, worded_gallery

from andornot import AndornotError, Formula, FormulaError, Gallery, Representation
from andornot.gallery import GalleryError
from andornot.gallery.names import Resolved
from andornot.logic.formula import write_name
from andornot.words import WordError, half_of, truth_of

SHOWN = {0: {"dog": 0.9}, 1: {"dog": 0.5, "sofa": 0.4}, 2: {"sofa": 0.8}, 3: {"car": 0.7}, 4: {}, 5: {"cat": 0.6}}


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gallery:
    return worded_gallery(tmp_path, monkeypatch, SHOWN)


def kinds(resolved: Resolved) -> dict[str, str]:
    return {key: thing.kind for key, thing in resolved.named.items()}


# --- what a name stands for -----------------------------------------------------------------------------------------


def test_a_name_is_a_word_if_no_picture_and_no_definition_has_it(gallery: Gallery) -> None:
    named = gallery.named("dog & 000.png & word:Sofas")
    assert {key: thing.kind for key, thing in named.items()} == {
        "dog": "word",
        "000.png": "picture",
        "word:Sofas": "word",
    }
    assert named["word:Sofas"].meaning is not None
    assert named["word:Sofas"].meaning.name == "sofa.n.01"


def test_a_picture_of_the_gallery_comes_before_a_definition_before_a_word_before_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("dog", "cat", "sofa")):
        save_picture(tmp_path / "elsewhere" / f"{name}.png", 50 + number).rename(tmp_path / "elsewhere" / name)
    monkeypatch.chdir(tmp_path / "elsewhere")
    gallery = worded_gallery(tmp_path, monkeypatch, SHOWN)
    assert kinds(gallery.resolve("dog")) == {"dog": "word"}
    assert gallery.named("picture:dog")["picture:dog"].path == str(tmp_path / "elsewhere" / "dog")
    gallery.define("dog", "000.png")
    assert kinds(gallery.resolve("dog")) == {"picture:1": "picture"}
    assert kinds(gallery.resolve("word:dog")) == {"word:dog": "word"}
    monkeypatch.undo()
    gallery.add(tmp_path / "elsewhere" / "dog")
    let_classes_be_named(monkeypatch, Seen(SHOWN))
    gallery.refresh()
    assert gallery.named("dog")["dog"].path == str(tmp_path / "elsewhere" / "dog")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("beach", 'unknown name "beach"; words near it: "shore", "geological formation"; andornot define'),
        ("elefant", '"elephant"'),
        ("red car", '"car"'),
        ("sunsett", 'did you mean "sunset"? Words near it: '),
        ("dog.jpg", 'unknown name "dog.jpg"; "dog" is a word'),
        ("running", 'unknown name "running"; words are nouns; andornot define'),
        ("0003.png", 'did you mean "003.png"'),
        ("word:beach", 'no class shows "beach"'),
        ("word:000.png", "000.png"),
        ("picture:dog", 'unknown name "dog"'),
        ("dog[0, 0, 1, 0.5]", '"dog" is a word: a crop is of a picture'),
        ("word:dog[0, 0, 1, 0.5]", "crop"),
        ("sunset[0, 0, 1, 0.5]", '"sunset" is a name that was defined: a crop is of a picture'),
    ],
)
def test_what_is_unknown_gets_the_nearest_of_all_kinds(gallery: Gallery, text: str, said: str) -> None:
    gallery.define("sunset", "like(000.png, 001.png)")
    with pytest.raises(FormulaError) as error:
        gallery.resolve(text if text != "red car" else '"red car"')
    assert said in error.value.message
    assert error.value.message.count("\n") == 0


def test_a_word_of_ten_thousand_letters_is_one_clear_line(gallery: Gallery) -> None:
    with pytest.raises(FormulaError) as error:
        gallery.resolve("w" * 9_990)
    assert len(error.value.message) < 400


@given(st.text(min_size=1, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_as_a_word_is_found_or_is_one_clear_line(gallery: Gallery, text: str) -> None:
    quoted = write_name(text)
    for formula in (f"word:{quoted}", quoted, f"{quoted} and not dog"):
        with one_clear_line():
            gallery.resolve(formula)


# --- truth ----------------------------------------------------------------------------------------------------------


def test_the_truth_of_a_word_is_compared_with_all_pictures_whatever_rows_are_asked_for(gallery: Gallery) -> None:
    searcher = gallery._searching
    dog = searcher.vocabulary.meaning("dog")
    support = torch.zeros(12)
    support[0], support[1] = 0.9, 0.5
    every = truth_of(support, half_of(support))
    torch.testing.assert_close(searcher.word_truths.truth(dog), every, atol=0.02, rtol=0)
    rows = np.array([3, 1, 0])
    torch.testing.assert_close(searcher.word_truths.truth(dog, rows), searcher.word_truths.truth(dog)[rows])
    assert searcher.word_truths.best_rows(dog, 2).tolist() == [0, 1]


def test_a_word_is_answered_though_another_thread_forgets_it_at_once(gallery: Gallery) -> None:
    class Emptied(dict):
        def __setitem__(self, key: object, value: object) -> None:
            pass

    searcher = gallery._searching
    dog = searcher.vocabulary.meaning("dog")
    before = searcher.word_truths.truth(dog)
    searcher.word_truths._kept_supports = Emptied()
    torch.testing.assert_close(searcher.word_truths.truth(dog), before)


def test_a_picture_that_was_removed_has_no_part_in_words(gallery: Gallery) -> None:
    assert gallery.words("dog")["dog"] == 2
    gallery.remove("000.png")
    assert gallery.words("dog")["dog"] == 1
    searcher = gallery._searching
    assert searcher.word_truths.best_rows(searcher.vocabulary.meaning("dog"), 1).tolist() == [1]


# --- words in terms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "is_any_strong"),
    [
        ("dog", True),
        ("zebra", False),
        ("dog and zebra", False),
        ("dog or zebra", True),
        ("dog and not zebra", True),
        ("zebra and not dog", False),
        ("zebra and 000.png", False),
        ("not zebra", True),
    ],
)
def test_hits_are_weak_where_a_word_is_asked_for_that_is_likely_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formula: str, is_any_strong: bool
) -> None:
    """Picture 0 looks more like a zebra than all others do, and it is a dog."""
    gallery = worded_gallery(tmp_path, monkeypatch, SHOWN | {0: {"dog": 0.9, "zebra": 0.05}})
    hits = gallery.search(formula, include_queries=True)
    assert any(not hit.is_weak for hit in hits) == is_any_strong
    if formula == "zebra":
        assert hits[0].truth > 0.5, "which is the line of words"


def test_a_word_in_a_term_is_the_mean_of_the_pictures_that_show_it_best(gallery: Gallery) -> None:
    dogs = gallery.represent(["000.png", "001.png"])
    mean = Representation(dogs.probs.mean(0))
    three = gallery.represent(["003.png"])[0]
    expected = [hit.id for hit in gallery.search(three - mean, top=12)]
    found = [hit.id for hit in gallery.search("003.png - dog", top=12)]
    assert found == [identity for identity in expected if identity != 4]


def test_a_word_that_no_picture_shows_is_no_term(gallery: Gallery) -> None:
    with pytest.raises(GalleryError, match='no picture of the gallery shows "zebra" well enough'):
        gallery.search("000.png - zebra")


# --- what pictures show ---------------------------------------------------------------------------------------------


def test_describe_says_what_a_picture_shows_by_id_and_by_name(gallery: Gallery) -> None:
    first = gallery.describe(1)
    assert [noun.word for noun in first] == [noun.word for noun in gallery.describe("000.png")]
    assert first[0].synset.classes[0] == gallery._searching.vocabulary.meaning("dog").classes[0]  # type: ignore[attr-defined]
    assert gallery.describe(5) == []


def test_hits_and_reasons_speak_words(gallery: Gallery) -> None:
    hits = gallery.search("011.png", top=12, why=True, include_queries=True)
    by_id = {hit.id: hit for hit in hits}
    assert by_id[1].words == tuple(noun.word for noun in gallery.describe(1))
    assert by_id[12].words == ()
    names = {reason.name for hit in hits for reason in hit.why}
    assert "" in names or names  # a feature that nothing can be said of stays a number


def test_completion_says_how_many_pictures_show_a_word_most_first(gallery: Gallery) -> None:
    words = gallery.words("do")
    assert words["dog"] == 2
    assert next(iter(words)) in ("dog", "domestic dog", "domestic animal", "domesticated animal")
    assert list(words.values()) == sorted(words.values(), reverse=True)
    assert all(word.startswith("do") for word in words)
    assert gallery.words("qqq") == {}


# --- galleries without words ----------------------------------------------------------------------------------------


def test_a_gallery_that_was_made_before_says_how_to_gain_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 3))
    let_classes_be_named(monkeypatch, None)
    gallery.refresh()
    for text in ("word:dog", "dog"):
        with pytest.raises(FormulaError, match=r"before there were words; andornot index --regions --gallery .*/g"):
            gallery.resolve(text)
    with pytest.raises(WordError, match="andornot index --regions"):
        gallery.words("do")
    assert gallery.search("000.png", top=1)[0].words == ()


def test_a_model_without_named_classes_says_so_in_one_line(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 3))
    for ask in (
        lambda: gallery.resolve("word:dog"),
        lambda: gallery.resolve("dog"),
        lambda: gallery.describe(1),
        lambda: gallery.words("do"),
    ):
        with pytest.raises(AndornotError, match="conv5 has no named classes as it is, and so no words"):
            ask()
    assert gallery.search("000.png - 001.png", top=1)[0].words == ()


def test_names_of_pictures_that_are_given_come_before_words_and_files_are_not_looked_at(gallery: Gallery) -> None:
    assert gallery.resolve("dog", ["dog"]).named["dog"][:3] == ("dog", None, "picture")
    assert gallery.resolve("dog", ["cat"]).named["dog"].kind == "word"
    assert gallery.resolve(Formula("dog"), []).named["dog"].kind == "word"
