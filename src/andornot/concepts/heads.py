"""Named features: the probability and location of each word in an image, from the backbone's feature map.

At each position of the map: `f = relu(A x + a)`, then `f = relu(f + C mean(f) + c)`, which adds context from the whole
image. The logit of a word is the soft maximum of `P f + p` over the positions plus `W mean(f)`, calibrated by a line
fitted on held-out images. numpy only: a map takes less than a millisecond.
"""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .vocabulary import ConceptError

Floats = NDArray[np.float32]

FILE: Final = "concepts.safetensors"
_FORMAT: Final = "andornot-concepts-1"
_TENSORS: Final = (
    "hidden.weight",
    "hidden.bias",
    "context.weight",
    "context.bias",
    "place.weight",
    "place.bias",
    "whole.weight",
    "sharpness",
    "slope",
    "offset",
)


# The maximum number of words with boxes per image, and their minimum probability.
BOXES_KEPT: Final = 16
_LEAST: Final = 0.05


class WordBoxes(NamedTuple):
    """Boxes of words in images: the columns of the most likely words `(B, k)`, -1 for none, and boxes `(B, k, 4)`."""

    words: NDArray[np.int64]
    boxes: Floats


@dataclass(frozen=True)
class ConceptHeads:
    """Heads on the last feature map of one backbone. `names` are the words, in the order of all results.

    `backbone` is the name of the network whose maps they were trained on, `version` the version of the weights.
    `groups` is the training data of each word: "coco" (labelled objects) or "captions" (words in captions).
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    backbone: str
    version: str
    scale: float
    weights: dict[str, Floats]

    def probabilities(self, maps: Floats) -> Floats:
        """Return the probability of each word in each image, (B, words), for feature maps (B, channels, h, w)."""
        return _sigmoid(self.logits(maps))

    def logits(self, maps: Floats) -> Floats:
        """Return calibrated logits (B, words) of feature maps (B, channels, h, w)."""
        return self._pool(self._describe(maps))

    def evidence(self, maps: Floats) -> Floats:
        """Return the evidence for each word at each position, (B, h, w, words), as uncalibrated logits."""
        return self._locate(self._describe(maps), maps)

    def both(self, maps: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities and the evidence, from one pass."""
        features = self._describe(maps)
        return _sigmoid(self._pool(features)), self._locate(features, maps)

    def find(self, maps: Floats) -> tuple[Floats, "WordBoxes"]:
        """Return the probabilities (B, words) and the boxes of the most likely words, from one pass."""
        features = self._describe(maps)
        probabilities = _sigmoid(self._pool(features))
        found = np.argsort(-probabilities, 1, kind="stable")[:, :BOXES_KEPT]
        found[np.take_along_axis(probabilities, found, 1) < _LEAST] = -1
        boxes = np.zeros((*found.shape, 4), np.float32)
        images, columns = np.nonzero(found >= 0)
        words = found[images, columns]
        weight = self.weights["place.weight"] + self.weights["whole.weight"]
        evidence = (weight[words][:, None] @ features[images])[:, 0] + self.weights["place.bias"][words][:, None]
        boxes[images, columns] = find_boxes(evidence.reshape(-1, *maps.shape[2:]).astype(np.float32))
        return probabilities, WordBoxes(found, boxes)

    def index(self, name: str) -> int:
        """Return the column of a word."""
        try:
            return self.names.index(name)
        except ValueError:
            raise ConceptError(f'no named feature "{name}"; there are {len(self.names)}, see `names`') from None

    @cached_property
    def _first(self) -> Floats:
        """The weights of the first layer with the scale of the maps folded in."""
        result: Floats = (self.weights["hidden.weight"] / self.scale).astype(np.float32)
        return result

    def _describe(self, maps: Floats) -> Floats:
        """Return the features of each position, (B, features, positions)."""
        channels = self.weights["hidden.weight"].shape[1]
        if maps.ndim != 4 or maps.shape[1] != channels or 0 in maps.shape[2:]:
            raise ConceptError(f"feature maps must have the shape (B, {channels}, h, w), got {maps.shape}")
        places = maps.astype(np.float32, copy=False).reshape(*maps.shape[:2], -1)
        features = np.maximum(self._first @ places + self.weights["hidden.bias"][:, None], 0)
        context = features.mean(2) @ self.weights["context.weight"].T + self.weights["context.bias"]
        result: Floats = np.maximum(features + context[:, :, None], 0)
        return result

    def _pool(self, features: Floats) -> Floats:
        sharpness = float(np.clip(self.weights["sharpness"], 0.3, 8)[0])
        places = sharpness * (self.weights["place.weight"] @ features + self.weights["place.bias"][:, None])
        largest = places.max(2)
        pooled = (largest + np.log(np.exp(places - largest[:, :, None]).mean(2))) / sharpness
        logits = pooled + features.mean(2) @ self.weights["whole.weight"].T
        result: Floats = (logits * self.weights["slope"] + self.weights["offset"]).astype(np.float32)
        return result

    def _locate(self, features: Floats, maps: Floats) -> Floats:
        weight = self.weights["place.weight"] + self.weights["whole.weight"]
        places = weight @ features + self.weights["place.bias"][:, None]
        result: Floats = places.astype(np.float32, copy=False).reshape(len(maps), -1, *maps.shape[2:])
        return result.transpose(0, 2, 3, 1)


def load_heads(file: Path | None = None) -> ConceptHeads:
    """Read heads from a file; by default, those in the package."""
    return _load_shipped() if file is None else _load(file)


def heads_for(backbone: str) -> ConceptHeads | None:
    """Return the heads in the package, if they were trained on the maps of this backbone; else None."""
    heads = load_heads()
    return heads if heads.backbone == backbone else None


@cache
def _load_shipped() -> ConceptHeads:
    with resources.as_file(resources.files(__package__) / FILE) as file:
        return _load(file)


def _load(file: Path) -> ConceptHeads:
    try:
        with safe_open(file, "numpy") as opened:
            metadata: dict[str, str] = opened.metadata() or {}
            stored = {name: opened.get_tensor(name).astype(np.float32) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ConceptError(f"can't read named features from {file}: {error}") from error
    if metadata.get("format") != _FORMAT:
        raise ConceptError(f'{file} holds no named features: its format is not "{_FORMAT}"')
    missing = [name for name in _TENSORS if name not in stored]
    if missing:
        raise ConceptError(f"{file} is incomplete: {missing[0]} is missing")
    names = tuple(json.loads(metadata["names"]))
    if any(len(stored[name]) != len(names) for name in ("place.weight", "place.bias", "whole.weight", "slope")):
        raise ConceptError(f"{file} is damaged: {len(names)} names for {len(stored['place.weight'])} heads")
    return ConceptHeads(
        names,
        tuple(json.loads(metadata["groups"])),
        metadata["backbone"],
        metadata["version"],
        float(metadata["scale"]),
        stored,
    )


def write_heads(heads: ConceptHeads, file: Path, **notes: str) -> None:
    """Write heads in half precision; `notes` go into the metadata."""
    metadata = {
        "format": _FORMAT,
        "names": json.dumps(heads.names),
        "groups": json.dumps(heads.groups),
        "backbone": heads.backbone,
        "version": heads.version,
        "scale": repr(heads.scale),
        **notes,
    }
    tensors: dict[str, Any] = {name: heads.weights[name].astype(np.float16) for name in _TENSORS}
    file.write_bytes(save(tensors, metadata))


def _sigmoid(logits: Floats) -> Floats:
    result: Floats = np.exp(-np.logaddexp(np.float32(0), -logits))
    return result


Box = tuple[float, float, float, float]

# How far the evidence inside a box may drop from its maximum, as a fraction of the way to the mean; chosen on COCO.
_SHARE: Final = 0.6
# The interpolation factor of evidence maps.
_FINER: Final = 4


def find_box(evidence: Floats, share: float = _SHARE) -> Box:
    """Return the box of a word, (left, top, right, bottom) in fractions of the image, from its evidence (h, w).

    The box encloses the connected region around the maximum in which the evidence drops by less than `share` of the way
    from the maximum to the mean.

    >>> evidence = np.full((6, 8), -9.0, np.float32)
    >>> evidence[2:4, 4:6] = 3
    >>> left, top, right, bottom = find_box(evidence)
    >>> [round(side, 2) for side in (left, top, right, bottom)]
    [0.5, 0.33, 0.75, 0.67]
    """
    left, top, right, bottom = find_boxes(evidence[None], share)[0].tolist()
    return left, top, right, bottom


def find_boxes(evidence: Floats, share: float = _SHARE) -> Floats:
    """Return `find_box` of each of several maps (n, h, w), (n, 4)."""
    fine = _interpolate(evidence, _FINER)
    best = fine.max((1, 2), keepdims=True)
    above = fine >= best - share * (best - fine.mean((1, 2), keepdims=True))
    reached = _component(above, fine.reshape(len(fine), -1).argmax(1))
    across, down = np.asarray(reached.any(1)), np.asarray(reached.any(2))
    starts = [inside.argmax(1) / inside.shape[1] for inside in (across, down)]
    ends = [1 - inside[:, ::-1].argmax(1) / inside.shape[1] for inside in (across, down)]
    return np.stack([*starts, *ends], 1).astype(np.float32)


def _interpolate(evidence: Floats, factor: int) -> Floats:
    """Return maps (n, h, w) at `factor` times their resolution, linearly interpolated between cell centers."""
    for axis in (1, 2):
        count = evidence.shape[axis]
        at = np.clip((np.arange(count * factor) + 0.5) / factor - 0.5, 0, count - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, count - 1)
        share = (at - low).astype(np.float32)
        share = share[:, None] if axis == 1 else share
        evidence = evidence.take(low, axis) * (1 - share) + evidence.take(high, axis) * share
    return evidence


def _component(above: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the connected True values around a start position in each of several maps (n, h, w)."""
    reached = np.zeros_like(above)
    reached.reshape(len(above), -1)[np.arange(len(above)), starts] = True
    while True:
        grown = reached.copy()
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown[:, :, 1:] |= reached[:, :, :-1]
        grown[:, :, :-1] |= reached[:, :, 1:]
        grown &= above
        if (grown == reached).all():
            return reached
        reached = grown
