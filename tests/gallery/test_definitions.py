"""Names of the user's own for formulas: kept in the gallery, whatever becomes of its files and its model."""

from pathlib import Path

import pytest
from galleries import photos, save_image, tiny_model, tiny_recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worded import one_clear_line, worded_gallery

from andornot import AndornotError, Formula, FormulaError, Gallery
from andornot.gallery import GalleryError
from andornot.gallery.definitions import Definitions
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer
from andornot.logic.formula import write_name
from andornot.web.browsing import Browser


@pytest.fixture
def gallery(tmp_path: Path) -> Gallery:
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 12))
    return gallery


def test_a_name_stands_for_its_formula(gallery: Gallery) -> None:
    defined = gallery.define("sunset", "000.png & 001.png")
    assert defined == ("sunset", "000.png & 001.png", "")
    assert [hit.id for hit in gallery.search("sunset - 005.png")] == [
        hit.id for hit in gallery.search("(000.png & 001.png) - 005.png")
    ]


def test_case_spaces_and_hyphens_of_a_name_do_not_matter(gallery: Gallery) -> None:
    gallery.define("My Sunset", "000.png")
    for name in ("my-sunset", '"MY SUNSET"', "my_sunset"):
        assert gallery.resolve(name).formula == Formula("(image:1)")
    gallery.define("my_sunset", "001.png")
    assert gallery.definitions == {"My Sunset": "001.png"}


def test_what_was_asked_is_kept_beside_what_is_meant(gallery: Gallery) -> None:
    gallery.define("sunset", "like(000.png, 001.png)")
    resolved = gallery.resolve("sunset and not sunset & 002.png")
    assert resolved.asked.text == "sunset and not sunset & 002.png"
    assert str(resolved.formula) == "like(image:1, image:2) and not (like(image:1, image:2) & 002.png)"
    assert {key: thing.id for key, thing in resolved.named.items()} == {"image:1": 1, "image:2": 2, "002.png": 3}


@pytest.mark.parametrize(
    ("asked", "called"),
    [
        ("000.png and Sunset", {"like(image:1, image:2)": "Sunset"}),
        ("000.png and (sunset - 003.png)", {"like(image:1, image:2) - 003.png": "sunset - 003.png"}),
        ('000.png and "my walk"', {"like(image:1, image:2) & image:3": '"my walk"'}),
        ("000.png and both", {}),
        ("000.png and 001.png", {}),
    ],
)
def test_a_term_that_is_written_out_is_called_as_it_was_written(gallery: Gallery, asked: str, called: object) -> None:
    gallery.define("sunset", "like(000.png, 001.png)")
    gallery.define("my walk", "sunset & 002.png")
    gallery.define("both", "sunset and 004.png")
    assert gallery.resolve(asked).called == called


def test_images_of_a_definition_are_no_hits_of_it(gallery: Gallery) -> None:
    gallery.define("sunset", "000.png | 001.png")
    assert {1, 2}.isdisjoint(hit.id for hit in gallery.search("sunset", top=12))


def test_a_definition_survives_moved_files_recalibration_and_opening_anew(tmp_path: Path) -> None:
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    gallery.add(photos(tmp_path / "photos", 12))
    gallery.define("sunset", "like(000.png, 001.png)")
    (tmp_path / "photos" / "sub").mkdir()
    (tmp_path / "photos" / "000.png").rename(tmp_path / "photos" / "sub" / "moved.png")
    gallery.update()
    gallery.recalibrate()
    again = Gallery.open(tmp_path / "g")
    assert again.definitions == {"sunset": "like(moved.png, 001.png)"}
    assert {thing.id for thing in again.resolve("sunset").named.values()} == {1, 2}
    again.search("sunset")


def test_definitions_may_use_each_other_and_conditions_are_brackets(gallery: Gallery) -> None:
    gallery.define("one", "000.png or 001.png")
    gallery.define("two", "one and not 002.png")
    resolved = gallery.resolve("003.png and not two")
    assert resolved.formula == Formula("003.png and not ((image:1 or image:2) and not image:3)")
    assert gallery.definitions["two"] == "one and not 002.png"
    gallery.define("one", "005.png")
    assert gallery.resolve("two").formula == Formula("image:6 and not image:3")


@pytest.mark.parametrize("text", ["two & 003.png", "~two", "like(two, 003.png)", "003.png and (two | 004.png)"])
def test_a_defined_condition_in_a_term_is_an_error_that_says_so(gallery: Gallery, text: str) -> None:
    gallery.define("two", "000.png and 001.png")
    with pytest.raises(FormulaError, match='"two" is defined as a condition, and a term joins images') as error:
        gallery.resolve(text)
    assert text[error.value.position :].startswith("two")


def test_a_part_of_another_definition_cannot_become_a_condition(gallery: Gallery) -> None:
    gallery.define("part", "000.png & 001.png")
    gallery.define("middle", "part | 002.png")
    gallery.define("whole", "~middle")
    with pytest.raises(GalleryError) as caught:
        gallery.define("part", "000.png and 001.png")
    assert str(caught.value) == (
        '"middle" could not be written out: write (image:1 and image:2) or image:3: "|" joins images, '
        '"or" joins conditions'
    )
    assert gallery.definitions["part"] == "000.png & 001.png"
    gallery.search("whole")


def test_a_chain_of_201_definitions_is_refused_when_it_is_defined(gallery: Gallery) -> None:
    definitions = {"d0": "image:1"} | {f"d{level}": f"d{level - 1}" for level in range(1, 200)}
    with open_writer(Storage(gallery.address)) as writer:
        writer.save_definitions(Definitions(definitions))
    gallery.refresh()
    assert [hit.id for hit in gallery.search("d199")] == [hit.id for hit in gallery.search("000.png")]
    with pytest.raises(GalleryError, match='"d200" could not be written out: nested deeper than 200 levels'):
        gallery.define("d200", "d199")
    gallery.define("before d0", "000.png")
    with pytest.raises(GalleryError, match='"d199" could not be written out: nested deeper than 200 levels'):
        gallery.define("d0", '"before d0"')
    assert gallery.definitions["d0"] == "000.png"
    assert "d200" not in gallery.definitions
    gallery.search("d199 & 005.png")


def test_a_file_that_is_added_later_does_not_take_over_a_definition(gallery: Gallery, tmp_path: Path) -> None:
    gallery.define("sunset.png", "like(000.png, 001.png)")
    before = gallery.search("sunset.png", top=5)
    save_image(tmp_path / "photos" / "sunset.png", 70)
    assert gallery.update().added == 1
    assert gallery.resolve("sunset.png").formula == Formula("like(image:1, image:2)")
    assert [hit.id for hit in gallery.search("sunset.png", top=20) if hit.id != 13][:5] == [hit.id for hit in before]
    assert gallery.resolve("image:sunset.png").named["image:sunset.png"].id == 13
    (position,) = Browser(gallery.planner).complete_name("sunset", 5)
    assert Browser(gallery.planner).term(position) == "13"


def test_a_weight_before_a_defined_condition_is_an_error_that_says_so(gallery: Gallery) -> None:
    gallery.define("two", "000.png and 001.png")
    gallery.define("three", "000.png & 001.png")
    gallery.resolve("2*three and 003.png")
    with pytest.raises(FormulaError, match="a weight is of a term"):
        gallery.resolve("003.png and 2*two")


def test_circles_are_refused_and_named(gallery: Gallery) -> None:
    gallery.define("a", "000.png")
    gallery.define("b", "a & 001.png")
    gallery.define("c", "b | a")
    with pytest.raises(GalleryError, match=r"circle: a → c → (b → )?a"):
        gallery.define("a", "c & 002.png")
    with pytest.raises(GalleryError, match="circle: a → a"):
        gallery.define("a", "a - 001.png")
    assert gallery.definitions["a"] == "000.png"


def test_a_definition_that_another_one_needs_stays(gallery: Gallery) -> None:
    gallery.define("a", "000.png")
    gallery.define("b", "a & 001.png")
    with pytest.raises(GalleryError, match='"a" is needed by "b": remove that first'):
        gallery.undefine("a")
    gallery.undefine("B")
    gallery.undefine("a")
    assert gallery.definitions == {}
    with pytest.raises(GalleryError, match='unknown definition "a"'):
        gallery.undefine("a")


def test_a_definition_that_names_a_removed_image_says_so(gallery: Gallery) -> None:
    gallery.define("sunset", "like(000.png, 001.png)")
    gallery.remove("000.png")
    with pytest.raises(FormulaError, match='"sunset" is defined by image 1, which is in the gallery no longer'):
        gallery.search("sunset & 002.png")
    assert gallery.definitions == {"sunset": "like(image:1, 001.png)"}
    gallery.define("sunset", "001.png")
    gallery.search("sunset")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "letters that can be seen"),
        ("   ", "letters that can be seen"),
        ("a\nb\x00", "letters that can be seen"),
        ("17", "number of an image"),
        ("AND", "word of the language"),
        ("x" * 10_000, "too long for a name"),
        ("003.png", "is an image of the gallery, which comes first"),
    ],
)
def test_a_name_that_cannot_be_one_is_one_clear_line(gallery: Gallery, name: str, said: str) -> None:
    with pytest.raises(GalleryError, match=said) as error:
        gallery.define(name, "000.png")
    assert len(str(error.value)) < 300
    assert gallery.definitions == {}


def test_images_elsewhere_and_unknown_names_define_nothing(gallery: Gallery, tmp_path: Path) -> None:
    outside = photos(tmp_path / "elsewhere", 1, start=70) / "070.png"
    for text, said in (
        (f'"{outside}"', "is not in the gallery"),
        ("nope", 'unknown name "nope"'),
        ("000.png &", "expected a name"),
    ):
        with pytest.raises(FormulaError, match=said):
            gallery.define("x", text)
    assert gallery.definitions == {}


def test_a_definition_says_what_it_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = worded_gallery(tmp_path, {1: {"dog": 0.9}})
    assert "the word dog.n.01" in gallery.define("dog", "000.png and not word:dog").hides
    assert gallery.definitions == {"dog": "000.png and not word:dog"}
    monkeypatch.chdir(photos(tmp_path / "here", 1, start=80))
    assert "080.png; image:080.png still means it" in gallery.define("080.png", "000.png").hides


def test_definitions_that_grow_without_bound_are_one_clear_line(gallery: Gallery) -> None:
    gallery.define("d0", "000.png & 001.png")

    def define_on() -> None:
        for level in range(30):
            gallery.define(f"d{level + 1}", f"d{level} & ~d{level}")

    with pytest.raises(AndornotError, match="more than 10,000 characters"):
        define_on()


def test_definitions_that_are_nested_without_bound_are_one_clear_line() -> None:
    definitions = Definitions({**{f"d{level}": f"d{level + 1}" for level in range(2000)}, "d2000": "word:dog"})
    with pytest.raises(AndornotError, match='"d0" is defined by definitions that are nested deeper than 200 levels'):
        definitions.expanded("d0")
    assert str(definitions.expanded("d1900")) == "word:dog"


@given(name=st.text(max_size=20), text=st.text(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_name_and_any_formula_is_defined_and_found_or_is_one_clear_line(
    gallery: Gallery, name: str, text: str
) -> None:
    for formula in (text, "000.png"):
        with one_clear_line():
            defined = gallery.define(name, formula)
            assert gallery.definitions[defined.name] == defined.formula
            gallery.resolve(write_name(defined.name))


# --- in the gallery ---------------------------------------------------------------------------------------------------


def test_another_reader_sees_a_definition_after_refresh(gallery: Gallery) -> None:
    reader = Gallery.open(gallery.folder)
    gallery.define("sunset", "000.png")
    assert reader.definitions == {}
    assert reader.latest_version != reader.version
    reader.refresh()
    assert reader.definitions == {"sunset": "000.png"}
