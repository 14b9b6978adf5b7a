"""Searching by conditions: what is found is what the definitions say, computed slowly."""

import math
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import grow_without_files, photos, save_picture, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from andornot import Formula, FormulaError
from andornot.gallery import EmptyQueryError, Gallery, GalleryError, Hits, Where, options
from andornot.gallery.conditions import ConditionSearch, Term, Truths, _least
from andornot.gallery.engines import exact_for
from andornot.gallery.filters import Selection
from andornot.gallery.hits import percent, weak_from
from andornot.gallery.likeness import neighbours
from andornot.gallery.likeness.truth import truth_of

PICTURES = 120


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    """With rows that belong to no picture."""
    folder = tmp_path_factory.mktemp("conditions")
    made = Gallery.create(folder / "g", tiny_model())
    photos(folder / "photos" / "cat", 60)
    photos(folder / "photos" / "dog", PICTURES - 57, start=60)
    made.add(folder / "photos")
    for number in (3, 70, 71):
        made.remove(f"{number:03}.png")
    return made


# --- the slow, obvious version, from the pictures' representations on, in float64 -----------------------------------


class Oracle:
    def __init__(self, gallery: Gallery) -> None:
        self.ids = gallery.ids
        self.pictures = gallery.represent(gallery.ids)
        degrees = self.pictures.degrees.double().numpy()
        self.directions = degrees / np.linalg.norm(degrees, axis=1, keepdims=True)
        count, features = self.directions.shape
        mean = (self.directions.sum(0) + 20 / math.sqrt(features)) / (count + 20)
        self.mean = mean / np.linalg.norm(mean)
        self.own = np.stack([self.beyond(one) for one in self.directions])

    def beyond(self, degrees: np.ndarray) -> np.ndarray:
        direction = degrees / np.linalg.norm(degrees)
        left = direction - (direction @ self.mean) * self.mean
        return np.asarray(left / np.linalg.norm(left))

    def truth_of_term(self, term: Formula, lone: bool, expand: int, logic: str) -> np.ndarray:
        values = {name: self.pictures[self.ids.index(int(name))] for name in term.names}
        parts = term.examples or (term,)
        parts = [self.beyond(part.evaluate(values, logic=logic).degrees.double().numpy()) for part in parts]
        query = np.mean(parts, 0)
        query /= np.linalg.norm(query)
        count = min(expand, len(self.ids) // 50)
        if not lone and count:
            alike = self.own @ query
            alike[[self.ids.index(int(name)) for name in term.names]] = -np.inf
            nearest = np.argsort(-alike, kind="stable")[:count]
            query = query + (np.maximum(alike[nearest], 0)[:, None] * self.own[nearest]).sum(0)
            query /= np.linalg.norm(query)
        alike = self.own @ query
        share = len(alike) / (len(alike) + 20)
        middle = share * np.sort(alike)[(len(alike) - 1) // 2]
        spread = share * alike.std() + (1 - share) * 0.2
        return np.asarray(1 / (1 + np.exp(1.25 - (alike - middle) / spread)))

    def truth(self, text: str, logic: str | None, expand: int) -> dict[int, float]:
        formula = Formula(text)
        positive = formula.positive_terms
        truths = {
            term: self.truth_of_term(term, positive == (term,), expand, logic or "godel") for term in formula.terms
        }
        return dict(zip(self.ids, formula.truth(truths, logic or "product"), strict=True))


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
    """A scene that is one picture beside another resembles both."""
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
def test_truth_is_the_same_by_whatever_score_pictures_are_ranked(score, gallery):
    expected = {hit.id: hit.truth for hit in gallery.search("7 | 8", top=200)}
    found = {hit.id: hit.truth for hit in gallery.search("7 | 8", top=200, score=score)}
    assert found.keys() == expected.keys()
    assert all(found[one] == pytest.approx(expected[one], abs=1e-6) for one in found)


def test_not_alone_finds_what_is_least_like_it(gallery):
    hits = gallery.search("not 7", top=200, expand=0)
    by_term = [hit.id for hit in gallery.search("7", top=200)]
    assert [hit.id for hit in hits[:5]] == by_term[::-1][:5]
    assert not any(hit.is_weak for hit in hits)


def test_the_pictures_of_a_condition_are_no_hits_of_it(gallery):
    hits = gallery.search("7 and not (8 | 9)", top=200)
    assert {hit.id for hit in hits} == set(gallery.ids) - {7, 8, 9}
    assert {hit.id for hit in gallery.search("7 and not (8 | 9)", top=200, include_queries=True)} == set(gallery.ids)


def test_filters_and_conditions_together(gallery):
    everything = gallery.search("7 and 80 and not 30", top=200)
    found = gallery.search("7 and 80 and not 30", top=200, where=Where(label="dog"))
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


def test_like_gets_nearer_to_what_its_examples_share(gallery):
    one, three = gallery.search("like(7)", top=200), gallery.search("7", top=200)
    assert [(hit.id, hit.truth) for hit in one] == [(hit.id, hit.truth) for hit in three]
    searcher = gallery._searching
    components = searcher.centred.components
    examples = components.project(gallery.represent([7, 8, 9]).degrees)
    mean = torch.nn.functional.normalize(examples.mean(0), dim=0)
    expected = searcher.centred.codes(searcher._everything.rows).float() @ mean / 127
    hits = gallery.search("like(7, 8, 9)", top=200, include_queries=True)
    rows = [gallery._snapshot.entry(hit.id).picture.row for hit in hits]
    places = np.searchsorted(searcher._everything.rows, rows)
    np.testing.assert_allclose([1 - hit.distance for hit in hits], expected[places].clamp(max=1), atol=0.02)


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
    searcher = gallery._searching
    strong = 0
    for _ in range(60):
        query = torch.nn.functional.normalize(torch.randn(15, generator=generator), dim=0)
        truths = Truths([Term(torch.nn.functional.pad(query, (0, 1)))], searcher.centred, searcher._everything)
        best = float(truths.of(searcher._everything.rows)[0].max())
        strong += best > 1 / (1 + math.exp(1.25 - 3.3))
    assert strong <= 12, "of 120 pictures the best is 3.3 deviations away in one of twenty queries"


def test_truths_in_percent():
    assert [percent(truth) for truth in (0.0, 0.004, 0.5, 0.9999, 1.0)] == ["0 %", "1 %", "50 %", "99 %", "100 %"]


# --- crops ----------------------------------------------------------------------------------------------------------


def test_a_crop_is_the_picture_of_that_part(gallery, tmp_path):
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
        ("004.png[0, 0, 100, 20]", "004.png[0, 0, 100, 20] reaches beyond the picture, which has 28 x 28 pixels"),
        (
            "004.png[0, 0, 0.01, 1] and 5",
            "004.png[0, 0, 0.01, 1] is less than a pixel of the picture, which has 28 x 28",
        ),
    ],
)
def test_a_crop_outside_of_the_picture_is_one_clear_line(text, message, gallery):
    with pytest.raises(GalleryError, match=re.escape(message)):
        gallery.search(text)


def test_a_crop_of_a_file_that_is_gone_or_broken_is_one_clear_line(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 6))
    (tmp_path / "photos" / "002.png").unlink()
    (tmp_path / "photos" / "003.png").write_bytes(b"no picture")
    with pytest.raises(GalleryError, match="needs the file of the picture, which is gone") as caught:
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
    outside = save_picture(tmp_path / "elsewhere.png", 4)
    assert made.search(f'"{outside}" and not "{outside}"') == []
    assert made.search(f'"{outside}"') == []


def test_the_default_of_neighbours_is_the_one_that_was_measured():
    assert options.SearchOptions.expand == neighbours.NEIGHBOURS


# --- what is derived ------------------------------------------------------------------------------------------------


def test_components_are_appended_and_their_axes_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("andornot.gallery.centred._FEW", 8)
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 10))
    first = (made.folder / "derived" / "centred.bin").read_bytes()
    basis = made._searching.centred.basis
    made.add(photos(tmp_path / "p", 20, start=10))
    assert made._searching.centred.basis == basis
    assert (made.folder / "derived" / "centred.bin").read_bytes()[: len(first)] == first
    made.add(photos(tmp_path / "p", 80, start=30))
    assert made._searching.centred.basis != basis, "there are ten times as many"


def test_a_handful_has_axes_of_its_own_after_each_change(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 5))
    basis = made._searching.centred.basis
    made.add(photos(tmp_path / "p", 1, start=5))
    assert made._searching.centred.basis != basis


def test_a_model_that_is_calibrated_anew_has_other_axes(tmp_path):
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "p", 20))
    before = made._searching.centred.basis
    made.recalibrate()
    assert made._searching.centred.basis != before
    assert made._searching.centred.rows == 20


DAMAGE = {
    "missing": lambda folder: shutil.rmtree(folder / "derived"),
    "without an index": lambda folder: (folder / "derived" / "centred.json").unlink(),
    "without bytes": lambda folder: (folder / "derived" / "centred.bin").unlink(),
    "nonsense": lambda folder: (folder / "derived" / "centred.json").write_text("[]"),
    "truncated": lambda folder: (folder / "derived" / "centred.bin").write_bytes(b"1234"),
    "flipped": lambda folder: flip(folder / "derived" / "centred.bin", 333),
    "flipped axes": lambda folder: flip(folder / "derived" / "centred.json", 300, 0x01),
    "other axes": lambda folder: edit(folder / "derived" / "centred.json", r'"basis": "....', '"basis": "AAAA'),
    "no number": lambda folder: edit(folder / "derived" / "centred.json", r'"fitted_on": \d+', '"fitted_on": "many"'),
    "of another model": lambda folder: edit(folder / "derived" / "centred.json", '"model": "', '"model": "f'),
}


def flip(file: Path, place: int, bits: int = 0xFF) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= bits
    file.write_bytes(content)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert re.search(old, text)
    file.write_text(re.sub(old, new, text))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_what_is_derived_changes_no_hit(damage, gallery, tmp_path):
    texts = ["7", "7 and 8 and not 30", "not like(7, 8)"]
    expected = gallery.search(texts, top=50)
    copied = tmp_path / "copied"
    shutil.copytree(gallery.folder, copied)
    whole = (copied / "derived" / "centred.bin").read_bytes()
    DAMAGE[damage](copied)
    other = Gallery.open(copied)
    other._may_derive = False
    assert other.search(texts, top=50) == expected, "who may not write computes"
    writing = Gallery.open(copied)
    for _ in range(2):
        assert writing.search(texts, top=50) == expected
    assert (copied / "derived" / "centred.bin").read_bytes() == whole


# --- large galleries ------------------------------------------------------------------------------------------------


class MadeUpRegions:
    """Nine regions a picture, which have something of the whole; every fifth picture has none."""

    def __init__(self, gallery: Gallery, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        centred = gallery._searching.centred
        rows = np.arange(gallery._snapshot.state.rows)
        whole = centred.codes(rows).float()[:, None, :8] / 127
        noise = 0.4 * torch.randn(len(rows), 9, 8, generator=generator)
        self.all = (127 * torch.nn.functional.normalize(whole + noise, dim=-1)).round().to(torch.int8)

    def has(self, rows: np.ndarray) -> np.ndarray:
        return rows % 5 != 0

    def codes(self, rows: np.ndarray) -> torch.Tensor:
        return torch.where(torch.from_numpy(self.has(rows))[:, None, None], self.all[torch.from_numpy(rows)], 0)


def in_regions(gallery: Gallery, count: int, seed: int = 0) -> list[Term]:
    chosen = np.random.default_rng(seed).choice(gallery._searching._everything.rows, count, replace=False)
    wholes = gallery._searching.centred.codes_of(chosen).float() / 127
    return [Term(whole, torch.nn.functional.normalize(whole[:8], dim=0)) for whole in wholes]


def test_a_term_is_found_in_the_best_region_and_the_hit_says_where(gallery):
    regions = MadeUpRegions(gallery)
    searcher = gallery._searching
    terms, rows = in_regions(gallery, 2), searcher._everything.rows
    truths = Truths(terms, searcher.centred, searcher._everything, regions)
    wholes = Truths(terms, searcher.centred, searcher._everything)
    found, as_wholes = truths.of(rows), wholes.of(rows)
    has = regions.has(rows)
    best = (regions.all[torch.from_numpy(rows)].double() / 127 @ terms[0].region.double()).amax(1)[
        torch.from_numpy(has)
    ]
    share = len(best) / (len(best) + 20)
    expected = torch.sigmoid(
        (best - share * best.median()) / (share * best.std(correction=0) + (1 - share) * 0.2) - 1.25
    )
    torch.testing.assert_close(found[0][torch.from_numpy(has)], expected, atol=0.03, rtol=0)
    torch.testing.assert_close(found[0][torch.from_numpy(~has)], as_wholes[0][torch.from_numpy(~has)])
    places = truths.places(rows)
    assert places[0][~has].tolist() == [-1] * int((~has).sum())
    obvious = (regions.all[torch.from_numpy(rows)].float() @ terms[0].region).argmax(1).numpy()
    assert (places[0][has] == obvious[has]).all()


class MadeUpWords:
    def truth(self, meaning: str, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((rows * len(meaning)) % 97 / 97).astype(np.float32))


def test_a_word_and_a_picture_are_joined_by_their_truths(gallery):
    searcher = gallery._searching
    (term,) = in_regions(gallery, 1)
    engine = searcher._engine("centred")[1]
    search = ConditionSearch(searcher.centred, engine, searcher._everything, None, MadeUpWords())
    found = search.search(Formula("dog and a"), [Term(meaning="dog"), term], "product", 10, searcher._everything)
    rows = searcher._everything.rows
    of_picture = Truths([term], searcher.centred, searcher._everything).of(rows)[0]
    expected = (MadeUpWords().truth("dog", rows) * of_picture).float()
    np.testing.assert_allclose(found.truths, expected.topk(10).values, rtol=1e-6)
    alone = search.search(Formula("dog"), [Term(meaning="dog")], "product", 10, searcher._everything)
    np.testing.assert_allclose(alone.truths, MadeUpWords().truth("dog", rows).topk(10).values)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Gallery:
    folder = tmp_path_factory.mktemp("large")
    made = Gallery.create(folder / "g", tiny_model())
    made.add(photos(folder / "photos", 3))
    grow_without_files(made, 6000)
    made.search("1")
    return made


NARROWED = [
    "a and b",
    "a and b and not c",
    "2*a and 0.5*b and not 3*c",
    "a and (b or c)",
    "(a or b) and not c",
    "(a or 0.5*b) and (c or not a)",
    "a and not (b and not c)",
    "a and word",
    "a and b and c and d and e and not f",
    "not a",
]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(NARROWED),
    st.sampled_from(["product", "godel", "lukasiewicz"]),
    st.integers(0, 99),
    st.sampled_from([1, 7, 50, 3000]),
    st.sampled_from([1, 3]),
)
def test_leaving_out_what_cannot_be_among_the_best_changes_nothing(large, text, logic, seed, top, one_in):
    searcher, formula = large._searching, Formula(text)
    regions, everything = MadeUpRegions(large, seed), searcher._everything
    terms = in_regions(large, len(formula.terms), seed)
    terms = [
        Term(meaning="w") if str(name) == "word" else term for name, term in zip(formula.terms, terms, strict=True)
    ]
    selection = Selection(everything.snapshot, None)
    selection.rows = everything.rows[::one_in]
    engine = searcher._engine("centred")[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("andornot.gallery.conditions._FIRST", 100)
        patch.setattr("andornot.gallery.conditions._MANY", 60)
        search = ConditionSearch(searcher.centred, engine, everything, regions, MadeUpWords())
        found = search.search(formula, terms, logic, top, selection)
    truths = Truths(terms, searcher.centred, everything, regions, MadeUpWords()).of(selection.rows)
    of_all = formula.truth_of_terms(truths, logic).float().numpy()
    order = np.lexsort((selection.rows, -of_all))[:top]
    np.testing.assert_array_equal(found.rows, selection.rows[order])
    np.testing.assert_array_equal(found.truths, of_all[order])


@pytest.mark.parametrize("logic", ["product", "godel", "lukasiewicz"])
@pytest.mark.parametrize("text", NARROWED)
def test_where_a_term_does_not_stand_out_the_condition_is_less_true(text, logic):
    formula, generator = Formula(text), torch.Generator().manual_seed(0)
    for number, term in enumerate(formula.terms):
        deviations = 8 * torch.rand(len(formula.terms), 4000, generator=generator, dtype=torch.float64) - 2
        truths = [truth_of(some) for some in deviations]
        is_ideal = torch.rand(len(formula.terms), 4000, generator=generator) < 0.7
        for other, name in enumerate(formula.terms):
            if other != number:
                truths[other][is_ideal[other]] = float(name in formula.positive_terms)
        values = formula.truth_of_terms(truths, logic)
        for reached in (0.01, 0.3, 0.7, 0.99):
            least = _least(formula, logic, reached, [number] if term in formula.positive_terms else [])
            assert (deviations[number][values >= reached] >= least.get(number, -math.inf)).all()


def test_most_truths_of_a_large_gallery_are_not_computed(large, monkeypatch):
    searcher, computed, of = large._searching, [], Truths.of

    def counted(self, rows, only=None):
        computed.append(len(rows))
        return of(self, rows, only)

    monkeypatch.setattr("andornot.gallery.conditions._FIRST", 500)
    monkeypatch.setattr(Truths, "of", counted)
    search = ConditionSearch(searcher.centred, searcher._engine("centred")[1], searcher._everything)
    search.search(Formula("a and b and not c"), in_regions(large, 3), "product", 10, searcher._everything)
    assert sum(computed) < 0.3 * len(searcher._everything)


@pytest.mark.parametrize("text", ["a and b", "a and b and not c", "a or b", "a and not b", "not a", "a or not b"])
def test_candidates_of_a_large_gallery_are_the_best_of_all(text, large, monkeypatch):
    searcher, formula = large._searching, Formula(text)
    regions = MadeUpRegions(large)
    terms = in_regions(large, len(formula.terms), seed=len(text))
    if len(formula.positive_terms) == 1:
        terms[0] = Term(terms[0].whole)
    vectors, engine = searcher._engine("centred")

    def found(searched_by: object) -> np.ndarray:
        search = ConditionSearch(searcher.centred, searched_by, searcher._everything, regions)
        return search.search(formula, terms, "product", 50, searcher._everything).rows

    class Elsewhere:
        """An engine that is no scan of ours."""

        def search(self, queries, top, selection):
            return exact_for(vectors).search(queries, top, selection)

    brute_force = found(engine)
    monkeypatch.setattr(ConditionSearch, "exact_up_to", 500)
    monkeypatch.setattr(ConditionSearch, "candidates", 3000)
    np.testing.assert_array_equal(found(engine), brute_force)
    assert len(np.intersect1d(brute_force, found(Elsewhere()))) / 50 >= 0.98
