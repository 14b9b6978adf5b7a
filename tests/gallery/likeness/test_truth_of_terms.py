import numpy as np
import pytest
import torch

from andornot.gallery.likeness.truth import scale_of


def similarities(pictures: int, queries: int = 2, seed: int = 0) -> torch.Tensor:
    return 0.2 * torch.randn(queries, pictures, generator=torch.Generator().manual_seed(seed)) + 0.1


def test_truth_is_the_logistic_of_deviations_above_the_median():
    values = similarities(2000)
    found = scale_of(values).truth(values)
    for row, of_query in zip(values.double().numpy(), found.numpy(), strict=True):
        weight = 2000 / 2020
        middle, spread = weight * np.median(row), weight * row.std() + (1 - weight) * 0.2
        np.testing.assert_allclose(of_query, 1 / (1 + np.exp(1.25 - (row - middle) / spread)), rtol=1e-3)


def test_truth_is_between_0_and_1_and_never_falls_with_the_similarity():
    scale = scale_of(similarities(500))
    found = scale.truth(torch.linspace(-1, 1, 200).expand(2, -1))
    assert bool(((found >= 0) & (found <= 1)).all())
    assert bool((found.diff(dim=1) >= 0).all())


@pytest.mark.parametrize("pictures", [500, 1000, 2000])
def test_a_sample_gives_the_truth_of_the_whole_gallery(pictures):
    everything = similarities(50_000)
    whole, sample = scale_of(everything), scale_of(everything[:, :pictures])
    difference = (whole.truth(everything) - sample.truth(everything)).abs()
    assert difference.max() < 0.06


def test_truth_does_not_depend_on_the_number_of_pictures():
    values = similarities(1000)
    torch.testing.assert_close(
        scale_of(values).truth(values), scale_of(values.repeat(1, 20)).truth(values), atol=0.01, rtol=0
    )


@pytest.mark.parametrize("pictures", [0, 1, 2, 5])
def test_a_handful_of_pictures_is_enough(pictures):
    values = similarities(pictures)
    found = scale_of(values).truth(torch.tensor([[-0.2, 0.9], [-0.2, 0.9]]))
    assert bool((found[:, 0] < 0.3).all())
    assert bool((found[:, 1] > 0.8).all())


def test_a_gallery_of_equal_pictures_has_equal_truths():
    values = torch.full((1, 10_000), 0.4)
    found = scale_of(values).truth(values)
    assert bool(found.isfinite().all())
    assert found.unique().numel() == 1
