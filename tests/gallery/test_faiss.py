"""The FAISS engine against a comparison with every picture."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import grow_without_files, save_picture, tiny_model

from andornot.gallery import Gallery, Where
from andornot.gallery.engines import Exact, engine_named, faiss
from andornot.gallery.engines.faiss import Faiss
from andornot.gallery.engines.reduction import KINDS, best_reduction, sample_queries
from andornot.gallery.filters import Selection
from andornot.gallery.searching import Searcher
from andornot.gallery.vectors import Vectors

SCORES = ("degrees", "cross-entropy", "containment")
COUNT = 3000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(faiss, "_FEW_ROWS", 200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A gallery with an index for each score."""
    folder = tmp_path_factory.mktemp("faiss") / "g"
    grow_without_files(Gallery.create(folder, tiny_model()), COUNT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faiss, "_FEW_ROWS", 200)
        for score in SCORES:
            Gallery.open(folder, engine="faiss").prepare(score)
    return folder


def vectors_of(folder: Path, score: str) -> Vectors:
    searcher: Searcher = Gallery.open(folder)._searching
    return searcher._engine(score)[0]


def queries_of(vectors: Vectors, count: int = 10) -> torch.Tensor:
    return torch.cat(list(sample_queries(vectors.sources, vectors.score, count, np.random.default_rng(7))))


def everything(vectors: Vectors) -> Selection:
    return Selection(vectors.sources.snapshot, None)


# --- fewer dimensions -----------------------------------------------------------------------------------------------


def test_all_dimensions_keep_the_order_of_inner_products():
    torch.manual_seed(0)
    queries, pictures = torch.randn(200, 12), torch.randn(300, 12) @ torch.randn(12, 12)
    reduction = best_reduction(queries, pictures, 12)
    exact = queries @ (pictures - pictures.mean(0)).T
    reduced = reduction.reduce_queries(queries) @ reduction.reduce_pictures(pictures).T
    np.testing.assert_allclose(reduced, exact, atol=1e-3)


def test_few_dimensions_are_chosen_for_the_queries():
    """Against every other map of the same rank that is likely to be good: the best one for pictures alone is worse."""
    torch.manual_seed(1)
    pictures = torch.randn(500, 10) * torch.logspace(0, -1, 10)
    queries = torch.randn(500, 10) * torch.logspace(-2, 0, 10)
    centred = pictures - pictures.mean(0)
    exact = queries @ centred.T

    def error(approximation: torch.Tensor) -> float:
        return float((approximation - exact).square().mean())

    reduction = best_reduction(queries, pictures, 4)
    mine = error(torch.from_numpy(reduction.reduce_queries(queries) @ reduction.reduce_pictures(pictures).T))
    components = torch.linalg.svd(centred, full_matrices=False).Vh[:4].T
    assert mine < 0.5 * error(queries @ components @ (centred @ components).T)
    # The least error of any rank-4 approximation of the scores themselves.
    values = torch.linalg.svdvals(exact.double())
    assert mine == pytest.approx(float(values[4:].square().sum() / exact.numel()), rel=0.02)


def test_directions_that_no_query_uses_are_left_out():
    torch.manual_seed(2)
    queries = torch.randn(50, 3) @ torch.randn(3, 8)
    assert best_reduction(queries, torch.randn(100, 8), 8).queries.shape == (8, 3)


# --- search ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
def test_nearly_all_of_the_nearest_are_found_for_every_kind_of_query(folder, score):
    vectors = vectors_of(folder, score)
    engine = Faiss(vectors)
    assert engine.index is not None
    assert engine.index.rows == COUNT
    queries, top = queries_of(vectors, 20), 50
    rows, scores = engine.search(queries, top, everything(vectors))
    best, best_scores = Exact(vectors).search(queries, top, everything(vectors))
    recalls = [len(np.intersect1d(*pair)) / top for pair in zip(rows, best, strict=True)]
    assert np.reshape(recalls, (len(KINDS), -1)).mean(1).min() >= 0.98
    np.testing.assert_allclose(scores[:, 0], best_scores[:, 0], atol=1e-5)
    assert (np.diff(scores) <= 0).all()
    assert engine.index.lists > engine.index.numbers["probes"]


@pytest.mark.parametrize("score", SCORES)
def test_searched_in_all_lists_and_to_the_end_it_is_exact(folder, score):
    vectors = vectors_of(folder, score)
    engine = Faiss(vectors)
    assert engine.index is not None
    engine.index.numbers.update(depth=COUNT, probes=engine.index.lists)
    queries = queries_of(vectors)
    for top in (1, 7, 200):
        rows, scores = engine.search(queries, top, everything(vectors))
        best, best_scores = Exact(vectors).search(queries, top, everything(vectors))
        np.testing.assert_allclose(scores, best_scores, atol=1e-5)
        assert (rows == best).mean() > 0.99  # equal to rounding, so neighbours may change places


def test_only_what_may_be_found_is_found(folder):
    vectors = vectors_of(folder, "degrees")
    engine, queries = Faiss(vectors), queries_of(vectors)
    for share in (0.5, 0.2):
        selection = everything(vectors)
        selection.rows = np.flatnonzero(np.random.default_rng(3).random(COUNT) < share)
        rows, scores = engine.search(queries, 20, selection)
        best, best_scores = Exact(vectors).search(queries, 20, selection)
        assert np.isin(rows, selection.rows).all()
        assert np.mean([len(np.intersect1d(*pair)) / 20 for pair in zip(rows, best, strict=True)]) > 0.97
        np.testing.assert_allclose(scores[:, 0], best_scores[:, 0], atol=1e-3)


def test_a_few_pictures_are_compared_one_by_one(folder):
    gallery, exact = Gallery.open(folder, engine="faiss"), Gallery.open(folder, engine="exact")
    where = Where(folder="/none/1", before="1970-01-01 00:05")
    assert gallery.search("5 & ~9", 30, where=where) == exact.search("5 & ~9", 30, where=where)


def test_more_than_are_found_in_the_lists_are_asked_for(folder):
    """Lists that are left out must not make the answer shorter."""
    vectors = vectors_of(folder, "degrees")
    rows, _ = Faiss(vectors).search(queries_of(vectors, 2), 2900, everything(vectors))
    assert rows.shape == (2 * len(KINDS), 2900)
    assert all(len(np.unique(own)) == 2900 for own in rows)


def test_an_index_that_finds_too_little_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(faiss, "_DIMENSIONS", (1, 2))
    monkeypatch.setattr(faiss, "best_reduction", lambda *given: best_reduction(*given).cut(3))
    monkeypatch.setattr(faiss, "_DEPTHS", (60,))
    monkeypatch.setattr(faiss, "_DEEPEST", 70)
    gallery = Gallery.create(tmp_path / "g", tiny_model(), engine="faiss")
    grow_without_files(gallery, COUNT)
    gallery.prepare("degrees")
    index = index_of(gallery)
    assert index.numbers["recall"] < 0.9
    assert index.numbers["probes"] < index.lists
    exact = Gallery.open(gallery.folder, engine="exact")
    assert gallery.search("5 & ~9", 50) == exact.search("5 & ~9", 50)


# --- keeping up ------------------------------------------------------------------------------------------------------


@pytest.fixture
def grown(tmp_path):
    """A gallery with an index of 600 of its 700 pictures."""
    gallery = Gallery.create(tmp_path / "g", tiny_model(), engine="faiss")
    grow_without_files(gallery, 600)
    gallery.prepare("degrees")
    grow_without_files(gallery, 100, seed=1)
    return gallery


def index_of(gallery: Gallery) -> faiss._Index:
    engine = gallery._searching._engine("degrees")[1]
    assert isinstance(engine, Faiss)
    assert engine.index is not None
    return engine.index


def test_new_pictures_are_found_before_and_after_they_are_in_the_index(grown):
    new = [str(identity) for identity in grown.ids[600:]]
    for rows in (600, 700):
        assert index_of(grown).rows == rows
        for hits in grown.search(new[::10], 1, include_queries=True, score="degrees"):
            assert hits[0].distance < 1e-3
        found = [hits[0].id for hits in grown.search(new[::10], 1, include_queries=True, score="degrees")]
        assert found == [int(identity) for identity in new[::10]]
        grown.prepare("degrees")


def test_an_index_that_was_added_to_is_that_of_all_pictures(grown):
    made_of = index_of(grown).made_of
    grown.prepare("degrees")
    assert (index_of(grown).rows, index_of(grown).made_of) == (700, made_of) == (700, 600)
    grow_without_files(grown, 600, seed=2)
    grown.prepare("degrees")
    assert index_of(grown).made_of == 1300


def test_removed_pictures_are_not_found(grown):
    grown.prepare("degrees")
    hit = grown.search("1", 1)[0]
    grown.remove(str(hit.id))
    assert hit.id not in [other.id for other in grown.search("1", 50)]


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 255
    file.write_bytes(content)


def change_a_number(file: Path) -> None:
    content = bytearray(file.read_bytes())
    place = content.index(b'"probes":"') + len(b'"probes":"')
    content[place] = ord("2") if content[place] == ord("1") else ord("1")
    file.write_bytes(content)


DAMAGES = {
    "a number": change_a_number,
    "missing": Path.unlink,
    "empty": lambda file: os.truncate(file, 0),
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "one bit": flip,
    "nonsense": lambda file: file.write_bytes(b"nonsense" * 100),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_not_used_and_made_anew(grown, damage):
    grown.prepare("degrees")
    file = grown.folder / "derived" / "faiss-degrees.safetensors"
    DAMAGES[damage](file)
    gallery = Gallery.open(grown.folder, engine="faiss")
    assert gallery._searching._engine("degrees")[1].index is None
    exact = Gallery.open(grown.folder, engine="exact")
    assert gallery.search("1 | 2", 40) == exact.search("1 | 2", 40)
    gallery.prepare("degrees")
    assert index_of(Gallery.open(grown.folder, engine="faiss")).rows == 700


def test_the_index_of_another_model_is_not_used(tmp_path, grown):
    grown.prepare("degrees")
    other = Gallery.create(tmp_path / "other", tiny_model(seed=1), engine="faiss")
    grow_without_files(other, 700)
    content = (grown.folder / "derived" / "faiss-degrees.safetensors").read_bytes()
    (other.folder / "derived" / "faiss-degrees.safetensors").write_bytes(content)
    assert other._searching._engine("degrees")[1].index is None


def test_what_was_prepared_is_prepared_again_by_index(tmp_path, grown):
    grown.prepare("cross-entropy")
    assert (grown.folder / "derived" / "faiss-cross-entropy.safetensors").exists()
    grow_without_files(grown, 50, seed=3)
    (tmp_path / "p").mkdir()
    save_picture(tmp_path / "p" / "a.png", 1)
    grown.add(tmp_path / "p")
    engine = grown._searching._engine("cross-entropy")[1]
    assert engine.index.rows == index_of(grown).rows == 751


def test_the_engine_is_chosen_by_size(grown, monkeypatch):
    vectors = vectors_of(grown.folder, "degrees")
    assert isinstance(engine_named("auto")(vectors), Exact)
    monkeypatch.setattr("andornot.gallery.engines.EXACT_UP_TO", 699)
    assert isinstance(engine_named("auto")(vectors), Faiss)
