"""Components, int8 products, query expansion and truth: each equals its slow, obvious version."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize

from andornot.similarity import (
    SCALE_SAMPLE,
    Components,
    best_region_dot,
    best_region_index,
    chance_level,
    evenly,
    expand_among,
    expand_query,
    fit_components,
    from_bytes,
    int8_dot,
    num_neighbours,
    scale_of,
    to_bytes,
)

# --- components -------------------------------------------------------------------------------------------------------


def images(count: int, features: int = 24, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, features, generator=torch.Generator().manual_seed(seed)) ** 4


def cosines_without_mean(queries: torch.Tensor, gallery: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """The slow, obvious version: one pair at a time, in all dimensions."""
    rows = []
    for query in queries:
        row = []
        for image in gallery:
            left, right = query / query.norm(), image / image.norm()
            left, right = left - (left @ mean) * mean, right - (right @ mean) * mean
            row.append(cosine_similarity(left, right, dim=0))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def test_with_all_axes_inner_products_are_cosines_of_what_is_beyond_the_mean():
    gallery, queries = images(60), images(5, seed=1)
    components = fit_components(gallery, 24)
    found = components.project(queries) @ components.project(gallery).T
    torch.testing.assert_close(found, cosines_without_mean(queries, gallery, components.mean), atol=1e-5, rtol=1e-5)


def test_the_first_axis_is_the_one_along_which_images_differ_most():
    gallery = images(80)
    components = fit_components(gallery, 6)
    spread = (components.remove_mean(gallery) @ components.axes).square().sum(0)
    assert bool((spread[:-1] >= spread[1:]).all())
    torch.testing.assert_close(components.axes.T @ components.axes, torch.eye(6), atol=1e-5, rtol=0)


def test_the_average_image_has_nothing_beyond_the_mean():
    components = fit_components(images(60), 8)
    assert components.remove_mean(components.mean).norm() < 1e-5


def test_the_length_of_a_vector_does_not_matter():
    components = fit_components(images(60), 8)
    query = images(1, seed=3)
    torch.testing.assert_close(components.project(query), components.project(7 * query))


def test_the_same_image_is_at_1_and_in_length_1():
    gallery = images(60)
    projected = fit_components(gallery, 8).project(gallery)
    torch.testing.assert_close(projected.norm(dim=1), torch.ones(60))


def test_fewer_dimensions_are_the_first_ones():
    gallery = images(60)
    torch.testing.assert_close(
        fit_components(gallery, 16).axes[:, :4], fit_components(gallery, 4).axes, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_handful_of_images_keeps_what_distinguishes_them(count):
    gallery = images(count)
    components = fit_components(gallery, 128)
    assert components.axes.shape == (24, 128)
    projected = components.project(gallery)
    assert bool(projected.isfinite().all())
    assert (projected @ projected.T).argmax(1).tolist() == list(range(count))


def test_the_same_images_make_the_same_axes_in_any_order():
    gallery = images(40)
    there, back = fit_components(gallery, 4), fit_components(gallery.flip(0), 4)
    torch.testing.assert_close(there.axes, back.axes, atol=1e-4, rtol=0)


def test_bytes_are_a_half_step_off_at_most():
    vectors = normalize(torch.randn(30, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    codes = to_bytes(vectors)
    assert codes.dtype == torch.int8
    assert (from_bytes(codes) - vectors).abs().max() <= 0.5 / 127 + 1e-6


def test_a_component_of_length_1_fits_into_a_byte():
    assert to_bytes(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).tolist() == [[127, 0], [-127, 0]]


def test_leading_dimensions_are_kept():
    components = fit_components(images(60), 8)
    assert isinstance(components, Components)
    assert components.project(images(12).view(3, 4, 24)).shape == (3, 4, 8)


# --- inner products ---------------------------------------------------------------------------------------------------


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.mark.parametrize("queries", [1, 3, 8, 9])
@pytest.mark.parametrize("images", [0, 1, 5, 2**16, 2**16 + 1])
def test_integer_products_are_those_of_floats(queries, images):
    codes, asked = to_bytes(unit(images, 128)), unit(queries, 128, seed=1)
    torch.testing.assert_close(int8_dot(codes, asked), asked @ from_bytes(codes).T, atol=5e-3, rtol=0)


@pytest.mark.parametrize("dimensions", [2, 7, 64])
def test_the_best_region_is_the_largest_of_all(dimensions):
    codes, asked = to_bytes(unit(300, 9, dimensions)), unit(3, dimensions, seed=1)
    wanted = torch.stack([(from_bytes(codes) @ query).amax(1) for query in asked])
    torch.testing.assert_close(best_region_dot(codes, asked), wanted, atol=5e-3, rtol=0)


def test_a_query_is_rounded_once_for_all_images():
    codes, asked = to_bytes(unit(300, 9, 64)), unit(1, 64, seed=1)
    step = asked.abs().max() / 127
    rounded = (asked[0] / step).round().double() * step.double()
    wanted = (codes.double() @ rounded).amax(1) / 127
    torch.testing.assert_close(best_region_dot(codes, asked)[0].double(), wanted, atol=1e-6, rtol=0)


def test_where_is_the_region_that_is_the_best():
    codes, asked = to_bytes(unit(50, 9, 64)), unit(3, 64, seed=1)
    wanted = torch.stack([(from_bytes(codes) @ query).argmax(1) for query in asked])
    assert torch.equal(best_region_index(codes, asked), wanted)


def test_opposite_vectors_of_one_axis_do_not_overflow():
    codes = to_bytes(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    torch.testing.assert_close(int8_dot(codes, torch.tensor([[1.0, 0.0]])), torch.tensor([[1.0, -1.0]]))


def test_a_query_of_nothing_is_like_nothing():
    assert int8_dot(to_bytes(unit(4, 8)), torch.zeros(1, 8)).tolist() == [[0.0] * 4]


# --- query expansion --------------------------------------------------------------------------------------------------


def test_a_query_becomes_the_mean_of_itself_and_its_neighbours_by_similarity():
    query, near, far = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), torch.tensor([0.0, 1.0])
    found = expand_query(query[None], torch.stack([near, far])[None], torch.tensor([[0.6, 0.0]]))[0]
    torch.testing.assert_close(found, normalize(query + 0.6 * near, dim=0))


def test_images_that_point_away_say_nothing():
    query = torch.tensor([[1.0, 0.0]])
    assert torch.equal(expand_query(query, torch.tensor([[[-1.0, 0.0]]]), torch.tensor([[-1.0]])), query)


def test_without_neighbours_a_query_stays_itself():
    query = torch.tensor([[0.6, 0.8]])
    torch.testing.assert_close(expand_query(query, torch.empty(1, 0, 2), torch.empty(1, 0)), query)


def test_a_small_gallery_has_few_neighbours():
    assert [num_neighbours(count) for count in (0, 1, 49, 50, 1000, 5_000_000)] == [0, 0, 0, 1, 20, 20]


def test_a_query_expanded_among_images_is_expanded_by_its_nearest():
    codes, asked = to_bytes(unit(200, 16)), unit(2, 16, seed=1)
    alike = int8_dot(codes, asked)
    alike[:, 7] = -torch.inf
    nearest = alike.topk(4)
    wanted = expand_query(asked, from_bytes(codes[nearest.indices]), nearest.values)
    torch.testing.assert_close(expand_among(codes, asked, [7]), wanted)
    assert torch.equal(expand_among(codes[:49], asked), asked)


# --- truth ------------------------------------------------------------------------------------------------------------


def drawn_similarities(images: int, queries: int = 2, seed: int = 0) -> torch.Tensor:
    return 0.2 * torch.randn(queries, images, generator=torch.Generator().manual_seed(seed)) + 0.1


def test_truth_is_the_logistic_of_deviations_above_the_median():
    values = drawn_similarities(2000)
    found = scale_of(values).truth(values)
    for row, of_query in zip(values.double().numpy(), found.numpy(), strict=True):
        weight = 2000 / 2020
        middle, spread = weight * np.median(row), weight * row.std() + (1 - weight) * 0.2
        np.testing.assert_allclose(of_query, 1 / (1 + np.exp(1.25 - (row - middle) / spread)), rtol=1e-3)


def test_truth_is_between_0_and_1_and_never_falls_with_the_similarity():
    scale = scale_of(drawn_similarities(500))
    found = scale.truth(torch.linspace(-1, 1, 200).expand(2, -1))
    assert bool(((found >= 0) & (found <= 1)).all())
    assert bool((found.diff(dim=1) >= 0).all())


@pytest.mark.parametrize("images", [500, 1000, 2000])
def test_a_sample_gives_the_truth_of_the_whole_gallery(images):
    everything = drawn_similarities(50_000)
    whole, sample = scale_of(everything), scale_of(everything[:, :images])
    difference = (whole.truth(everything) - sample.truth(everything)).abs()
    assert difference.max() < 0.06


def test_truth_does_not_depend_on_the_number_of_images():
    values = drawn_similarities(1000)
    torch.testing.assert_close(
        scale_of(values).truth(values), scale_of(values.repeat(1, 20)).truth(values), atol=0.01, rtol=0
    )


@pytest.mark.parametrize("images", [0, 1, 2, 5])
def test_a_handful_of_images_is_enough(images):
    values = drawn_similarities(images)
    found = scale_of(values).truth(torch.tensor([[-0.2, 0.9], [-0.2, 0.9]]))
    assert bool((found[:, 0] < 0.3).all())
    assert bool((found[:, 1] > 0.8).all())


def test_a_gallery_of_equal_images_has_equal_truths():
    values = torch.full((1, 10_000), 0.4)
    found = scale_of(values).truth(values)
    assert bool(found.isfinite().all())
    assert found.unique().numel() == 1


def test_a_sample_is_spread_evenly_over_all_and_has_no_image_twice():
    ids = np.arange(10_001) * 3
    sample = evenly(ids, SCALE_SAMPLE)
    assert (sample[0], sample[-1], len(np.unique(sample))) == (0, 30_000, SCALE_SAMPLE)
    assert np.diff(sample).max() <= 18
    assert evenly(ids[:5], SCALE_SAMPLE).tolist() == ids[:5].tolist()
    assert evenly(ids[:0], SCALE_SAMPLE).tolist() == []


def test_the_best_of_more_unrelated_images_reaches_a_higher_level_and_that_of_more_terms_a_lower_one():
    by_images = [chance_level(images, 1) for images in (1, 10, 1000, 10**6)]
    by_terms = [chance_level(5000, terms) for terms in (1, 2, 3)]
    assert by_images == sorted(by_images)
    assert by_terms == sorted(by_terms, reverse=True)


def test_the_best_of_images_without_a_relation_exceeds_the_chance_level_in_few_queries():
    values = torch.randn(1000, 400, generator=torch.Generator().manual_seed(0))
    best = scale_of(values).truth(values).amax(1)
    exceeded = float((best > chance_level(400, 1)).double().mean())
    assert 0.03 < exceeded < 0.15
