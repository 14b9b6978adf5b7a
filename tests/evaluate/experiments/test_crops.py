"""Crops contain their object and not the other; rules for images that can be cut apart."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from andornot.evaluate.experiments.crops import MAX_OVERLAP, CropDegrees, crop_around, separate_objects
from andornot.evaluate.metrics.intervals import wilson

SIZE = (60, 40)


def boxes(width, height):
    """Boxes of whole pixels in an image."""
    across, down = st.tuples(*[st.integers(0, width)] * 2), st.tuples(*[st.integers(0, height)] * 2)
    made = st.tuples(across, down).map(lambda s: (min(s[0]), min(s[1]), max(s[0]), max(s[1])))
    return made.filter(lambda box: box[0] < box[2] and box[1] < box[3])


def pixels(box):
    """The pixels in a box, as a set: the slow way to an area."""
    return set(itertools.product(range(box[0], box[2]), range(box[1], box[3])))


def share(a, b):
    """What two boxes of whole pixels have in common, as a share of the smaller."""
    return len(pixels(a) & pixels(b)) / min(len(pixels(a)), len(pixels(b)))


@given(boxes(*SIZE), boxes(*SIZE))
def test_a_crop_contains_its_object_lies_in_the_image_and_shows_little_of_the_other(own, other):
    crop = crop_around(own, [other], SIZE)
    if crop is None:
        assert share(own, other) > MAX_OVERLAP
        return
    x0, y0, x1, y1 = crop
    assert (x0 <= own[0], y0 <= own[1]) == (True, True)
    assert (x1 + 1e-9 >= own[2], y1 + 1e-9 >= own[3]) == (True, True)
    assert (x0 >= 0, y0 >= 0, x1 <= SIZE[0] + 1e-9, y1 <= SIZE[1] + 1e-9) == (True,) * 4
    common = max(min(x1, other[2]) - max(x0, other[0]), 0) * max(min(y1, other[3]) - max(y0, other[1]), 0)
    smaller = min((x1 - x0) * (y1 - y0), len(pixels(other)))
    assert common / smaller <= MAX_OVERLAP + 1e-9


def test_a_crop_is_a_square_with_a_margin_around_the_middle_where_nothing_is_near():
    assert crop_around((20, 10, 30, 30), [(50, 0, 60, 10)], (60, 40)) == (13, 8, 37, 32)


def test_a_crop_moves_away_from_the_border_and_from_the_other_object():
    assert crop_around((0, 0, 10, 20), [(40, 0, 50, 10)], (60, 40)) == (0, 0, 24, 24)
    assert crop_around((20, 10, 30, 30), [(32, 0, 60, 40)], (60, 40)) == (6, 8, 30, 32)


def test_a_crop_is_tighter_where_others_are_near_on_both_sides():
    assert crop_around((25, 0, 35, 40), [(0, 0, 24, 40), (36, 0, 60, 40)], (60, 40)) == (24, 0, 36, 40)


def test_a_crop_is_no_square_where_the_image_is_too_flat_for_it():
    assert crop_around((0, 5, 50, 25), [], (60, 30)) == (0, 0, 60, 30)


def cut(*objects, size=(100, 50), fit="squash"):
    return separate_objects(list(objects), (0, 1), size, fit)


def test_objects_apart_are_cut_out_each_by_its_own_crop():
    assert cut((0, (10, 20, 20, 30)), (1, (60, 20, 70, 30))) == ((9, 19, 21, 31), (59, 19, 71, 31))
    assert cut((1, (10, 20, 20, 30)), (0, (60, 20, 70, 30))) == ((59, 19, 71, 31), (9, 19, 21, 31))


def test_the_largest_object_of_a_class_is_cut_out_away_from_all_of_the_other():
    small, large, other = (0, (0, 0, 10, 10)), (0, (60, 20, 80, 40)), (1, (20, 20, 40, 40))
    assert cut(small, large, other) == cut(large, other)
    assert cut(large, other, (1, (66, 26, 74, 34))) is None


@pytest.mark.parametrize(
    "objects",
    [
        [(0, (10, 10, 30, 30)), (1, (15, 15, 35, 35))],  # overlap
        [(0, (10, 10, 10, 30)), (1, (60, 20, 70, 30))],  # the first has no area
    ],
)
def test_objects_that_overlap_or_have_no_area_are_not_cut_apart(objects):
    assert cut(*objects) is None


def test_both_objects_must_be_in_view_of_a_model_that_takes_the_center():
    centered = (0, (40, 20, 50, 30)), (1, (60, 20, 70, 30))
    aside = (0, (21, 20, 30, 30)), (1, (60, 20, 70, 30))  # the center begins at 25, more than half of it
    outside = (0, (19, 20, 29, 30)), (1, (60, 20, 70, 30))
    assert cut(*centered, fit="crop") == cut(*centered) is not None
    assert cut(*aside, fit="crop") is not None
    assert cut(*outside, fit="crop") is None
    assert cut(*outside) is not None


def test_a_summary_counts_objects_and_images():
    degrees = torch.tensor(
        [  # whole image, own crop, other crop
            [[0.9, 0.8, 0.1], [0.7, 0.3, 0.6]],
            [[0.5, 0.4, 0.4], [0.3, 0.9, 0.2]],
        ]
    )
    measured = CropDegrees([], degrees)
    everything = measured.summarize(torch.tensor([[True, True], [True, True]]))
    assert (everything.images, everything.higher_in_own_crop) == (2, wilson(2.5 / 4, 2))
    assert everything.whole == pytest.approx(0.6)
    assert everything.own_crop == pytest.approx(0.6)
    assert everything.other_crop == pytest.approx(1.3 / 4)
    some = measured.summarize(torch.tensor([[False, False], [True, False]]))
    assert (some.images, some.higher_in_own_crop.value) == (1, 0.5)
    assert (some.whole, some.own_crop) == pytest.approx((0.5, 0.4))
