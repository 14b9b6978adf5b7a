"""Similarity of images and queries: int8 components, their inner products, and truth from 0 to 1.

Pure tensor maths, no files. docs/results.md, *Conditions*, has the measurements behind each choice.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

# Components of unit vectors are at most 1, so all vectors share one scale and none has to be stored.
STEPS: Final = 127
# The weight of the prior mean, in which all features are equal, in images.
_PRIOR_IMAGES: Final = 20
# Directions with less variance than this, relative to the first, are rounding errors.
_NEGLIGIBLE: Final = 1e-9

# Query expansion: at most this many neighbours, and at most one in this many images.
NEIGHBOURS: Final = 20
ONE_IN: Final = 50

# Vectors multiplied at once: their products stay in the cache until the best region of each image is chosen.
_VECTORS_AT_ONCE: Final = 2**17

HALF_TRUE: Final = 1.25
# A sample of this many images is enough to estimate the scale of similarities.
SCALE_SAMPLE: Final = 2000
_PRIOR_SPREAD: Final = 0.2
# A negated term applies where it stands out more than the wanted terms by a margin, which is smaller for more examples.
# It is compared with wanted examples that it resembles by at least ALIKE deviations. docs/results.md has the
# measurements.
_STEEPNESS: Final = 2
_MARGIN: Final = 2
ALIKE: Final = 3.0
# The best unrelated image exceeds the chance level for one query in twenty.
_CONFIDENCE: Final = 0.95
_REACHED: Final = 0.96


# --- components -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Components:
    """The mean direction `(N,)` of a gallery, and the principal axes `(N, d)` of the remainder, strongest first.

    Removing the mean direction avoids hubs: images that are near to every query.

    >>> degrees = torch.rand(50, 16, generator=torch.Generator().manual_seed(0))
    >>> components = fit_components(degrees, dimensions=8)
    >>> components.project(degrees).shape
    torch.Size([50, 8])
    """

    mean: Tensor
    axes: Tensor

    def project(self, degrees: Tensor) -> Tensor:
        """Return unit vectors `(..., d)` of degrees `(..., N)`; all zeros for the average image."""
        return normalize(self.remove_mean(degrees) @ self.axes, dim=-1)

    def remove_mean(self, degrees: Tensor) -> Tensor:
        """Return directions `(..., N)` without their component along the mean."""
        return _without(normalize(degrees.float(), dim=-1), self.mean)


def fit_components(degrees: Tensor, dimensions: int) -> Components:
    """Fit components on a sample `(n, N)`; axes beyond what the sample spans are 0.

    The mean is averaged with a prior, as in the calibration: without it, subtracting the mean of a few images would
    leave almost nothing of them.
    """
    directions = normalize(degrees.float(), dim=1)
    prior = directions.new_ones(directions.shape[1]) / directions.shape[1] ** 0.5
    weight = len(directions) / (len(directions) + _PRIOR_IMAGES)
    mean = normalize(torch.lerp(prior, directions.mean(0), weight), dim=0)
    strength, axes = _principal_axes(_without(directions, mean).double())
    spanned = int((strength > strength[:1] * _NEGLIGIBLE).sum())
    axes = axes[:, : min(dimensions, spanned)]
    # The sign of an axis is arbitrary: make the largest entry positive, so that results are reproducible.
    signs = axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    return Components(mean, pad((axes * signs).float(), (0, dimensions - axes.shape[1])))


def to_bytes(vectors: Tensor) -> Tensor:
    """Quantize unit vectors to int8, with 127 for 1."""
    return (vectors * STEPS).round().to(torch.int8)


def from_bytes(codes: Tensor) -> Tensor:
    """Invert `to_bytes`, up to rounding."""
    return codes.float() / STEPS


def _principal_axes(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the axes `(N, k)` of vectors `(n, N)`, strongest first, and their strengths `(k,)`."""
    if len(vectors) < vectors.shape[1]:  # the Gram matrix is smaller than the covariance
        strength, weights = torch.linalg.eigh(vectors @ vectors.T)
        return strength.flip(0), normalize(vectors.T @ weights.flip(1), dim=0)
    strength, axes = torch.linalg.eigh(vectors.T @ vectors)
    return strength.flip(0), axes.flip(1)


def _without(vectors: Tensor, direction: Tensor) -> Tensor:
    return vectors - (vectors @ direction).unsqueeze(-1) * direction


# --- inner products of int8 vectors ---------------------------------------------------------------------------------


def int8_dot(codes: Tensor, queries: Tensor) -> Tensor:
    """Return the similarities `(Q, n)` of int8 images `(n, d)` and queries `(Q, d)`."""
    return best_region_dot(codes.unsqueeze(1), queries)


def best_region_dot(codes: Tensor, queries: Tensor) -> Tensor:
    """Return the similarity `(Q, n)` of each image's best region, for int8 regions `(n, R, d)`.

    Queries are also quantized to int8, each scaled to its largest component, which rotates them by about one degree.
    All images are compared with the same quantized query. d must be at least 2, because `torch._int_mm` reads out of
    bounds for vectors of one byte.
    """
    images, regions, dimensions = codes.shape
    step = queries.abs().amax(1, keepdim=True).clamp(min=torch.finfo(queries.dtype).tiny) / STEPS
    rounded = (queries / step).round().to(torch.int8)
    found = torch.empty(len(queries), images)
    # Use parts of equal size: a small last part would take nearly as long as the others.
    parts = -(-images * regions // _VECTORS_AT_ONCE)
    at_once = -(-images // max(1, parts))
    for start in range(0, images, max(1, at_once)):
        part = codes[start : start + at_once]
        products = torch._int_mm(rounded, part.reshape(-1, dimensions).T)
        if regions > 1:
            products = products.view(len(rounded), len(part), regions).amax(2)
        found[:, start : start + at_once] = products
    return found.mul_(step / STEPS)


def best_region_index(codes: Tensor, queries: Tensor) -> Tensor:
    """Return the index `(Q, n)` of each image's best region."""
    return torch.einsum("nrd,qd->qnr", codes.float(), queries).argmax(-1)


# --- query expansion ------------------------------------------------------------------------------------------------


def num_neighbours(images: int, most: int = NEIGHBOURS) -> int:
    """Return the number of neighbours for query expansion in a gallery of this size.

    >>> num_neighbours(49), num_neighbours(500), num_neighbours(10**6)
    (0, 10, 20)
    """
    return min(most, images // ONE_IN)


def expand_among(codes: Tensor, queries: Tensor, left_out: Sequence[int] = ()) -> Tensor:
    """Return queries `(Q, d)` expanded by their neighbours among int8 images `(n, d)`, without the rows `left_out`."""
    count = num_neighbours(len(codes))
    if not count:
        return queries
    similarities = int8_dot(codes, queries)
    similarities[:, list(left_out)] = -torch.inf
    nearest = similarities.topk(count)
    return expand_query(queries, from_bytes(codes[nearest.indices]), nearest.values)


def expand_query(queries: Tensor, neighbours: Tensor, similarities: Tensor) -> Tensor:
    """Return queries `(Q, d)` averaged with neighbours `(Q, k, d)`, weighted by their similarities `(Q, k)`.

    Neighbours with negative similarity are ignored.
    """
    weights = similarities.clamp(min=0).unsqueeze(-1)
    return normalize(queries + (weights * neighbours).sum(1), dim=1)


# --- truth ----------------------------------------------------------------------------------------------------------


class Scale(NamedTuple):
    """The median `(Q, 1)` and the standard deviation `(Q, 1)` of each query's similarities in a gallery."""

    median: Tensor
    spread: Tensor

    def deviations(self, similarities: Tensor) -> Tensor:
        """Return the distance of similarities `(Q, n)` above the median, in standard deviations."""
        return (similarities - self.median) / self.spread

    def truth(self, similarities: Tensor) -> Tensor:
        """Return the truth of similarities `(Q, n)`, monotonic, from 0 to 1."""
        return truth_of_deviations(self.deviations(similarities))

    def select(self, places: Sequence[int]) -> "Scale":
        """Return the scale of some of the queries."""
        return Scale(self.median[list(places)], self.spread[list(places)])


def truth_of_deviations(deviations: Tensor) -> Tensor:
    """Return `1 / (1 + e^(1.25 - z))`: 0.22 for the median image, 0.5 at 1.25 deviations, near 1 for outliers.

    Computed in double precision: torch rounds the last numbers of a block differently, and the truth of an image should
    not depend on where it is stored.
    """
    return torch.sigmoid(deviations.double() - HALF_TRUE)


def relative_truth(deviations: Tensor, wanted: Tensor, examples: int = 1) -> Tensor:
    """Return the truth of a negated term with deviations z_b, relative to wanted terms with deviations z_a.

    This is `truth(z_b) · sigmoid(2 (z_b - z_a) - 4 / n)` for n examples of b: at most `truth(z_b)`, and near 0 for
    images that match the wanted terms about as well. So images are not penalized for what both have in common.

    >>> z = torch.tensor([3.0, 3.0])
    >>> relative_truth(z, torch.tensor([0.0, 3.0]), examples=3).round(decimals=2)
    tensor([0.8400, 0.1800], dtype=torch.float64)
    """
    margin = deviations.double() - wanted.double() - _MARGIN / examples
    return truth_of_deviations(deviations) * torch.sigmoid(_STEEPNESS * margin)


def scale_of(similarities: Tensor) -> Scale:
    """Return the scale of queries, given their similarities `(Q, n)` to a sample; n may be 0.

    With few images, the scale is mostly the prior.
    """
    images = similarities.shape[1]
    weight = images / (images + _PRIOR_IMAGES)
    median = similarities.new_zeros(len(similarities), 1)
    spread = torch.full_like(median, _PRIOR_SPREAD)
    if images:
        median = median + weight * similarities.median(1, keepdim=True).values
        spread = torch.lerp(spread, similarities.std(1, correction=0, keepdim=True), weight)
    return Scale(median, spread.clamp(min=torch.finfo(spread.dtype).eps))


def chance_level(images: int, terms: int) -> float:
    """Return the truth that the best of n unrelated images reaches in each of k terms, in one of 20 queries.

    The similarities of unrelated images are approximately normal: the best of n reaches the quantile `0.95^(1/n)` in
    one term, and `1/sqrt(k)` of that in each of k terms at once. Queries with shuffled components reached 0.96 of that,
    on photos and on drawn scenes.

    >>> [round(chance_level(5000, terms) ** terms, 2) for terms in (1, 2, 3)]
    [0.94, 0.7, 0.43]
    """
    deviations = _REACHED * NormalDist().inv_cdf(_CONFIDENCE ** (1 / max(images, 1))) / math.sqrt(max(terms, 1))
    return 1 / (1 + math.exp(HALF_TRUE - deviations))


def evenly(items: np.ndarray, count: int) -> np.ndarray:
    """Return `count` evenly spaced items."""
    return np.asarray(items[np.linspace(0, len(items) - 1, min(count, len(items))).astype(np.int64)])
