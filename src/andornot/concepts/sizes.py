"""The size at which an image is encoded: the whole image, its aspect ratio kept, a constant amount of work."""

import math
from typing import Final

# Width, height: multiples of the stride of the network, 45 to 49 places of its last map.
_SIZES: Final = ((128, 384), (160, 288), (192, 256), (224, 224), (256, 192), (288, 160), (384, 128))


def choose_size(aspect: float) -> tuple[int, int]:
    """Return (width, height) to resize an image of that aspect ratio (width / height) to.

    >>> choose_size(4 / 3), choose_size(2 / 3), choose_size(1), choose_size(16 / 9)
    ((256, 192), (192, 256), (224, 224), (288, 160))
    """
    if not (math.isfinite(aspect) and aspect > 0):
        raise ValueError(f"the aspect ratio of an image must be a positive number, got {aspect}")
    return min(_SIZES, key=lambda size: abs(math.log(size[0] / size[1] / aspect)))
