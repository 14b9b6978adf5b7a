"""Each factor of a view against its plain definition, in float64 and one image at a time, or against PIL."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from andornot.ssl.views import CROP_TRIES, CropBox, Jitter, SampledParams, Views, ViewSettings, _crops

SIZE = 24
PLAIN = ViewSettings(SIZE, crop_scale=(1, 1), crop_ratio=(1, 1), flip=0, jitter=0, grey=0, blur=0)
PRESETS = {
    "photos": (ViewSettings.photos(48), (6, 3, 64, 56)),
    "cifar": (ViewSettings.cifar(), (6, 3, 32, 32)),
    "digits": (ViewSettings.digits(), (6, 1, 28, 28)),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_images(*shape, seed=0):
    return torch.rand(shape, generator=seeded(seed))


def whole(count, size=SIZE, flip=False):
    zeros = torch.zeros(count)
    return CropBox(zeros, zeros, zeros + size, zeros + size, flip=torch.full((count,), flip))


def jitter(count, brightness=1.0, contrast=1.0, saturation=1.0, hue=0.0, order=(0, 1, 2, 3), grey=False):
    every = torch.ones(count)
    order = torch.tensor(order).expand(count, 4)
    return Jitter(
        brightness * every, contrast * every, saturation * every, hue * every, order, torch.full((count,), grey)
    )


def coloured(images, **changes):
    """Views that only the colours of change, as float64 arrays."""
    drawn = SampledParams(whole(len(images)), jitter(len(images), **changes), sigma=None)
    return Views(PLAIN).render(images, drawn).double().numpy()


def grey_of(image):
    return np.tensordot((0.299, 0.587, 0.114), image, 1)


def rotate_hue(image, turns):
    """Rodrigues' formula around the unit vector of the greys, colour by colour."""
    axis, angle = np.full(3, 1 / math.sqrt(3)), 2 * math.pi * turns
    result = np.empty_like(image)
    for place in np.ndindex(image.shape[1:]):
        colour = image[(slice(None), *place)]
        turned = colour * math.cos(angle) + np.cross(axis, colour) * math.sin(angle)
        result[(slice(None), *place)] = turned + axis * (axis @ colour) * (1 - math.cos(angle))
    return result


NAMES = ("brightness", "contrast", "saturation", "hue")
STEPS = (
    lambda image, factor: factor * image,
    lambda image, factor: factor * (image - grey_of(image).mean()) + grey_of(image).mean(),
    lambda image, factor: factor * image + (1 - factor) * grey_of(image),
    rotate_hue,
)


def pil_view(image, crop, index, size):
    """Crop, then PIL's bilinear resize (which is antialiased), then mirror: one channel after the other in floats."""
    top, left, height, width = (int(v[index]) for v in (crop.top, crop.left, crop.height, crop.width))
    channels = []
    for channel in image.numpy():
        cut = Image.fromarray(channel[top : top + height, left : left + width].copy())
        channels.append(np.asarray(cut.resize((size, size), Image.Resampling.BILINEAR)))
    view = np.stack(channels)
    return view[:, :, ::-1] if crop.flip[index] else view


def blurred(image, sigma):
    """Convolution of rows and columns with a Gaussian that ends at 4 sigma, the border's pixels repeated outwards."""
    reach = math.floor(4 * sigma)
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    taps /= taps.sum()
    padded = np.pad(image, ((0, 0), (reach, reach), (reach, reach)), mode="edge")
    size = image.shape[-1]
    rows = sum(tap * padded[:, i : i + size, :] for i, tap in enumerate(taps))
    return sum(tap * rows[:, :, i : i + size] for i, tap in enumerate(taps))


class TestColour:
    images = random_images(4, 3, SIZE, SIZE)
    exact = images.double().numpy()

    def expected(self, *steps):
        result = []
        for image in self.exact:
            for step, factor in steps:
                image = STEPS[step](image, factor)
            result.append(image.clip(0, 1))
        return np.stack(result)

    @pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
    def test_brightness_multiplies(self, factor):
        np.testing.assert_allclose(
            coloured(self.images, brightness=factor), (factor * self.exact).clip(0, 1), atol=1e-6
        )

    @pytest.mark.parametrize("factor", [0.0, 0.6, 1.4])
    def test_contrast_stretches_around_the_mean_grey(self, factor):
        np.testing.assert_allclose(coloured(self.images, contrast=factor), self.expected((1, factor)), atol=1e-6)

    @pytest.mark.parametrize("factor", [0.0, 0.6, 1.4])
    def test_saturation_blends_with_grey(self, factor):
        np.testing.assert_allclose(coloured(self.images, saturation=factor), self.expected((2, factor)), atol=1e-6)

    @pytest.mark.parametrize("turns", [-0.1, 0.03, 0.1, 0.5])
    def test_hue_rotates_around_the_grey_axis(self, turns):
        np.testing.assert_allclose(coloured(self.images, hue=turns), self.expected((3, turns)), atol=1e-6)

    def test_a_third_of_a_turn_takes_red_to_green_as_in_hsv(self):
        red = torch.zeros(1, 3, SIZE, SIZE)
        red[:, 0] = 1
        np.testing.assert_allclose(coloured(red, hue=1 / 3), coloured(red)[:, [2, 0, 1]], atol=1e-6)

    def test_grey_weights_the_channels_and_comes_last(self):
        expected = self.expected((0, 0.9), (2, 1.3))
        grey = np.repeat(np.stack([grey_of(p) for p in self.exact])[:, None] * 0.9, 3, axis=1)
        np.testing.assert_allclose(coloured(self.images, brightness=0.9, saturation=1.3, grey=True), grey, atol=1e-6)
        assert np.abs(expected - grey).max() > 0.1

    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1), (1, 3, 0, 2)])
    def test_all_together_in_any_order_is_one_after_the_other_clamped_once(self, order):
        factors = (1.3, 0.7, 1.4, 0.08)
        together = coloured(self.images, **dict(zip(NAMES, factors, strict=True)), order=order)
        np.testing.assert_allclose(together, self.expected(*((step, factors[step]) for step in order)), atol=2e-6)

    def test_each_image_has_its_own_order_and_factors(self):
        both = Jitter(
            torch.tensor([1.4, 0.7]), torch.tensor([0.6, 1.2]), torch.tensor([1.0, 0.5]), torch.tensor([0.1, -0.05]),
            torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]]), torch.tensor([True, False]),
        )  # fmt: skip
        views = Views(PLAIN).render(self.images[:2], SampledParams(whole(2), both, None)).double().numpy()
        one = {"brightness": 1.4, "contrast": 0.6, "hue": 0.1, "order": (1, 0, 3, 2), "grey": True}
        other = {"brightness": 0.7, "contrast": 1.2, "saturation": 0.5, "hue": -0.05}
        np.testing.assert_allclose(views[:1], coloured(self.images[:1], **one), atol=1e-6)
        np.testing.assert_allclose(views[1:], coloured(self.images[1:2], **other), atol=1e-6)

    def test_contrast_takes_the_mean_of_the_crop_before_the_blur(self):
        crop = CropBox(*(torch.tensor([value]) for value in (3.0, 5.0, 12.0, 9.0)), flip=torch.tensor([True]))
        drawn = SampledParams(crop, jitter(1, contrast=0.5), sigma=torch.tensor([2.0]))
        view = Views(PLAIN).render(self.images[:1], drawn)[0].double().numpy()
        crop = pil_view(self.images[0], crop, 0, SIZE).astype(float)
        np.testing.assert_allclose(view, blurred(STEPS[1](crop, 0.5), 2.0), atol=1e-6)

    def test_one_channel_ignores_all_but_brightness_and_contrast(self):
        images = self.images[:, :1]
        some = coloured(images, brightness=1.2, contrast=0.7)
        assert np.array_equal(some, coloured(images, brightness=1.2, contrast=0.7, saturation=0.2, hue=0.3, grey=True))
        exact = 1.2 * self.exact[:, :1]
        mean = exact.mean((1, 2, 3), keepdims=True)
        np.testing.assert_allclose(some, (0.7 * (exact - mean) + mean).clip(0, 1), atol=1e-6)

    def test_factors_that_change_nothing_change_no_bit(self):
        assert np.array_equal(coloured(self.images), self.exact)


class TestJitterDraws:
    settings = ViewSettings(8, brightness=0.4, contrast=1.5, saturation=0.2, hue=0.1, jitter=0.8, grey=0.2)
    drawn = Views(settings).sample(torch.zeros(20_000, 3, 8, 8), seeded()).jitter

    @pytest.mark.parametrize(
        ("name", "low", "high"),
        [("brightness", 0.6, 1.4), ("contrast", 0, 2.5), ("saturation", 0.8, 1.2), ("hue", -0.1, 0.1)],
    )
    def test_factors_are_uniform_in_their_range_with_the_given_probability(self, name, low, high):
        values = getattr(self.drawn, name)
        changed = values[values != (0 if name == "hue" else 1)]
        assert len(changed) / len(values) == pytest.approx(0.8, abs=0.01)
        assert values.min() >= low - 1e-6
        assert values.max() <= high + 1e-6
        quartiles = changed.quantile(torch.tensor([0.25, 0.5, 0.75])).numpy()
        np.testing.assert_allclose(
            quartiles, low + (high - low) * np.array([0.25, 0.5, 0.75]), atol=0.02 * (high - low)
        )

    def test_all_24_orders_are_equally_likely(self):
        orders, counts = self.drawn.order.unique(dim=0, return_counts=True)
        assert orders.sort(1).values.unique(dim=0).tolist() == [[0, 1, 2, 3]]
        assert len(orders) == 24
        assert (counts / 20_000 * 24 - 1).abs().max() < 0.15

    def test_grey_has_its_probability_whether_jittered_or_not(self):
        jittered = self.drawn.hue != 0
        for part in (jittered, ~jittered):
            assert self.drawn.grey[part].float().mean() == pytest.approx(0.2, abs=0.02)


class TestCrop:
    @pytest.mark.parametrize("size", [7, 20, 33, 64])
    @pytest.mark.parametrize("flip", [0.0, 1.0])
    def test_a_crop_is_cut_out_resized_and_mirrored_as_by_pil(self, size, flip):
        images = random_images(12, 3, 40, 31)
        views = Views(replace(PLAIN, size=size, crop_scale=(0.1, 1), crop_ratio=(0.5, 2), flip=flip))
        drawn = views.sample(images, seeded(5))
        expected = np.stack([pil_view(p, drawn.crop, i, size) for i, p in enumerate(images)])
        np.testing.assert_allclose(views.render(images, drawn).numpy(), expected, atol=2e-6)

    def test_the_whole_image_in_its_own_size_is_itself(self):
        images = random_images(3, 3, SIZE, SIZE)
        assert torch.equal(Views(PLAIN)(images, seeded()), images)

    def test_flip_mirrors_and_changes_nothing_else(self):
        images = random_images(5, 1, 30, 30)
        settings = replace(PLAIN, crop_scale=(0.2, 1), blur=1)
        plain, flipped = (Views(replace(settings, flip=p))(images, seeded(3)) for p in (0, 1))
        torch.testing.assert_close(flipped, plain.flip(-1), atol=1e-6, rtol=0)

    def test_flip_has_its_probability(self):
        flips = Views(replace(PLAIN, flip=0.3)).sample(torch.zeros(20_000, 1, 4, 4), seeded()).crop.flip
        assert flips.float().mean() == pytest.approx(0.3, abs=0.01)

    @given(
        st.integers(1, 60), st.integers(1, 60), st.sampled_from([(0.2, 1), (1e-4, 0.01), (0.9, 1)]), st.integers(0, 99)
    )
    def test_crops_lie_inside_the_image(self, height, width, scale, seed):
        views = Views(ViewSettings(8, crop_scale=scale))
        crop = views.sample(torch.zeros(32, 1, height, width), seeded(seed)).crop
        for start, length, full in ((crop.top, crop.height, height), (crop.left, crop.width, width)):
            assert (start >= 0).all()
            assert (length >= 1).all()
            assert (start + length <= full).all()
            assert torch.equal(start, start.round())
            assert torch.equal(length, length.round())

    @pytest.mark.parametrize(("height", "width"), [(64, 64), (100, 37), (20, 300), (300, 20)])
    def test_crops_are_torchvisions_try_by_try(self, height, width):
        settings = ViewSettings(8, crop_scale=(0.3, 1.0))
        areas, ratios = (random_images(500, CROP_TRIES, seed=seed) for seed in (1, 2))
        y, x = random_images(2, 500, seed=3)
        full = (torch.full((500,), side) for side in (height, width))
        crops = torch.stack(_crops(settings, areas, ratios, y, x, *full), dim=1)
        expected = [
            plain_crop(settings, *numbers, height, width)
            for numbers in zip(areas.tolist(), ratios.tolist(), y.tolist(), x.tolist(), strict=True)
        ]
        assert crops.tolist() == expected

    def test_crops_of_images_brought_to_one_shape_are_those_of_the_originals(self):
        """Cut out of each original by itself, and out of all of them as squares of one size."""
        random = np.random.default_rng(0)
        views = Views(replace(PLAIN, size=24, crop_scale=(0.3, 0.8)))
        shapes = torch.tensor([[60, 120], [120, 60], [90, 90]])
        smooth = [
            Image.fromarray(random.integers(0, 256, (5, 5), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
            for height, width in shapes.tolist()
        ]
        squares = torch.stack([torch.from_numpy(np.array(one.resize((120, 120)))) for one in smooth])[:, None]
        seen, crop = views(squares, seeded(4), shapes), views.sample(squares, seeded(4), shapes).crop
        for number, (original, (height, width)) in enumerate(zip(smooth, shapes.tolist(), strict=True)):
            left, right = (float(edge[number]) * width / 120 for edge in (crop.left, crop.left + crop.width))
            top, bottom = (float(edge[number]) * height / 120 for edge in (crop.top, crop.top + crop.height))
            box = tuple(round(edge) for edge in (left, top, right, bottom))
            assert box == pytest.approx((left, top, right, bottom), abs=1e-3), "whole pixels of the original"
            expected = np.asarray(original.crop(box).resize((24, 24), Image.Resampling.BILINEAR)) / 255
            np.testing.assert_allclose(seen[number, 0].numpy(), expected, atol=0.03)

    def test_the_whole_of_a_wide_image_is_seen_and_crops_have_its_pixels_ratio(self):
        shapes = torch.tensor([[200, 400]]).expand(4000, 2)
        views = Views(ViewSettings(8, crop_scale=(0.2, 0.4)))
        crop = views.sample(torch.zeros(1, 1, 1, 1).expand(4000, 1, 256, 256), seeded(), shapes).crop
        left, right = crop.left / 256, (crop.left + crop.width) / 256
        assert (left < 0.05).any()
        assert (right > 0.95).any()
        ratio = (crop.width * 400) / (crop.height * 200)  # of the original's pixels
        assert 3 / 4 * 0.98 < ratio.min() < ratio.max() < 4 / 3 * 1.02
        area = crop.width * crop.height / 256**2
        assert 0.19 < area.min() < area.max() < 0.41

    def test_areas_are_uniform_and_ratios_log_uniform(self):
        views = Views(ViewSettings(8, crop_scale=(0.1, 0.5), crop_ratio=(0.5, 2.0)))
        crop = views.sample(torch.zeros(1, 1, 1, 1).expand(20_000, 1, 2000, 2000), seeded()).crop
        parts = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
        areas = (crop.height * crop.width / 2000**2).quantile(parts)
        ratios = (crop.width / crop.height).log().quantile(parts)
        torch.testing.assert_close(areas, 0.1 + 0.4 * parts, atol=0.006, rtol=0)
        torch.testing.assert_close(ratios, math.log(0.5) + math.log(4) * parts, atol=0.02, rtol=0)
        places = (crop.top / (2000 - crop.height)).quantile(parts)
        torch.testing.assert_close(places, parts, atol=0.02, rtol=0)


def plain_crop(settings, areas, ratios, y, x, height, width):
    """torchvision's RandomResizedCrop, from given uniform numbers: top, left, height, width."""
    (low_area, high_area), (low, high) = settings.crop_scale, settings.crop_ratio
    for area, ratio in zip(areas, ratios, strict=True):
        target = height * width * (low_area + (high_area - low_area) * area)
        aspect = math.exp(math.log(low) + (math.log(high) - math.log(low)) * ratio)
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return [int(y * (height - h + 1)), int(x * (width - w + 1)), h, w]
    if width / height < low:
        w, h = width, round(width / low)
    elif width / height > high:
        w, h = round(height * high), height
    else:
        w, h = width, height
    return [(height - h) // 2, (width - w) // 2, h, w]


class TestBlur:
    @pytest.mark.parametrize("sigma", [0.1, 0.3, 0.7, 1.3, 2.0])
    def test_blur_convolves_with_a_gaussian(self, sigma):
        images = random_images(2, 3, SIZE, SIZE)
        views = Views(PLAIN).render(images, SampledParams(whole(2), None, torch.tensor([sigma, sigma])))
        expected = np.stack([blurred(p, sigma) for p in images.double().numpy()])
        np.testing.assert_allclose(views.numpy(), expected, atol=1e-6)

    def test_images_that_are_not_chosen_stay_sharp_to_the_bit(self):
        images = random_images(2, 1, SIZE, SIZE)
        views = Views(PLAIN).render(images, SampledParams(whole(2), None, torch.tensor([0.0, 1.0])))
        assert torch.equal(views[0], images[0])
        assert not torch.equal(views[1], images[1])

    def test_a_blurred_plain_image_stays_plain(self):
        images = torch.full((1, 3, SIZE, SIZE), 0.7)
        torch.testing.assert_close(Views(replace(PLAIN, blur=1))(images, seeded()), images)

    def test_sigma_is_uniform_in_its_range_with_the_given_probability(self):
        sigma = Views(replace(PLAIN, blur=0.5)).sample(torch.zeros(20_000, 1, 4, 4), seeded()).sigma
        chosen = sigma[sigma > 0]
        assert len(chosen) / len(sigma) == pytest.approx(0.5, abs=0.02)
        quartiles = chosen.quantile(torch.tensor([0.0, 0.5, 1.0]))
        torch.testing.assert_close(quartiles, torch.tensor([0.1, 1.05, 2.0]), atol=0.03, rtol=0)

    @pytest.mark.parametrize("sigma", [0.6, 0.65, 0.7])
    def test_the_tail_of_a_narrow_blur_has_no_subnormal_numbers(self, sigma):
        """A CPU multiplies them many times slower."""
        images = torch.eye(SIZE).expand(1, 1, SIZE, SIZE)
        view = Views(PLAIN).render(images, SampledParams(whole(1), None, torch.tensor([sigma])))
        assert view[view > 0].min() > 1e-12


@pytest.mark.parametrize("name", PRESETS)
class TestEveryPreset:
    def test_views_are_float32_of_the_right_shape_between_0_and_1(self, name):
        settings, shape = PRESETS[name]
        for images in (random_images(*shape), torch.zeros(shape), torch.ones(shape)):
            views = Views(settings)(images, seeded())
            assert views.dtype == torch.float32
            assert views.shape == (*shape[:2], settings.size, settings.size)
            assert views.is_contiguous()
            assert not views.isnan().any()
            assert views.min() >= 0
            assert views.max() <= 1

    def test_uint8_and_floats_give_the_same(self, name):
        settings, shape = PRESETS[name]
        images = torch.randint(256, shape, dtype=torch.uint8, generator=seeded())
        expected = Views(settings)(images, seeded(1))
        for dtype in (torch.float32, torch.float64):
            views = Views(settings)(images.to(dtype) / 255, seeded(1))
            torch.testing.assert_close(views, expected, atol=2e-6, rtol=0)

    def test_the_generators_state_decides_and_every_call_is_fresh(self, name):
        settings, shape = PRESETS[name]
        images, generator = random_images(*shape), seeded()
        views = Views(settings)
        first = views(images, generator)
        state = generator.get_state()
        second = views(images, generator)
        assert not torch.equal(first, second)
        assert torch.equal(views(images, torch.Generator().set_state(state)), second)

    def test_without_a_generator_torchs_own_decides(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape)
        with torch.random.fork_rng():
            torch.manual_seed(7)
            views = Views(settings)(images)
        assert torch.equal(views, Views(settings)(images, seeded(7)))

    def test_an_image_does_not_touch_the_views_of_others(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape)
        changed = images.clone()
        changed[2] = 1 - changed[2]
        views, other = (Views(settings)(p, seeded()) for p in (images, changed))
        same = (views == other).flatten(1).all(1).tolist()
        assert same == [True, True, False, True, True, True]

    def test_equal_images_get_different_views(self, name):
        settings, shape = PRESETS[name]
        views = Views(settings)(random_images(1, *shape[1:]).expand(shape), seeded())
        assert len(views.unique(dim=0)) == len(views)

    def test_the_images_stay_as_they_are(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape).requires_grad_()
        before = images.detach().clone()
        assert not Views(settings)(images, seeded()).requires_grad
        assert torch.equal(images, before)

    def test_mixed_precision_does_not_reach_the_views(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            views = Views(settings)(images, seeded())
        assert torch.equal(views, Views(settings)(images, seeded()))

    def test_the_layout_in_memory_does_not_matter(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape)
        views = Views(settings)(images.to(memory_format=torch.channels_last), seeded())
        torch.testing.assert_close(views, Views(settings)(images, seeded()), atol=1e-6, rtol=0)

    def test_no_images_no_views(self, name):
        settings, shape = PRESETS[name]
        assert Views(settings)(torch.zeros(0, *shape[1:]), seeded()).shape == (
            0, shape[1], settings.size, settings.size,
        )  # fmt: skip

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_a_gpu_gives_the_same_from_a_generator_on_the_cpu(self, name):
        settings, shape = PRESETS[name]
        images = random_images(*shape)
        views = Views(settings)(images.cuda(), seeded())
        assert views.device.type == "cuda"
        torch.testing.assert_close(views.cpu(), Views(settings)(images, seeded()), atol=1e-4, rtol=0)


def test_every_call_takes_as_many_random_numbers_whatever_the_settings_and_images():
    states = set()
    for settings in (PLAIN, ViewSettings(8), ViewSettings.digits(), ViewSettings(12, crop_scale=(1, 1))):
        for shape in ((5, 3, 20, 20), (5, 1, 9, 50)):
            generator = seeded()
            Views(settings)(torch.zeros(shape), generator)
            states.add(tuple(generator.get_state().tolist()))
    assert len(states) == 1


def test_turning_one_part_off_leaves_the_others_as_drawn():
    images = torch.zeros(8, 3, 32, 32)
    all_on, no_colour = (Views(ViewSettings(8, jitter=p, grey=p)).sample(images, seeded()) for p in (0.8, 0.0))
    assert no_colour.jitter is None
    assert torch.equal(all_on.crop.left, no_colour.crop.left)
    assert torch.equal(all_on.sigma, no_colour.sigma)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, r"size\n.*greater than or equal to 1"),
        ({"size": 2.5}, r"size\n.*valid integer"),
        ({"crop_scale": (0.0, 1.0)}, r"crop_scale.0\n.*greater than 0"),
        ({"crop_scale": (0.2, 1.1)}, r"crop_scale.1\n.*less than or equal to 1"),
        ({"crop_scale": (0.9, 0.2)}, r"crop_scale\n.*the first must not be more than the second"),
        ({"crop_scale": 0.2}, r"crop_scale\n.*valid tuple"),
        ({"crop_scale": (0.2, 0.5, 1)}, r"crop_scale\n.*at most 2 items"),
        ({"crop_ratio": (-1, 1)}, r"crop_ratio.0\n.*greater than 0"),
        ({"blur_sigma": (0.1, math.inf)}, r"blur_sigma.1\n.*finite number"),
        ({"flip": 1.5}, r"flip\n.*less than or equal to 1"),
        ({"jitter": -0.1}, r"jitter\n.*greater than or equal to 0"),
        ({"grey": "often"}, r"grey\n.*valid number"),
        ({"blur": math.nan}, r"blur\n.*finite number"),
        ({"brightness": -0.4}, r"brightness\n.*greater than or equal to 0"),
        ({"contrast": math.inf}, r"contrast\n.*finite number"),
        ({"hue": 0.6}, r"hue\n.*less than or equal to 0.5"),
        ({"flipp": 0.5}, r"flipp\n.*[Uu]nexpected keyword"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ViewSettings(**{"size": 32, **changes})


def test_settings_from_a_file_with_lists_are_the_same_settings():
    assert ViewSettings(32, crop_scale=[0.2, 1]) == ViewSettings(32)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (np.zeros((1, 3, 8, 8)), TypeError, "images must be a tensor"),
        (torch.zeros(3, 8, 8), ValueError, r"images must be \(B, C, H, W\) with C = 1 or 3, got shape \(3, 8, 8\)"),
        (torch.zeros(1, 8, 8, 3), ValueError, "C = 1 or 3"),
        (torch.zeros(1, 3, 0, 8), ValueError, "got shape"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.int64), TypeError, "uint8 from 0 to 255 or floats from 0 to 1"),
        (torch.full((1, 3, 8, 8), 255.0), ValueError, "must lie between 0 and 1, these go from 255 to 255"),
        (torch.full((1, 3, 8, 8), math.nan), ValueError, "must lie between 0 and 1"),
    ],
)
def test_images_that_make_no_sense_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        Views(PLAIN)(images)
