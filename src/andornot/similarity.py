"""Similarity of images and queries: few int8 components, their inner products, and truth from 0 to 1.

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

# A unit vector has no component beyond 1, so one scale serves all vectors and none has to be stored.
STEPS: Final = 127
# The assumed mean, all features alike, counts as much as this many images.
_PRIOR_IMAGES: Final = 20
# Directions with less variance than this, relative to the first, are rounding errors.
_NEGLIGIBLE: Final = 1e-9

# Query expansion: at most this many neighbours, and at most one image in so many.
NEIGHBOURS: Final = 20
ONE_IN: Final = 50

# Vectors multiplied at once: their products stay in the cache until the best region of each image is chosen.
_VECTORS_AT_ONCE: Final = 2**17

HALF_TRUE: Final = 1.25
# A sample of this many images is enough to know the scale of similarities.
SCALE_SAMPLE: Final = 2000
_PRIOR_SPREAD: Final = 0.2
# The chance level is exceeded by the best unrelated image for one query in twenty.
_CONFIDENCE: Final = 0.95
_REACHED: Final = 0.96


# --- components -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Components:
    """The mean direction `(N,)` of a gallery, and the principal axes `(N, d)` of what is left without it, best first.

    Removing the mean direction keeps a few images from being near to every query.

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
        """Return directions `(..., N)` without their part along the mean."""
        return _without(normalize(degrees.float(), dim=-1), self.mean)


def fit_components(degrees: Tensor, dimensions: int) -> Components:
    """Fit components on a sample `(n, N)`; axes beyond what the sample spans are 0.

    The mean of a few images is mostly themselves, and nothing would be left without it. So it is averaged with a prior,
    as in the calibration.
    """
    directions = normalize(degrees.float(), dim=1)
    prior = directions.new_ones(directions.shape[1]) / directions.shape[1] ** 0.5
    weight = len(directions) / (len(directions) + _PRIOR_IMAGES)
    mean = normalize(torch.lerp(prior, directions.mean(0), weight), dim=0)
    strength, axes = _principal_axes(_without(directions, mean).double())
    spanned = int((strength > strength[:1] * _NEGLIGIBLE).sum())
    axes = axes[:, : min(dimensions, spanned)]
    # The sign of an axis is arbitrary: make the largest entry positive, so that the same images give the same bytes.
    signs = axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    return Components(mean, pad((axes * signs).float(), (0, dimensions - axes.shape[1])))


def to_bytes(vectors: Tensor) -> Tensor:
    """Round unit vectors to int8, 127 steps for 1."""
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
    """Return for each image the similarity of its best region, `(Q, n)`, of int8 regions `(n, R, d)`.

    A query is rounded to int8 too, as finely as its largest number allows. That turns it by about a degree; all images
    are compared with the same rounded query. d is at least 2: torch's product reads past vectors of one byte.
    """
    images, regions, dimensions = codes.shape
    step = queries.abs().amax(1, keepdim=True).clamp(min=torch.finfo(queries.dtype).tiny) / STEPS
    rounded = (queries / step).round().to(torch.int8)
    found = torch.empty(len(queries), images)
    # Parts of equal size: a small one at the end would take nearly as long as the others.
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
    """Return how many neighbours expand a query in a gallery of that size.

    >>> num_neighbours(49), num_neighbours(500), num_neighbours(10**6)
    (0, 10, 20)
    """
    return min(most, images // ONE_IN)


def expand_among(codes: Tensor, queries: Tensor, left_out: Sequence[int] = ()) -> Tensor:
    """Return queries `(Q, d)` expanded by their neighbours among int8 images `(n, d)`, except some rows."""
    count = num_neighbours(len(codes))
    if not count:
        return queries
    similarities = int8_dot(codes, queries)
    similarities[:, list(left_out)] = -torch.inf
    nearest = similarities.topk(count)
    return expand_query(queries, from_bytes(codes[nearest.indices]), nearest.values)


def expand_query(queries: Tensor, neighbours: Tensor, similarities: Tensor) -> Tensor:
    """Return queries `(Q, d)` averaged with neighbours `(Q, k, d)`, weighted by their similarities `(Q, k)`.

    Neighbours that point away from the query do not count.
    """
    weights = similarities.clamp(min=0).unsqueeze(-1)
    return normalize(queries + (weights * neighbours).sum(1), dim=1)


# --- truth ----------------------------------------------------------------------------------------------------------


class Scale(NamedTuple):
    """The median `(Q, 1)` and the standard deviation `(Q, 1)` of each query's similarities in a gallery."""

    median: Tensor
    spread: Tensor

    def deviations(self, similarities: Tensor) -> Tensor:
        """Return how far similarities `(Q, n)` are above the median, in standard deviations."""
        return (similarities - self.median) / self.spread

    def truth(self, similarities: Tensor) -> Tensor:
        """Return the truth of similarities `(Q, n)`, from 0 to 1, monotone."""
        return truth_of_deviations(self.deviations(similarities))

    def select(self, places: Sequence[int]) -> "Scale":
        """Return the scale of some of the queries."""
        return Scale(self.median[list(places)], self.spread[list(places)])


def truth_of_deviations(deviations: Tensor) -> Tensor:
    """Return `1 / (1 + e^(1.25 - z))`: 0.22 for the median image, 0.5 at 1.25 deviations, near 1 for what stands out.

    In double precision: torch rounds the last numbers of a block differently, and the same image should have the same
    truth wherever it is stored.
    """
    return torch.sigmoid(deviations.double() - HALF_TRUE)


def scale_of(similarities: Tensor) -> Scale:
    """Return the scale of queries by their similarities `(Q, n)` to a sample; n may be 0.

    With few images the scale is mostly the prior.
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
    """Return the truth that the best of so many unrelated images reaches in each of so many terms, once in 20 queries.

    The similarities of unrelated images are about normal: the best of n reaches the quantile `0.95^(1/n)` in one term,
    and `1/sqrt(k)` of that in each of k terms at once. Queries with shuffled components reached 0.96 of that, on photos
    and on drawn scenes (docs/gallery.md, *Weak matches*).

    >>> [round(chance_level(5000, terms) ** terms, 2) for terms in (1, 2, 3)]
    [0.94, 0.7, 0.43]
    """
    deviations = _REACHED * NormalDist().inv_cdf(_CONFIDENCE ** (1 / max(images, 1))) / math.sqrt(max(terms, 1))
    return 1 / (1 + math.exp(HALF_TRUE - deviations))


def evenly(items: np.ndarray, count: int) -> np.ndarray:
    """Return so many of the items, evenly spread over them."""
    return np.asarray(items[np.linspace(0, len(items) - 1, min(count, len(items))).astype(np.int64)])


# Test images that are compared at once.
_KNN_BLOCK: Final = 1024


def knn_accuracy(
    train_features: Tensor,
    train_classes: Tensor,
    test_features: Tensor,
    test_classes: Tensor,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Return the share of test images whose class wins the vote of their k nearest training images by cosine.

    Features are `(n, d)`, classes `(n,)`; a vote weighs `exp(cosine / temperature)`. k and temperature move the
    result by percents: say both beside it.

    >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> knn_accuracy(x, torch.tensor([0, 0, 1]), x, torch.tensor([0, 0, 0]), k=1)
    0.6666666666666666
    """
    k = min(k, len(train_features))
    train = torch.nn.functional.normalize(train_features.float(), dim=1)
    num_classes = int(max(train_classes.max(), test_classes.max())) + 1
    correct = 0.0
    for start in range(0, len(test_features), _KNN_BLOCK):
        test = torch.nn.functional.normalize(test_features[start : start + _KNN_BLOCK].float(), dim=1)
        cosines, nearest = (test @ train.T).topk(k, dim=1)
        votes = torch.zeros(len(test), num_classes)
        votes.scatter_add_(1, train_classes[nearest], (cosines / temperature).exp())
        correct += float((votes.argmax(1) == test_classes[start : start + _KNN_BLOCK]).sum())
    return correct / len(test_features)
