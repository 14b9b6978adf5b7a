import pytest
import torch
from torch.nn.functional import normalize

from andornot.gallery.likeness.components import from_bytes, to_bytes
from andornot.gallery.likeness.products import best_region, similarities, where_best


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.mark.parametrize("queries", [1, 3, 8, 9])
@pytest.mark.parametrize("pictures", [0, 1, 5, 2**16, 2**16 + 1])
def test_integer_products_are_those_of_floats(queries, pictures):
    codes, asked = to_bytes(unit(pictures, 128)), unit(queries, 128, seed=1)
    torch.testing.assert_close(similarities(codes, asked), asked @ from_bytes(codes).T, atol=5e-3, rtol=0)


@pytest.mark.parametrize("dimensions", [2, 7, 64])
def test_the_best_region_is_the_largest_of_all(dimensions):
    codes, asked = to_bytes(unit(300, 9, dimensions)), unit(3, dimensions, seed=1)
    wanted = torch.stack([(from_bytes(codes) @ query).amax(1) for query in asked])
    torch.testing.assert_close(best_region(codes, asked), wanted, atol=5e-3, rtol=0)


def test_a_query_is_rounded_once_for_all_pictures():
    codes, asked = to_bytes(unit(300, 9, 64)), unit(1, 64, seed=1)
    step = asked.abs().max() / 127
    rounded = (asked[0] / step).round().double() * step.double()
    wanted = (codes.double() @ rounded).amax(1) / 127
    torch.testing.assert_close(best_region(codes, asked)[0].double(), wanted, atol=1e-6, rtol=0)


def test_where_is_the_region_that_is_the_best():
    codes, asked = to_bytes(unit(50, 9, 64)), unit(3, 64, seed=1)
    wanted = torch.stack([(from_bytes(codes) @ query).argmax(1) for query in asked])
    assert torch.equal(where_best(codes, asked), wanted)


def test_opposite_vectors_of_one_axis_do_not_overflow():
    codes = to_bytes(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    torch.testing.assert_close(similarities(codes, torch.tensor([[1.0, 0.0]])), torch.tensor([[1.0, -1.0]]))


def test_a_query_of_nothing_is_like_nothing():
    assert similarities(to_bytes(unit(4, 8)), torch.zeros(1, 8)).tolist() == [[0.0] * 4]
