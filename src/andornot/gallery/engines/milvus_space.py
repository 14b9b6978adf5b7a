"""Vectors in a form in which the nearest is the one with the largest inner product."""

import math

import torch
from torch import Tensor

from ...logic.representation import PROBABILITY_FLOOR


class Space:
    """Vectors as Milvus keeps them.

    Directions stay as they are. Other vectors x, none of which is longer than `radius`, are made smaller and get one
    dimension more, so that all have the length 1; queries get the length 1 and a 0. Then the nearest is the one with
    the largest inner product, and a graph of neighbours, which needs a true distance, finds it.
    """

    def __init__(self, dimensions: int, radius: float | None) -> None:
        self._radius = radius
        self.metric, self.dimensions = ("IP", dimensions) if radius is None else ("L2", dimensions + 1)

    @classmethod
    def of(cls, score: str, num_features: int, num_values: int) -> "Space":
        """For the vectors of a score."""
        if score == "degrees":
            return cls(num_features, None)
        longest = {"cross-entropy": -math.log(PROBABILITY_FLOOR) * math.sqrt(num_values), "containment": 1.0}[score]
        return cls(num_features * num_values, math.sqrt(num_features) * longest)

    def gallery(self, vectors: Tensor) -> Tensor:
        """Of pictures, `(n, D)`."""
        if self._radius is None:
            return vectors
        inside = vectors / self._radius
        rest = (1 - inside.double().square().sum(1, keepdim=True)).clamp(min=0).sqrt()
        return torch.cat([inside, rest.float()], 1)

    def queries(self, vectors: Tensor) -> Tensor:
        """Of queries, `(Q, D)`."""
        if self._radius is None:
            return vectors
        return torch.cat([torch.nn.functional.normalize(vectors, dim=1), vectors.new_zeros(len(vectors), 1)], 1)
