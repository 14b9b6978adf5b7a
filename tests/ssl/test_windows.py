import pytest
import torch

from andornot.ssl.backbones import cut_windows, windows_of


def test_a_map_of_7_has_nine_windows_of_3_that_overlap_by_a_row():
    windows = windows_of(7, 7)
    assert len(windows) == 9
    assert {(w.top, w.bottom) for w in windows} == {(0, 3), (2, 5), (4, 7)}
    assert (windows[1].top, windows[1].left) == (0, 2)


@pytest.mark.parametrize("height", range(1, 20))
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 14])
def test_windows_cover_the_map_and_stay_inside(height, width):
    covered = set()
    for window in windows_of(height, width):
        assert 0 <= window.top < window.bottom <= height
        assert 0 <= window.left < window.right <= width
        covered |= {(y, x) for y in range(window.top, window.bottom) for x in range(window.left, window.right)}
    assert len(covered) == height * width


def test_a_map_of_one_place_has_one_window():
    assert len(windows_of(1, 1)) == 1


def test_boxes_are_fractions():
    assert windows_of(7, 7)[-1].box(7, 7) == (4 / 7, 4 / 7, 1.0, 1.0)
    assert windows_of(1, 1)[0].box(1, 1) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("side", [1, 2, 3, 4, 7, 12])
def test_cut_windows_are_the_windows_of_each_image_one_after_the_other(side):
    maps = torch.rand(3, 5, side, side + 1)
    cut = iter(cut_windows(maps))
    for image in maps:
        for window in windows_of(side, side + 1):
            assert (next(cut) == image[:, window.top : window.bottom, window.left : window.right]).all()
    assert next(cut, None) is None
