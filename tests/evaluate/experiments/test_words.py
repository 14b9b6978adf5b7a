"""Words as queries on labelled images, against counts by hand."""

from dataclasses import dataclass
from itertools import permutations
from types import SimpleNamespace

import pytest
import torch
from squares import CORNERS, squares
from torch import Tensor

from andornot.concepts import Meaning, UnknownWordError, truth_of
from andornot.errors import EvaluationError
from andornot.evaluate.experiments import words as experiment
from andornot.evaluate.experiments.words import QUERY_KINDS, compare_with_examples, evaluate_words
from andornot.evaluate.metrics.ranking import average_precision, precision_at


@dataclass(frozen=True)
class Corner(Meaning):
    number: int


class CornerWords:
    """Knows three of the four corners, and sees them through a fog."""

    def meaning(self, word: str) -> Corner:
        if word not in CORNERS[:3]:
            raise UnknownWordError(f'unknown word "{word}"')
        return Corner(word, word, "a corner", CORNERS.index(word))

    def evidence(self, maps: Tensor) -> Tensor:
        fog = torch.rand(len(maps), 4, generator=torch.Generator().manual_seed(0))
        return maps.unfold(2, 8, 8).unfold(3, 8, 8).mean((1, 4, 5)).flatten(1) * 0.5 + 0.4 * fog

    def support(self, meaning: Corner, evidence: Tensor) -> Tensor:
        return evidence[:, meaning.number] * 0.1

    def complete(self, _beginning: str) -> list[str]:
        return []


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(experiment, "vocabulary_for", lambda _: CornerWords())

    def look(images):
        yield images[:].float() / 255

    return SimpleNamespace(
        size=16,
        fit="crop",
        sees_all=False,
        reserve=lambda _: None,
        iter_feature_maps=look,
        id="fog",
        backbone=SimpleNamespace(pool=lambda maps: maps.unfold(2, 4, 4).unfold(3, 4, 4).mean((1, 4, 5)).flatten(1)),
        encode_activations=lambda activations: SimpleNamespace(degrees=activations),
    )


def test_precision_counts_the_first_hits():
    scores, truth = torch.tensor([0.5, 0.9, 0.5, 0.1]), torch.tensor([True, False, False, True])
    assert [precision_at(top, scores, truth) for top in (1, 2, 3, 4, 9)] == [0, 0.5, pytest.approx(1 / 3), 0.5, 0.5]
    with pytest.raises(EvaluationError, match="precision needs at least one hit"):
        precision_at(0, scores, truth)


def test_each_name_is_asked_and_two_are_joined(model):
    images = squares(400, several=True)
    outcome = evaluate_words(model, images, top=20)
    metrics = outcome.metrics["words"]
    words, pixels, labels = CornerWords(), images.resized(16)[:].float() / 255, images.labels[:, :3]
    truth = [truth_of(words.support(words.meaning(name), words.evidence(pixels))) for name in CORNERS[:3]]
    for number, name in enumerate(CORNERS[:3]):
        wanted = precision_at(20, truth[number], labels[:, number]), average_precision(truth[number], labels[:, number])
        assert metrics["by_class"][name] == pytest.approx(wanted)
    both = wanted_a = wanted_b = 0.0
    for a, b in permutations(range(3), 2):
        hits = (truth[a] * truth[b]).topk(20).indices
        both += (labels[hits, a] & labels[hits, b]).float().mean().item() / 6
        hits = (truth[a] * (1 - truth[b])).topk(20).indices
        wanted_a += labels[hits, a].float().mean().item() / 6
        wanted_b += labels[hits, b].float().mean().item() / 6
    assert metrics["pairs"] == 6
    found = metrics["and_both"], metrics["and_not_a"], metrics["and_not_b"]
    assert found == pytest.approx((both, wanted_a, wanted_b))


def test_names_that_are_no_words_are_listed_and_left_out(model):
    outcome = evaluate_words(model, squares(40))
    assert outcome.metrics["unknown"] == {"bottom right": 'unknown word "bottom right"'}
    assert outcome.summary.startswith("3 of 4 class names are words.")
    assert outcome.sections[-1].title == "Unknown words"
    assert "pairs" not in outcome.metrics["words"]


def test_a_class_may_be_asked_for_by_another_word(model):
    outcome = evaluate_words(model, squares(40), spellings={"bottom right": "top left"})
    assert outcome.metrics["unknown"] == {}
    assert outcome.protocol["asked"]["bottom right"] == "top left"


def test_words_and_images_and_both_are_compared(model):
    outcome = evaluate_words(model, squares(400, several=True), draws=3)
    metrics = outcome.metrics["examples"]
    assert list(metrics) == [*QUERY_KINDS, "by_class"]
    assert list(metrics["by_class"]) == list(CORNERS[:3])
    for way in QUERY_KINDS:
        mean = sum(ways[way]["mAP"] for ways in metrics["by_class"].values()) / 3
        assert metrics[way]["mAP"] == pytest.approx(mean)
        assert metrics[way]["precision"] > 0.5
    assert [section.title for section in outcome.sections][:2] == ["One word", "Words and images"]
    assert outcome.metrics == evaluate_words(model, squares(400, several=True), draws=3).metrics
    assert metrics != evaluate_words(model, squares(400, several=True), draws=3, seed=1).metrics["examples"]


def test_examples_are_alone_and_not_in_the_ranking():
    """A class of four images alone: three are drawn, one is to be found, however the word ranks the others."""
    degrees = torch.eye(8)[torch.arange(40) % 8] + 0.1 * torch.rand(40, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(40, 2, dtype=torch.bool)
    labels[::8, 0] = True
    labels[0, 1] = True  # not alone
    alone = labels & (labels.sum(1) == 1)[:, None]
    words = labels.float()
    compared = compare_with_examples(degrees, words, labels, alone, ("a", "b"), top=2, draws=4, seed=0)
    assert list(compared.by_class) == ["a"]  # of b there is no image alone
    for way in QUERY_KINDS:
        assert compared.means[way].precision.mean == 1  # the one left, and the one that is not alone
        assert compared.means[way].average_precision.mean == 1
    assert compare_with_examples(degrees, words, labels, alone & False, ("a", "b"), top=2, draws=1, seed=0) is None


def test_mistakes_are_one_line(model):
    with pytest.raises(EvaluationError, match="draws must be 1 or more, not 0"):
        evaluate_words(model, squares(4), draws=0)
    with pytest.raises(EvaluationError, match="top must be 1 or more, not 0"):
        evaluate_words(model, squares(4), top=0)
    with pytest.raises(EvaluationError, match="words are evaluated on labelled images, and these have no labels"):
        evaluate_words(model, squares(4, labels=False))
    with pytest.raises(EvaluationError, match='unknown class "top lef"; did you mean "top left"'):
        evaluate_words(model, squares(4), spellings={"top lef": "dog"})
    with pytest.raises(EvaluationError, match='no class name is a known word: unknown word "x"'):
        evaluate_words(model, squares(4), spellings=dict.fromkeys(CORNERS, "x"))
