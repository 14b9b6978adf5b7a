"""Conditions in the retrieval experiments, against a loop over ordered pairs and combinations of images."""

from itertools import combinations

import pytest
import torch

from andornot import Representation
from andornot.evaluate.experiments.operability import measure_operability
from andornot.evaluate.experiments.operators import CONDITIONS, PAPER, TRUTH, GalleryTruths, condition_rates
from andornot.evaluate.experiments.retrieval import EncodedImages, EncodedTask
from andornot.evaluate.metrics.operability import Key, summarize_runs
from andornot.logic import Formula

TOP = 6
CLASSES = 4


def encoded(seed: int, count: int) -> EncodedImages:
    random = torch.Generator().manual_seed(seed)
    probs = torch.rand(count, 24, 3, generator=random) ** 2
    return EncodedImages(
        torch.randn(count, 5, generator=random), Representation(probs / probs.sum(-1, keepdim=True), validate=False)
    )


@pytest.fixture(scope="module")
def task() -> EncodedTask:
    return EncodedTask(
        encoded(0, 120),  # enough for two neighbours
        torch.rand(120, CLASSES, generator=torch.Generator().manual_seed(1)) < 0.4,
        {number: encoded(10 + number, 2 + number) for number in range(CLASSES)},
        {pair: encoded(20 + number, 3) for number, pair in enumerate(combinations(range(CLASSES), 2))},
    )


@pytest.fixture(scope="module")
def rates(task):
    return measure_operability(task, top=TOP, operators=PAPER, conditions=CONDITIONS, progress=False).rates


def slowly(task, weight, first_of, second_of, truth_of, a, b) -> list[float]:
    """Rates of a, b and both for one ordered pair, image by image."""
    truths = GalleryTruths(task.gallery.representation.degrees)
    found = []
    for first in first_of(truths):
        for second in second_of(truths):
            order = sorted(range(120), key=lambda row: -float(truth_of(first[row], second[row], weight)))[:TOP]
            labels = task.labels[order]
            found.append(
                [labels[:, a].float().mean(), labels[:, b].float().mean(), (labels[:, a] & labels[:, b]).float().mean()]
            )
    return torch.tensor(found).mean(0).tolist()


@pytest.mark.parametrize("number", [0, 3, 5])
def test_and_is_the_product_of_both_truths(task, rates, number):
    pair = list(task.pairs)[number]
    for order, (a, b) in enumerate((pair, pair[::-1])):
        expected = slowly(
            task,
            1,
            lambda truths, a=a: truths.of_queries(task.singles[a].representation.degrees, expanded=True),
            lambda truths, b=b: truths.of_queries(task.singles[b].representation.degrees, expanded=True),
            lambda x, y, _: x * y,
            a,
            b,
        )
        assert rates[Key("a|b", "a and b", TRUTH)].values[number, order].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("number", [1, 4])
def test_not_takes_away_what_has_b_by_the_weight_that_is_best_on_other_classes(task, rates, number):
    pair = list(task.pairs)[number]
    tuned = rates[Key("ab&~b", "ab and not w*b, w tuned", TRUTH)]
    for name, weight in (("ab and not b", 1.0), ("ab and not w*b, w tuned", tuned.weights[number])):
        for order, (a, b) in enumerate((pair, pair[::-1])):
            expected = slowly(
                task,
                weight,
                lambda truths: truths.of_queries(task.pairs[pair].representation.degrees),
                lambda truths, b=b: truths.of_queries(task.singles[b].representation.degrees, expanded=True),
                lambda x, y, w: x * (1 - y) ** w,
                a,
                b,
            )
            assert rates[Key("ab&~b", name, TRUTH)].values[number, order].tolist() == pytest.approx(expected)


def test_a_condition_is_compared_with_plain_images_by_their_truth(rates, task):
    rows = summarize_runs([measure_operability(task, top=TOP, operators=PAPER, conditions=CONDITIONS, progress=False)])
    found = {row.key: row for row in rows}
    assert found["a|b", "a and b", TRUTH].reference == pytest.approx(
        float(rates[Key("ab", "", TRUTH)].values[..., 0].mean())
    )
    assert found["ab&~b", "ab and not b", TRUTH].reference == pytest.approx(
        float(rates[Key("a", "", TRUTH)].values[..., 0].mean())
    )


def test_without_conditions_nothing_is_searched_by_truth(task):
    found = measure_operability(task, top=TOP, operators=PAPER, progress=False).rates
    assert not any(key.distance == TRUTH for key in found)


def test_combinations_are_those_of_every_first_with_every_second_image():
    first, second = torch.rand(3, 20), torch.rand(2, 20)
    labels = torch.rand(20, 3) < 0.5
    formula = Formula("a and not b")
    each = [labels[(x * (1 - y)).topk(5).indices].float().mean(0) for x in first for y in second]
    assert torch.allclose(condition_rates(formula, first, second, labels, 5), torch.stack(each).mean(0))
