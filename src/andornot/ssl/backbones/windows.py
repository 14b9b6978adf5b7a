"""The regions of a picture: overlapping windows of the backbone's last feature map."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

# In each direction. Twice as many found nothing more; without overlap a thing is cut by the edges.
WINDOWS_A_SIDE: Final = 3


class Window(NamedTuple):
    """A part of a map `(h, w)`: rows from `top` to `bottom`, columns from `left` to `right`, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int

    def box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Left, top, right, bottom, as fractions of what the backbone saw."""
        return self.left / width, self.top / height, self.right / width, self.bottom / height


def windows_of(height: int, width: int) -> list[Window]:
    """The windows of a map, row by row from the top left; of a map too small for them the map itself.

    >>> [(window.top, window.bottom) for window in windows_of(7, 7)[::3]]
    [(0, 3), (2, 5), (4, 7)]
    """
    return [Window(*rows, *columns) for rows in _spans(height) for columns in _spans(width)]


def cut_windows(maps: Tensor) -> Tensor:
    """The R windows of feature maps `(B, C, h, w)`, those of a picture one after the other: `(B R, C, h', w')`.

    >>> cut_windows(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([18, 8, 3, 3])
    """
    # With the channels innermost a window is whole lines of memory, and so is what pools it.
    maps = maps.contiguous(memory_format=torch.channels_last)
    windows = windows_of(*maps.shape[2:])
    if len(windows) == 1:
        return maps
    parts = [maps[:, :, window.top : window.bottom, window.left : window.right] for window in windows]
    return torch.stack([part.permute(0, 2, 3, 1) for part in parts], 1).flatten(0, 1).permute(0, 3, 1, 2)


def _spans(length: int) -> list[tuple[int, int]]:
    """Spans of nearly half the length, evenly placed, the first and the last at the ends."""
    if length < WINDOWS_A_SIDE:
        return [(0, length)]
    long = max(1, round(length * 3 / 7))
    return [
        (start, start + long)
        for start in (round(number * (length - long) / (WINDOWS_A_SIDE - 1)) for number in range(WINDOWS_A_SIDE))
    ]
