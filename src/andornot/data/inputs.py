"""Inputs of `Model.encode`: paths, PIL images, arrays and tensors, one or several."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .resized import ResizedImages


def as_items(images: Any) -> tuple[bool, Sequence[Any]]:
    """Return whether `images` is a single image, and the images as a sequence."""
    if isinstance(images, ResizedImages):
        return False, images  # type: ignore[return-value]  # supports slices, like a sequence
    if isinstance(images, str | os.PathLike | bytes | Image.Image):
        return True, [images]
    if isinstance(images, Tensor | np.ndarray):
        return images.ndim < 4, images if images.ndim == 4 else [images]  # type: ignore[return-value]
    try:
        return False, list(images)
    except TypeError:
        return True, [images]  # not an image: raises an error when it is prepared


def as_pixels(item: Any) -> Tensor:
    """Return an array `(H, W)` or `(H, W, C)`, or a tensor `(C, H, W)`, as a tensor `(C, H, W)`."""
    if isinstance(item, np.ndarray) and item.ndim in (2, 3):
        # Copy, because torch does not support read-only arrays (such as PIL's) or negative strides.
        pixels = np.array(item if item.ndim == 3 else item[..., None]).transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(pixels))
    if isinstance(item, Tensor) and item.ndim in (2, 3):
        return item if item.ndim == 3 else item.unsqueeze(0)
    shape = f" of shape {tuple(item.shape)}" if hasattr(item, "shape") else ""
    raise TypeError(f"expected a path, a PIL image, an array or a tensor, got {type(item).__name__}{shape}")


def to_pil(pixels: Tensor, given: Tensor | np.ndarray) -> Image.Image:
    """Return pixels `(C, H, W)` as a Pillow image; `given` is the original input, for the error message."""
    floats = as_floats(pixels)
    if floats.shape[0] not in (1, 3) or not floats.numel():
        right = "a tensor (1, H, W) or (3, H, W)" if isinstance(given, Tensor) else "an array (H, W) or (H, W, 3)"
        raise ValueError(f"an image is {right}, got {tuple(given.shape)}")
    return Image.fromarray((floats.permute(1, 2, 0).squeeze(-1) * 255).round().to(torch.uint8).cpu().numpy())


def image_of(item: Any) -> Any:
    """Return the image of a data set item, which is the image itself or a tuple that begins with it."""
    return item[0] if isinstance(item, tuple | list) else item


def as_image(image: Any) -> Image.Image:
    """Return a PIL image, an array or a tensor as a Pillow image."""
    return image if isinstance(image, Image.Image) else to_pil(as_pixels(image), image)


def as_floats(pixels: Tensor) -> Tensor:
    """Return bytes from 0 to 255 as floats from 0 to 1; floats are returned unchanged."""
    check_pixels(pixels)
    return pixels.float().div_(255) if pixels.dtype == torch.uint8 else pixels.float()


def check_pixels(pixels: Tensor) -> None:
    """Raise a TypeError unless pixels are bytes or floats, and a ValueError for floats outside of 0 to 1."""
    if pixels.dtype == torch.uint8:
        return
    if not pixels.is_floating_point():
        raise TypeError(f"pixels are bytes from 0 to 255 or floats from 0 to 1, got {pixels.dtype}")
    check_range(pixels)


def check_range(pixels: Tensor) -> None:
    """Raise a ValueError for floats outside of 0 to 1, and for NaN."""
    if pixels.numel():
        low, high = (value.item() for value in torch.aminmax(pixels))
        if not (low >= 0 and high <= 1):  # also true for NaN
            raise ValueError(f"float images must lie between 0 and 1, these go from {low:g} to {high:g}")


def group_by_size(batch: Tensor | Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Group the images of a batch by size: yield their indices `(m,)` in the batch, and the images as one tensor.

    It is a tensor of bytes if all images are bytes, which takes a quarter of the memory.
    """
    if isinstance(batch, Tensor):
        yield torch.arange(len(batch)), batch
        return
    by_shape: dict[torch.Size, list[int]] = {}
    for place, image in enumerate(batch):
        by_shape.setdefault(image.shape, []).append(place)
    for places in by_shape.values():
        images = [batch[place] for place in places]
        if any(image.dtype != torch.uint8 for image in images):
            images = [as_floats(image) for image in images]
        yield torch.tensor(places), torch.stack(images)
