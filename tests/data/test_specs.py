"""A spec says which images: a source, a path, options. What is wrong in it is said in one line."""

import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from makers import save_images, write_mnist

from andornot.data import SOURCES, DataError, open_images, source_of
from andornot.data.specs import Spec, as_list, as_number, as_yes_no, parse_spec

KNOWN = tuple(SOURCES)
PATHS = st.text(st.characters(exclude_characters="?", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z_]+", fullmatch=True),
    st.text(st.characters(exclude_characters="?&", exclude_categories=["Cs"])),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digits", Spec("digits")),
        ("digits:", Spec("digits")),
        ("scenes?count=5", Spec("scenes", "", {"count": "5"})),
        ("scenes:?count=5&classes=dog+cat", Spec("scenes", "", {"count": "5", "classes": "dog+cat"})),
        ("voc:/data/VOCdevkit", Spec("voc", "/data/VOCdevkit")),
        ("voc:/a b/é?years=2007", Spec("voc", "/a b/é", {"years": "2007"})),
        ("mnist:C:\\data", Spec("mnist", "C:\\data")),
        ("C:\\photos", Spec(None, "C:\\photos")),
        ("./digits", Spec(None, "./digits")),
        ("photos", Spec(None, "photos")),
        ("photos?split=train", Spec(None, "photos", {"split": "train"})),
        ("what? now", Spec(None, "what? now")),
        ("digital", Spec(None, "digital")),
        ("folder:what?/x?split=a", Spec("folder", "what?/x", {"split": "a"})),
    ],
)
def test_specs(text, expected):
    assert parse_spec(text, KNOWN) == expected


@given(st.sampled_from(KNOWN), PATHS, OPTIONS)
def test_a_spec_written_out_is_read_back(source, path, options):
    spec = Spec(source, path, options)
    assert parse_spec(str(spec), KNOWN) == spec


@given(st.text() | st.builds("{}:{}".format, st.sampled_from(KNOWN[2:]), st.text()))
def test_any_other_text_is_a_clear_error(text):
    assume(not os.path.exists(os.path.expanduser(text)))  # noqa: PTH110, PTH111
    with pytest.raises(DataError) as caught:
        open_images(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "which images"),
        ("  ", "which images"),
        ("vog:/data", 'unknown source "vog"; did you mean "voc"'),
        ("https://example.org/a.jpg", 'unknown source "https"'),
        ("digit", 'unknown source "digit"; did you mean "digits"'),
        ("mnist", "mnist needs a path: mnist:PATH"),
        ("digits:/data", 'takes no path; for a folder of that name write "./digits"'),
        ("scenes?cuont=5", 'unknown option of scenes "cuont"; did you mean "count"'),
        ("scenes?count", "is no option; options look like scenes:…?name=value"),
        ("scenes?count=1&count=2", "the option count twice"),
        ("scenes?count=many", "expected a whole number"),
        ("scenes?count=0", "count goes from 1 to"),
        ("scenes?count=999999999999", "count goes from 1 to 10,000,000"),
        ("scenes?size=9999", "size from 32 to 1,024"),
        ("scenes?classes=dog+catt", 'unknown class of scenes "catt"; did you mean "cat"'),
        ("scenes?classes=dog+dog", "different words"),
        ("digits?split=val", 'digits: no split "val", it has train, test'),
        ("digits?years=2007", 'unknown option of digits "years"'),
        ("./nothing/here", "nothing/here: no such folder"),
        ("folder:nothing", "nothing: no such folder"),
    ],
)
def test_mistakes_are_named(spec, message):
    with pytest.raises(DataError) as caught:
        open_images(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_split_may_stand_in_the_spec():
    assert open_images("digits?split=test").split == "test"
    assert len(open_images("digits?split=test", "test")) == 1000
    with pytest.raises(DataError, match="split=train was asked for"):
        open_images("digits?split=test", split="train")


def test_a_folder_named_like_a_source_is_reached_by_its_path(tmp_path, monkeypatch):
    save_images(tmp_path / "digits", 2)
    save_images(tmp_path / "odd:name?", 3)
    monkeypatch.chdir(tmp_path)
    assert len(open_images("digits")) == 5000
    assert len(open_images("./digits")) == 2
    assert len(open_images("folder:digits")) == 2
    assert len(open_images("odd:name?")) == 3
    assert len(open_images("folder:odd:name?")) == 3
    assert len(open_images(tmp_path / "digits")) == 2


def test_a_set_knows_its_source_and_a_bare_path_is_asked_for_it(tmp_path, monkeypatch):
    save_images(tmp_path / "mnist", 2)
    save_images(tmp_path / "scenes-from-rome", 2)
    write_mnist(tmp_path / "numbers")
    monkeypatch.chdir(tmp_path)
    sources = {
        "digits": "digits",
        "scenes?count=3": "scenes",
        "mnist": "folder",
        "scenes-from-rome": "folder",
        "folder:mnist": "folder",
        "numbers": "mnist",
        "mnist:numbers": "mnist",
        "numbers?split=test": "mnist",
    }
    assert {spec: open_images(spec).source for spec in sources} == sources
    assert {spec: source_of(spec) for spec in sources} == sources
    assert open_images("digits").subset([1, 2]).source == "digits"


def test_the_home_folder(tmp_path, monkeypatch):
    save_images(tmp_path / "photos", 2)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert len(open_images("~/photos")) == 2
    assert len(open_images("folder:~/photos")) == 2


def test_option_values():
    assert as_number("count", "12") == 12
    assert as_yes_no("difficult", "yes") is True
    assert as_yes_no("difficult", "no") is False
    assert as_list("years", "2007+2012") == ("2007", "2012")
    for read, text in ((as_number, "-1"), (as_number, "٣"), (as_yes_no, "maybe"), (as_list, "a++b"), (as_list, "")):
        with pytest.raises(DataError, match="expected"):
            read("option", text)
