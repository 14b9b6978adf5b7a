import math

import numpy as np
import pytest
import torch
from oracle import random_representation

import andornot as aon
from andornot import Representation
from andornot.logic.distance import SCORES

ALL_PAIRS = [aon.cross_entropy, aon.degree_distance, aon.containment]


def some(seed: int, *batch: int, n: int = 6, m: int = 5) -> Representation:
    return random_representation(np.random.default_rng(seed), n, m, batch)


def slow_cross_entropy(q: Representation, g: Representation) -> float:
    n, m = q.probs.shape
    return -sum(
        q.probs[j, k].item() * math.log(max(g.probs[j, k].item(), 1e-12)) for j in range(n) for k in range(m)
    ) / n  # fmt: skip


def slow_degree_distance(q: Representation, g: Representation) -> float:
    a, b = q.degrees.tolist(), g.degrees.tolist()
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return 1 - dot / (math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b)))


def slow_containment(q: Representation, g: Representation) -> float:
    n, m = q.probs.shape
    total = 0.0
    for j in range(n):
        for x in range(m):
            for y in range(m):
                truth = 1.0 if x <= y else y / (m - 1)
                total += q.probs[j, x].item() * g.probs[j, y].item() * truth
    return total / n


SLOW = {
    aon.cross_entropy: slow_cross_entropy,
    aon.degree_distance: slow_degree_distance,
    aon.containment: slow_containment,
}


@pytest.mark.parametrize("distance", ALL_PAIRS)
def test_all_pairs_agree_with_the_plain_definition(distance):
    queries, gallery = some(0, 3), some(1, 7)
    expected = [[SLOW[distance](q, g) for g in gallery] for q in queries]
    np.testing.assert_allclose(distance(queries, gallery), expected, atol=1e-12)


# More is nearer in a score, and less in a distance.
AS_SCORES = {
    "degrees": lambda q, g: 1 - slow_degree_distance(q, g),
    "cross-entropy": lambda q, g: -slow_cross_entropy(q, g),
    "reverse-cross-entropy": lambda q, g: -slow_cross_entropy(g, q),
    "containment": slow_containment,
}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_the_inner_product_of_two_vectors(name):
    queries, gallery = some(0, 3), some(1, 7)
    vectors, others = SCORES[name].query(queries), SCORES[name].gallery(gallery)
    expected = [[AS_SCORES[name](q, g) for g in gallery] for q in queries]
    np.testing.assert_allclose(vectors @ others.T, expected, atol=1e-12)
    assert vectors.shape[1] == (6 if name == "degrees" else 30)
    torch.testing.assert_close(SCORES[name].query(queries[1]), vectors[1], msg="one image, or many")


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_vectors_of_half_precision_are_wide_enough_to_compare(name, dtype):
    queries, gallery = some(0, 3, n=64).to(dtype), some(1, 7, n=64).to(dtype)
    scores = SCORES[name].query(queries) @ SCORES[name].gallery(gallery).T
    assert scores.dtype == torch.float32
    exact = SCORES[name].query(queries.to(torch.float64)) @ SCORES[name].gallery(gallery.to(torch.float64)).T
    torch.testing.assert_close(scores.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("distance", ALL_PAIRS)
def test_paired_is_the_diagonal_of_all_pairs(distance):
    queries, gallery = some(0, 5), some(1, 5)
    torch.testing.assert_close(distance(queries, gallery, paired=True), distance(queries, gallery).diagonal())
    one = distance(queries[0], gallery, paired=True)
    torch.testing.assert_close(one, distance(queries[0], gallery))


@pytest.mark.parametrize("distance", ALL_PAIRS)
def test_leading_dimensions_of_both_sides_follow_each_other(distance):
    queries, gallery = some(0, 2, 3), some(1, 4)
    result = distance(queries, gallery)
    assert result.shape == (2, 3, 4)
    torch.testing.assert_close(result[1, 2], distance(queries[1, 2], gallery))
    assert distance(queries[0, 0], gallery[0]).shape == ()
    assert distance(queries, gallery[:0]).shape == (2, 3, 0)


@pytest.mark.parametrize("distance", [*ALL_PAIRS, aon.logic.expected_bce])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_added_up_in_float32(distance, dtype):
    queries, gallery = some(0, 4, n=512).to(dtype), some(1, 4, n=512).to(dtype)
    result = distance(queries, gallery)
    assert result.dtype == torch.float32
    exact = distance(queries.to(torch.float64), gallery.to(torch.float64))
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("distance", [*ALL_PAIRS, aon.logic.expected_bce])
def test_crisp_and_empty_images_give_finite_distances(distance):
    eye = torch.eye(4)
    crisp = Representation(eye.unsqueeze(1))
    assert distance(crisp, crisp).isfinite().all()
    nothing = crisp[:1]
    assert distance(nothing, nothing).isfinite().all()


@pytest.mark.parametrize("distance", [*ALL_PAIRS, aon.logic.expected_bce])
def test_gradients_flow(distance):
    logits = torch.randn(
        2, 3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    assert torch.autograd.gradcheck(lambda x: distance(*Representation.from_logits(x)), logits)


@pytest.mark.parametrize("distance", [*ALL_PAIRS, aon.logic.expected_bce])
def test_other_models_are_refused(distance):
    with pytest.raises(ValueError, match="only those of one model"):
        distance(some(0, 3, m=4), some(0, 3, m=5))


def test_cross_entropy_is_least_where_the_query_is():
    """Gibbs: of all galleries the query itself is nearest, at the distance of its own entropy."""
    queries = some(0, 20)
    distances = aon.cross_entropy(queries, queries)
    assert torch.equal(distances.argmin(1), torch.arange(20))


def test_cross_entropy_has_a_ceiling():
    crisp = Representation([[1.0, 0.0]])
    assert aon.cross_entropy(crisp, ~crisp).item() == pytest.approx(-math.log(1e-12))


def test_an_image_without_features_is_at_degree_distance_one():
    nothing = Representation([[1.0, 0.0], [1.0, 0.0]])
    assert aon.degree_distance(nothing, some(0, 3, n=2, m=2).to(torch.float32)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("degree", [0.0, 1e-40, 1e-30, 0.5])
def test_the_gradient_of_the_degree_distance_is_finite_and_nothing_without_features(degree):
    probs = torch.tensor([[[1.0 - degree, degree], [1.0, 0.0]], [[0.3, 0.7], [0.6, 0.4]]], requires_grad=True)
    image = Representation(probs)
    aon.degree_distance(image, image).sum().backward()
    assert probs.grad.isfinite().all()
    if degree == 0:
        assert (probs.grad[0] == 0).all()


def test_an_or_contains_both_of_its_operands_more_than_they_contain_each_other():
    a, b = some(0), some(1)
    assert aon.containment(a, a | b) >= aon.containment(a, b)
    assert aon.containment(a & b, b) >= aon.containment(a, b)


def test_containment_is_the_mean_degree_of_the_implication():
    a, b = some(0, 4), some(1, 4)
    torch.testing.assert_close(aon.containment(a, b, paired=True), aon.logic.implication(a, b).degrees.mean(-1))


def test_the_papers_example_of_the_expected_value_loss():
    """Cross-entropy cannot tell P_2 from P_3, though P_3's expected truth value is farther from Z_1's."""
    z1 = Representation([[0.8, 0.1, 0.1]])
    p2, p3 = Representation([[0.1, 0.8, 0.1]]), Representation([[0.1, 0.1, 0.8]])
    assert aon.cross_entropy(z1, p2) == aon.cross_entropy(z1, p3)
    by_hand = [-(0.15 * math.log(e) + 0.85 * math.log(1 - e)) for e in (0.5, 0.85)]
    assert aon.logic.expected_bce(p2, z1).item() == pytest.approx(by_hand[0], rel=1e-6)
    assert aon.logic.expected_bce(p3, z1).item() == pytest.approx(by_hand[1], rel=1e-6)


def test_expected_bce_agrees_with_torch_and_broadcasts():
    prediction, target = some(0, 4, 1), some(1, 3)
    expected = torch.nn.functional.binary_cross_entropy(
        prediction.degrees.expand(4, 3, 6), target.degrees.expand(4, 3, 6), reduction="none"
    ).mean(-1)
    torch.testing.assert_close(aon.logic.expected_bce(prediction, target), expected)


def test_small_degrees_have_a_direction_too():
    """An AND of many images has hardly any of any feature, but not the same of each."""
    strong = Representation([[0.2, 0.8], [0.6, 0.4]])
    weak = Representation([[1.0, 8e-20], [1.0, 4e-20]])
    assert aon.degree_distance(weak, strong).item() == pytest.approx(0, abs=1e-6)
    nothing = Representation([[1.0, 0.0], [1.0, 0.0]])
    assert aon.degree_distance(nothing, strong).item() == 1
