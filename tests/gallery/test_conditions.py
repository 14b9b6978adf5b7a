"""Searching by conditions: what is found is what the definitions say, computed slowly."""

import math
import pickle
import re

import numpy as np
import pytest
import torch
from galleries import photos, save_image, table_of, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from andornot import Formula, FormulaError
from andornot.gallery import EmptyQueryError, Filter, Gallery, GalleryError, Hits, options
from andornot.gallery import writing as writing_module
from andornot.gallery.hits import percent, weak_from
from andornot.gallery.plan import ConditionPlan, Term, merge_samples
from andornot.gallery.projections import load_components, whole_codes
from andornot.gallery.shard import Shard
from andornot.similarity import NEIGHBOURS, chance_level, int8_dot, scale_of

IMAGES = 120


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    """120 images in two folders, and some that were removed."""
    folder = tmp_path_factory.mktemp("conditions")
    made = Gallery.create(folder / "g", tiny_model())
    photos(folder / "photos" / "cat", 60)
    photos(folder / "photos" / "dog", IMAGES - 57, start=60)
    made.add(folder / "photos")
    for number in (3, 70, 71):
        made.remove(f"{number:03}.png")
    return made


# --- the slow, obvious version, from the images' representations on, in float64 -----------------------------------


class Oracle:
    def __init__(self, gallery: Gallery) -> None:
        self.ids = gallery.ids
        self.images = gallery.represent(gallery.ids)
        degrees = self.images.degrees.double().numpy()
        self.directions = degrees / np.linalg.norm(degrees, axis=1, keepdims=True)
        count, features = self.directions.shape
        mean = (self.directions.sum(0) + 20 / math.sqrt(features)) / (count + 20)
        self.mean = mean / np.linalg.norm(mean)
        self.own = np.stack([self.beyond(one) for one in self.directions])

    def beyond(self, degrees: np.ndarray) -> np.ndarray:
        direction = degrees / np.linalg.norm(degrees)
        left = direction - (direction @ self.mean) * self.mean
        return np.asarray(left / np.linalg.norm(left))

    def query_of_term(self, term: Formula, expand: int, logic: str) -> np.ndarray:
        values = {name: self.images[self.ids.index(int(name))] for name in term.names}
        parts = term.examples or (term,)
        query = np.mean([self.beyond(part.evaluate(values, logic=logic).degrees.double().numpy()) for part in parts], 0)
        query /= np.linalg.norm(query)
        count = min(expand, len(self.ids) // 50)
        if count:
            alike = self.own @ query
            alike[[self.ids.index(int(name)) for name in term.names]] = -np.inf
            nearest = np.argsort(-alike, kind="stable")[:count]
            query = query + (np.maximum(alike[nearest], 0)[:, None] * self.own[nearest]).sum(0)
            query /= np.linalg.norm(query)
        return np.asarray(query)

    def deviations(self, query: np.ndarray, of: np.ndarray) -> np.ndarray:
        """How far vectors stand out, by the similarities of all images to a query."""
        alike = self.own @ query
        share = len(alike) / (len(alike) + 20)
        middle = share * np.sort(alike)[(len(alike) - 1) // 2]
        spread = share * alike.std() + (1 - share) * 0.2
        return np.asarray((of @ query - middle) / spread)

    def is_necessary(self, formula: Formula, term: Formula, logic: str) -> bool:
        """Whether a positive term cannot be missing, whatever the others are."""
        best = {one: np.array(float(one in formula.positive_terms and one != term)) for one in formula.terms}
        return term in formula.positive_terms and not formula.truth(best, logic)

    def truth(self, text: str, logic: str | None, expand: int) -> dict[int, float]:
        formula = Formula(text)
        positive, in_condition = formula.positive_terms, logic or "product"
        queries = {
            term: self.query_of_term(term, 0 if positive == (term,) else expand, logic or "godel")
            for term in formula.terms
        }
        deviations = {term: self.deviations(query, self.own) for term, query in queries.items()}
        truths = {}
        for term, z in deviations.items():
            truths[term] = 1 / (1 + np.exp(1.25 - z))
            if term in positive:
                continue
            itself = self.query_of_term(term, 0, logic or "godel")
            wanted = [
                deviations[other]
                for other in positive
                if self.is_necessary(formula, other, in_condition)
                and (len(other.examples) > 1 or self.deviations(queries[other], itself) >= 3)
            ]
            if wanted:
                margin = z - np.max(wanted, 0) - 2 / max(len(term.examples), 1)
                truths[term] = truths[term] / (1 + np.exp(-2 * margin))
        return dict(zip(self.ids, formula.truth(truths, in_condition), strict=True))


@pytest.fixture(scope="module")
def oracle(gallery) -> Oracle:
    return Oracle(gallery)


def condition_texts() -> st.SearchStrategy[str]:
    names = st.integers(5, 60).map(str)
    terms = st.one_of(
        names,
        st.tuples(names, st.sampled_from("|&-"), names)
        .filter(lambda t: t[0] != t[2])
        .map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.lists(names, min_size=1, max_size=4, unique=True).map(lambda some: f"like({', '.join(some)})"),
    )
    weighed = st.tuples(st.sampled_from(["", "", "2*", "0.5*"]), terms).map("".join)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from(["and", "or", "and not"]), inner)
        return st.one_of(inner.map(lambda one: f"not ({one})"), pairs.map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"))

    return st.recursive(weighed, grow, max_leaves=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(condition_texts(), st.sampled_from([None, "product", "godel", "lukasiewicz"]), st.sampled_from([0, 1, 20]))
def test_hits_are_those_of_the_definitions(gallery, oracle, text, logic, expand):
    try:
        hits = gallery.search(text, top=200, logic=logic, expand=expand, include_queries=True)
    except EmptyQueryError:
        return
    expected = oracle.truth(text, logic, expand)
    assert [hit.truth for hit in hits] == sorted((hit.truth for hit in hits), reverse=True)
    assert all(0 <= hit.truth <= 1 for hit in hits)
    assert {hit.id for hit in hits} == set(gallery.ids)
    if Formula(text).is_condition:
        assert all(hit.distance == pytest.approx(1 - hit.truth) for hit in hits)
    # A byte for each of few dimensions is coarse.
    np.testing.assert_allclose([hit.truth for hit in hits], [expected[hit.id] for hit in hits], atol=0.08)


def test_a_condition_finds_what_has_both_before_what_has_one(gallery):
    """A scene that is one image beside another resembles both."""
    hits = gallery.search("10 and 20", include_queries=True)
    one = gallery.search("10", top=200, include_queries=True)
    other = gallery.search("20", top=200, include_queries=True)
    truths = [{hit.id: hit.truth for hit in found} for found in (one, other)]
    assert truths[0][10] == max(truths[0].values())
    assert all(0 <= hit.truth <= 1 for hit in hits)


def test_and_with_itself_has_the_same_order(gallery):
    once, twice = (gallery.search(text, top=50) for text in ("1*7", "7 and 7"))
    assert [hit.id for hit in once] == [hit.id for hit in twice]
    np.testing.assert_allclose([hit.truth**2 for hit in once], [hit.truth for hit in twice], atol=1e-6)
    godel = gallery.search("7 and 7", top=50, logic="godel")
    assert [(hit.id, hit.truth) for hit in godel] == [(hit.id, hit.truth) for hit in once]


def test_a_term_alone_has_the_truth_of_the_simplest_condition(gallery):
    term, condition = gallery.search("7", top=50), gallery.search("1.0*7 or 1.0*7", top=50, logic="godel")
    assert [hit.id for hit in term] == [hit.id for hit in condition]
    np.testing.assert_allclose([hit.truth for hit in term], [hit.truth for hit in condition], atol=1e-6)


@pytest.mark.parametrize("score", ["degrees", "containment", "cross-entropy"])
def test_truth_is_the_same_by_whatever_score_images_are_ranked(score, gallery):
    expected = {hit.id: hit.truth for hit in gallery.search("7 | 8", top=200)}
    found = {hit.id: hit.truth for hit in gallery.search("7 | 8", top=200, score=score)}
    assert found.keys() == expected.keys()
    assert all(found[one] == pytest.approx(expected[one], abs=1e-6) for one in found)


def test_not_alone_finds_what_is_least_like_it(gallery):
    hits = gallery.search("not 7", top=200, expand=0)
    by_term = [hit.id for hit in gallery.search("7", top=200)]
    assert [hit.id for hit in hits[:5]] == by_term[::-1][:5]
    assert not any(hit.is_weak for hit in hits)


def test_the_images_of_a_condition_are_no_hits_of_it(gallery):
    hits = gallery.search("7 and not (8 | 9)", top=200)
    assert {hit.id for hit in hits} == set(gallery.ids) - {7, 8, 9}
    assert {hit.id for hit in gallery.search("7 and not (8 | 9)", top=200, include_queries=True)} == set(gallery.ids)


def test_filters_and_conditions_together(gallery):
    everything = gallery.search("7 and 80 and not 30", top=200)
    found = gallery.search("7 and 80 and not 30", top=200, filter=Filter(label="dog"))
    expected = [(hit.id, hit.truth) for hit in everything if "/dog/" in hit.path]
    assert [(hit.id, hit.truth) for hit in found] == expected, "a filter changes no truth"


def test_a_smaller_top_shows_the_first_of_a_larger_one(gallery):
    text = "7 and not 30"
    assert gallery.search(text, top=5) == gallery.search(text, top=50)[:5]


def test_less_true_hits_are_left_out(gallery):
    for text in ("7", "7 and not 30"):
        hits = gallery.search(text, top=50)
        least = hits[20].truth
        assert gallery.search(text, top=50, min_truth=least) == [hit for hit in hits if hit.truth >= least]


def test_conditions_and_terms_are_searched_together(gallery):
    texts = ["7", "7 and 30", "8 | 9", "not 7"]
    assert gallery.search(texts) == [gallery.search(text) for text in texts]
    assert all(isinstance(hits, Hits) for hits in gallery.search(texts))


def test_like_gets_nearer_to_what_its_examples_share(gallery, oracle):
    one, three = gallery.search("like(7)", top=200), gallery.search("7", top=200)
    assert [(hit.id, hit.truth) for hit in one] == [(hit.id, hit.truth) for hit in three]
    mean = np.mean([oracle.own[oracle.ids.index(identity)] for identity in (7, 8, 9)], 0)
    expected = oracle.own @ (mean / np.linalg.norm(mean))
    hits = gallery.search("like(7, 8, 9)", top=200, include_queries=True)
    places = [oracle.ids.index(hit.id) for hit in hits]
    np.testing.assert_allclose([1 - hit.distance for hit in hits], expected[places], atol=0.03)


def test_why_tells_the_features_of_what_is_asked_for(gallery):
    hits = gallery.search("7 and not 30", why=True)
    assert any(hit.why for hit in hits)
    assert not any(hit.why for hit in gallery.search("not 30", why=True))


# --- weak ones ------------------------------------------------------------------------------------------------------


def test_hits_are_weak_from_a_truth_on(gallery):
    for text in ("7", "7 and 8", "7 and 8 and not 30", "7 or 8"):
        hits = gallery.search(text, top=200)
        assert all(hit.is_weak for hit in hits[weak_from(hits) :])
        assert not any(hit.is_weak for hit in hits[: weak_from(hits)])


def test_a_query_of_noise_finds_weak_ones_alone(gallery):
    generator = torch.Generator().manual_seed(0)
    table = table_of(gallery)
    shard = Shard(table, gallery.model)
    codes = shard.sample(table.ids, False).codes
    strong = 0
    for _ in range(60):
        query = torch.nn.functional.normalize(torch.randn(15, generator=generator), dim=0)
        vector = torch.nn.functional.pad(query, (0, codes.shape[1] - 15))
        scale = scale_of(int8_dot(codes, vector[None]))
        plan = ConditionPlan(Formula("a and a"), (Term(vector),), scale, None, "godel", 1)
        strong += float(shard.search(plan).truths[0]) > chance_level(len(gallery), 1)
    assert strong <= 12, "of 120 images the best exceeds the chance level in one of twenty queries"


def test_truths_in_percent():
    assert [percent(truth) for truth in (0.0, 0.004, 0.5, 0.9999, 1.0)] == ["0 %", "1 %", "50 %", "99 %", "100 %"]


# --- crops ----------------------------------------------------------------------------------------------------------


def test_a_crop_is_the_image_of_that_part(gallery, tmp_path):
    (path,) = (path for path in gallery.paths if path.endswith("004.png"))
    with Image.open(path) as image:
        image.crop((7, 0, 28, 14)).save(tmp_path / "part.png")
    for crop in ("[0.25, 0, 1, 0.5]", "[7, 0, 28, 14]"):
        for text in ("{}", "{} and not 30", "{} & 30"):
            cropped = gallery.search(text.format(f"004.png{crop}"), include_queries=True)
            other = gallery.search(text.format(f'"{tmp_path / "part.png"}"'), include_queries=True)
            assert [(hit.id, hit.truth) for hit in cropped] == [(hit.id, hit.truth) for hit in other]
    whole = gallery.search("004.png", include_queries=True)
    assert [hit.id for hit in gallery.search("004.png[0, 0, 1, 1]", include_queries=True)] == [hit.id for hit in whole]
    assert whole[0].id not in {hit.id for hit in gallery.search("004.png[0, 0, 0.5, 1]", top=200)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("004.png[0, 0, 100, 20]", "004.png[0, 0, 100, 20] reaches beyond the image, which has 28 x 28 pixels"),
        (
            "004.png[0, 0, 0.01, 1] and 5",
            "004.png[0, 0, 0.01, 1] is less than a pixel of the image, which has 28 x 28",
        ),
    ],
)
def test_a_crop_outside_of_the_image_is_one_clear_line(text, message, gallery):
    with pytest.raises(GalleryError, match=re.escape(message)):
        gallery.search(text)


def test_a_crop_of_a_file_that_is_gone_or_broken_is_one_clear_line(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 6))
    (tmp_path / "photos" / "002.png").unlink()
    (tmp_path / "photos" / "003.png").write_bytes(b"no image")
    with pytest.raises(GalleryError, match="needs the file of the image, which is gone") as caught:
        made.search("002.png[0, 0, 0.5, 0.5]")
    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(GalleryError, match=r"cannot be cut out, because 003\.png cannot be read"):
        made.search("003.png[0, 0, 0.5, 0.5]")
    assert len(made.search("002.png and not 003.png")) == 4, "without a crop no file is needed"


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(7 and 8) | 9", "and"),
        ("0*7 and 8", "weight"),
        ("-1*7 and 8", "weight"),
        ("like() and 7", "like"),
        ("7 and not (8 - 8)", "nothing is left to look for"),
        ("7[0.5, 0, 0.2, 1]", "crop"),
        ("7 and nobody.png", 'unknown name "nobody.png"'),
    ],
)
def test_a_wrong_condition_is_one_clear_line(text, message, gallery):
    with pytest.raises(FormulaError, match=message) as caught:
        gallery.search(text)
    assert "\n" not in caught.value.message


def test_a_term_without_a_feature_is_pointed_at(gallery):
    with pytest.raises(EmptyQueryError) as caught:
        gallery.search("7 and not (8 - 8)")
    error = caught.value
    assert (error.text, error.position) == ("7 and not (8 - 8)", 11)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan, "much", None])
def test_a_truth_is_from_0_to_1(wrong, gallery):
    with pytest.raises(GalleryError, match="min_truth must be a number from 0 to 1"):
        gallery.search("7", min_truth=wrong)


def test_a_thousand_terms_are_searched_or_refused_in_one_line(gallery):
    text = " and ".join(str(gallery.ids[number % 100]) for number in range(1000))
    hits = gallery.search(text, top=5)
    assert len(hits) == 5


def test_an_empty_gallery_and_a_handful(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 3))
    hits = made.search("000.png and not 001.png")
    assert [hit.path[-7:] for hit in hits] == ["002.png"]
    assert 0 < hits[0].truth < 1
    made.remove(["000.png", "001.png", "002.png"])
    outside = save_image(tmp_path / "elsewhere.png", 4)
    assert made.search(f'"{outside}" and not "{outside}"') == []
    assert made.search(f'"{outside}"') == []


def test_the_default_of_neighbours_is_the_one_that_was_measured():
    assert options.SearchOptions.expand == NEIGHBOURS


# --- projections ------------------------------------------------------------------------------------------------------


def stored_codes(gallery: Gallery) -> np.ndarray:
    table = table_of(gallery)
    return merge_samples([Shard(table, gallery.model).sample(table.ids, False)]).codes.numpy()


def computed_codes(gallery: Gallery) -> np.ndarray:
    table = table_of(gallery)
    components = load_components(table.storage, table.state.components)
    return whole_codes(gallery.model, components, table.activations(table.ids))


def test_codes_are_those_of_the_projection_that_is_kept_until_there_are_ten_times_as_many(tmp_path, monkeypatch):
    monkeypatch.setattr(writing_module, "ENOUGH_IMAGES", 8)
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 10))
    first = table_of(made).state.components
    assert first
    made.add(photos(tmp_path / "p", 20, start=10))
    assert table_of(made).state.components == first
    np.testing.assert_array_equal(stored_codes(made), computed_codes(made))
    made.add(photos(tmp_path / "p", 80, start=30))
    assert table_of(made).state.components != first, "there are ten times as many"
    np.testing.assert_array_equal(stored_codes(made), computed_codes(made))
    assert sum(name.startswith("codes") for name in table_of(made).columns) == 1
    before = made.search("1 and not 2", top=200)
    assert Gallery.open(made.folder).search("1 and not 2", top=200) == before


def test_a_recalibrated_model_has_another_projection(tmp_path, monkeypatch):
    monkeypatch.setattr(writing_module, "ENOUGH_IMAGES", 8)
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 20))
    before, hits = table_of(made).state.components, made.search("1 and not 2")
    made.recalibrate()
    assert table_of(made).state.components != before
    np.testing.assert_array_equal(stored_codes(made), computed_codes(made))
    assert made.search("1 and not 2") != hits
    assert made.search("1 and not 2") == Gallery.open(made.folder).search("1 and not 2")


def test_a_handful_is_projected_anew_after_each_change(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 5))
    made.search("1")
    made.add(photos(tmp_path / "p", 1, start=5))
    assert not table_of(made).state.components
    assert made.search("1 and 2") == Gallery.open(made.folder).search("1 and 2")
