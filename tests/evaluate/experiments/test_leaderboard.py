"""AND, OR and NOT over words and examples, against the same counted by hand."""

import json
from itertools import permutations

import pytest
import torch
from squares import small_model, squares
from towers import save_joint_model

from andornot.commands.main import main
from andornot.concepts import truth_of, vocabulary_for
from andornot.evaluate import EvaluationError, average_precision, evaluate_logic, precision_at
from andornot.model import Model, new_backbone
from andornot.ssl.recipe import make_recipe

NAMES = ("dog", "cat", "red", "photo")
QUERIES = ("a and b", "a or b", "a and not b")


@pytest.fixture(scope="module")
def images():
    found = squares(400, side=32, channels=3, several=True)
    found.class_names = NAMES
    return found


@pytest.fixture(scope="module")
def tower(images, tmp_path_factory) -> Model:
    """A random model of images and texts."""
    folder = save_joint_model("clip", tmp_path_factory.mktemp("joint") / "clip")
    recipe = make_recipe({"backbone": f"transformers:{folder}", "regime": "calibrated"})
    backbone = new_backbone(recipe, 3).eval()
    seen = images.resized(32)[:64].float() / 255
    with torch.no_grad():
        return Model.calibrated(backbone, backbone(seen), recipe)


def mean_over_pairs(labels, scores, top):
    """Precision and average precision of the three queries, by functions of two scores, over all pairs of classes."""
    wanted = (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a & ~b)
    sums = torch.zeros(3, 2)
    pairs = list(permutations(range(4), 2))
    for a, b in pairs:
        for number, (score, right) in enumerate(zip(scores, wanted, strict=True)):
            truth = right(labels[:, a], labels[:, b])
            found = score(a, b)
            sums[number] += torch.tensor([precision_at(top, found, truth), average_precision(found, truth)])
    return (sums / len(pairs)).flatten().tolist()


def measured(outcome, method):
    queries = outcome.metrics["methods"][method]
    return [queries[query][what].value for query in QUERIES for what in ("precision", "average_precision")]


def test_words_are_scored_by_truth_by_arithmetic_and_by_vectors(tower, images):
    outcome = evaluate_logic(tower, images, top=10, draws=1)
    words = vocabulary_for(tower.backbone)
    maps = torch.cat([*tower.iter_feature_maps(images.resized(32, tower.fit), progress=False)])
    evidence = words.evidence(maps)
    support = torch.stack([words.support(words.meaning(name), evidence) for name in NAMES])
    truth = torch.stack([truth_of(row) for row in support])
    direction = torch.stack([words.meaning(name).direction for name in NAMES])
    cosine = direction @ evidence.T
    by_hand = {
        "words: conditions": (
            lambda a, b: truth[a] * truth[b],
            lambda a, b: truth[a] + truth[b] - truth[a] * truth[b],
            lambda a, b: truth[a] * (1 - truth[b]),
        ),
        "words: score arithmetic": (
            lambda a, b: torch.minimum(support[a], support[b]),
            lambda a, b: torch.maximum(support[a], support[b]),
            lambda a, b: support[a] - support[b],
        ),
        "words: mean of vectors, a - b": (
            lambda a, b: cosine[a] + cosine[b],
            lambda a, b: cosine[a] + cosine[b],
            lambda a, b: cosine[a] - cosine[b],
        ),
    }
    for method, scores in by_hand.items():
        assert measured(outcome, method) == pytest.approx(mean_over_pairs(images.labels, scores, 10), abs=2e-3), method
    phrase = truth_of(words.support(words.meaning("dog and no cat"), evidence))
    assert phrase.std() > 0
    assert "words: one phrase" in outcome.metrics["methods"]
    assert set(outcome.metrics["multiple_choice"]) == {
        f"words: {n}" for n in ("conditions", "score arithmetic", "one phrase")
    }


def test_a_model_without_words_is_measured_by_examples(images):
    model = small_model(channels=3, size=32, images=images)
    outcome = evaluate_logic(model, images, top=5, draws=2)
    assert all(name.startswith("examples: ") for name in outcome.metrics["methods"])
    assert outcome.metrics["multiple_choice"] == {}


def mean_share(labels, right):
    pairs = list(permutations(range(4), 2))
    return sum(float(right(labels[:, a], labels[:, b]).double().mean()) for a, b in pairs) / len(pairs)


def test_examples_find_more_than_chance(images):
    model = small_model(channels=3, size=32, images=images)
    outcome = evaluate_logic(model, images, top=5, draws=2)
    shares = [
        mean_share(images.labels, right) for right in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a & ~b)
    ]
    found = measured(outcome, "examples: score arithmetic")[::2]
    assert all(one > share for one, share in zip(found, shares, strict=True))


def test_captions_are_multiple_choice_too(tower, images, tmp_path):
    file = tmp_path / "captions.json"
    names = [name.rpartition("/")[2] for name in images.names]
    content = {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(names)],
        "annotations": [{"image_id": number, "caption": f"a photo of a {NAMES[number % 4]}."} for number in range(40)],
    }
    file.write_text(json.dumps(content))
    choices = evaluate_logic(tower, images, top=5, draws=1, captions=file).metrics["multiple_choice"]
    assert {name for name in choices if name.startswith("captions")} == {"captions: conditions", "captions: one phrase"}
    assert all(0 <= accuracy <= 1 for accuracy in choices.values())
    file.write_text("[]")
    with pytest.raises(EvaluationError, match="not COCO's captions"):
        evaluate_logic(tower, images, captions=file)


def test_one_class_an_image_is_refused_with_a_reason():
    with pytest.raises(EvaluationError, match="use images with several labels each"):
        evaluate_logic(small_model(channels=3, size=32), squares(80, side=32, channels=3), top=5)
    with pytest.raises(EvaluationError, match="no labels: try voc:PATH"):
        evaluate_logic(small_model(), squares(8, labels=False))


def test_the_command_measures_a_folder_with_labels_and_prints_rows_for_the_docs(images, tmp_path, capsys):
    for number in range(len(images)):
        images.read(number).save(tmp_path / f"{number}.png")
    rows = [
        [f"{number}.png", *(NAMES[c] for c in range(4) if images.labels[number, c])] for number in range(len(images))
    ]
    (tmp_path / "labels.csv").write_text("\n".join(",".join(row) for row in rows))
    small_model(channels=3, size=32, images=images).save(tmp_path / "model")
    data = f"folder:{tmp_path}?labels=labels.csv"
    arguments = ["evaluate", "logic", "--model", str(tmp_path / "model"), "--data", data, "-o", str(tmp_path / "out")]
    assert main([*arguments, "--draws", "1"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| "))
    assert row.startswith("| folder, 400 | conv5 | examples: conditions | 0.")
    assert (tmp_path / "out" / "report.html").exists()
