"""Words in a gallery: what they find, what images are said to show, and what is said where there are none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, save_image, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worded import one_clear_line, show_nouns, worded_gallery

from andornot import AndornotError, Formula, FormulaError, Gallery, Representation
from andornot.concepts import Approximation, truth_of, wordnet_nouns
from andornot.gallery import Filter, GalleryError
from andornot.gallery.names import BoundFormula
from andornot.logic.formula import write_name

# By id.
SHOWN = {1: {"dog": 0.9}, 2: {"dog": 0.5, "sofa": 0.4}, 3: {"sofa": 0.8}, 4: {"car": 0.7}, 5: {}, 6: {"cat": 0.6}}


@pytest.fixture
def gallery(tmp_path: Path) -> Gallery:
    return worded_gallery(tmp_path, SHOWN)


def kinds(resolved: BoundFormula) -> dict[str, str]:
    return {key: thing.kind for key, thing in resolved.named.items()}


# --- plain text -------------------------------------------------------------------------------------------------------


def test_plain_text_is_read_as_a_formula(gallery: Gallery) -> None:
    hits = gallery.search("show me a dog without a sofa")
    assert hits.understood == hits[:2].understood == "dog and not sofa"
    assert hits == gallery.search("dog and not sofa")
    assert gallery.search("dog and not sofa").understood == ""
    assert gallery.resolve("dogs, no sofas").understood == "dogs and not sofas"
    first, second = gallery.search(["dog or a car", "002.png with a dog"])
    assert (first.understood, second.understood) == ("dog or car", "002.png and dog")


def test_what_is_excluded_is_no_hit_and_changes_nothing_else(gallery: Gallery) -> None:
    everything = gallery.search("dog", top=20)
    without = gallery.search("dog except 000.png, 3", top=20)
    assert without == [hit for hit in everything if hit.id not in (1, 3)]
    assert gallery.search("dog", top=20, filter=Filter(exclude=(1, 3))) == without
    assert gallery.search("002.png except 1", top=20) == [
        hit for hit in gallery.search("002.png", top=20) if hit.id != 1
    ]
    assert 1 not in {hit.id for hit in gallery.search("dog except 1", top=20, include_queries=True)}
    with pytest.raises(GalleryError, match="exclude must be the ids"):
        Filter(exclude=("000.png",))  # type: ignore[arg-type]


def test_a_definition_is_read_as_well(gallery: Gallery) -> None:
    assert gallery.define("walk", "a dog without a sofa").formula == "word:dog and not word:sofa"
    assert gallery.resolve("walk but not car").understood == "walk and not car"
    with pytest.raises(GalleryError, match="a definition cannot leave out images"):
        gallery.define("mine", "dog except 000.png")


# --- what a name stands for -----------------------------------------------------------------------------------------


def test_a_name_is_a_word_if_no_image_and_no_definition_has_it(gallery: Gallery) -> None:
    named = gallery.resolve("dog & 000.png & word:Sofas").named
    assert {key: thing.kind for key, thing in named.items()} == {
        "dog": "word",
        "000.png": "image",
        "word:Sofas": "word",
    }
    assert named["word:Sofas"].meaning is not None
    assert named["word:Sofas"].meaning.name == "sofa.n.01"


def test_a_definition_comes_before_an_image_of_the_gallery_before_a_word_before_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("dog", "cat", "sofa")):
        save_image(tmp_path / "elsewhere" / f"{name}.png", 50 + number).rename(tmp_path / "elsewhere" / name)
    monkeypatch.chdir(tmp_path / "elsewhere")
    gallery = worded_gallery(tmp_path, SHOWN)
    assert kinds(gallery.resolve("dog")) == {"dog": "word"}
    assert gallery.resolve("image:dog").named["image:dog"].path == str(tmp_path / "elsewhere" / "dog")
    gallery.define("dog", "000.png")
    assert kinds(gallery.resolve("dog")) == {"image:1": "image"}
    assert kinds(gallery.resolve("word:dog")) == {"word:dog": "word"}
    monkeypatch.undo()
    gallery.add([tmp_path / "elsewhere" / "dog", tmp_path / "elsewhere" / "cat"])
    assert kinds(gallery.resolve("dog")) == {"image:1": "image"}
    assert gallery.resolve("image:dog").named["image:dog"].path == str(tmp_path / "elsewhere" / "dog")
    assert gallery.resolve("cat").named["cat"].path == str(tmp_path / "elsewhere" / "cat")
    gallery.undefine("dog")
    assert gallery.resolve("dog").named["dog"].path == str(tmp_path / "elsewhere" / "dog")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sunsett", 'did you mean "sunset"?'),
        ("'???'", "has no letters"),
        ("word:'12 34'", "has no letters"),
        ("beach[0, 0, 1, 0.5]", '"beach" is a word: a crop is of an image'),
        ("dog.jpg", 'unknown name "dog.jpg"; "dog" is a word'),
        ("0003.png", 'did you mean "003.png"'),
        ("word:000.png", "000.png"),
        ("image:dog", 'unknown name "dog"'),
        ("dog[0, 0, 1, 0.5]", '"dog" is a word: a crop is of an image'),
        ("word:dog[0, 0, 1, 0.5]", "crop"),
        ("sunset[0, 0, 1, 0.5]", '"sunset" is a name that was defined: a crop is of an image'),
    ],
)
def test_what_is_unknown_gets_the_nearest_of_all_kinds(gallery: Gallery, text: str, said: str) -> None:
    gallery.define("sunset", "like(000.png, 001.png)")
    with pytest.raises(FormulaError) as error:
        gallery.resolve(text)
    assert said in error.value.message
    assert error.value.message.count("\n") == 0


def test_any_phrase_is_answered_and_the_answer_says_how_it_was_understood(gallery: Gallery) -> None:
    """Image 1 shows a dog, 6 a cat, 3 a sofa; images from 7 on have no classes."""
    assert gallery.search("Hund", top=12).notes == (("taken-for", "Hund", ("dog",)),)
    assert [(hit.id, hit.truth) for hit in gallery.search("Hund", top=12)] == [
        (hit.id, hit.truth) for hit in gallery.search("dog", top=12)
    ]
    hits = gallery.search('"living room furniture" and not dog', top=12)
    assert hits[0].id == 3
    (note,) = hits[:2].notes
    assert (note.code, note.word) == ("approximate", "living room furniture")
    assert "living room furniture: approximately, by " in hits._repr_html_()
    assert max(hit.truth for hit in hits) <= 0.75
    assert all(hit.truth == 0 for hit in hits if hit.id >= 7)
    assert gallery.search("dog").notes == ()


def test_the_support_of_a_phrase_in_stored_rows_is_that_of_their_evidence(gallery: Gallery) -> None:
    words, phrase = gallery.planner.words, gallery.resolve("word:veterinarian").named["word:veterinarian"].meaning
    assert isinstance(phrase, Approximation)
    evidence = torch.zeros(6, 1000)
    for identity, shown in SHOWN.items():
        for noun, weight in shown.items():
            evidence[identity - 1, wordnet_nouns().look_up(noun).classes[0]] = weight
    expected = phrase.scaled_to(phrase.scores(evidence[evidence.any(1)]))
    found = words.scaled(phrase)
    assert isinstance(found, Approximation)
    assert (found.median, found.spread) == pytest.approx((expected.median, expected.spread), abs=1e-3)
    support = expected.support_of(expected.scores(evidence)) * evidence.any(1)
    assert words.support(found, np.arange(1, 7)) == pytest.approx(support.numpy(), abs=0.02)


def test_a_definition_may_use_any_phrase(gallery: Gallery) -> None:
    gallery.define("pets", "word:Katze or dog")
    assert {hit.id for hit in gallery.search("pets", top=3)} == {1, 2, 6}
    assert [note.word for note in gallery.search("pets").notes] == ["Katze"]


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


def test_the_truth_of_a_word_is_the_same_whatever_passes_a_filter(gallery: Gallery, tmp_path: Path) -> None:
    gallery.add(photos(tmp_path / "more", 3, start=50))
    show_nouns(gallery, SHOWN | {13: {"dog": 0.3}})
    support = torch.zeros(15)
    support[0], support[1], support[12] = 2 ** (-2 / 16), 0.5, 2 ** (-28 / 16)  # 0.9, 0.5, 0.3 as they are stored
    expected = truth_of(support, wordnet_nouns().look_up("dog").half)
    hits = gallery.search("dog", top=20)
    assert [hit.id for hit in hits] == [1, 2, 13, *range(3, 13), 14, 15]
    assert [hit.truth for hit in hits] == pytest.approx([float(expected[hit.id - 1]) for hit in hits], abs=0.02)
    for label in ("photos", "more"):
        assert gallery.search("dog", top=20, filter=Filter(label=label)) == [
            hit for hit in hits if f"/{label}/" in hit.path
        ]
    assert gallery.search("dog", top=2) == hits[:2]


def test_many_threads_may_ask_for_many_words_at_once(gallery: Gallery) -> None:
    words = [*("dog", "cat", "sofa", "car", "zebra", "animal", "vehicle", "furniture", "bird", "fish", "fruit")]
    words += ["boat", "snake", "bottle", "spider", "clothing", "hat", "instrument", "person", "food"]
    expected = [gallery.search(word, top=12) for word in words]
    reader = Gallery.open(gallery.folder)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(lambda word: reader.search(word, top=12), words)) == expected


def test_an_image_that_was_removed_has_no_part_in_words(gallery: Gallery) -> None:
    assert gallery.words("dog")["dog"] == 2
    assert gallery.search("dog", top=1)[0].id == 1
    gallery.remove("000.png")
    assert gallery.words("dog")["dog"] == 1
    assert gallery.search("dog", top=1)[0].id == 2


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
    tmp_path: Path, formula: str, is_any_strong: bool
) -> None:
    """Image 1 looks more like a zebra than all others do, and it is a dog."""
    gallery = worded_gallery(tmp_path, SHOWN | {1: {"dog": 0.9, "zebra": 0.08}})
    hits = gallery.search(formula, include_queries=True)
    assert any(not hit.is_weak for hit in hits) == is_any_strong
    if formula == "zebra":
        assert hits[0].truth > 0.5, "which is the line of words"


def test_a_word_in_a_term_is_the_mean_of_the_images_that_show_it_best(gallery: Gallery) -> None:
    dogs = gallery.represent(["000.png", "001.png"])
    mean = Representation(dogs.probs.mean(0))
    three = gallery.represent(["003.png"])[0]
    expected = [hit.id for hit in gallery.search(three - mean, top=12)]
    found = [hit.id for hit in gallery.search("003.png - dog", top=12)]
    assert found == [identity for identity in expected if identity != 4]


def test_a_word_that_no_image_shows_is_no_term(gallery: Gallery) -> None:
    with pytest.raises(GalleryError, match='no image of the gallery shows "zebra" well enough'):
        gallery.search("000.png - zebra")


# --- what images show ---------------------------------------------------------------------------------------------


def test_describe_says_what_an_image_shows_by_id_and_by_name(gallery: Gallery) -> None:
    first = gallery.describe(1)
    assert [noun.word for noun in first] == [noun.word for noun in gallery.describe("000.png")]
    assert first[0].synset.classes[0] == gallery.resolve("dog").named["dog"].meaning.classes[0]  # type: ignore[union-attr]
    assert gallery.describe(5) == []


def test_hits_and_reasons_speak_words(gallery: Gallery) -> None:
    hits = gallery.search("011.png", top=12, why=True, include_queries=True)
    by_id = {hit.id: hit for hit in hits}
    assert by_id[1].words == {noun.word: noun.probability for noun in gallery.describe(1)}
    assert by_id[12].words == {}
    names = {reason.name for hit in hits for reason in hit.why}
    assert "" in names or names  # a feature that nothing can be said of stays a number


def test_completion_says_how_many_images_show_a_word_most_first(gallery: Gallery) -> None:
    words = gallery.words("do")
    assert words["dog"] == 2
    assert next(iter(words)) in ("dog", "domestic dog", "domestic animal", "domesticated animal")
    assert list(words.values()) == sorted(words.values(), reverse=True)
    assert all(word.startswith("do") for word in words)
    assert gallery.words("qqq") == {}


# --- galleries without words ----------------------------------------------------------------------------------------


def test_a_model_without_named_classes_says_so_in_one_line(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 3))
    for ask in (
        lambda: gallery.resolve("word:dog"),
        lambda: gallery.resolve("dog"),
        lambda: gallery.describe(1),
        lambda: gallery.words("do"),
    ):
        with pytest.raises(AndornotError, match="conv5 has no words: it has no ImageNet classifier"):
            ask()
    assert gallery.search("000.png - 001.png", top=1)[0].words == {}


def test_names_of_images_that_are_given_come_before_words_and_files_are_not_looked_at(gallery: Gallery) -> None:
    assert gallery.resolve("dog", ["dog"]).named["dog"][:3] == ("dog", None, "image")
    assert gallery.resolve("dog", ["cat"]).named["dog"].kind == "word"
    assert gallery.resolve(Formula("dog"), []).named["dog"].kind == "word"
