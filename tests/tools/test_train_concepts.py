"""Training of named features: the figures, the words of captions, calibration, heads, and the cache of maps."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import train_concepts
from concept_training.calibration import calibrate
from concept_training.data import COCO_NAMES, Coco, Voc
from concept_training.encoding import MapCache, Source, quantise, read_image, restore
from concept_training.heads import ConceptHead, Maps, train_head
from concept_training.measures import (
    average_precision,
    calibration,
    held,
    intersection_over_union,
    precision_at,
    search_figures,
)
from concept_training.words import MENTIONS, choose_words, count_mentions, fit_linear, word_precisions

# Figures


def test_average_precision_is_the_mean_precision_at_the_hits():
    scores, shown = np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])
    assert average_precision(scores, shown) == pytest.approx((1 + 2 / 3) / 2)
    assert precision_at(2, scores, shown) == 0.5


def test_perfect_probabilities_find_everything():
    shown = np.random.default_rng(0).random((400, 4)) < 0.3
    figures = search_figures(shown.astype(float), shown, top=10, person=0)
    for name in ("mAP", "one", "both", "a and not b", "not: a", "a and person", "a and not person", "person AP"):
        assert figures[name] == 1
    assert figures["not: b left"] == 0
    assert (figures["pairs"], figures["ordered pairs"]) == (6, 12)


def test_pairs_need_enough_images():
    shown = np.zeros((40, 2), bool)
    shown[:9] = True
    assert search_figures(shown.astype(float), shown, top=5)["pairs"] == 0
    assert search_figures(shown.astype(float), shown, top=5, need=9)["pairs"] == 1
    assert search_figures(shown.astype(float), shown, top=5, need=9)["ordered pairs"] == 0


def test_calibration_compares_what_is_said_with_what_is_there():
    said = np.array([[0.05], [0.05], [0.95], [0.95]])
    shown = np.array([[False], [False], [True], [False]])
    assert calibration(said, shown) == [(2, pytest.approx(0.05), 0), (2, pytest.approx(0.95), 0.5)]
    assert calibration(said, shown, ignore=np.array([[False], [True], [False], [True]]))[1] == (
        1,
        pytest.approx(0.95),
        1,
    )


def test_overlap_of_rectangles():
    assert held((0, 0, 0.5, 1), (0.25, 0, 0.75, 1)) == pytest.approx(0.5)
    assert intersection_over_union((0, 0, 0.5, 1), (0.25, 0, 0.75, 1)) == pytest.approx(1 / 3)
    assert held((0, 0, 0.2, 0.2), (0.5, 0.5, 1, 1)) == 0


# Words of captions


def test_mentions_are_counted_by_caption_and_in_all_spellings():
    counts = count_mentions([["A man on a beach.", "Two men by the shore", "A dog"], ["Snowmen? No: a mannequin"]])
    words = list(MENTIONS)
    assert counts[0, words.index("man")] == 2
    assert counts[0, words.index("beach")] == 2
    assert counts[1, words.index("man")] == 0
    assert counts[1, words.index("snow")] == 0


def test_linear_heads_find_the_feature_that_a_word_depends_on():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 5)).astype(np.float32) + 3
    counts = np.where(features[:, :2] > 4, 3, 0)
    logits = fit_linear(features, counts)(features)
    assert average_precision(logits[:, 0], counts[:, 0] > 0) > 0.99
    assert average_precision(logits[:, 1], counts[:, 1] > 0) > 0.99


def test_words_are_chosen_by_precision_and_number_of_images():
    assert choose_words({"beach": (0.7, 50), "blue": (0.1, 50), "zoo": (0.9, 3)}) == ["beach"]


def test_one_mention_counts_neither_way():
    counts = np.zeros((4, len(MENTIONS)), np.int64)
    counts[:, 0] = [2, 1, 0, 0]
    logits = np.zeros(counts.shape, np.float32)
    logits[:, 0] = [1, 2, 0, -1]
    assert word_precisions(logits, counts)[next(iter(MENTIONS))] == (1, 1)


# Heads


def test_calibration_undoes_a_wrong_scale():
    rng = np.random.default_rng(0)
    right = rng.normal(-1, 2, (20_000, 3)).astype(np.float32)
    shown = rng.random(right.shape) < 1 / (1 + np.exp(-right))
    fitted = calibrate(2 * right + 1, shown)
    assert fitted.slope == pytest.approx(0.5, abs=0.03)
    assert fitted.offset == pytest.approx(-0.5, abs=0.06)


def fill_cache(folder, count=96, seed=0):
    """A cache of maps in which channel k is high somewhere if the image shows kind k."""
    rng = np.random.default_rng(seed)
    shown = rng.random((count, 3)) < 0.4
    maps = np.zeros((count, 4, 1280), np.uint8)
    for image, kind in zip(*np.nonzero(shown), strict=True):
        maps[image, rng.integers(4), kind] = 250
    folder.mkdir(parents=True)
    np.save(folder / "last-0000.npy", maps)
    sizes = [[2, 2] if row % 3 else [1, 4] for row in range(count)]
    rows = [{"id": str(row), "size": size} for row, size in enumerate(sizes)]
    (folder / "index-0000.json").write_text(json.dumps(rows))
    return MapCache(folder), shown


def test_heads_learn_and_training_is_reproducible(tmp_path):
    cache, shown = fill_cache(tmp_path / "maps")
    maps = Maps(cache.shards())
    logits = []
    for _ in range(2):
        torch.manual_seed(0)
        head = ConceptHead(3, hidden=16)
        train_head(head, maps, shown.astype(np.float32), epochs=12, seed=0, batch=16, rate=1e-2, report=lambda _: None)
        logits.append(maps.apply(head))
    np.testing.assert_array_equal(*logits)
    assert min(average_precision(logits[0][:, kind], shown[:, kind]) for kind in range(3)) > 0.95


def test_batches_have_one_map_size_and_every_image_once(tmp_path):
    maps = Maps(fill_cache(tmp_path / "maps")[0].shards())
    batches = list(maps.batches(10, np.random.default_rng(0)))
    assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(96))
    assert len(batches) <= maps.count_batches(10)


def test_no_maps_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="run the stage encode"):
        Maps(MapCache(tmp_path / "nothing").shards())


# Encoding


class CountingEncoder:
    """An encoder whose maps are the mean colour."""

    def __init__(self):
        self.images = 0

    def __call__(self, images):
        self.images += len(images)
        height, width = images.shape[2] // 32, images.shape[3] // 32
        means = 6 * images.mean((2, 3)).repeat(427, 1)[:, :1280]
        return np.broadcast_to(means[:, None, None], (len(images), height, width, 1280))


def test_encoding_resumes_and_keeps_the_values(tmp_path):
    sources = []
    for number, (width, height) in enumerate([(40, 30), (30, 40), (40, 40)]):
        Image.new("RGB", (width, height), (100 * number, 50, 50)).save(tmp_path / f"{number}.png")
        sources.append(Source(str(number), tmp_path / f"{number}.png"))
    encoder, cache = CountingEncoder(), MapCache(tmp_path / "cache")
    for _ in range(2):
        cache.encode(sources, encoder, report=lambda _: None)
    assert encoder.images == 3
    (shard,) = cache.shards()
    assert shard.ids == ["0", "1", "2"]
    assert [shard.maps(row).shape[2:] for row in range(3)] == [(6, 8), (8, 6), (7, 7)]
    np.testing.assert_allclose(shard.maps(1)[0, 0], 6 * 100 / 255, atol=0.03)


def test_quantised_values_are_near():
    values = np.linspace(0, 6, 1000, dtype=np.float32)
    assert np.abs(restore(quantise(values)) - values).max() < 0.025
    assert np.abs(restore(quantise(values[:10])) - values[:10]).max() < 0.005


def test_the_whole_image_is_read_at_its_own_aspect_ratio_or_at_the_one_given(tmp_path):
    image = Image.new("RGB", (100, 100))
    image.paste((255, 255, 255), (0, 0, 50, 100))
    image.save(tmp_path / "half.png")
    plain = read_image(Source("half", tmp_path / "half.png"))
    assert plain.shape == (3, 224, 224)
    assert (plain[:, :, 0].min(), plain[:, :, -1].max()) == (1, 0)
    assert read_image(Source("half", tmp_path / "half.png", aspect=2 / 3)).shape == (3, 256, 192)


# Data and command line


@pytest.fixture
def data(tmp_path):
    for folder in ("coco256/train2017", "labels14/coco14", "coco3200/images/val2017", "coco3200/labels/val2017"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "captions/annotations").mkdir(parents=True)
    for number in (1, 2, 3):
        Image.new("RGB", (16, 16)).save(tmp_path / f"coco256/train2017/{number:012d}.jpg")
    Image.new("RGB", (64, 48)).save(tmp_path / "coco3200/images/val2017/000000000010.jpg")
    (tmp_path / "coco3200/labels/val2017/000000000010.txt").write_text("16 0.5 0.5 0.2 0.4\n")
    (tmp_path / "labels14/coco14/train.txt").write_text("COCO_train2014_000000000001 0 16\n")
    (tmp_path / "labels14/coco14/val.txt").write_text("COCO_val2014_000000000010 16\n")
    captions = {
        "images": [{"id": 10, "width": 64, "height": 48}, {"id": 11, "width": 10, "height": 99}],
        "annotations": [{"image_id": 10, "caption": "A dog"}],
    }
    (tmp_path / "captions/annotations/captions_val2017.json").write_text(json.dumps(captions))
    return tmp_path


def test_coco_is_read(data):
    coco = train_concepts.open_coco(data)
    assert isinstance(coco, Coco)
    labels = coco.labels(["1", "2", "10"])
    assert [[COCO_NAMES[kind] for kind in np.flatnonzero(row)] for row in labels] == [["person", "dog"], [], ["dog"]]
    (box,) = coco.val_boxes(10)
    assert (box.left, box.top, box.right, box.bottom) == pytest.approx((0.4, 0.3, 0.6, 0.7))
    assert [source.id for source in coco.val_sources()] == ["10"]


def test_aspect_ratios_of_training_images_are_those_of_even_ids(data):
    coco = train_concepts.open_coco(data)
    sources = coco.train_sources(0)
    assert {source.aspect for source in sources} == {64 / 48}
    assert sorted(source.id for source in sources) == ["1", "2", "3"]


def test_voc_has_three_answers(tmp_path):
    (tmp_path / "ImageSets/Main").mkdir(parents=True)
    from concept_training.data import VOC_NAMES

    for name in VOC_NAMES:
        signs = {"dog": ("1", "0"), "cat": ("-1", "1")}.get(name, ("-1", "-1"))
        lines = [f"00000{number}  {sign}" for number, sign in enumerate(signs, 1)]
        (tmp_path / f"ImageSets/Main/{name}_trainval.txt").write_text("\n".join(lines))
    shown, absent = Voc(tmp_path).labels(["000001", "000002"])
    dog, cat = list(VOC_NAMES).index("dog"), list(VOC_NAMES).index("cat")
    assert (shown[:, dog].tolist(), absent[:, dog].tolist()) == ([True, False], [False, False])
    assert (shown[:, cat].tolist(), absent[:, cat].tolist()) == ([False, True], [True, False])


def test_missing_data_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        train_concepts.main(["train", "--data", str(tmp_path), "--voc", "voc", "--work", str(tmp_path)])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_kind_that_coco_does_not_have_cannot_be_left_out(data, capsys):
    arguments = ["train", "--data", str(data), "--voc", "voc", "--work", str(data), "--leave-out", "dog,unicorn"]
    with pytest.raises(SystemExit) as stopped:
        train_concepts.main(arguments)
    assert stopped.value.code == 2
    assert '"unicorn"' in capsys.readouterr().err


# The model card


def test_the_card_names_every_word_with_its_figures():
    from andornot.concepts import ConceptHeads
    from concept_training.card import model_card

    weights = {"hidden.bias": np.zeros(384, np.float32), "sharpness": np.ones(1, np.float32)}
    heads = ConceptHeads(("dog", "beach"), ("coco", "captions"), "efficientnet-lite0", "1", 0.88, weights)
    part = {
        "figures": {"images": 2122.0, "mAP": 0.68},
        "calibration": [(100, 0.05, 0.04), (10, 0.95, 0.93)],
        "strong": {"one": 0.94, "two": 0.88},
        "strong, all labels": {"one": 0.97, "two": 0.93},
        "by word": {"dog": (0.9, 1.0, 80), "unicorn": (float("nan"), 0.0, 0)},
        "caption words": {"by word": {"beach": (0.71, 0.8, 50)}},
        "boxes": {
            "boxes": 3541.0,
            "hold half of a thing": 0.72,
            "hold half of a thing, chance": 0.41,
            "overlap by half": 0.2,
            "mean area": 0.22,
        },
    }
    facts = {"date": "1 May 2026", "seed": 0, "trained": 118_287, "dropout": 0.1, "epochs": 3}
    words = {"beach": (0.7, 50), "blue": (0.07, 43)}
    card = model_card(heads, {"coco, odd ids": part, "voc2007": part}, words, 1_400_000, facts)
    assert "| dog 0.900 1.00 (80) | unicorn – 0.000 (0) |" in card
    assert "beach 0.710 0.800 (50)" in card
    assert "blue 0.07 (43)" in card
    assert "| mAP | 0.680 | 0.680 |" in card
    assert "| 90 to 100 % | 95 %: 93 % of 10 | 95 %: 93 % of 10 |" in card
    assert "1.4 MB" in card
    assert "{" not in card
