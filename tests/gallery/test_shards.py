"""Shards and the planner: several shards answer as one does, to the last bit, and as a slow evaluation says."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from galleries import add_without_files, grow_without_files, photos, seeing_recipe, table_of, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from andornot import Formula, cross_entropy, degree_distance
from andornot.concepts import QuantizedClasses, truth_of, wordnet_nouns
from andornot.gallery import EmptyQueryError, Filter, Gallery, Hits, SearchOptions, condition_truth
from andornot.gallery.filters import EVERYTHING
from andornot.gallery.plan import merge_samples
from andornot.gallery.planner import Planner
from andornot.gallery.queries import QueryInputs
from andornot.gallery.shard import Shard, Shards
from andornot.gallery.table import ImageTable
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

WORDS = ["dog", "sofa", "car", "cat"]


class SeveralShards:
    """Shards in this process, which get what they are asked, and answer, as bytes."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards

    @classmethod
    def open(cls, table: ImageTable, model: Model, count: int) -> "SeveralShards":
        return cls([Shard(table, model, number, count) for number in range(count)])

    def map(self, method: str, *arguments: Any) -> list[Any]:
        sent = pickle.dumps(arguments)
        answers = [pickle.dumps(getattr(one, method)(*pickle.loads(sent))) for one in self.shards]
        return [pickle.loads(answer) for answer in answers]

    def for_version(self, table: ImageTable, model: Model) -> "SeveralShards":
        return SeveralShards([one.for_version(table, model) for one in self.shards])


def planner(gallery: Gallery, shards: Shards | None = None) -> Planner:
    table = table_of(gallery)
    return Planner(table, gallery.model, shards or Shard(table, gallery.model))


def search(searcher: Planner, texts: Sequence[str], options: SearchOptions) -> list[Hits]:
    queries = [searcher.names.resolve(Formula(text)) for text in texts]
    return [Hits(hits) for hits in searcher.search(queries, options, {})]


# --- galleries ------------------------------------------------------------------------------------------------------


def made_up(gallery: Gallery, count: int, seed: int) -> None:
    """Add images with regions that have something of the whole, and classes; every fifth has neither."""
    generator = torch.Generator().manual_seed(seed)
    model = gallery.model
    real = model.activations(torch.rand(60, 3, 28, 28, generator=generator), progress=False)
    wholes = (4 * torch.randn(count, 60, generator=generator)).softmax(-1) @ real
    noise = (4 * torch.randn(count, 9, 60, generator=generator)).softmax(-1) @ real
    evidence = torch.zeros(count, 1000)
    nouns = torch.tensor([wordnet_nouns().look_up(word).classes[0] for word in WORDS])
    shown = torch.rand(count, len(WORDS), generator=generator) ** 8
    evidence[:, nouns] = shown
    without = torch.arange(count) % 5 == 0
    start = max(gallery.ids, default=0)
    paths = [f"/none/{number % 3}/{start + number:06}.png" for number in range(count)]
    for chosen, is_bare in ((~without, False), (without, True)):
        add_without_files(
            gallery,
            [path for path, one in zip(paths, chosen.tolist(), strict=True) if one],
            wholes[chosen],
            None if is_bare else (wholes[:, None] + noise)[chosen] / 2,
            None if is_bare else QuantizedClasses.of(evidence[chosen]),
        )


def remove_some(gallery: Gallery) -> None:
    gallery.remove([str(identity) for identity in gallery.ids[7::11]])


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Gallery:
    """With regions, words, several fragments and removed images: 900 images, and codes on the disk."""
    gallery = Gallery.create(tmp_path_factory.mktemp("rich") / "g", tiny_model(recipe=seeing_recipe()))
    for part in range(3):
        made_up(gallery, 330, part)
    remove_some(gallery)
    return gallery


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Gallery:
    """The same with so few images that nothing is projected before it is read."""
    gallery = Gallery.create(tmp_path_factory.mktemp("small") / "g", tiny_model(recipe=seeing_recipe()))
    for part in range(3):
        made_up(gallery, 40, part)
    remove_some(gallery)
    return gallery


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Gallery:
    """With a trained head, whose products are rounded differently in other batches."""
    settings = {"backbone": "conv5", "backbone_options": {"width": 16}, "num_features": 24, "num_values": 4}
    recipe = make_recipe({**settings, "predictor_hidden": 8})
    folder = tmp_path_factory.mktemp("trained")
    gallery = Gallery.create(folder / "g", Model.from_network(new_network(recipe, 3).eval(), recipe))
    gallery.add(photos(folder / "photos", 50))
    grow_without_files(gallery, 300)
    remove_some(gallery)
    return gallery


# --- what is asked --------------------------------------------------------------------------------------------------


def terms(ids: Sequence[int], words: bool) -> st.SearchStrategy[str]:
    names = st.sampled_from([str(identity) for identity in ids])
    joined = st.tuples(names, st.sampled_from("|&-"), names).filter(lambda t: t[0] != t[2])
    several = [
        names,
        joined.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.lists(names, min_size=1, max_size=3, unique=True).map(lambda some: f"like({', '.join(some)})"),
    ]
    return st.one_of(*several, *([st.sampled_from(WORDS)] if words else []))


def conditions(ids: Sequence[int], words: bool) -> st.SearchStrategy[str]:
    weighed = st.tuples(st.sampled_from(["", "", "2*", "0.5*"]), terms(ids, words)).map("".join)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from(["and", "or", "and not"]), inner)
        return st.one_of(inner.map(lambda one: f"not ({one})"), pairs.map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"))

    return st.recursive(weighed, grow, max_leaves=5)


FILTERS = [
    Filter(),
    Filter(),
    Filter(label="1"),
    Filter(folder="/none/2"),
    Filter(before="1970-01-01 00:06", file_dates=True),
]
MANY = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["rich", "small"])
def gallery(request) -> Gallery:
    return request.getfixturevalue(request.param)


_planners: dict[tuple[str, int], Planner] = {}


def split(gallery: Gallery, count: int) -> Planner:
    key = gallery.address, count
    if key not in _planners:
        table = table_of(gallery)
        _planners[key] = planner(gallery, SeveralShards.open(table, gallery.model, count))
    return _planners[key]


# --- several shards -------------------------------------------------------------------------------------------------


@MANY
@given(data=st.data())
def test_several_shards_answer_conditions_as_one_does(gallery, data):
    text = data.draw(conditions(gallery.ids[::9], words=True))
    options = SearchOptions(
        top=data.draw(st.sampled_from([1, 10, 100, 300])),
        logic=data.draw(st.sampled_from([None, "product", "godel", "lukasiewicz"])),
        filter=data.draw(st.sampled_from(FILTERS)),
        expand=data.draw(st.sampled_from([0, 20])),
        include_queries=data.draw(st.booleans()),
        why=data.draw(st.booleans()),
    )
    try:
        expected = gallery.search(text, options=options)
    except EmptyQueryError:
        return
    for count in (3, 7):
        assert search(split(gallery, count), [text], options) == [expected]


@MANY
@given(data=st.data())
def test_several_shards_answer_terms_as_one_does(gallery, data):
    texts = data.draw(st.lists(terms(gallery.ids[::9], words=True), min_size=1, max_size=4))
    texts += [f"{gallery.ids[3]} - dog"]
    options = SearchOptions(
        top=data.draw(st.sampled_from([1, 10, 200])),
        score=data.draw(st.sampled_from(["centered", "degrees", "cross-entropy", "containment"])),
        filter=data.draw(st.sampled_from(FILTERS)),
        why=data.draw(st.booleans()),
    )
    try:
        expected = gallery.search(texts, options=options)
    except EmptyQueryError:
        return
    assert search(split(gallery, 3), texts, options) == expected


@pytest.mark.parametrize(
    "score", ["centered", "degrees", "cross-entropy", "containment", degree_distance, cross_entropy]
)
@pytest.mark.parametrize("top", [5, 500])
def test_several_shards_of_a_trained_head_answer_as_one_does(trained, score, top):
    ids = trained.ids
    texts = [str(ids[0]), f"{ids[1]} - {ids[30]}", f"{ids[5]} | {ids[6]}", f"{ids[5]} and not {ids[100]}"]
    options = SearchOptions(top, score)
    expected = trained.search(texts, options=options)
    for count in (2, 3, 10):
        found = search(split(trained, count), texts, options)
        if isinstance(score, str):
            assert found == expected
            continue
        for one, other in zip(found, expected, strict=True):  # a function may round differently in other batches
            assert {hit.id: hit.distance for hit in one} == pytest.approx(
                {hit.id: hit.distance for hit in other}, abs=1e-6
            )


def test_more_shards_than_images_answer_as_one_does(tmp_path):
    gallery = Gallery.create(tmp_path / "g", tiny_model(recipe=seeing_recipe()))
    gallery.add(photos(tmp_path / "photos", 4))
    several = planner(gallery, SeveralShards.open(table_of(gallery), gallery.model, 9))
    texts = ["1", "1 and 2", "dog and not 3", "2 - 3"]
    assert search(several, texts, SearchOptions()) == gallery.search(texts)
    gallery.remove(["1", "2", "3", "4"])
    several = planner(gallery, SeveralShards.open(table_of(gallery), gallery.model, 3))
    outside = tmp_path / "photos" / "000.png"
    assert search(several, [f'"{outside}"', f'"{outside}" and dog'], SearchOptions()) == [[], []]


# --- a slow evaluation ----------------------------------------------------------------------------------------------


class Slow:
    """What a planned condition says of each image, one term after the other, by the codes that are stored."""

    def __init__(self, gallery: Gallery) -> None:
        self._planner = planner(gallery)
        self._gallery = gallery
        self.ids = np.array(gallery.ids)
        table = table_of(gallery)
        one = Shard(table, gallery.model)
        found = merge_samples([one.sample(self.ids, True)])
        assert found.ids.tolist() == gallery.ids
        assert found.regions is not None
        self._codes, self._regions = found.codes.numpy().astype(np.int64), found.regions.numpy().astype(np.int64)
        self._has = np.asarray(found.has_regions)
        kept, valid = table.classes(self.ids)
        evidence = torch.where(torch.from_numpy(valid)[:, None], kept.evidence(), 0)
        self._evidence = torch.where(evidence > 1.62e-5, evidence, 0)  # the least that is stored stands for nothing

    def truths(self, text: str, options: SearchOptions) -> np.ndarray:
        query = self._planner.names.resolve(Formula(text))
        inputs = self._planner.encoder.encode([query], {})
        plan = self._planner.plan(query, options, EVERYTHING, QueryInputs(*inputs), 1)
        return np.asarray(plan.formula.truth_of_terms([self._term(term) for term in plan.terms], plan.logic).float())

    def _term(self, term: Any) -> torch.Tensor:
        if term.word is not None:
            support = self._evidence[:, list(term.word.classes)].sum(1).clamp(max=1)
            return truth_of(support, term.half).double()
        found = _standing_out(_dot(self._codes, term.whole), np.ones(len(self.ids), bool))
        if term.region is not None:
            best = np.stack([_dot(self._regions[:, number], term.region) for number in range(9)]).max(0)
            found = np.where(self._has, _standing_out(best, self._has), found)
        return torch.sigmoid(torch.from_numpy(found) - 1.25)


def _dot(codes: np.ndarray, query: torch.Tensor) -> np.ndarray:
    """Return inner products of int8 vectors and a query that is rounded as they are."""
    step = np.float64(query.abs().max()) / 127
    return codes @ np.round(query.double().numpy() / step).astype(np.int64) * step / 127


def _standing_out(similarities: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return deviations from the median of those that count, both averaged with a prior of 20 images."""
    values = similarities[counted]
    share = len(values) / (len(values) + 20)
    middle = share * np.sort(values)[(len(values) - 1) // 2]
    return np.asarray((similarities - middle) / (share * values.std() + (1 - share) * 0.2))


_slow: dict[str, Slow] = {}


@MANY
@given(data=st.data())
def test_conditions_are_as_true_as_a_slow_evaluation_says(gallery, data):
    text = data.draw(conditions(gallery.ids[::9], words=True))
    logic = data.draw(st.sampled_from([None, "godel", "lukasiewicz"]))
    if not Formula(text).is_condition:
        text = f"{text} and {text}"
    slow = _slow.setdefault(gallery.address, Slow(gallery))
    try:
        hits = gallery.search(text, top=2000, logic=logic, include_queries=True)
    except EmptyQueryError:
        return
    expected = dict(zip(slow.ids.tolist(), slow.truths(text, SearchOptions(logic=logic)).tolist(), strict=True))
    assert {hit.id for hit in hits} == expected.keys()
    assert [hit.truth for hit in hits] == pytest.approx([expected[hit.id] for hit in hits], abs=1e-5)
    assert [(-hit.truth, hit.id) for hit in hits] == sorted((-hit.truth, hit.id) for hit in hits)


NARROWED = [
    "{} and {}",
    "{} and {} and not {}",
    "2*{} and 0.5*{} and not 3*{}",
    "{} and ({} or {})",
    "({} or {}) and not {}",
    "{} and not ({} and not {})",
    "{} and dog",
    "{} and {} and {} and {} and {} and not {}",
    "not {}",
    "dog and not sofa",
]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(NARROWED),
    st.sampled_from(["product", "godel", "lukasiewicz"]),
    st.integers(0, 99),
    st.sampled_from([1, 7, 50, 300]),
    st.sampled_from(FILTERS),
)
def test_leaving_out_what_cannot_be_among_the_best_changes_nothing(rich, text, logic, seed, top, where):
    names = np.random.default_rng(seed).choice(rich.ids, text.count("{}"), replace=False).tolist()
    asked = text.format(*names)
    how = {"logic": logic, "filter": where, "include_queries": True}
    everything = rich.search(asked, top=5000, **how)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_FIRST", 60), ("_MANY", 30), ("_SPAN", 50), ("_BLOCK", 32)):
            patch.setattr(condition_truth, name, value)
        assert rich.search(asked, top=top, **how) == everything[:top]


def test_most_truths_of_a_large_gallery_are_not_computed(rich, monkeypatch):
    computed: list[int] = []
    of = condition_truth.TermTruths.of

    def counted(self, rows, only=None):
        computed.append(len(rows))
        return of(self, rows, only)

    monkeypatch.setattr(condition_truth, "_FIRST", 60)
    monkeypatch.setattr(condition_truth, "_SPAN", 200)
    monkeypatch.setattr(condition_truth.TermTruths, "of", counted)
    rich.search(" and ".join(map(str, rich.ids[5:8])), top=5)
    assert sum(computed) < 0.5 * len(rich)


# --- other versions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "first"), [(1, 120), (3, 700)])
def test_shards_of_another_version_answer_as_fresh_ones_do(count, first, tmp_path):
    gallery = Gallery.create(tmp_path / "g", tiny_model(recipe=seeing_recipe()))
    made_up(gallery, first, 0)
    shards: Shards = SeveralShards.open(table_of(gallery), gallery.model, count)
    options = SearchOptions(200, include_queries=True)

    def compare() -> None:
        ids = gallery.ids
        texts = [f"{ids[0]} and {ids[20]} and not dog", f"{ids[3]} | {ids[4]}", "dog and not sofa", "car"]
        for where in FILTERS[1:3]:
            how = SearchOptions(40, include_queries=True, filter=where)
            fresh = search(planner(gallery), texts, how)
            assert search(planner(gallery, shards), texts, how) == fresh
            assert len(fresh[0]) > 3
        degrees = SearchOptions(50, "degrees")
        assert search(planner(gallery, shards), texts[1:2], degrees) == search(planner(gallery), texts[1:2], degrees)

    assert search(planner(gallery, shards), [str(gallery.ids[0])], options) == [gallery.search("1", options=options)]
    compare()
    for change in range(4):
        match change:
            case 0:
                made_up(gallery, 50, 5)
            case 1:
                gallery.remove([str(identity) for identity in gallery.ids[3:60:4]])
            case 2:
                made_up(gallery, 600, 6)  # from here on codes are stored
            case 3:
                gallery.remove([str(gallery.ids[0])])
        shards = shards.for_version(table_of(gallery), gallery.model)
        compare()


def test_a_reopened_gallery_reads_new_images_only(tmp_path, monkeypatch):
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    grow_without_files(gallery, 700)
    gallery.search("1 and not 2")
    grow_without_files(Gallery.open(gallery.folder), 60, seed=1)
    read: list[int] = []
    original = ImageTable.unseal

    def counted(self, rows, column):
        read.append(len(rows) if column.startswith("codes") else 0)
        return original(self, rows, column)

    monkeypatch.setattr(ImageTable, "unseal", counted)
    later = gallery.reopen()
    assert (len(gallery), len(later)) == (700, 760)
    hits = later.search("1 and not 2", top=1000)
    assert len(hits) == 758
    assert sum(read) == 60
    monkeypatch.undo()
    assert hits == Gallery.open(gallery.folder).search("1 and not 2", top=1000)
    assert {hit.id for hit in gallery.search("1 and not 2", top=1000)} == set(range(3, 701))


def test_a_reopened_gallery_sees_new_changed_and_removed_images(tmp_path):
    gallery = Gallery.create(tmp_path / "g", tiny_model(recipe=seeing_recipe()))
    folder = photos(tmp_path / "photos", 12)
    gallery.add(folder)
    texts = ["1 and not 2", "3", "5 | 6", "dog"]
    old = gallery.search(texts, top=50)
    writer = Gallery.open(gallery.folder)
    photos(folder, 3, start=20)
    change(folder / "007.png", 70)
    (folder / "009.png").unlink()
    (folder / "010.png").rename(folder / "moved.png")
    writer.update()
    later = gallery.reopen()
    assert later.search(texts, top=50) == Gallery.open(gallery.folder).search(texts, top=50)
    assert later.ids == [*range(1, 10), *range(11, 16)]
    assert str(folder / "moved.png") in later.paths
    assert gallery.search(texts, top=50) == old


def change(path: Path, seed: int) -> None:
    from galleries import save_image, touch_later

    save_image(path, seed)
    touch_later(path)


def test_a_region_is_found_where_it_was_cut_from(rich):
    """The vector of a region, as a query in regions, has that region as its best."""
    table = table_of(rich)
    one = Shard(table, rich.model)
    ids = np.array(rich.ids[1:40])
    found = merge_samples([one.sample(ids, True)])
    assert found.regions is not None
    from andornot.similarity import best_region_index

    for place in np.flatnonzero(found.has_regions)[:5].tolist():
        queries = normalize(found.regions[place].float(), dim=-1)
        assert best_region_index(found.regions[place : place + 1], queries)[:, 0].tolist() == list(range(9))
