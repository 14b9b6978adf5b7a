"""The heads of named features and their training, on cached feature maps."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, relu

from .encoding import LARGEST, Shard

# The deviation of the values of a map, so that inputs have one of about 1.
SCALE: Final = 0.88
_CHANNELS: Final = 1280
# Shards that are shuffled together: reading stays nearly sequential.
_TOGETHER: Final = 8
_RARE: Final = -3.0

Floats = NDArray[np.float32]


class ConceptHead(nn.Module):
    """A logit for each word, from a feature map: evidence at each place, pooled, and evidence of the whole."""

    def __init__(self, words: int, hidden: int = 384, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden = nn.Linear(_CHANNELS, hidden)
        self.context = nn.Linear(hidden, hidden)
        self.place = nn.Linear(hidden, words)
        self.whole = nn.Linear(hidden, words, bias=False)
        self.sharpness = nn.Parameter(torch.ones(1))
        self.dropout = nn.Dropout(dropout)
        nn.init.constant_(self.place.bias, _RARE)

    def describe(self, maps: Tensor) -> Tensor:
        """Return hidden features (B, places, hidden) of maps (B, places, channels) that are divided by SCALE."""
        own = relu(self.hidden(maps))
        return relu(own + self.context(own.mean(1))[:, None])

    def forward(self, maps: Tensor) -> Tensor:
        """Return logits (B, words) of maps (B, places, channels)."""
        features = self.dropout(self.describe(maps))
        sharpness = self.sharpness.clamp(0.3, 8)
        places = self.place(features).float()
        pooled = (torch.logsumexp(sharpness * places, 1) - math.log(places.shape[1])) / sharpness
        logits: Tensor = pooled + self.whole(features.mean(1)).float()
        return logits


def to_values(maps: NDArray[np.uint8]) -> Tensor:
    """Return cached bytes as the values that a head expects."""
    return torch.from_numpy(maps).float().square_().mul_(LARGEST / 255**2 / SCALE)


@dataclass(frozen=True)
class Batch:
    """Maps (B, places, channels) of images with maps of one size, and the rows of these images."""

    maps: NDArray[np.uint8]
    rows: NDArray[np.int64]


class Maps:
    """The maps of several shards, as one sequence of rows."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._shards = list(shards)
        if not self._shards:
            raise FileNotFoundError("no encoded images: run the stage encode first")
        self.ids = [name for shard in self._shards for name in shard.ids]
        self._starts = np.cumsum([0, *(len(shard.ids) for shard in self._shards)])

    def __len__(self) -> int:
        return len(self.ids)

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[Batch]:
        """Yield all images in batches of one map size each, shuffled if there is a generator."""
        order = np.arange(len(self._shards)) if rng is None else rng.permutation(len(self._shards))
        for start in range(0, len(order), _TOGETHER):
            yield from self._batches_of(order[start : start + _TOGETHER], size, rng)

    def count_batches(self, size: int) -> int:
        """Return how many batches an epoch may have at most."""
        sizes = 7
        chunks = math.ceil(len(self._shards) / _TOGETHER)
        return math.ceil(len(self) / size) + sizes * chunks

    def _batches_of(self, shards: NDArray[np.int64], size: int, rng: np.random.Generator | None) -> Iterator[Batch]:
        rows = np.concatenate([np.arange(self._starts[s], self._starts[s + 1]) for s in shards])
        sizes = np.concatenate([self._shards[s].sizes for s in shards])
        groups = []
        for height, width in np.unique(sizes, axis=0):
            members = rows[(sizes == (height, width)).all(1)]
            members = members if rng is None else rng.permutation(members)
            groups += [(members[i : i + size], height * width) for i in range(0, len(members), size)]
        for index in range(len(groups)) if rng is None else rng.permutation(len(groups)):
            members, places = groups[index]
            yield Batch(np.stack([self._map(row, places) for row in members]), members)

    def _map(self, row: int, places: int) -> NDArray[np.uint8]:
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._shards[shard].last[row - self._starts[shard], :places]

    def apply(self, function: Callable[[Tensor], Tensor], size: int = 64) -> Floats:
        """Return the results of a function of maps (B, places, channels), one row for each image."""
        results: Floats | None = None
        with torch.no_grad():
            for batch in self.batches(size):
                part = function(to_values(batch.maps)).float().numpy()
                if results is None:
                    results = np.zeros((len(self), *part.shape[1:]), np.float32)
                results[batch.rows] = part
        assert results is not None
        return results


def train_head(
    head: ConceptHead,
    maps: Maps,
    wanted: Floats,
    *,
    epochs: int,
    seed: int,
    batch: int = 64,
    rate: float = 2e-3,
    decay: float = 0.01,
    report: Callable[[str], None] = print,
) -> None:
    """Train with binary cross-entropy, AdamW and one cycle of the learning rate; `wanted` is from 0 to 1."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    targets = torch.from_numpy(wanted)
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=decay)
    steps = epochs * maps.count_batches(batch) + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for epoch in range(epochs):
        head.train()
        losses = []
        for part in maps.batches(batch, rng):
            with torch.autocast("cpu", torch.bfloat16):
                logits = head(to_values(part.maps))
            loss = binary_cross_entropy_with_logits(logits.float(), targets[part.rows], reduction="none").sum(1).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        report(f"epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.3f}")
    head.eval()
