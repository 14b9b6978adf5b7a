"""Pictures that crops are cut from: all of each, whatever its shape."""

from typing import Final, NamedTuple

from torch import Tensor

from .imageset import ImageSet
from .pictures import Pictures

# A view of the whole picture is then as sharp as it can be, and one of a quarter of its area still is.
_SHARPNESS: Final = 2


# Pictures of at most this side have no pixel to spare for a margin.
_SMALL: Final = 64


class Originals(NamedTuple):
    """Squares, and the true heights and widths `(n, 2)` of what was brought to that shape; None for what is square.

    A crop of the original is a rectangle of the square as well, so that pictures of different shapes are one tensor,
    and one product of matrices cuts a whole batch out of it and undoes the distortion.
    """

    pictures: Pictures
    shapes: Tensor | None = None


def with_margin(size: int) -> int:
    """The side at which pictures are kept whose views have that size, 8/7 of it unless that is small.

    >>> with_margin(224), with_margin(28)
    (256, 28)
    """
    return size if size <= _SMALL else size * 8 // 7


def open_originals(images: ImageSet, size: int, *, strict: bool = False, progress: bool = True) -> Originals:
    """All of each picture, at most twice as large as views of that `size`, and no larger than the largest original."""
    shapes = images.shapes()
    side = min(_SHARPNESS * size, int(shapes.max()))
    pictures = images.pictures(side, "squash", strict=strict, progress=progress)
    return Originals(pictures, shapes[pictures.kept])
