"""Train the named features: the heads in `src/andornot/concepts/concepts.safetensors` and their model card.

    python tools/train_concepts.py encode --data data --voc VOCdevkit/VOC2007 --work work
    python tools/train_concepts.py train calibrate evaluate write --data data --voc VOCdevkit/VOC2007 --work work

Stages, each of which reads what the one before it wrote to the folder `--work`:

- encode: compute feature maps (about 11 ms an image; if interrupted, rerun to resume)
- train: train the heads of COCO's 80 kinds of things on train2017
- calibrate: fit words of captions and the calibration on images of val2017 with an even id
- evaluate: measure on images of val2017 with an odd id and on VOC2007, which nothing was trained or tuned on
- write: write `concepts.safetensors` into the package and the model card into `docs/concepts.md`

The folder `--data` holds `coco256/train2017` (train2017 squashed to 256 x 256), `labels14/coco14/{train,val}.txt` (the
kinds of things in each image), `coco3200/{images,labels}` (val2017 at full size with YOLO boxes) and
`captions/annotations/captions_val2017.json`.
"""

import argparse
import datetime
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from andornot.concepts import ConceptHeads, load_heads, write_heads
from andornot.concepts.heads import FILE
from concept_training.calibration import Calibration, calibrate
from concept_training.card import model_card
from concept_training.data import COCO_NAMES, VOC_NAMES, Coco, Voc
from concept_training.encoding import Encoder, MapCache
from concept_training.evaluation import evaluate_coco, evaluate_voc
from concept_training.heads import SCALE, ConceptHead, Maps, train_head
from concept_training.words import (
    ENOUGH,
    MENTIONS,
    LinearHeads,
    choose_words,
    count_mentions,
    cross_validate,
    fit_linear,
    word_precisions,
)

STAGES: Final = ("encode", "train", "calibrate", "evaluate", "write")
VERSION: Final = "1"
LICENCE: Final = "Apache-2.0; trained on annotations of COCO (cocodataset.org), CC BY 4.0"
ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "src" / "andornot" / "concepts"
CARD: Final = ROOT / "docs" / "concepts.md"


def main(arguments: list[str] | None = None) -> None:
    """Run the stages that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=STAGES, metavar="stage", help=", ".join(STAGES))
    parser.add_argument("--data", type=Path, required=True, help="folder with COCO's parts")
    parser.add_argument("--voc", type=Path, required=True, help="VOCdevkit/VOC2007, for evaluation only")
    parser.add_argument("--work", type=Path, required=True, help="folder for feature maps and results (20 GB)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--limit", type=int, help="train on so many images only")
    parser.add_argument(
        "--leave-out", default="", metavar="NAMES", help="kinds that are not trained, comma separated (for tests)"
    )
    parser.add_argument("--tune", action="store_true", help="evaluate on even ids, to choose between heads")
    parser.add_argument("--tag", default="", help="added to the names of the files that are written")
    options = parser.parse_args(arguments)
    coco = open_coco(options.data)
    unknown = [name for name in leave_out(options) if name not in COCO_NAMES]
    if unknown:
        parser.error(f'--leave-out: COCO has no kind "{unknown[0]}"')
    torch.set_num_threads(1)
    for stage in STAGES:
        if stage in options.stages:
            print(f"{stage}:", flush=True)
            RUN[stage](options, coco)


def open_coco(folder: Path) -> Coco:
    """Return COCO in a folder, or exit with what is missing."""
    coco = Coco(
        folder / "coco256" / "train2017",
        folder / "labels14" / "coco14",
        folder / "coco3200",
        folder / "captions" / "annotations" / "captions_val2017.json",
    )
    for path in (coco.train_images, coco.kinds, coco.full, coco.captions):
        if not path.exists():
            print(f"{path} is missing; `--help` says what the folder --data holds", file=sys.stderr)
            raise SystemExit(2)
    return coco


def leave_out(options: argparse.Namespace) -> list[str]:
    """Return the names of the kinds that are not trained."""
    return [name.strip() for name in options.leave_out.split(",") if name.strip()]


def encode(options: argparse.Namespace, coco: Coco) -> None:
    """Compute the feature maps of all images."""
    encoder = Encoder()
    MapCache(options.work / "val").encode(coco.val_sources(), encoder)
    MapCache(options.work / "voc").encode(Voc(options.voc).sources(), encoder)
    MapCache(options.work / "train").encode(coco.train_sources(options.seed), encoder)


def train(options: argparse.Namespace, coco: Coco) -> None:
    """Train the heads of COCO's kinds and save them."""
    maps = Maps(MapCache(options.work / "train").shards(options.limit))
    kinds = [kind for kind, name in enumerate(COCO_NAMES) if name not in leave_out(options)]
    labels = coco.labels(maps.ids)[:, kinds]
    print(f"{len(maps):,} images, {len(kinds)} kinds", flush=True)
    torch.manual_seed(options.seed)
    head = ConceptHead(len(kinds), options.hidden, options.dropout)
    wanted = labels.astype(np.float32)
    train_head(
        head, maps, wanted, epochs=options.epochs, seed=options.seed, report=lambda text: print(text, flush=True)
    )
    save_file(head.state_dict(), options.work / f"head{options.tag}.safetensors")


def load_head(options: argparse.Namespace) -> ConceptHead:
    """Return the trained heads."""
    weights = load_file(options.work / f"head{options.tag}.safetensors")
    head = ConceptHead(len(weights["place.bias"]), len(weights["hidden.bias"]))
    head.load_state_dict(weights)
    return head.eval()


def calibrate_stage(options: argparse.Namespace, coco: Coco) -> None:
    """Fit words of captions and the calibration on even ids; save all heads as they are shipped."""
    head = load_head(options)
    maps = Maps(MapCache(options.work / "val").shards())
    even = np.array([is_for_tuning(name) for name in maps.ids])
    ids = [name for name, its in zip(maps.ids, even, strict=True) if its]
    logits, features = maps.apply(head)[even], maps.apply(lambda batch: head.describe(batch).mean(1))[even]
    kinds = [kind for kind, name in enumerate(COCO_NAMES) if name not in leave_out(options)]
    things = calibrate(logits, coco.plainly_shown(ids)[:, kinds])
    counts = count_mentions([coco.captions_of[int(name)] for name in ids])
    held_out = cross_validate(features, counts, options.seed)
    precisions = word_precisions(held_out, counts)
    chosen = [list(MENTIONS).index(word) for word in choose_words(precisions)]
    asked = counts[:, chosen] != 1
    mentions = calibrate(held_out[:, chosen], counts[:, chosen] >= ENOUGH, asked)
    linear = fit_linear(features, counts[:, chosen])
    print(f"{len(kinds)} kinds: {things}; {len(chosen)} words: {mentions}")
    heads = join_heads(
        head, [COCO_NAMES[kind] for kind in kinds], things, list(choose_words(precisions)), linear, mentions
    )
    write_heads(heads, options.work / f"concepts{options.tag}.safetensors", licence=LICENCE, seed=str(options.seed))
    _write_json(options.work / f"words{options.tag}.json", precisions)


def join_heads(
    head: ConceptHead,
    kinds: list[str],
    things: Calibration,
    words: list[str],
    linear: LinearHeads,
    mentions: Calibration,
) -> ConceptHeads:
    """Return the heads of kinds and of words as one: a word has evidence of the whole only."""
    weights = {name: tensor.detach().numpy() for name, tensor in head.state_dict().items()}
    nothing = np.zeros_like(linear.weight.T)
    weights["place.weight"] = np.concatenate([weights["place.weight"], nothing])
    weights["place.bias"] = np.concatenate([weights["place.bias"], linear.bias])
    weights["whole.weight"] = np.concatenate([weights["whole.weight"], linear.weight.T])
    weights["slope"] = np.repeat(np.array([things.slope, mentions.slope], np.float32), [len(kinds), len(words)])
    weights["offset"] = np.repeat(np.array([things.offset, mentions.offset], np.float32), [len(kinds), len(words)])
    groups = ("coco",) * len(kinds) + ("captions",) * len(words)
    return ConceptHeads((*kinds, *words), groups, "efficientnet-lite0", VERSION, SCALE, weights)


def evaluate(options: argparse.Namespace, coco: Coco) -> None:
    """Measure the heads as they are shipped on odd ids and on VOC2007, or with `--tune` on even ids."""
    heads = load_heads(options.work / f"concepts{options.tag}.safetensors")
    val = MapCache(options.work / "val")
    results: dict[str, Any] = {}
    if options.tune:
        results["coco, even ids"] = evaluate_coco(heads, val, coco, is_for_tuning)
    else:
        results["coco, odd ids"] = evaluate_coco(heads, val, coco, lambda name: not is_for_tuning(name))
        results["coco, all"] = evaluate_coco(heads, val, coco, lambda _: True)
        if set(VOC_NAMES.values()) <= set(heads.names):
            results["voc2007"] = evaluate_voc(heads, MapCache(options.work / "voc"), Voc(options.voc))
    for where, result in results.items():
        print(f"{where}:")
        for name, value in result.items():
            if name not in ("by word", "caption words"):
                print(f"  {name}: {_short(value)}")
    _write_json(options.work / f"results{options.tag}{'-tune' if options.tune else ''}.json", results)


def write(options: argparse.Namespace, coco: Coco) -> None:
    """Write the heads into the package and the model card into the docs."""
    results = json.loads((options.work / f"results{options.tag}.json").read_text())
    words = json.loads((options.work / f"words{options.tag}.json").read_text())
    shutil.copyfile(options.work / f"concepts{options.tag}.safetensors", PACKAGE / FILE)
    facts = {
        "date": f"{datetime.date.today():%d %B %Y}",
        "seed": options.seed,
        "trained": len(list(coco.train_images.glob("*.jpg"))),
        "dropout": options.dropout,
        "epochs": options.epochs,
    }
    CARD.write_text(model_card(load_heads(PACKAGE / FILE), results, words, (PACKAGE / FILE).stat().st_size, facts))


def is_for_tuning(name: str) -> bool:
    """Tell whether an image of val2017 may be used for tuning."""
    return int(name) % 2 == 0


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".removesuffix(".000")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(its)}" for name, its in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_short(its) for its in value) + "]"
    return str(value)


RUN: Final = {"encode": encode, "train": train, "calibrate": calibrate_stage, "evaluate": evaluate, "write": write}


if __name__ == "__main__":
    main()
