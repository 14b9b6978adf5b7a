"""`andornot demo`: the algebra on two images, the method on real digits, and a gallery of scenes."""

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import torch

from .contact_sheet import draw_sheet
from .data import ImageSet, ResizedImages, open_images, scenes
from .evaluate.experiments.config import RetrievalConfig
from .evaluate.experiments.retrieval_report import evaluate_operability
from .evaluate.metrics.ranking import knn_accuracy, single_classes
from .evaluate.report.figures import SearchRow, draw_features, draw_search
from .evaluate.report.writing import REPORT, RESULT, write_outcome
from .gallery import Gallery
from .gallery.hits import percent
from .logic import Formula, Representation, degree_distance
from .model import DESCRIPTION, Model
from .pretraining import pretrain
from .ssl.losses import mixup
from .ssl.recipe import load_recipe

FEATURES: Final = ("dog", "ball", "sea")

# Pairs of held-out digits, and formulas with them; ab is one image over the other.
_PAIRS: Final = ((1, 0), (7, 6), (4, 3))
_FORMULAS: Final = ("a", "b", "a | b", "ab & a", "ab & b", "ab - b")
_HITS: Final = 10

# The paper's experiment with 100 instead of 900 combinations per pair of classes.
_PROTOCOL: Final = RetrievalConfig(images_per_class=10)

SCENES: Final = "scenes:?count=1000"

# The network was trained on photos; it recognises these things in drawings too.
QUICK_SCENES: Final = "scenes:?count=160&classes=penguin+umbrella+tractor+airplane+balloon+rabbit"
_QUICK_SEARCHES: Final = ("penguin and umbrella", "tractor and not airplane", "balloon or rabbit")
_QUICK_HITS: Final = 5


class Search(NamedTuple):
    """A formula over files of scenes, and the score that ranks the others."""

    formula: str
    score: str = "centered"


def example() -> dict[str, Representation]:
    """Return two images with three features of five truth values, and the results of the operators."""
    a = Representation(  # a dog with a ball, on grass
        [[0.00, 0.00, 0.05, 0.20, 0.75], [0.00, 0.05, 0.15, 0.45, 0.35], [0.85, 0.10, 0.05, 0.00, 0.00]]
    )
    b = Representation(  # a dog, half hidden by waves
        [[0.05, 0.10, 0.40, 0.35, 0.10], [0.80, 0.15, 0.05, 0.00, 0.00], [0.00, 0.00, 0.05, 0.15, 0.80]]
    )
    return {"a": a, "b": b, "a | b": a | b, "a & b": a & b, "~a": ~a, "a - b": a - b}


def run(folder: Path) -> None:
    """Run the demo. Results of an earlier run are reused."""
    folder.mkdir(parents=True, exist_ok=True)
    show_example(folder)
    model = _model(folder / "model")
    train, test = (open_images("digits", split=split).resized(model.size) for split in ("train", "test"))
    features = model.activations(train)
    gallery = model.encode_activations(features)
    show_neighbours(model, features, gallery, train, test)
    show_search(model, train, gallery, test, folder)
    show_operability(model, folder / "retrieval")
    show_gallery(folder)


def run_quick(folder: Path) -> None:
    """Draw a few scenes, index them, and search them by words and by examples."""
    images, scenes_folder, gallery_folder = open_images(QUICK_SCENES), folder / "quick-scenes", folder / "quick"
    print(f"Drawing {len(images)} scenes in {scenes_folder} and indexing them, without training:", flush=True)
    write_scenes(images, scenes_folder)
    gallery = index_scenes(scenes_folder, gallery_folder)
    by_example = " and ".join(scene_files(images, {thing})[0] for thing in ("rabbit", "tractor"))
    for formula in (*_QUICK_SEARCHES, by_example):
        print(f"\n   {formula}")
        for hit in gallery.search(formula, top=_QUICK_HITS):
            print(f"   {percent(hit.truth):>7}  {Path(hit.path).name}")
    print("\nThe name of a file says what was drawn in it. A % is how true the formula is, by the model.")
    print(scenes.ATTRIBUTION)
    _show_commands(_QUICK_SEARCHES[0], gallery_folder)


def show_example(folder: Path) -> None:
    """Show the algebra on two images, as a table and a plot."""
    columns = example()
    print("1. The algebra. a is a dog with a ball, b a dog in the sea. How much of each feature, from 0 to 1:\n")
    print(" " * 8 + "".join(f"{title:>10}" for title in columns))
    for row, feature in enumerate(FEATURES):
        print(f"{feature:>8}" + "".join(f"{r.degrees[row].item():>10.2f}" for r in columns.values()))
    image = folder / "algebra.png"
    draw_features(columns, FEATURES).savefig(image)
    print(f"\n   The distributions behind these numbers: {image}\n")


def _model(folder: Path) -> Model:
    if (folder / DESCRIPTION).exists():
        print(f"2. The model in {folder} is used again.\n")
        return Model.load(folder)
    print("2. Pretraining on 4,000 real digits, without their labels:", flush=True)
    model = pretrain(
        open_images("digits", split="train"), folder, load_recipe("digits"), resume=True, say=lambda _: None
    )
    print(f"   {model} is in {folder}\n")
    return model


def show_neighbours(
    model: Model, features: torch.Tensor, gallery: Representation, train: ResizedImages, test: ResizedImages
) -> None:
    """Show the kNN accuracy on labels that the model has never seen."""
    classes = [single_classes(images.labels) for images in (train, test)]
    if classes[0] is None or classes[1] is None:
        raise ValueError("the digits have one class each")
    held_out = model.activations(test)
    compared = {
        "backbone features": (features, held_out),
        "representation": (gallery.degrees, model.encode_activations(held_out).degrees),
    }
    print("3. 1,000 held-out digits take the label of their 20 nearest training digits. Part of them that is right:")
    for name, (known, new) in compared.items():
        print(f"   {name:<18} {knn_accuracy(known, classes[0], new, classes[1]):.3f}")
    print()


def show_search(model: Model, train: ResizedImages, gallery: Representation, test: ResizedImages, folder: Path) -> None:
    """Search training digits by formulas of held-out digits."""
    print("4. Searching the training digits with formulas. a and b are held-out digits, ab is one over the other:")
    for a, b in _PAIRS:
        images = {"a": _digit(test, a), "b": _digit(test, b)}
        images["ab"] = mixup(images["a"], images["b"])
        values = dict(zip(images, model.encode(torch.stack(list(images.values()))), strict=True))
        rows = []
        for text in _FORMULAS:
            formula = Formula(text)
            nearest = degree_distance(formula.evaluate(values), gallery).argsort()[:_HITS]
            rows.append(SearchRow(text, [images[name] for name in formula.names], list(train[nearest])))
        file = folder / f"search-{a}-{b}.png"
        draw_search(rows).savefig(file)
        print(f"   a = {a}, b = {b}: {file}")


def show_operability(model: Model, folder: Path) -> None:
    """Run the paper's retrieval experiment on a few images; an existing report is kept."""
    print("\n5. The paper's retrieval experiment: do OR, AND and NOT find what they should, over all pairs of digits?")
    if not _is_reported(model, folder):
        start = time.perf_counter()
        train, test = (open_images("digits", split=split) for split in ("train", "test"))
        outcome = evaluate_operability(model, train, test, _PROTOCOL)
        settings = {"model": model.id, "data": "digits", "command": "andornot demo"}
        seconds = time.perf_counter() - start
        write_outcome(folder, outcome, settings=settings, seed=_PROTOCOL.seed, seconds=seconds)
    print(f"   {json.loads((folder / RESULT).read_text(encoding='utf-8'))['summary']}")
    print(f"   All figures, and the same for other logics and for plain vectors: {folder / REPORT}")


def show_gallery(folder: Path) -> None:
    """Write scenes to files, index them, and show sheets of hits for a few formulas."""
    images = open_images(SCENES)
    resized = folder / "scenes"
    print(f"\n6. Searching {len(images):,} scenes in {resized} with formulas, indexed without training:", flush=True)
    write_scenes(images, resized)
    gallery = index_scenes(resized, folder / "gallery")
    searches = pair_searches(images, "dog", "car")
    for name, (formula, score) in searches.items():
        file = folder / f"gallery-{name}.png"
        asked = gallery.resolve(formula)
        queries = {query: thing.path for query, thing in asked.named.items() if thing.kind != "word"}
        draw_sheet(formula, queries, gallery.search(asked, score=score)).save(file)
        print(f"   {formula:<34}  {file}")
    print("   The last one has words in it. The network learned from photographs: of 24 drawn things it knows some 10.")
    print(f"   {scenes.ATTRIBUTION}\n")
    _show_commands(searches["both"].formula, folder / "gallery")


def _show_commands(formula: str, gallery: Path) -> None:
    search = shlex.join(["search", formula, "--gallery", str(gallery)])
    page = shlex.join(["serve", "--gallery", str(gallery), "--open"])
    print(f"\nThe gallery stays. Search it yourself:\n\n   {_program()} {search}\n")
    print(f"Or on a page in the browser, which builds formulas from clicks:\n\n   {_program()} {page}")


def pair_searches(images: ImageSet, a: str, b: str) -> dict[str, Search]:
    """Return searches with scenes of two things and of both: the first scenes that show only these."""
    only_a, only_b, both = (scene_files(images, things)[0] for things in ({a}, {b}, {a, b}))
    return {
        "both": Search(f"{only_a} and {only_b}"),
        "without": Search(f"{both} and not {only_b}"),
        "shared": Search(f"{both} & {only_a}"),
        "containment": Search(f"{both} & {only_a}", "containment"),
        "minus": Search(f"{both} - {only_b}"),
        "words": Search("tractor and not penguin"),
    }


def write_scenes(images: ImageSet, folder: Path) -> None:
    """Write scenes to files, all or none. An existing folder is kept."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A unique temporary name, so that no existing file is removed.
    with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as temporary:
        partial = Path(temporary) / folder.name
        partial.mkdir()
        for index in range(len(images)):
            images.read(index).save(partial / _scene_file(images, index), quality=90)
        partial.rename(folder)


def index_scenes(images: Path, folder: Path) -> Gallery:
    """Return the gallery of a folder of images, created or updated."""
    gallery = Gallery.open(folder) if Gallery.exists(folder) else Gallery.create(folder)
    gallery.add(images)
    return gallery


def scene_files(images: ImageSet, things: set[str]) -> list[str]:
    """Return the file names of all scenes that show these things and no others, in order."""
    return [_scene_file(images, index) for index in range(len(images)) if set(_things(images, index)) == things]


def _scene_file(images: ImageSet, index: int) -> str:
    """Return a name such as dog-car-0017.jpg, which needs no quotes in a formula."""
    return f"{'-'.join(_things(images, index))}-{index:04}.jpg"


def _things(images: ImageSet, index: int) -> list[str]:
    if images.labels is None:
        raise ValueError("scenes have labels")
    return [images.class_names[number] for number in images.labels[index].nonzero().flatten().tolist()]


def _program() -> str:
    """Return the command that runs `andornot`: just the name if that runs this installation."""
    here = shutil.which("andornot", path=str(Path(sys.executable).parent))
    if here is None:
        return f"{shlex.quote(sys.executable)} -m andornot"
    if shutil.which("andornot") == here:
        return "andornot"
    return shlex.quote(min(here, os.path.relpath(here), key=len))


def _is_reported(model: Model, folder: Path) -> bool:
    try:
        known = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return bool(known["settings"]["model"] == model.id)


def _digit(images: ResizedImages, digit: int) -> torch.Tensor:
    """Return the first held-out image of a digit, `(1, 28, 28)` from 0 to 1."""
    labels = images.labels
    if labels is None:
        raise ValueError("the digits have labels")
    return images[int(labels[:, digit].nonzero()[0])].float() / 255
