"""A representation as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..notebook import Bar, bars

if TYPE_CHECKING:
    from .representation import Representation

_PICTURES: Final = 6
_FEATURES: Final = 10


def show(representation: Representation) -> str:
    """The strongest features of the first pictures, each with its degree and its distribution."""
    count = representation.num_features
    flat = representation.detach().to("cpu").probs.reshape(-1, count, representation.num_values)
    pictures = [type(representation)(probs, validate=False) for probs in flat[:_PICTURES]]
    headings = [f"picture {number}" if representation.batch_shape else "" for number in range(len(pictures))]
    shown = "all features" if count <= _FEATURES else f"the {_FEATURES} strongest features"
    if len(flat) > _PICTURES:
        shown += f" of the first {_PICTURES} pictures"
    groups = list(zip(headings, map(_strongest, pictures), strict=True))
    return bars(repr(representation), groups, f"({shown}: degree, and probabilities of the truth values from 0 to 1)")


def _strongest(picture: Representation) -> list[Bar]:
    """All features of a few in their order, the strongest of many."""
    degrees = picture.degrees
    few = len(degrees) <= _FEATURES
    chosen = range(len(degrees)) if few else degrees.topk(_FEATURES).indices.tolist()
    return [Bar(f"feature {number}", degrees[number].item(), picture.probs[number].tolist()) for number in chosen]
