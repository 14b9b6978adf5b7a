"""`andornot demo`: the algebra on two pictures, the method on real digits, a gallery of scenes; in a few minutes."""

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

from .data import ImageSet, Pictures, open_images, scenes
from .evaluate.experiments.protocol import Protocol
from .evaluate.experiments.retrieval_report import operability_outcome
from .evaluate.metrics.knn import knn_accuracy, single_classes
from .evaluate.report.figures import SearchRow, draw_features, draw_search
from .evaluate.report.writing import REPORT, RESULT, write_outcome
from .gallery import Gallery
from .gallery.contact_sheet import save_sheet
from .logic import Formula, Representation, degree_distance
from .model import DESCRIPTION, Model
from .pretraining import pretrain
from .ssl.recipe import load_recipe
from .ssl.synthesis import mix_pictures

FEATURES: Final = ("dog", "ball", "sea")

# Held-out digits that are put together, and what is asked of them; ab is one picture over the other.
_PAIRS: Final = ((1, 0), (7, 6), (4, 3))
_FORMULAS: Final = ("a", "b", "a | b", "ab & a", "ab & b", "ab - b")
_HITS: Final = 10

# The paper's experiment with 100 instead of 900 combinations a pair of classes.
_PROTOCOL: Final = Protocol(pictures=10)

SCENES: Final = "scenes:?count=1000"


class Search(NamedTuple):
    """A formula over files of scenes, and the score that ranks the others."""

    formula: str
    score: str = "centred"


def example() -> dict[str, Representation]:
    """Two pictures with three features of five truth values, and what the operators make of them."""
    a = Representation(  # a dog with a ball, on grass
        [[0.00, 0.00, 0.05, 0.20, 0.75], [0.00, 0.05, 0.15, 0.45, 0.35], [0.85, 0.10, 0.05, 0.00, 0.00]]
    )
    b = Representation(  # a dog, half hidden by waves
        [[0.05, 0.10, 0.40, 0.35, 0.10], [0.80, 0.15, 0.05, 0.00, 0.00], [0.00, 0.00, 0.05, 0.15, 0.80]]
    )
    return {"a": a, "b": b, "a | b": a | b, "a & b": a & b, "~a": ~a, "a - b": a - b}


def run(folder: Path) -> None:
    """All of the demo. What is there from an earlier run is used again."""
    folder.mkdir(parents=True, exist_ok=True)
    show_example(folder)
    model = _model(folder / "model")
    train, test = (open_images("digits", split=split).pictures(model.size) for split in ("train", "test"))
    features = model.activations(train)
    gallery = model.represent(features)
    show_neighbours(model, features, gallery, train, test)
    show_search(model, train, gallery, test, folder)
    show_operability(model, folder / "retrieval")
    show_gallery(folder)


def show_example(folder: Path) -> None:
    """The algebra on two pictures, as a table and a drawing."""
    columns = example()
    print("1. The algebra. a is a dog with a ball, b a dog in the sea. How much of each feature, from 0 to 1:\n")
    print(" " * 8 + "".join(f"{title:>10}" for title in columns))
    for row, feature in enumerate(FEATURES):
        print(f"{feature:>8}" + "".join(f"{r.degrees[row].item():>10.2f}" for r in columns.values()))
    picture = folder / "algebra.png"
    draw_features(columns, FEATURES).savefig(picture)
    print(f"\n   The distributions behind these numbers: {picture}\n")


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
    model: Model, features: torch.Tensor, gallery: Representation, train: Pictures, test: Pictures
) -> None:
    """How well nearest neighbours agree with the labels, which the model has never seen."""
    classes = [single_classes(pictures.labels) for pictures in (train, test)]
    if classes[0] is None or classes[1] is None:
        raise ValueError("the digits have one class each")
    held_out = model.activations(test)
    compared = {
        "backbone features": (features, held_out),
        "representation": (gallery.degrees, model.represent(held_out).degrees),
    }
    print("3. 1,000 held-out digits take the label of their 20 nearest training digits. Part of them that is right:")
    for name, (known, new) in compared.items():
        print(f"   {name:<18} {knn_accuracy(known, classes[0], new, classes[1]):.3f}")
    print()


def show_search(model: Model, train: Pictures, gallery: Representation, test: Pictures, folder: Path) -> None:
    """Held-out digits in formulas, and the training digits nearest to the result."""
    print("4. Searching the training digits with formulas. a and b are held-out digits, ab is one over the other:")
    for a, b in _PAIRS:
        pictures = {"a": _digit(test, a), "b": _digit(test, b)}
        pictures["ab"] = mix_pictures(pictures["a"], pictures["b"])
        values = dict(zip(pictures, model.encode(torch.stack(list(pictures.values()))), strict=True))
        rows = []
        for text in _FORMULAS:
            formula = Formula(text)
            nearest = degree_distance(formula.evaluate(values), gallery).argsort()[:_HITS]
            rows.append(SearchRow(text, [pictures[name] for name in formula.names], list(train[nearest])))
        file = folder / f"search-{a}-{b}.png"
        draw_search(rows).savefig(file)
        print(f"   a = {a}, b = {b}: {file}")


def show_operability(model: Model, folder: Path) -> None:
    """The paper's retrieval experiment on few pictures, as a report; one that is there already stays."""
    print("\n5. The paper's retrieval experiment: do OR, AND and NOT find what they should, over all pairs of digits?")
    if not _is_reported(model, folder):
        start = time.perf_counter()
        train, test = (open_images("digits", split=split) for split in ("train", "test"))
        outcome = operability_outcome(model, train, test, _PROTOCOL)
        settings = {"model": model.id, "data": "digits", "command": "andornot demo"}
        seconds = time.perf_counter() - start
        write_outcome(folder, outcome, settings=settings, seed=_PROTOCOL.seed, seconds=seconds)
    print(f"   {json.loads((folder / RESULT).read_text(encoding='utf-8'))['summary']}")
    print(f"   All figures, and the same for other logics and for plain vectors: {folder / REPORT}")


def show_gallery(folder: Path) -> None:
    """Scenes as files, a gallery of them, sheets of hits for a few formulas, and a command to go on with."""
    images = open_images(SCENES)
    pictures = folder / "scenes"
    print(f"\n6. Searching {len(images):,} scenes in {pictures} with formulas, indexed without training:", flush=True)
    write_scenes(images, pictures)
    gallery = index_scenes(pictures, folder / "gallery")
    searches = pair_searches(images, "dog", "car")
    for name, (formula, score) in searches.items():
        file = folder / f"gallery-{name}.png"
        asked = gallery.resolve(formula)
        by = "truth" if asked.formula.is_condition else score
        queries = {query: thing.path for query, thing in asked.named.items() if thing.kind != "word"}
        save_sheet(file, formula, queries, gallery.search(asked, score=score), by)
        print(f"   {formula:<34} by {by:<11}  {file}")
    print("   The last one has words in it. The network learned from photographs: of 24 drawn things it knows some 10.")
    print(f"   {scenes.ATTRIBUTION}\n")
    command = ["search", searches["both"].formula, "--gallery", str(folder / "gallery")]
    page = ["serve", "--gallery", str(folder / "gallery"), "--open"]
    print(f"   The gallery stays. Search it yourself:\n\n   {_program()} {shlex.join(command)}\n")
    print(f"   Or on a page in the browser, which builds formulas from clicks:\n\n   {_program()} {shlex.join(page)}")


def pair_searches(images: ImageSet, a: str, b: str) -> dict[str, Search]:
    """What can be asked of two things and a scene with both. Chosen by rule: the first scenes that show just that."""
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
    """Draws scenes into files, all or nothing. A folder that is there stays as it is."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A name that nothing has: whatever else is in the folder is not ours to remove.
    with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as temporary:
        partial = Path(temporary) / folder.name
        partial.mkdir()
        for index in range(len(images)):
            images.read(index).save(partial / _scene_file(images, index), quality=90)
        partial.rename(folder)


def index_scenes(pictures: Path, folder: Path) -> Gallery:
    """The gallery of a folder of pictures, new or brought up to date."""
    gallery = Gallery.open(folder) if Gallery.exists(folder) else Gallery.create(folder)
    gallery.add(pictures)
    return gallery


def scene_files(images: ImageSet, things: set[str]) -> list[str]:
    """The names of the files of all scenes that show these things and no others, in the order of the scenes."""
    return [_scene_file(images, index) for index in range(len(images)) if set(_things(images, index)) == things]


def _scene_file(images: ImageSet, index: int) -> str:
    """For example dog-car-0017.jpg: a name that can be written in a formula without quotes."""
    return f"{'-'.join(_things(images, index))}-{index:04}.jpg"


def _things(images: ImageSet, index: int) -> list[str]:
    if images.labels is None:
        raise ValueError("scenes have labels")
    return [images.class_names[number] for number in images.labels[index].nonzero().flatten().tolist()]


def _program() -> str:
    """What to type for `andornot` in this folder: the word alone if it starts this very installation."""
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


def _digit(pictures: Pictures, digit: int) -> torch.Tensor:
    """The first held-out picture of that digit, `(1, 28, 28)` from 0 to 1."""
    labels = pictures.labels
    if labels is None:
        raise ValueError("the digits have labels")
    return pictures[int(labels[:, digit].nonzero()[0])].float() / 255
