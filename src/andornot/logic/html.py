"""A representation as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..notebook import Bar, bars

if TYPE_CHECKING:
    from .representation import Representation

_IMAGES: Final = 6
_FEATURES: Final = 10


def show(representation: Representation) -> str:
    """Show the strongest features of the first images, with degrees and distributions."""
    count = representation.num_features
    flat = representation.detach().to("cpu").probs.reshape(-1, count, representation.num_values)
    images = [type(representation)(probs, validate=False) for probs in flat[:_IMAGES]]
    headings = [f"image {number}" if representation.batch_shape else "" for number in range(len(images))]
    shown = "all features" if count <= _FEATURES else f"the {_FEATURES} strongest features"
    if len(flat) > _IMAGES:
        shown += f" of the first {_IMAGES} images"
    groups = list(zip(headings, map(_strongest, images), strict=True))
    return bars(repr(representation), groups, f"({shown}: degree, and probabilities of the truth values from 0 to 1)")


def _strongest(image: Representation) -> list[Bar]:
    """Return all features if they are few, else the strongest."""
    degrees = image.degrees
    few = len(degrees) <= _FEATURES
    chosen = range(len(degrees)) if few else degrees.topk(_FEATURES).indices.tolist()
    return [Bar(f"feature {number}", degrees[number].item(), image.probs[number].tolist()) for number in chosen]
