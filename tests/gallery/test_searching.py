"""Search: the same as comparing with every image, one after the other, whatever is asked."""

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, save_image, table_of, tiny_model
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import andornot as aon
from andornot import Formula, FormulaError, Representation
from andornot.data import BrokenImageError
from andornot.gallery import EmptyQueryError, Filter, Gallery, GalleryError, plan, reasons, shard
from andornot.gallery.plan import Best, largest

DISTANCES = {
    "degrees": aon.degree_distance,
    "cross-entropy": aon.cross_entropy,
    "containment": lambda query, images: 1 - aon.containment(query, images),
}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    """63 images in four folders, and some that were removed."""
    folder = tmp_path_factory.mktemp("search")
    for label in ("cat", "dog", "fish"):
        photos(folder / "photos" / label, 20, start={"cat": 0, "dog": 20, "fish": 40}[label])
    extra = photos(folder / "photos" / "gone", 6, start=60)
    for number in range(60, 66):
        (extra / f"{number:03}.png").rename(extra / f"{number - 60:03}x.png")
    made = Gallery.create(folder / "g", tiny_model())
    made.add(folder / "photos")
    for number in (0, 1, 2):
        made.remove(f"00{number}x.png")
    return made


def formulas() -> st.SearchStrategy[str]:
    names = st.sampled_from(["000.png", "001.png", "dog/025.png", "55", '"041.png"', "003x.png"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from("|&-"), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})")
        counted = st.lists(inner, min_size=2, max_size=3).map(lambda fs: f"at_least(2, {', '.join(fs)})")
        return st.one_of(inner.map(lambda f: f"~({f})"), pairs, counted)

    return st.recursive(names, grow, max_leaves=6)


def brute_force(gallery: Gallery, text: str, score: str, semantics: str, logic: str) -> dict[int, float] | None:
    """The distance of every image, by id: encoded from its file, and compared by the formula's own functions.

    None if the formula leaves nothing to look for.
    """
    encoded = gallery.model.encode(gallery.paths)
    by_id = dict(zip(gallery.ids, encoded, strict=True))
    formula = Formula(text)

    def image(name: str) -> Representation:
        if name.isdigit():
            return by_id[int(name)]
        return encoded[next(i for i, path in enumerate(gallery.paths) if path.endswith(f"/{name}"))]

    query = formula.evaluate({name: image(name) for name in formula.names}, semantics, logic)
    if not query.degrees.any() or (score == "degrees" and (query.degrees.std() < 1e-7)):
        return None
    return dict(zip(gallery.ids, DISTANCES[score](query, encoded).tolist(), strict=True))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=formulas(),
    score=st.sampled_from(sorted(DISTANCES)),
    how=st.sampled_from([("exact", "godel"), *(("independent", x) for x in ("godel", "lukasiewicz", "product"))]),
    top=st.integers(1, 70),
)
def test_results_equal_brute_force(gallery, text, score, how, top):
    semantics, logic = how
    assume(logic != "product" or "at_least" not in text)  # which knows OR and AND only
    expected = brute_force(gallery, text, score, semantics, logic)
    if expected is None:
        with pytest.raises(EmptyQueryError):
            gallery.search(text, top, score, semantics=semantics, logic=logic)
        return
    hits = gallery.search(text, top, score, semantics=semantics, logic=logic, include_queries=True)
    assert len(hits) == min(top, 63)
    distances = [hit.distance for hit in hits]
    assert distances == sorted(distances)
    # Features are kept in half precision, and so are directions.
    np.testing.assert_allclose(distances, [expected[hit.id] for hit in hits], atol=5e-3, rtol=5e-3)
    np.testing.assert_allclose(distances, sorted(expected.values())[: len(hits)], atol=5e-3, rtol=5e-3)
    assert all(hit.path == gallery.paths[gallery.ids.index(hit.id)] for hit in hits)


@pytest.mark.parametrize("score", DISTANCES)
def test_distances_are_those_of_the_stored_features(gallery, score):
    table = table_of(gallery)
    stored = gallery.model.encode_activations(torch.from_numpy(table.activations(table.ids)).float())
    query = stored[0] & ~stored[30]
    expected = DISTANCES[score](query, stored)
    hits = gallery.search(f"{gallery.ids[0]} & ~{gallery.ids[30]}", 100, score, include_queries=True)
    found = {hit.id: hit.distance for hit in hits}
    tolerance = 5e-4 if score == "degrees" else 1e-5
    np.testing.assert_allclose([found[identity] for identity in gallery.ids], expected, atol=tolerance)
    assert [hit.id for hit in hits][:5] == [gallery.ids[i] for i in expected.argsort()[:5].tolist()]


@pytest.mark.parametrize("score", DISTANCES)
def test_a_batch_is_the_same_as_one_after_the_other(gallery, score):
    several = ["000.png", "000.png & ~001.png", "dog/025.png | 55", "at_least(2, 3, 4, 5)"]
    batch = gallery.search(several, top=7, score=score)
    for hits, text in zip(batch, several, strict=True):
        alone = gallery.search(text, top=7, score=score)
        assert [hit.id for hit in hits] == [hit.id for hit in alone]
        np.testing.assert_allclose([hit.distance for hit in hits], [hit.distance for hit in alone], atol=1e-6)
    assert gallery.search([]) == []


@pytest.mark.parametrize("score", ["centered", *DISTANCES])
def test_blocks_of_any_size_give_the_same(gallery, score, monkeypatch):
    expected = gallery.search(["000.png - 001.png", "5 | 6"], 9, score, why=True)
    for module, name, value in (
        (shard, "_BLOCK", 3),
        (shard, "_SPAN", 5),
        (shard, "_REPRESENTED", 2),
        (reasons, "_ROWS_AT_ONCE", 4),
    ):
        monkeypatch.setattr(module, name, value)
    other = Gallery.open(gallery.folder)
    for one, two in zip(expected, other.search(["000.png - 001.png", "5 | 6"], 9, score, why=True), strict=True):
        assert [hit.id for hit in one] == [hit.id for hit in two]
        shown = [[{reason.feature: reason.shown_by for reason in hit.why} for hit in hits] for hits in (one, two)]
        assert shown[0] == shown[1]
        np.testing.assert_allclose([hit.distance for hit in one], [hit.distance for hit in two], atol=1e-6)


@settings(max_examples=150)
@given(data=st.data(), seed=st.integers(0, 2**32), count=st.integers(1, 400), group=st.sampled_from([4, 256]))
def test_of_equal_scores_the_lower_id_is_first_and_fewer_are_the_first_of_more(data, seed, count, group):
    """Of whole numbers, so that many scores are equal, in blocks of all sizes, whatever comes first."""
    generator = np.random.default_rng(seed)
    queries = data.draw(st.integers(1, 3))
    ids = np.sort(generator.choice(500, count, replace=False))
    scores = generator.integers(-2, 3, (queries, count)).astype(np.float32)
    top, size = data.draw(st.integers(1, count + 5)), data.draw(st.sampled_from([1, 7, 100, 400]))
    starts = generator.permutation(range(0, count, size)).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_GROUP", group)
        best = Best(queries, top)
        for start in starts:
            best.add(ids[start : start + size], torch.from_numpy(scores[:, start : start + size]))
    order = np.stack([np.lexsort((ids, -of_query)) for of_query in scores])[:, :top]
    np.testing.assert_array_equal(best.ids, ids[order])
    np.testing.assert_array_equal(best.scores, np.take_along_axis(scores, order, 1))


@pytest.mark.parametrize("score", ["centered", *DISTANCES])
def test_equal_images_come_in_the_order_of_their_ids(tmp_path, score):
    first = save_image(tmp_path / "p" / "00.png", 0)
    for number in range(1, 40):
        shutil.copy(first, tmp_path / "p" / f"{number:02}.png")
    save_image(tmp_path / "p" / "other.png", 7)
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(tmp_path / "p")
    for top in (1, 2, 7, 39, 40):
        hits = gallery.search("20.png", top, score, include_queries=True)
        assert [hit.id for hit in hits] == list(range(1, 41))[:top]
        assert len({hit.distance for hit in hits}) == len({hit.truth for hit in hits}) == 1
        assert [hit.id for hit in gallery.search("20.png", top, score)][:39] == [*range(1, 21), *range(22, 41)][:top]


# --- the images in a formula --------------------------------------------------------------------------------------


def test_images_in_the_formula_are_no_hits_unless_asked_for(gallery):
    everything = gallery.search("000.png | 55", top=100)
    assert len(everything) == 61
    assert not {hit.id for hit in everything} & {1, 55}
    assert gallery.search("000.png", top=1, include_queries=True)[0].id == 1
    batch = gallery.search(["000.png", "001.png"], top=100)
    assert [len(hits) for hits in batch] == [62, 62]
    assert 2 in {hit.id for hit in batch[0]}, "it is left out of its own hits only"


def test_an_image_outside_is_encoded_and_gives_the_same_as_inside(gallery, tmp_path):
    copy = tmp_path / "a copy.png"
    shutil.copy(gallery.paths[0], copy)
    inside = gallery.search("000.png & ~001.png", include_queries=True)
    assert gallery.search(f'"{copy}" & ~001.png', include_queries=True) == inside
    new = save_image(tmp_path / "new.png", 500)
    hits = gallery.search(f'"{new}"', top=63, score="degrees")
    expected = aon.degree_distance(gallery.model.encode(new), gallery.model.encode(gallery.paths))
    assert [hit.id for hit in hits][:3] == [gallery.ids[i] for i in expected.argsort()[:3].tolist()]


NAMED = {
    "a file name": "025.png",
    "the end of a path": "dog/025.png",
    "a path from an indexed folder": "photos/dog/025.png",
    "an id": "{id}",
    "an absolute path": "{path}",
    "a path from here": "./dog/025.png",
    "a path with dots": "./cat/../dog/025.png",
}


@pytest.mark.parametrize("kind", NAMED)
def test_an_image_has_many_names(kind, gallery, monkeypatch):
    path = next(path for path in gallery.paths if path.endswith("dog/025.png"))
    monkeypatch.chdir(Path(path).parent.parent)
    text = NAMED[kind].format(id=gallery.ids[gallery.paths.index(path)], path=path)
    named = gallery.resolve(text).named[text]
    assert (named.path, gallery.paths[gallery.ids.index(named.id)]) == (path, path)


def test_a_path_from_here_is_not_the_end_of_another_path(gallery, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_image(tmp_path / "025.png", 9)
    assert gallery.resolve("./025.png").named["./025.png"].id is None
    assert gallery.resolve("025.png").named["025.png"].id is not None


def test_an_ambiguous_name_is_an_error_with_the_candidates(gallery, tmp_path):
    other = Gallery.create(tmp_path / "g", gallery.model)
    for label in ("cat", "dog"):
        save_image(tmp_path / "p" / label / "same.png", len(label))
    save_image(tmp_path / "p" / "dog" / "other.png", 9)
    other.add(tmp_path / "p")
    with pytest.raises(
        FormulaError, match=r'"same\.png" may be 2 images: .*cat/same\.png, .*dog/same\.png; write'
    ) as e:
        other.search("other.png & same.png")
    assert e.value.position == len("other.png & ")
    assert other.search("cat/same.png")[0].path.endswith(("dog/same.png", "other.png"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("000.pmg", r'unknown name "000\.pmg"; did you mean "000\.png"'),
        ("000.png & nobody", 'unknown name "nobody"'),
        ("999", 'unknown name "999"'),
        ("~/photos/000.png", '"~" is NOT here; if "~/photos/000.png" is one name, put it in quotes'),
        ('"~/photos/000.png"', 'unknown name "~/photos/000.png"'),
        ("000.png &", "expected a name"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(text, message, gallery):
    with pytest.raises(FormulaError, match=message):
        gallery.search(text)


def test_a_quoted_tilde_is_the_home_folder(gallery, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_image(tmp_path / "mine.png", 9)
    assert gallery.resolve('"~/mine.png"').named["~/mine.png"].path == str(tmp_path / "mine.png")


def test_a_broken_image_outside_is_one_clear_line(gallery, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"no")
    with pytest.raises(BrokenImageError, match=r"bad\.jpg: not a"):
        gallery.search(f'"{tmp_path / "bad.jpg"}"')


def test_wrong_arguments_are_one_clear_line(gallery):
    with pytest.raises(GalleryError, match=r'unknown score "cosine" \(choose from centered, degrees, cross-entropy, '):
        gallery.search("000.png", score="cosine")
    with pytest.raises(GalleryError, match="top must be at least 1, got 0"):
        gallery.search("000.png", top=0)
    for top in (2.5, "2", None):
        with pytest.raises(GalleryError, match=f"top must be a whole number, got {top!r}"):
            gallery.search("000.png", top=top)
    with pytest.raises(GalleryError, match=r"filter must be a Filter\(folder=…, .*\), got {}"):
        gallery.search("000.png", filter={})
    for query in (None, 2.5, b"000.png", [None], object()):
        with pytest.raises(GalleryError, match="a query is a formula, a path, an id or a Representation, got"):
            gallery.search(query)
    with pytest.raises(FormulaError, match="Gödel's alone"):
        gallery.search("000.png & 000.png", logic="product")


def test_a_path_an_id_and_a_representation_are_queries_too(gallery):
    expected = gallery.search("dog/025.png", top=5)
    path = next(path for path in gallery.paths if path.endswith("dog/025.png"))
    number = gallery.ids[gallery.paths.index(path)]
    assert gallery.search(Path(path), top=np.int32(5)) == expected
    assert gallery.search(number, top=5) == gallery.search(np.int64(number), top=5) == expected
    image = gallery.search([path], top=1, include_queries=True)[0][0]
    assert image.id == number
    stored = gallery.represent([number, gallery.ids[0]])
    one = gallery.search(stored[0], top=5)
    assert one == gallery.search(path, top=5, include_queries=True), "it names no image to leave out"
    assert one == gallery.search(stored[0].to(torch.float64), top=5)
    batch = [[hit.id for hit in hits] for hits in gallery.search(stored, top=5)]
    assert batch == [[hit.id for hit in gallery.search(query, top=5)] for query in stored]
    with pytest.raises(GalleryError, match="one image of this gallery's model, N=16 and M=4; this is Repr"):
        gallery.search(Representation([[0.5, 0.5]]))


@pytest.mark.parametrize("score", DISTANCES)
@pytest.mark.parametrize("text", ["5 - 5", "5 - (5 | 6)", "(5 & 6) - 6"])
def test_a_query_without_a_feature_is_told_instead_of_arbitrary_images(text, score, gallery):
    with pytest.raises(EmptyQueryError, match="nothing is left to look for: this has no feature") as caught:
        gallery.search(["5", text], score=score)
    assert caught.value.text == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    nothing = Formula(text).evaluate({name: gallery.model.encode(gallery.paths[int(name)]) for name in "56"})
    with pytest.raises(EmptyQueryError, match=r"Representation\(N=16, M=4, float32\)"):
        gallery.search(nothing, score=score)


def test_everything_has_no_direction_but_can_be_contained(gallery):
    with pytest.raises(EmptyQueryError):
        gallery.search("~(5 - 5)")
    assert len(gallery.search("~(5 - 5)", score="containment")) == 10


def test_little_is_not_nothing(gallery):
    hits = gallery.search(" & ".join(map(str, gallery.ids[:40])), score="degrees")
    assert hits[0].distance < hits[-1].distance < 0.9


# --- hubs -----------------------------------------------------------------------------------------------------------


def test_centered_compares_what_query_and_image_have_beyond_the_mean(gallery):
    images = gallery.represent(gallery.ids)
    directions = torch.nn.functional.normalize(images.degrees, dim=1)
    few = 20 / (20 + len(directions))  # what is assumed of the average image counts as much as twenty images
    mean = torch.nn.functional.normalize(few * torch.full((16,), 0.25) + (1 - few) * directions.mean(0), dim=0)
    query = aon.any_of(images[:8]).degrees[None]
    beyond_query, beyond = (degrees - (degrees @ mean)[:, None] * mean for degrees in (query, directions))
    expected = 1 - torch.nn.functional.cosine_similarity(beyond_query, beyond)
    hits = gallery.search(aon.any_of(images[:8]), top=100)
    assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)
    places = [gallery.ids.index(hit.id) for hit in hits]
    np.testing.assert_allclose([hit.distance for hit in hits], expected[places], atol=0.03)


def test_centered_finds_no_hub_where_degrees_do(gallery):
    generator = np.random.default_rng(0)
    texts = [" | ".join(map(str, generator.choice(gallery.ids, 8, replace=False))) for _ in range(40)]

    def largest_share(score: str) -> float:
        found = [hit.id for hits in gallery.search(texts, 3, score, include_queries=True) for hit in hits]
        return np.bincount(found).max() / len(texts)

    assert largest_share("centered") < 0.7 * largest_share("degrees")


# --- filters --------------------------------------------------------------------------------------------------------


def test_filters_leave_out_what_does_not_pass(gallery, monkeypatch):
    everything = gallery.search("000.png", top=100)
    for where in (Filter(label="dog"), Filter(folder="photos/dog"), Filter(folder="dog")):
        hits = gallery.search("000.png", top=100, filter=where)
        assert hits == [hit for hit in everything if "/dog/" in hit.path]
        assert len(hits) == 20
    root = Path(gallery.folders[0])
    assert len(gallery.search("000.png", top=100, filter=Filter(folder=str(root)))) == 62
    monkeypatch.chdir(root / "dog")
    assert len(gallery.search("000.png", top=100, filter=Filter(folder="."))) == 20
    assert gallery.search("000.png", filter=Filter(label="dog", folder="cat")) == []
    with pytest.raises(GalleryError, match='no image has the label "dgo"; did you mean "dog"'):
        gallery.search("000.png", filter=Filter(label="dgo"))
    with pytest.raises(GalleryError, match="no image of the gallery is in do; it has those of"):
        gallery.search("000.png", filter=Filter(folder="do"))


def test_top_counts_what_passes(gallery):
    assert len(gallery.search("25", top=30, filter=Filter(label="dog"))) == 19
    assert len(gallery.search("000.png", top=5, filter=Filter(label="dog"))) == 5


# --- why ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", DISTANCES)
def test_why_names_the_features_that_set_a_hit_apart(score, gallery):
    hits = gallery.search("000.png | 25", 3, score, why=True)
    plain = gallery.search("000.png | 25", 3, score)
    assert [replace(hit, why=()) for hit in hits] == plain
    encoded = gallery.model.encode(gallery.paths)
    query = encoded[0] | encoded[gallery.ids.index(25)]
    for hit in hits:
        # What the score would lose if a feature of this image were the average one's.
        side = aon.logic.distance.SCORES[score]
        average = side.gallery(encoded).mean(0)
        mine = side.gallery(encoded[gallery.ids.index(hit.id)])
        gain = (side.query(query) * (mine - average)).view(16, -1).sum(-1)
        best = gain.argsort(descending=True)[:5].tolist()
        assert [reason.contribution for reason in hit.why] == sorted((r.contribution for r in hit.why), reverse=True)
        np.testing.assert_allclose(
            [reason.contribution for reason in hit.why], [gain[i] for i in best if gain[i] > 0], atol=2e-3
        )
        for reason in hit.why:
            degrees = encoded.degrees[:, reason.feature]
            shown = [degrees[gallery.paths.index(path)].item() for path in reason.shown_by]
            np.testing.assert_allclose(shown, degrees.sort(descending=True).values[:3], atol=5e-3)


# --- searching writes nothing -----------------------------------------------------------------------------------------


def test_a_gallery_on_a_disk_that_cannot_be_written_is_searched_all_the_same(gallery, tmp_path):
    shutil.copytree(gallery.folder, tmp_path / "copied")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "copied").rglob("*")}
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    other = Gallery.open(tmp_path / "copied")
    texts = ["000.png & ~001.png", "25", "000.png and not 25"]
    try:
        for score in ("centered", *DISTANCES):
            assert other.search(texts, score=score, why=True) == gallery.search(texts, score=score, why=True)
    finally:
        for path in before:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "copied").rglob("*")} == before


def test_gallery_is_a_public_name():
    assert aon.Gallery is Gallery


@pytest.mark.parametrize("columns", [1, 255, 257, 5000, 5120])
@pytest.mark.parametrize("top", [1, 3, 9, 200])
def test_the_largest_are_those_of_topk(columns, top):
    scores = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    values, places = largest(scores, min(top, columns))
    expected, _ = scores.topk(min(top, columns), dim=1)
    assert torch.equal(values, expected)
    assert torch.equal(scores.gather(1, places), values)
