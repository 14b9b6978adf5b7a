"""Views: SimSiam's augmentation, applied to a whole batch at once on the device of the images.

Crop, resize, flip and blur are linear and separable, so a view is the product `rows · image · columnsᵀ` with small
matrices per image. Brightness, contrast, saturation, hue and grey are affine in the colours, so they become one colour
matrix and offset per image. See `docs/views.md` for the equations and the differences from the PIL original.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

import torch
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor

from ..data.inputs import check_range

# ITU-R 601: the weights of red, green and blue in grey, as in PIL's "L".
GREY_WEIGHTS: Final = (0.299, 0.587, 0.114)

# The number of random crops to try before using the largest centered one, as in torchvision.
CROP_TRIES: Final = 10

# Uniform random numbers per image, independent of settings and images.
_NUMBERS_PER_IMAGE: Final = 2 * CROP_TRIES + 15

# A Gaussian is truncated at this many standard deviations, which drops 0.006 % of its mass. Its far tail would contain
# denormal numbers, which are slow on a CPU.
_BLUR_REACH: Final = 4


def _ascending(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        raise ValueError("the first must not be more than the second")
    return pair


_Probability = Annotated[float, Field(ge=0, le=1)]
_Strength = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]
_Part = Annotated[float, Field(gt=0, le=1)]
_Range = Annotated[tuple[_Positive, _Positive], AfterValidator(_ascending)]
_PartRange = Annotated[tuple[_Part, _Part], AfterValidator(_ascending)]
_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False)


@checked_dataclass(frozen=True, kw_only=True, config=_CONFIG)
class Augmentation:
    """Settings of the random augmentation; the defaults are SimSiam's."""

    crop_scale: _PartRange = (0.2, 1.0)  # fraction of the image's area that a crop keeps
    crop_ratio: _Range = (3 / 4, 4 / 3)  # width / height of a crop
    flip: _Probability = 0.5
    brightness: _Strength = 0.4  # the factor is drawn from 1 ± this, as are those of contrast and saturation
    contrast: _Strength = 0.4
    saturation: _Strength = 0.4
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1  # in turns of the colour circle, from -this to this
    jitter: _Probability = 0.8  # of brightness, contrast, saturation and hue together
    grey: _Probability = 0.2
    blur: _Probability = 0.5
    blur_sigma: _Range = (0.1, 2.0)  # in pixels of the view


@checked_dataclass(frozen=True, config=_CONFIG)
class ViewSettings(Augmentation):
    """An augmentation, and the side length of its views in pixels.

    >>> from dataclasses import replace
    >>> replace(ViewSettings.cifar(), hue=0.0)                  # doctest: +ELLIPSIS
    ViewSettings(crop_scale=(0.2, 1.0), ..., hue=0.0, jitter=0.8, grey=0.2, blur=0.0, blur_sigma=(0.1, 2.0), size=32)
    """

    size: Annotated[int, Field(ge=1)]

    @classmethod
    def photos(cls, size: int = 224) -> ViewSettings:
        """Return SimSiam's settings for ImageNet."""
        return cls(size)

    @classmethod
    def cifar(cls, size: int = 32) -> ViewSettings:
        """Return SimSiam's settings for CIFAR-10: no blur."""
        return cls(size, blur=0.0)

    @classmethod
    def digits(cls, size: int = 28, crop_scale: tuple[float, float] = (0.5, 1.0)) -> ViewSettings:
        """Return SimSiam's settings without flip and colour. Crops keep half of the area, so digits stay readable."""
        return cls(size, crop_scale=crop_scale, flip=0.0, jitter=0.0, grey=0.0)


@dataclass(frozen=True)
class CropBox:
    """The crops of B views in pixels of their images: each `(B,)`."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor  # bool


@dataclass(frozen=True)
class Jitter:
    """The colour changes of B views: each `(B,)`; factor 1 and hue 0 change nothing."""

    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    order: Tensor  # (B, 4), a permutation per image: 0 brightness, 1 contrast, 2 saturation, 3 hue
    grey: Tensor  # bool, applied last


@dataclass(frozen=True)
class SampledParams:
    """The random parameters of a batch of views. Changes that the settings turn off are `None`."""

    crop: CropBox
    jitter: Jitter | None
    sigma: Tensor | None  # (B,), 0 for no blur


class Views:
    """Create a random view of each image of a batch.

    >>> views = Views(ViewSettings.cifar())
    >>> images = torch.randint(256, (8, 3, 40, 48), dtype=torch.uint8)
    >>> generator = torch.Generator().manual_seed(0)
    >>> x1, x2 = views(images, generator), views(images, generator)
    >>> x1.shape, x1.dtype, torch.equal(x1, x2)
    (torch.Size([8, 3, 32, 32]), torch.float32, False)
    """

    def __init__(self, settings: ViewSettings) -> None:
        self.settings = settings

    def __repr__(self) -> str:
        return f"Views({self.settings})"

    @torch.no_grad()
    def __call__(
        self, images: Tensor, generator: torch.Generator | None = None, shapes: Tensor | None = None
    ) -> Tensor:
        """Return views of images `(B, C, H, W)`, uint8 or floats from 0 to 1, as float32 `(B, C, size, size)`.

        All randomness comes from `generator` (default: torch's global CPU generator), and every batch of B images uses
        the same amount of it, whatever the images are. It may be on the CPU while the images are on another device.
        Saturation, hue and grey are ignored for images with one channel.

        `shapes` `(B, 2)` are the original heights and widths of images that were resized to one shape. Areas and ratios
        of crops then refer to the original pixels.
        """
        _check_images(images)
        return self.render(images, self.sample(images, generator, shapes))

    def sample(
        self, images: Tensor, generator: torch.Generator | None = None, shapes: Tensor | None = None
    ) -> SampledParams:
        """Sample the random parameters of a view of each of the images `(B, C, H, W)`."""
        count = len(images)
        kept = torch.tensor(images.shape[2:], device=images.device)
        height, width = (kept.expand(count, 2) if shapes is None else shapes.to(images.device)).unbind(1)
        source = torch.device("cpu") if generator is None else generator.device
        shape = (count, _NUMBERS_PER_IMAGE)
        numbers = torch.rand(shape, generator=generator, device=source, dtype=torch.float32).to(images.device)
        areas, ratios, keys = numbers[:, :CROP_TRIES], numbers[:, CROP_TRIES : 2 * CROP_TRIES], numbers[:, -4:]
        y, x, flip, jitter, *factors, grey, blur, sigma = numbers[:, 2 * CROP_TRIES : -4].unbind(1)
        settings = self.settings
        top, left, crop_height, crop_width = _crops(settings, areas, ratios, y, x, height, width)
        down, across = kept[0] / height, kept[1] / width  # scale from the original to the resized image
        crop = CropBox(top * down, left * across, crop_height * down, crop_width * across, flip=flip < settings.flip)
        return SampledParams(
            crop,
            _jitter(settings, jitter, factors, keys, grey) if settings.jitter or settings.grey else None,
            torch.where(blur < settings.blur, _between(settings.blur_sigma, sigma), 0.0) if settings.blur else None,
        )

    @torch.no_grad()
    def render(self, images: Tensor, params: SampledParams) -> Tensor:
        """Compute the views for given parameters; deterministic."""
        size, crop = self.settings.size, params.crop
        batch, channels, height, width = images.shape
        # Mixed precision would round positions and colours to as few as 8 bits.
        with torch.autocast(images.device.type, enabled=False):
            rows = _resize_matrices(crop.top, crop.height, height, size)
            columns = _resize_matrices(crop.left, crop.width, width, size, flip=crop.flip)
            if images.dtype == torch.uint8:
                rows /= 255
            images = images.to(torch.float32)
            colour = None
            if params.jitter is not None:
                # The mean colour of the view before the blur, which changes it slightly at the borders.
                across = images.flatten(1, 2) @ columns.mean(1).unsqueeze(2)
                mean = across.view(batch, channels, height) @ rows.mean(1).unsqueeze(2)
                colour = _colour_maps(params.jitter, mean)
            if params.sigma is not None:
                blur = _blur_matrices(params.sigma, size, math.ceil(_BLUR_REACH * self.settings.blur_sigma[1]))
                rows, columns = blur @ rows, blur @ columns
            # Loop over channels: broadcasting would copy the matrices for each one.
            planes = images.new_empty(channels, batch, size, size)
            for plane, channel in zip(planes, images.unbind(1), strict=True):
                torch.bmm(rows, channel @ columns.mT, out=plane)
            views = planes.transpose(0, 1)
            if colour is not None:
                linear, offset = colour
                views = torch.baddbmm(offset, linear, views.flatten(2)).view(views.shape)
        return views.contiguous().clamp_(0, 1)


def _check_images(images: Tensor) -> None:
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a tensor (B, C, H, W), got {type(images).__name__}")
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
        raise ValueError(f"images must be (B, C, H, W) with C = 1 or 3, got shape {tuple(images.shape)}")
    if images.dtype == torch.uint8:
        return
    if not images.is_floating_point():
        raise TypeError(f"images must be uint8 from 0 to 255 or floats from 0 to 1, got {images.dtype}")
    check_range(images)


def _between(bounds: tuple[float, float], uniform: Tensor) -> Tensor:
    low, high = bounds
    return low + (high - low) * uniform


def _crops(
    settings: ViewSettings, areas: Tensor, ratios: Tensor, y: Tensor, x: Tensor, height: Tensor, width: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute RandomResizedCrop's top, left, height and width, `(B,)` each, from uniform numbers.

    `areas` and `ratios` are `(B, tries)`, all others `(B,)`: the first try that fits into the image is used. If none
    fits, it is the largest centered crop with an allowed ratio.
    """
    area = (height * width)[:, None] * _between(settings.crop_scale, areas)
    low, high = settings.crop_ratio
    ratio = _between((math.log(low), math.log(high)), ratios).exp()
    heights, widths = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()
    fits = (heights >= 1) & (heights <= height[:, None]) & (widths >= 1) & (widths <= width[:, None])
    first = fits.byte().argmax(1, keepdim=True)
    fitting = fits.gather(1, first).squeeze(1)
    # For very elongated images, the other side could be rounded to 0.
    full_height = (width.double() / low).round().minimum(height).clamp(min=1).float()
    full_width = (height.double() * high).round().minimum(width).clamp(min=1).float()
    crop_height = heights.gather(1, first).squeeze(1).where(fitting, full_height)
    crop_width = widths.gather(1, first).squeeze(1).where(fitting, full_width)
    top, left = (
        # The product can round up to free + 1.
        torch.minimum((uniform * (free + 1)).floor(), free).where(fitting, (free / 2).floor())
        for uniform, free in ((y, height - crop_height), (x, width - crop_width))
    )
    return top, left, crop_height, crop_width


def _jitter(settings: ViewSettings, chosen: Tensor, factors: list[Tensor], keys: Tensor, grey: Tensor) -> Jitter:
    """Compute ColorJitter's factors from uniform numbers; sorting `keys` `(B, 4)` gives the order."""
    jittered = chosen < settings.jitter
    strengths = (settings.brightness, settings.contrast, settings.saturation)
    brightness, contrast, saturation = (
        _between((max(0.0, 1 - strength), 1 + strength), uniform).where(jittered, 1.0)
        for strength, uniform in zip(strengths, factors[:3], strict=True)
    )
    hue = _between((-settings.hue, settings.hue), factors[3]).where(jittered, 0.0)
    return Jitter(brightness, contrast, saturation, hue, keys.argsort(1), grey < settings.grey)


def _resize_matrices(start: Tensor, length: Tensor, full: int, size: int, flip: Tensor | None = None) -> Tensor:
    """Return matrices `(B, size, full)` that resample pixels `start … start + length` of a line to `size` pixels.

    This is bilinear with antialiasing as PIL defines it: a triangle filter around each output pixel, as wide as an
    output pixel when shrinking and as an input pixel otherwise, truncated at the crop and normalised to sum 1.
    """
    device = start.device
    start, length = start[:, None], length[:, None]
    step = length / size
    support = step.clamp(min=1)
    target = torch.arange(size, device=device, dtype=torch.float32) + 0.5
    if flip is not None:
        target = torch.where(flip[:, None], size - target, target)
    pixel = torch.arange(full, device=device, dtype=torch.float32) + 0.5
    # Pixels outside of the crop are moved to infinity, which gives them zero weight.
    inside = (pixel > start) & (pixel < start + length)
    place = ((pixel - start) / support).where(inside, math.inf)
    weights = place[:, None, :] - (target * step / support)[:, :, None]
    weights.abs_().neg_().add_(1).clamp_(min=0)
    return weights.div_(weights.sum(2, keepdim=True))


def _blur_matrices(sigma: Tensor, size: int, reach: int) -> Tensor:
    """Return matrices `(B, size, size)` that convolve with a Gaussian; the border is replicated, as in PIL.

    A sigma of 0 gives the identity.
    """
    steps = torch.arange(-reach, reach + 1, device=sigma.device)
    deviations = steps / sigma.clamp(min=1e-3)[:, None]
    exponents = (-0.5 * deviations**2).where(deviations.abs() <= _BLUR_REACH, -math.inf)
    pixel = torch.arange(size, device=sigma.device)
    source = (pixel + steps[:, None]).clamp(0, size - 1)
    # A matrix product with zeros and ones: scatter_add is not deterministic on a GPU.
    shifts = (source[:, :, None] == pixel).to(torch.float32)
    return (exponents.softmax(1) @ shifts.flatten(1)).view(-1, size, size)


def _colour_maps(jitter: Jitter, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return a colour matrix `(B, C, C)` and offset `(B, C, 1)` per image that apply its jitter in its order.

    `mean` is the mean colour `(B, C, 1)` of the view. Each step maps colours c to `linear·c + offset`. Contrast needs
    the mean grey after the previous steps, which is these steps applied to the mean.
    """
    channels = mean.shape[1]
    identity = torch.eye(channels, device=mean.device, dtype=mean.dtype)
    weights = mean.new_tensor(GREY_WEIGHTS if channels == 3 else (1.0,))
    to_grey = weights.expand(channels, channels)
    brightness, contrast, saturation = (
        factor[:, None, None] for factor in (jitter.brightness, jitter.contrast, jitter.saturation)
    )
    steps = torch.stack(
        [
            brightness * identity,
            contrast * identity,
            saturation * identity + (1 - saturation) * to_grey,
            _hue_rotations(jitter.hue) if channels == 3 else identity.expand(len(mean), 1, 1),
        ],
        dim=1,
    )
    linear, offset = identity.expand(len(mean), channels, channels), torch.zeros_like(mean)
    every = torch.arange(len(mean), device=mean.device)
    for chosen in jitter.order.unbind(1):
        step = steps[every, chosen]
        pull = torch.where(chosen == 1, 1 - jitter.contrast, 0.0)[:, None, None]
        mean_grey = to_grey @ (linear @ mean + offset)
        linear, offset = step @ linear, step @ offset + pull * mean_grey
    last = torch.where(jitter.grey[:, None, None], to_grey, identity)
    return last @ linear, last @ offset


def _hue_rotations(turns: Tensor) -> Tensor:
    """Return rotations `(B, 3, 3)` of colours around the grey axis; a third of a turn takes red to green to blue."""
    angle = 2 * math.pi * turns[:, None, None]
    along = turns.new_full((3, 3), 1 / 3)
    across = torch.eye(3, device=turns.device, dtype=turns.dtype) - along
    quarter = turns.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return along + angle.cos() * across + angle.sin() * quarter
