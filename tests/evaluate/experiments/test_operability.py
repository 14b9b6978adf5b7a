"""Operability, against a loop over ordered pairs, images and operators that measures one distance after the other."""

from itertools import combinations, product

import pytest
import torch

from andornot import Representation, cross_entropy, degree_distance
from andornot.evaluate.experiments import operability
from andornot.evaluate.experiments.operability import NEIGHBOURS, measure_operability
from andornot.evaluate.experiments.operators import ALL, OPERATORS, Operands, Operator
from andornot.evaluate.experiments.retrieval import EncodedImages, EncodedTask
from andornot.evaluate.metrics.operability import Key, Rates, summarize_runs
from andornot.logic.distance import SCORES, Score

TOP = 6
TUNING = 2
# Classes differ in the number of their images, and so do pairs; two classes are never seen together.
SINGLES = {0: 3, 1: 4, 2: 2, 3: 3, 4: 3}
PAIRS = {pair: 2 + sum(pair) % 2 for pair in combinations(SINGLES, 2) if pair != (1, 2)}


def encoded(seed: int, count: int) -> EncodedImages:
    random = torch.Generator().manual_seed(seed)
    # So many features that a difference of two images is never nothing, which is as near to all.
    probs = torch.rand(count, 24, 3, generator=random, dtype=torch.float64) ** 2
    features = torch.randn(count, 5, generator=random, dtype=torch.float64)
    return EncodedImages(features, Representation(probs / probs.sum(-1, keepdim=True)))


@pytest.fixture(scope="module")
def task() -> EncodedTask:
    return EncodedTask(
        encoded(0, 40),
        torch.rand(40, 5, generator=torch.Generator().manual_seed(1)) < 0.4,
        {number: encoded(10 + number, count) for number, count in SINGLES.items()},
        {pair: encoded(20 + number, count) for number, (pair, count) in enumerate(PAIRS.items())},
    )


@pytest.fixture(scope="module")
def rates(task) -> dict[Key, Rates]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operability, "TUNING_IMAGES", TUNING)
        return measure_operability(task, top=TOP, progress=False).rates


# The slow version


def unit(vectors):
    return vectors / vectors.norm(dim=-1, keepdim=True)


def in_space(features, representation, space):
    return {"representation": representation, "degrees": representation.degrees, "features": unit(features)}[space]


def rates_of(task, value, distance, a, b) -> list[float]:
    """Of one query."""
    if isinstance(value, Representation):
        compare = {
            "cross-entropy": cross_entropy,
            "reverse-cross-entropy": lambda query, gallery: cross_entropy(gallery, query),
            "degrees": degree_distance,
        }[distance]
        distances = compare(value, task.gallery.representation).tolist()
    else:
        vectors = task.gallery.activations if distance == "features" else task.gallery.representation.degrees
        distances = (-(unit(value) * unit(vectors)).sum(-1)).tolist()
    nearest = sorted(range(len(distances)), key=lambda number: distances[number])[:TOP]
    has = [(bool(task.labels[number, a]), bool(task.labels[number, b])) for number in nearest]
    return [sum(x for x, _ in has) / TOP, sum(y for _, y in has) / TOP, sum(x and y for x, y in has) / TOP]


def near(task, image: Representation) -> EncodedImages:
    """The mean of the nearest images."""
    distances = degree_distance(image, task.gallery.representation).tolist()
    nearest = sorted(range(len(distances)), key=lambda number: distances[number])[:NEIGHBOURS]
    probs = sum(task.gallery.representation[number].probs for number in nearest) / len(nearest)
    return EncodedImages(
        sum(task.gallery.activations[number] for number in nearest) / len(nearest), Representation(probs)
    )


def queries_of(task, operator, a, b, most=None):
    """The operands of each combination that is asked for."""

    def images(found: EncodedImages):
        return [in_space(*image, operator.space) for image in list(zip(*found, strict=True))[:most]]

    of_a, of_b = images(task.singles[a]), images(task.singles[b])
    of_ab = images(task.pairs[min(a, b), max(a, b)])
    near_b = [in_space(*near(task, image), operator.space) for image in task.singles[b].representation][:most]
    if operator.query == "a|b":
        return [Operands(x, y, None, None) for x, y in product(of_a, of_b)]
    if operator.query == "ab&a":
        return [Operands(x, None, z, None) for z, x in product(of_ab, of_a)]
    if operator.query == "ab&~b":
        return [Operands(None, y, z, n) for z, (y, n) in product(of_ab, zip(of_b, near_b, strict=True))]
    return [Operands(x, y, z, None) for z, (x, y) in product(of_ab, zip(of_a, of_b, strict=False))]


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def both_orders(pair):
    return pair, pair[::-1]


def close(found: torch.Tensor, expected: list) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), atol=1e-9, rtol=0)


# All rates


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: f"{operator.query} by {operator.name}")
def test_rates_of_operators_agree_with_the_loop_for_both_orders_of_a_pair(operator, task, rates):
    for distance in operator.distances:
        found = rates[Key(operator.query, operator.name, distance)]
        assert len(found.weights) == (len(PAIRS) if operator.weights else 0)
        expected = []
        for number, pair in enumerate(PAIRS):
            weight = found.weights[number : number + 1]
            expected.append(
                [
                    mean(
                        [
                            rates_of(task, operator.function(x, *weight), distance, a, b)
                            for x in queries_of(task, operator, a, b)
                        ]
                    )
                    for a, b in both_orders(pair)
                ]
            )
        close(found.values, expected)


@pytest.mark.parametrize("distance", ["cross-entropy", "degrees", "features"])
def test_rates_of_plain_images_agree_with_the_loop(distance, task, rates):
    def plain(found: EncodedImages, a: int, b: int) -> list[float]:
        images = found.activations if distance == "features" else found.representation
        return mean([rates_of(task, image, distance, a, b) for image in images])

    alone = [[plain(task.singles[a], a, b) for a, b in both_orders(pair)] for pair in PAIRS]
    close(rates[Key("a", "", distance)].values, alone)
    together = [[plain(task.pairs[pair], a, b) for a, b in both_orders(pair)] for pair in PAIRS]
    close(rates[Key("ab", "", distance)].values, together)


def test_there_is_a_row_for_each_way_to_search_and_nothing_else(rates):
    ways = {Key(o.query, o.name, distance) for o in OPERATORS for distance in o.distances}
    plain = {Key(query, "", d) for query in ("a", "ab") for d in (*ALL, "features")}
    assert set(rates) == ways | plain


@pytest.mark.parametrize("operator", [o for o in OPERATORS if o.weights], ids=lambda operator: operator.name)
def test_weights_are_the_best_on_the_pairs_that_share_no_class(operator, task, rates):
    (distance,) = operator.distances
    margins = {}
    for weight, pair in product(operator.weights, PAIRS):
        of_orders = []
        for a, b in both_orders(pair):
            asked = queries_of(task, operator, a, b, TUNING)
            rate = mean([rates_of(task, operator.function(x, weight), distance, a, b) for x in asked])
            of_orders.append(rate[0] - rate[1])
        margins[weight, pair] = sum(of_orders) / 2
    for pair, chosen in zip(PAIRS, rates[Key(operator.query, operator.name, distance)].weights, strict=True):
        others = [other for other in PAIRS if not set(other) & set(pair)]
        assert others
        means = {weight: sum(margins[weight, other] for other in others) for weight in operator.weights}
        assert means[chosen] == pytest.approx(max(means.values()), abs=1e-5), "or one as good"


@pytest.mark.parametrize(
    ("pairs", "others"),
    [
        ([(0, 1), (2, 3), (0, 2)], [[1], [0], [0, 1]]),  # the last shares a class with each
        ([(0, 1)], [[0]]),
    ],
)
def test_with_few_classes_weights_are_tuned_on_what_there_is(pairs, others):
    assert [operability.disjoint_pairs(pairs, pair) for pair in pairs] == others


def test_thirty_images_are_900_combinations_in_each_order():
    shapes = []

    def note(x: Operands):
        shapes.append((x.ab - x.b).shape)
        return x.ab - x.b

    singles, pairs = {n: encoded(n, 30) for n in range(3)}, {p: encoded(9, 30) for p in combinations(range(3), 2)}
    task = EncodedTask(encoded(0, 20), torch.ones(20, 3, dtype=torch.bool), singles, pairs)
    operator = Operator("ab&~b", "noted", "degrees", note, ("degrees",))
    found = measure_operability(task, top=5, operators=[operator], progress=False).rates
    assert shapes == [(30, 30, 24)] * 6
    assert found[Key("ab&~b", "noted", "degrees")].values.shape == (3, 2, 3)


def test_an_operator_and_a_distance_are_a_function_and_a_line_each(task, monkeypatch):
    def roots(representation: Representation):
        return representation.degrees.sqrt()

    monkeypatch.setitem(SCORES, "mine", Score(roots, roots))
    mine = Operator("ab&~b", "my own", "representation", lambda x: x.ab & ~x.b & ~x.b, ("mine", "degrees"))
    rows = summarize_runs([measure_operability(task, top=TOP, operators=[*OPERATORS[:1], mine], progress=False)])
    ways = [row.key for row in rows if row.operator == "my own"]
    assert sorted(ways) == [("ab&~b", "my own", "degrees"), ("ab&~b", "my own", "mine")]
    found = next(row for row in rows if row.key == ("ab&~b", "my own", "mine"))
    plain = next(row for row in rows if row.key == ("a", "", "mine"))
    assert found.reference == pytest.approx(plain.a.value)
