import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize

from andornot.gallery.likeness.components import Components, fit_components, from_bytes, to_bytes


def pictures(count: int, features: int = 24, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, features, generator=torch.Generator().manual_seed(seed)) ** 4


def cosines_beyond_the_mean(queries: torch.Tensor, gallery: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """The slow, obvious version: one pair at a time, in all dimensions."""
    rows = []
    for query in queries:
        row = []
        for picture in gallery:
            left, right = query / query.norm(), picture / picture.norm()
            left, right = left - (left @ mean) * mean, right - (right @ mean) * mean
            row.append(cosine_similarity(left, right, dim=0))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def test_with_all_axes_inner_products_are_cosines_of_what_is_beyond_the_mean():
    gallery, queries = pictures(60), pictures(5, seed=1)
    components = fit_components(gallery, 24)
    found = components.project(queries) @ components.project(gallery).T
    torch.testing.assert_close(found, cosines_beyond_the_mean(queries, gallery, components.mean), atol=1e-5, rtol=1e-5)


def test_the_first_axis_is_the_one_along_which_pictures_differ_most():
    gallery = pictures(80)
    components = fit_components(gallery, 6)
    spread = (components.beyond_mean(gallery) @ components.axes).square().sum(0)
    assert bool((spread[:-1] >= spread[1:]).all())
    torch.testing.assert_close(components.axes.T @ components.axes, torch.eye(6), atol=1e-5, rtol=0)


def test_the_average_picture_has_nothing_beyond_the_mean():
    components = fit_components(pictures(60), 8)
    assert components.beyond_mean(components.mean).norm() < 1e-5


def test_the_length_of_a_vector_does_not_matter():
    components = fit_components(pictures(60), 8)
    query = pictures(1, seed=3)
    torch.testing.assert_close(components.project(query), components.project(7 * query))


def test_the_same_picture_is_at_1_and_in_length_1():
    gallery = pictures(60)
    projected = fit_components(gallery, 8).project(gallery)
    torch.testing.assert_close(projected.norm(dim=1), torch.ones(60))


def test_fewer_dimensions_are_the_first_ones():
    gallery = pictures(60)
    components = fit_components(gallery, 16)
    few = fit_components(gallery, 4)
    torch.testing.assert_close(components.project(gallery, 4), few.project(gallery), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_handful_of_pictures_keeps_what_distinguishes_them(count):
    gallery = pictures(count)
    components = fit_components(gallery, 128)
    assert components.axes.shape == (24, 128)
    projected = components.project(gallery)
    assert bool(projected.isfinite().all())
    assert (projected @ projected.T).argmax(1).tolist() == list(range(count))


def test_the_same_pictures_make_the_same_axes_in_any_order():
    gallery = pictures(40)
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
    components = fit_components(pictures(60), 8)
    assert isinstance(components, Components)
    assert components.project(pictures(12).view(3, 4, 24)).shape == (3, 4, 8)
