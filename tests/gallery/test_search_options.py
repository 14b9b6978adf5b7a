"""The options of a search stand once: what Python, the command and the HTTP API take is made from them."""

from dataclasses import fields, replace

import numpy as np
import pytest
from galleries import photos, tiny_model

from andornot import Formula, cross_entropy, degree_distance
from andornot.commands.main import make_parser
from andornot.gallery import Filter, Gallery, GalleryError, SearchOptions, shard
from andornot.gallery.options import options_of
from andornot.logic.distance import SCORES, Score
from andornot.web.parameters import SearchParameters


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    folder = tmp_path_factory.mktemp("options")
    made = Gallery.create(folder / "g", tiny_model())
    made.add(photos(folder / "photos", 12))
    return made


def test_options_are_values():
    assert SearchOptions(top=np.int64(3)) == SearchOptions(3, filter=None) != SearchOptions(4)
    assert len({SearchOptions(), SearchOptions(filter=Filter()), replace(SearchOptions(3), top=10)}) == 1


def test_each_option_has_a_default_and_says_what_it_is_for():
    assert [option.name for option in options_of(SearchOptions)] == [
        *("top", "score", "semantics", "logic"),
        *(field.name for field in fields(Filter)),
        *("include_queries", "why", "min_truth", "expand"),
    ]
    assert all(option.help for option in options_of(SearchOptions))


def test_the_command_has_a_flag_for_each_option():
    def parsed(*flags: str) -> SearchOptions:
        arguments = ["search", "a", "--gallery=g", *flags]
        return SearchOptions.of(vars(make_parser(arguments).parse_args(arguments)))

    assert parsed() == SearchOptions()
    expected = SearchOptions(3, "centered", filter=Filter(label="dogs", file_dates=True), why=True)
    assert parsed("--top=3", "--score=centered", "--label=dogs", "--file-dates", "--why") == expected


def test_the_api_has_a_parameter_for_each_option():
    assert SearchParameters.model_fields.keys() - {"formula"} == {o.name for o in options_of(SearchOptions)}
    asked = SearchParameters(formula="1", label="dogs", after="", why=True)
    assert asked.options == SearchOptions(48, filter=Filter(label="dogs"), why=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"semantics": "exakt"}, 'unknown semantics "exakt"; did you mean "exact"'),
        ({"logic": "fuzzy"}, r'unknown logic "fuzzy" \(choose from godel, lukasiewicz, product'),
        ({"score": None}, 'unknown score "None"'),
        ({"filter": "here"}, "filter must be a Filter"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(wrong, message):
    with pytest.raises(GalleryError, match=message):
        SearchOptions(**wrong)


def test_a_search_takes_options_as_one_value_or_by_name(gallery):
    options = SearchOptions(3, "containment", include_queries=True)
    assert gallery.search("1 | 2", options=options) == gallery.search("1 | 2", 3, "containment", include_queries=True)
    with pytest.raises(TypeError, match="and not both"):
        gallery.search("1", 3, options=options)
    with pytest.raises(TypeError, match="sematics"):
        gallery.search("1", sematics="exact")


def test_a_score_of_ones_own_needs_no_change_of_the_package(gallery):
    def halves(representation):
        return representation.degrees[..., :8]

    hits = gallery.search("1 | 2", 12, Score(halves, halves))
    query = Formula("1 | 2").evaluate({"1": gallery.represent(["1"])[0], "2": gallery.represent(["2"])[0]})
    products = gallery.represent(map(str, gallery.ids)).degrees[:, :8] @ query.degrees[:8]
    expected = [int(place) + 1 for place in (-products).argsort() if place > 1]
    assert [hit.id for hit in hits] == expected
    assert [hit.distance for hit in hits] == pytest.approx([-float(products[number - 1]) for number in expected])


def test_a_score_that_is_known_gives_the_same_as_its_name(gallery):
    own = gallery.search("3 - 4", 5, SCORES["degrees"], why=True)
    named = gallery.search("3 - 4", 5, "degrees", why=True)
    assert [hit.id for hit in own] == [hit.id for hit in named]
    assert [hit.distance + 1 for hit in own] == pytest.approx([hit.distance for hit in named], abs=2e-3)
    assert [[r.feature for r in hit.why][:1] for hit in own] == [[r.feature for r in hit.why][:1] for hit in named]


def test_a_function_is_a_score_too(gallery):
    for name, distance in (("degrees", degree_distance), ("cross-entropy", cross_entropy)):
        own = gallery.search(["3 - 4", "5"], 5, distance, filter=Filter(label="photos"))
        named = gallery.search(["3 - 4", "5"], 5, name)
        assert [[hit.id for hit in hits] for hits in own] == [[hit.id for hit in hits] for hits in named]
        flat = [[hit.distance for hits in found for hit in hits] for found in (own, named)]
        assert flat[0] == pytest.approx(flat[1], rel=2e-3, abs=2e-3)


def test_a_function_compares_some_images_at_a_time_and_finds_the_same(gallery, monkeypatch):
    whole = [hit.id for hit in gallery.search("3 - 4", 5, degree_distance)]
    monkeypatch.setattr(shard, "_REPRESENTED", 5)
    assert [hit.id for hit in gallery.search("3 - 4", 5, degree_distance)] == whole


def test_a_score_that_cannot_work_is_one_clear_line(gallery):
    def some(representation):
        return representation.degrees[..., :3]

    with pytest.raises(GalleryError, match="this one's have 3 numbers for a query, and 16 for an image"):
        gallery.search("1", score=Score(some, lambda representation: representation.degrees))
    with pytest.raises(GalleryError, match="why is not supported for this score"):
        gallery.search("1", score=Score(some, some), why=True)
    with pytest.raises(GalleryError, match="why cannot be told by a score that is a function"):
        gallery.search("1", score=degree_distance, why=True)
    with pytest.raises(GalleryError, match=r"this one made \(12, 16\) of Q = 1 and G = 12"):
        gallery.search("1", score=lambda _, images: images.degrees)


def test_images_are_represented_by_any_of_their_names(gallery):
    path = gallery.paths[4]
    by_id, by_name, by_path = gallery.represent([5, "004.png", path])
    assert by_id == by_name == by_path
    assert float(degree_distance(by_id, gallery.model.encode([path])[0])) < 1e-3
