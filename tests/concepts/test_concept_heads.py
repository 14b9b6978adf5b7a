"""Named features from a feature map: probabilities, evidence at places, boxes, files."""

from importlib import resources

import numpy as np
import pytest

from andornot.concepts import OTHER_WORDS, ConceptError, ConceptHeads, find_box, load_heads, write_heads
from andornot.concepts.heads import find_boxes

CHANNELS, HIDDEN = 6, 4


def make_heads(seed: int = 0, names: tuple[str, ...] = ("dog", "couch", "beach")) -> ConceptHeads:
    rng = np.random.default_rng(seed)
    shapes = {
        "hidden.weight": (HIDDEN, CHANNELS),
        "hidden.bias": (HIDDEN,),
        "context.weight": (HIDDEN, HIDDEN),
        "context.bias": (HIDDEN,),
        "place.weight": (len(names), HIDDEN),
        "place.bias": (len(names),),
        "whole.weight": (len(names), HIDDEN),
        "slope": (len(names),),
        "offset": (len(names),),
    }
    weights = {name: rng.normal(size=shape).astype(np.float16).astype(np.float32) for name, shape in shapes.items()}
    weights["sharpness"] = np.float32([1.5])
    return ConceptHeads(names, ("coco",) * len(names), "efficientnet-lite0", "1", 0.5, weights)


def make_maps(count: int = 2, height: int = 3, width: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((count, CHANNELS, height, width), dtype=np.float32)


def reference_logits(heads: ConceptHeads, maps: np.ndarray) -> np.ndarray:
    """The formula of the module, place by place."""
    w, logits = heads.weights, []
    for image in maps:
        places = [image[:, y, x] / heads.scale for y in range(image.shape[1]) for x in range(image.shape[2])]
        own = [np.maximum(w["hidden.weight"] @ place + w["hidden.bias"], 0) for place in places]
        context = w["context.weight"] @ np.mean(own, 0) + w["context.bias"]
        features = [np.maximum(feature + context, 0) for feature in own]
        r = w["sharpness"][0]
        evidence = np.array([w["place.weight"] @ feature + w["place.bias"] for feature in features])
        pooled = np.log(np.exp(r * evidence).mean(0)) / r
        logits.append(w["slope"] * (pooled + w["whole.weight"] @ np.mean(features, 0)) + w["offset"])
    return np.array(logits)


def test_logits_follow_the_formula():
    heads, maps = make_heads(), make_maps()
    np.testing.assert_allclose(heads.logits(maps), reference_logits(heads, maps), rtol=1e-4, atol=1e-4)


def test_probabilities_are_the_logistic_function_of_logits():
    heads, maps = make_heads(), make_maps()
    np.testing.assert_allclose(heads.probabilities(maps), 1 / (1 + np.exp(-heads.logits(maps))), rtol=1e-5)


def test_extreme_evidence_does_not_overflow():
    probabilities = make_heads().probabilities(1e4 * make_maps())
    assert np.isfinite(probabilities).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


def test_an_image_does_not_depend_on_the_others_of_its_batch():
    heads, maps = make_heads(), make_maps(3)
    np.testing.assert_allclose(heads.probabilities(maps)[1:2], heads.probabilities(maps[1:2]), rtol=1e-5)


def test_flipped_maps_have_the_same_probabilities_and_flipped_evidence():
    heads, maps = make_heads(), make_maps()
    flipped = maps[:, :, :, ::-1]
    np.testing.assert_allclose(heads.probabilities(flipped), heads.probabilities(maps), rtol=1e-4)
    np.testing.assert_allclose(heads.evidence(flipped), heads.evidence(maps)[:, :, ::-1], rtol=1e-3, atol=1e-4)


def test_both_is_probabilities_and_evidence():
    heads, maps = make_heads(), make_maps()
    probabilities, evidence = heads.both(maps)
    np.testing.assert_array_equal(probabilities, heads.probabilities(maps))
    np.testing.assert_array_equal(evidence, heads.evidence(maps))
    assert evidence.shape == (2, 3, 4, 3)


@pytest.mark.parametrize("shape", [(2, CHANNELS + 1, 3, 4), (CHANNELS, 3, 4), (2, CHANNELS, 0, 4)])
def test_maps_of_another_shape_are_an_error_that_names_it(shape):
    with pytest.raises(ConceptError, match=rf"\(B, {CHANNELS}, h, w\), got"):
        make_heads().probabilities(np.zeros(shape, np.float32))


def test_a_name_that_is_no_feature_is_an_error():
    assert make_heads().index("couch") == 1
    with pytest.raises(ConceptError, match='"sofa"'):
        make_heads().index("sofa")


# Files


def test_written_heads_are_read_back(tmp_path):
    heads, file = make_heads(), tmp_path / "heads.safetensors"
    write_heads(heads, file, seed="7")
    read = load_heads(file)
    assert (read.names, read.groups, read.backbone, read.version) == (
        heads.names,
        heads.groups,
        "efficientnet-lite0",
        "1",
    )
    np.testing.assert_array_equal(read.probabilities(make_maps()), heads.probabilities(make_maps()))


def test_a_file_that_is_missing_or_something_else_is_one_line(tmp_path):
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"no tensors")
    for file in (tmp_path / "missing", other):
        with pytest.raises(ConceptError, match="can't read named features") as error:
            load_heads(file)
        assert "\n" not in str(error.value)


def test_a_file_of_another_format_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ConceptError, match="holds no named features"):
        load_heads(tmp_path / "model.safetensors")


def test_a_file_with_too_few_heads_is_refused(tmp_path):
    heads = make_heads()
    short = ConceptHeads((*heads.names, "cat"), heads.groups, heads.backbone, "1", heads.scale, heads.weights)
    write_heads(short, tmp_path / "short.safetensors")
    with pytest.raises(ConceptError, match="4 names for 3 heads"):
        load_heads(tmp_path / "short.safetensors")


# Boxes


def test_a_box_is_around_the_region_with_the_best_place():
    evidence = np.full((6, 8), -5, np.float32)
    evidence[1:3, 5:7] = 4
    evidence[5, 0] = 3  # another region, less likely
    left, top, right, bottom = find_box(evidence)
    assert 0.5 < left < 0.65 < 0.8 < right < 1
    assert 0.05 < top < 0.25 < 0.4 < bottom < 0.65


def test_a_box_of_even_evidence_is_the_whole_image():
    assert find_box(np.zeros((6, 8), np.float32)) == (0, 0, 1, 1)


def test_a_map_of_one_place_has_a_box():
    assert find_box(np.float32([[2.0]])) == (0, 0, 1, 1)


def test_a_smaller_share_makes_a_smaller_box():
    y, x = np.mgrid[:6, :8]
    evidence = (-((y - 3) ** 2) - (x - 4) ** 2).astype(np.float32)

    def area(share: float) -> float:
        left, top, right, bottom = find_box(evidence, share)
        return (right - left) * (bottom - top)

    assert area(0.2) < area(0.5) < area(0.9)


def test_many_boxes_are_found_as_each_alone_and_by_a_walk_from_place_to_place():
    random = np.random.default_rng(0)
    maps = random.normal(size=(20, 4, 6)).astype(np.float32)
    found = find_boxes(maps)
    for evidence, box in zip(maps, found, strict=True):
        assert find_box(evidence) == tuple(box.tolist())
    # An oracle for maps that are not interpolated: constant blocks of 3 x 3 places have their own values in the middle.
    for evidence in maps:
        fine = np.kron(evidence, np.ones((3, 3), np.float32))
        left, top, right, bottom = find_box(fine, 0.3)
        least = fine.max() - 0.3 * (fine.max() - fine.mean())
        seen, waiting = set(), [tuple(int(place) for place in np.unravel_index(evidence.argmax(), evidence.shape))]
        while waiting:
            y, x = waiting.pop()
            inside = 0 <= y < 4 and 0 <= x < 6 and (y, x) not in seen and evidence[y, x] >= least
            if inside:
                seen.add((y, x))
                waiting += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
        rows, columns = [y for y, _ in seen], [x for _, x in seen]
        expected = np.array([min(columns) / 6, min(rows) / 4, (max(columns) + 1) / 6, (max(rows) + 1) / 4])
        assert np.abs(np.array([left, top, right, bottom]) - expected).max() < 0.09  # half a block


def test_find_has_the_probabilities_and_the_boxes_of_the_likeliest_words():
    heads, maps = make_heads(), make_maps(4)
    probabilities, (words, boxes) = heads.find(maps)
    np.testing.assert_array_equal(probabilities, heads.probabilities(maps))
    evidence = heads.evidence(maps)
    for image in range(4):
        likely = [word for word in np.argsort(-probabilities[image]) if probabilities[image, word] >= 0.05]
        assert words[image][words[image] >= 0].tolist() == likely
        for word, box in zip(words[image], boxes[image], strict=True):
            assert word < 0 or np.allclose(box, find_box(evidence[image, :, :, word]), atol=1e-6)


# The heads of the package


def test_the_package_has_heads_for_the_default_backbone():
    heads = load_heads()
    assert heads.backbone == "efficientnet-lite0"
    assert heads.groups.count("coco") == 80
    assert len(set(heads.names)) == len(heads.names)
    assert {"person", "dog", "couch", "man", "woman", "child", "beach", "kitchen"} <= set(heads.names)
    probabilities, evidence = heads.both(np.zeros((1, 1280, 6, 8), np.float32))
    assert probabilities.shape == (1, len(heads.names))
    assert evidence.shape == (1, 6, 8, len(heads.names))
    assert np.isfinite(probabilities).all()


def test_the_heads_of_the_package_are_small():
    file = resources.files("andornot.concepts") / "concepts.safetensors"
    assert len(file.read_bytes()) < 4_000_000


def test_every_other_word_stands_for_a_name_of_the_package():
    assert set(OTHER_WORDS) <= set(load_heads().names)
