"""Distances between representations: of all pairs as one matrix product, or pairwise.

Each function takes a query `(*q, N, M)` and a gallery `(*g, N, M)` and returns `(*q, *g)`; with `paired=True`,
leading dimensions broadcast against each other instead. Half precision is accumulated in float32.

Each distance is an inner product of a vector of the query and a vector of the image. `SCORES` has the functions that
compute these vectors, so that those of a gallery can be stored.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .. import choices
from . import tails
from .representation import PROBABILITY_FLOOR, Representation, check_same_features, wide_dtype


def cross_entropy(query: Representation, gallery: Representation, *, paired: bool = False) -> Tensor:
    """Compute the paper's distance `-1/N Σ q·log g`, with the query as the target. Eq. (cross-entropy).

    Probabilities of the gallery are clamped to at least 1e-12, so the distance is at most 27.7.

    >>> q = Representation([[[0.5, 0.5]]])                       # (1, 1, 2)
    >>> g = Representation([[[0.5, 0.5]], [[0.9, 0.1]]])         # (2, 1, 2)
    >>> cross_entropy(q, g)                                      # (1, 2)
    tensor([[0.6931, 1.2040]])
    """
    check_same_features([query, gallery], broadcast=paired)
    # Negate the small operand instead of the product.
    return _inner_products(-_per_feature(query), _logarithms(gallery), paired)


def degree_distance(query: Representation, gallery: Representation, *, paired: bool = False) -> Tensor:
    """Compute `1 - cosine` of the possession degrees: 0 (same proportions) to 1 (no feature in common).

    A representation without any feature has distance 1 to everything.

    >>> a = Representation([[0.0, 1.0], [1.0, 0.0]])
    >>> degree_distance(a, ~a)
    tensor(1.)
    """
    check_same_features([query, gallery], broadcast=paired)
    return 1 - _inner_products(_direction(query), _direction(gallery), paired)


def containment(query: Representation, gallery: Representation, *, paired: bool = False) -> Tensor:
    """Compute to what degree an image contains the query's features: the mean truth of `implication(query, image)`.

    It ranges from 0 to 1, and higher is nearer. The expectation is linear in both, so it is an inner product as well.

    >>> a, b = Representation([[0.0, 1.0], [1.0, 0.0]]), Representation([[0.0, 1.0], [0.0, 1.0]])
    >>> containment(a, b), containment(b, a)
    (tensor(1.), tensor(0.5000))
    """
    check_same_features([query, gallery], broadcast=paired)
    return _inner_products(_truth_of_implication(query), _probabilities(gallery), paired)


def expected_bce(prediction: Representation, target: Representation) -> Tensor:
    """Compute the binary cross-entropy of the possession degrees, mean over N features, pairwise. Sec. IV-D.

    Unlike `cross_entropy`, it increases with the distance between the truth values.

    >>> z = Representation([[0.8, 0.1, 0.1]])
    >>> near, far = Representation([[0.1, 0.8, 0.1]]), Representation([[0.1, 0.1, 0.8]])
    >>> cross_entropy(z, near) == cross_entropy(z, far)
    tensor(True)
    >>> expected_bce(near, z), expected_bce(far, z)
    (tensor(0.6931), tensor(1.6369))
    """
    check_same_features([prediction, target])
    prediction, target = _wide(prediction), _wide(target)
    # Compute 1 - E[A] as the degree of ~A, to avoid cancellation if E[A] is near 1.
    log_has, log_lacks = (p.degrees.clamp(min=PROBABILITY_FLOOR).log() for p in (prediction, ~prediction))
    return -(target.degrees * log_has + (~target).degrees * log_lacks).mean(-1)


def _wide(representation: Representation) -> Representation:
    """Return the representation, converted to float32 if it is in half precision."""
    dtype = wide_dtype(representation.dtype)
    return representation if representation.dtype == dtype else representation.to(dtype)


def _direction(representation: Representation) -> Tensor:
    degrees = _wide(representation).degrees
    # Scale first: squares of small degrees, such as those of an AND of many images, would underflow.
    tiny = torch.finfo(degrees.dtype).tiny
    largest = degrees.detach().amax(-1, keepdim=True).clamp(min=tiny)
    if degrees.requires_grad:
        # If all degrees are (almost) zero, the gradient would overflow: use 0 instead.
        degrees = torch.where(largest <= 8 * tiny, degrees.detach(), degrees)
    return torch.nn.functional.normalize(degrees / largest, dim=-1)


def _per_feature(query: Representation) -> Tensor:
    return (_wide(query).probs / query.num_features).flatten(-2)


def _logarithms_per_feature(query: Representation) -> Tensor:
    return _logarithms(query) / query.num_features


def _logarithms(gallery: Representation) -> Tensor:
    return gallery.log_probs.flatten(-2)


def _truth_of_implication(query: Representation) -> Tensor:
    """Return E[Q → v] = P(Q ≤ v) + v·P(Q > v), for each truth value v of the image."""
    probs = _wide(query).probs
    values = torch.linspace(0, 1, query.num_values, device=probs.device, dtype=probs.dtype)
    return ((tails.at_most(probs) + values * tails.above(probs)) / query.num_features).flatten(-2)


def _probabilities(gallery: Representation) -> Tensor:
    return _wide(gallery).probs.flatten(-2)


Distance = Callable[[Representation, Representation], Tensor]
"""Maps a query `(*q, N, M)` and a gallery `(*g, N, M)` to all distances `(*q, *g)`; smaller is nearer."""


class Score(NamedTuple):
    """A score of images for a query: the inner product of these two vectors; higher is nearer."""

    query: Callable[[Representation], Tensor]
    gallery: Callable[[Representation], Tensor]


_IN_ORDER: Final = (
    Score(_direction, _direction),
    Score(_per_feature, _logarithms),
    Score(_logarithms_per_feature, _probabilities),  # arguments swapped: -1/N Σ g·log q = cross_entropy(g, q)
    Score(_truth_of_implication, _probabilities),
)
SCORES: Final = dict(zip(choices.SCORES, _IN_ORDER, strict=True))


def _inner_products(query: Tensor, gallery: Tensor, paired: bool) -> Tensor:
    dtype = torch.promote_types(query.dtype, gallery.dtype)
    query, gallery = query.to(dtype), gallery.to(dtype)
    if paired:
        return (query * gallery).sum(-1)
    flat = query.reshape(-1, query.shape[-1]) @ gallery.reshape(-1, gallery.shape[-1]).T
    return flat.reshape(query.shape[:-1] + gallery.shape[:-1])
