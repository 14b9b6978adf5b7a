"""How fast views are made, beside the same pipeline in kornia, single-threaded: `python benchmarks/bench_views.py`.

About half a minute. Both get the same float images; times are of one batch.

`python benchmarks/bench_views.py --pil FOLDER` shows instead how far views are from the same draws made by PIL, step by
step, for the first 64 JPEG photos of a folder.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import Tensor

from andornot.ssl.views import SampledParams, Views, ViewSettings
from timing import Row, best_ratio, print_table

TARGET = 3.0
CALLS = 4

# name, settings, shape of the batch, rounds
CASES = (
    ("photos 256 -> 224 px", ViewSettings.photos(224), (32, 3, 256, 256), 3),
    ("photos 448 -> 224 px", ViewSettings.photos(224), (32, 3, 448, 448), 2),  # crop_source: original
    ("cifar 32 px", ViewSettings.cifar(), (256, 3, 32, 32), 24),
    ("digits 28 px", ViewSettings.digits(), (256, 1, 28, 28), 60),
)


def kornia_views(settings: ViewSettings) -> Callable[[Tensor], Tensor]:
    """SimSiam's pipeline from kornia's parts, with a crop that warps the whole batch at once."""
    try:
        import kornia.augmentation as parts
    except ImportError:
        raise SystemExit("this benchmark compares with kornia: pip install kornia") from None
    size = (settings.size, settings.size)
    # kornia's default crop goes image by image: no faster for photos, three times as slow for small images.
    crop = parts.RandomResizedCrop(size, settings.crop_scale, settings.crop_ratio, cropping_mode="resample")
    steps = [crop]
    if settings.flip:
        steps.append(parts.RandomHorizontalFlip(p=settings.flip))
    if settings.jitter:
        strengths = (settings.brightness, settings.contrast, settings.saturation, settings.hue)
        steps.append(parts.ColorJitter(*strengths, p=settings.jitter))
    if settings.grey:
        steps.append(parts.RandomGrayscale(p=settings.grey))
    if settings.blur:
        # The least that holds three standard deviations of the widest blur; SimCLR's 23 at 224 pixels costs more.
        kernel = 2 * math.ceil(3 * settings.blur_sigma[1]) + 1
        steps.append(parts.RandomGaussianBlur((kernel, kernel), settings.blur_sigma, p=settings.blur))
    return torch.nn.Sequential(*steps)


def several_calls(make_views: Callable[[Tensor], Tensor], images: Tensor) -> Callable[[], None]:
    """How much kornia has to do depends on what it draws: a run is the same few draws each time."""

    def run() -> None:
        for seed in range(CALLS):
            torch.manual_seed(seed)
            make_views(images)

    return run


def compare_speed() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, settings, shape, rounds in CASES:
        images = torch.rand(shape, generator=torch.Generator().manual_seed(0))
        theirs, ours = (several_calls(views, images) for views in (kornia_views(settings), Views(settings)))
        ratio, *_ = best_ratio(theirs, ours, rounds)
        rows.append(Row(f"{name}, {shape[0]} images", ratio, f"≥ {TARGET:g}", ratio >= TARGET))
    print_table("views, times as fast as kornia's", rows)


def pil_view(image: Image.Image, drawn: SampledParams, index: int, size: int) -> Image.Image:
    """What torchvision's transforms do to a PIL image, given what was drawn."""
    crop, jitter = drawn.crop, drawn.jitter
    top, left, height, width = (int(side[index]) for side in (crop.top, crop.left, crop.height, crop.width))
    view = image.crop((left, top, left + width, top + height)).resize((size, size), Image.Resampling.BILINEAR)
    if jitter is not None:
        enhancers = (
            (ImageEnhance.Brightness, jitter.brightness),
            (ImageEnhance.Contrast, jitter.contrast),
            (ImageEnhance.Color, jitter.saturation),
        )
        for step in jitter.order[index].tolist():
            if step == 3:
                view = pil_hue(view, float(jitter.hue[index]))
            else:
                enhancer, factor = enhancers[step]
                view = enhancer(view).enhance(float(factor[index]))
        if jitter.grey[index]:
            view = view.convert("L").convert("RGB")
    if drawn.sigma is not None and drawn.sigma[index] > 0:
        view = view.filter(ImageFilter.GaussianBlur(float(drawn.sigma[index])))
    return view.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if crop.flip[index] else view


def pil_hue(view: Image.Image, turns: float) -> Image.Image:
    if turns == 0:
        return view  # HSV of whole levels and back is not the same image
    hue, saturation, value = view.convert("HSV").split()
    shifted = (np.asarray(hue).astype(int) + int(turns * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(shifted.astype(np.uint8)), saturation, value)).convert("RGB")


def as_tensor(images: list[Image.Image]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])


def compare_with_pil(folder: Path) -> None:
    paths = sorted(folder.glob("*.jpg"))[:64]
    if not paths:
        raise SystemExit(f"no .jpg files in {folder}")
    photos = []
    for path in paths:
        photo = Image.open(path).convert("RGB")
        side, x, y = min(photo.size), max(0, photo.width - photo.height) // 2, max(0, photo.height - photo.width) // 2
        photos.append(photo.resize((256, 256), Image.Resampling.BICUBIC, box=(x, y, x + side, y + side)))
    simsiam = ViewSettings.photos(224)
    crop = replace(simsiam, flip=0.0, jitter=0.0, grey=0.0, blur=0.0)
    still = replace(crop, jitter=1.0, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0)
    cases = {
        "crop and resize": crop,
        "with flip": replace(crop, flip=0.5),
        "brightness": replace(still, brightness=simsiam.brightness),
        "contrast": replace(still, contrast=simsiam.contrast),
        "saturation": replace(still, saturation=simsiam.saturation),
        "hue": replace(still, hue=simsiam.hue),
        "all of the jitter": replace(simsiam, flip=0.0, jitter=1.0, grey=0.0, blur=0.0),
        "grey": replace(crop, grey=1.0),
        "blur": replace(crop, blur=1.0),
        "all": simsiam,
    }
    images = as_tensor(photos)
    print(f"{len(photos)} photos, difference from PIL in levels of 255")
    print(f"{'step':18} {'mean':>7} {'rms':>7} {'99 % below':>11}")
    for name, settings in cases.items():
        views = Views(settings)
        drawn = views.sample(images, torch.Generator().manual_seed(1))
        expected = as_tensor([pil_view(photo, drawn, index, settings.size) for index, photo in enumerate(photos)])
        difference = (255 * views.render(images, drawn) - expected).abs()
        rms, most = difference.square().mean().sqrt(), np.quantile(difference.numpy(), 0.99)
        print(f"{name:18} {difference.mean():>7.2f} {rms:>7.2f} {most:>11.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of views beside kornia's, or their distance from PIL's.")
    parser.add_argument("--pil", type=Path, metavar="FOLDER", help="compare with PIL on the photos of this folder")
    folder = parser.parse_args().pil
    if folder is None:
        compare_speed()
    else:
        compare_with_pil(folder)


if __name__ == "__main__":
    main()
