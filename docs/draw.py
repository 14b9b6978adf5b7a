"""Draws the images of the docs: `python docs/draw.py`. Everything in them is computed, nothing is drawn by hand."""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure
from torch import Tensor

from andornot import Formula, Gallery, Representation, degree_distance
from andornot.data import ImageSet, decode, open_images
from andornot.data.converting import to_tensor
from andornot.demo import FEATURES, SCENES, Search, example, index_scenes, pair_searches, scene_files, write_scenes
from andornot.evaluate.report.figures import FAINT, INK, PALETTE, SearchRow, draw_features, draw_search

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
SCORES = ("degrees", "containment")
HITS = 8  # drawn
FIRST = 5  # counted


def draw_or_finds_both() -> Figure:
    """Distances of four kinds of images to the queries a, b and a | b."""
    has, lacks = [0.05, 0.15, 0.8], [0.8, 0.15, 0.05]
    kinds = {
        "neither": Representation([lacks, lacks, has]),
        "only a ball": Representation([has, lacks, lacks]),
        "only the sea": Representation([lacks, has, lacks]),
        "ball and sea": Representation([has, has, lacks]),
    }
    ball, sea = kinds["only a ball"], kinds["only the sea"]
    queries = {"a  (ball)": ball, "b  (sea)": sea, "a | b": ball | sea}
    figure = Figure(figsize=(9.5, 2.2), dpi=160, layout="constrained")
    for axes, (title, query), colour in zip(figure.subplots(1, 3, sharey=True), queries.items(), PALETTE, strict=False):
        distances = [degree_distance(query, kind).item() for kind in kinds.values()]
        bars = axes.barh(list(kinds), distances, color=colour, height=0.6)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8, color=INK)
        axes.set_title(f"distance to {title}", fontsize=10, fontweight="bold", color=INK)
        axes.set(xlim=(0, 0.8), xticks=[])
        axes.tick_params(length=0, labelsize=9, labelcolor=INK)
        axes.spines[["left", "top", "right", "bottom"]].set_visible(False)
        axes.axvline(0, color=FAINT)
    return figure


def draw_semantics() -> Figure:
    """`a & a` and `a | (a & b)` in both semantics."""
    a = Representation([[0.1, 0.2, 0.4, 0.2, 0.1]])
    values = {"a": a, "b": Representation([[0.05, 0.1, 0.2, 0.3, 0.35]])}
    columns = {"a": a, "b": values["b"]}
    for text in ("a & a", "a | (a & b)"):
        for semantics in ("exact", "independent"):
            columns[f"{text}\n{semantics}"] = Formula(text).evaluate(values, semantics)
    return draw_features(columns, ["feature"])


def draw_gallery(folder: Path) -> None:
    """The figures of gallery.md: a dozen formulas, then three with two scores. Prints its table, too."""
    images = open_images(SCENES)
    write_scenes(images, folder / "scenes")
    gallery = index_scenes(folder / "scenes", folder / "gallery")
    for a, b in (("dog", "car"), ("cow", "tractor")):
        searches = [pair_searches(images, a, b)[name] for name in ("both", "without", "shared", "minus")]
        _save_searches(f"gallery-{a}-{b}.jpg", gallery, searches)
    dog, car, cat, horse = (common(images, thing, 1) for thing in ("dog", "car", "cat", "horse"))
    more = (common(images, "car", 3), f"at_least(2, {dog}, {cat}, {horse})", f"{dog} & {car}", f"~{car}")
    _save_searches("gallery-more.jpg", gallery, [Search(formula) for formula in more])
    formulas = (pair_searches(images, "cow", "tractor")["shared"].formula, dog, common(images, "dog", 3))
    compared = [Search(formula, score) for formula in formulas for score in SCORES]
    _save_searches("gallery-scores.jpg", gallery, compared)
    print_scores(gallery, images)


def common(images: ImageSet, thing: str, examples: int) -> str:
    """A formula for what the first few scenes with only that thing have in common."""
    return " & ".join(scene_files(images, {thing})[:examples])


def print_scores(gallery: Gallery, images: ImageSet) -> None:
    """For each score and number of examples: how many of the first hits show what was asked for, over all things."""
    print("| examples | score | `a`: shows a | `a \\| b`: shows a or b | both | both and a third |")
    print("| --- | --- | --- | --- | --- | --- |")
    for examples in (1, 3, 7):
        known = {thing: common(images, thing, examples) for thing in images.class_names}
        pairs = list(combinations(known, 2))
        either = [f"({known[a]}) | ({known[b]})" for a, b in pairs]
        for score in SCORES:
            single = _found(gallery, list(known.values()), [(thing,) for thing in known], score)
            double = _found(gallery, either, pairs, score)
            shares = (
                mean(asked <= shown for asked, shown in single),
                mean(bool(asked & shown) for asked, shown in double),
                mean(asked <= shown for asked, shown in double),
                mean(asked < shown for asked, shown in double),
            )
            print(f"| {examples} | `{score}` | " + " | ".join(f"{share:.2f}" for share in shares) + " |")


def draw_tutorial(folder: Path) -> None:
    """The sheets of tutorial.md, by its own commands."""
    here = {"andornot": [sys.executable, "-m", "andornot"], "python": [sys.executable]}
    (folder / "examples").symlink_to(DOCS.parent / "examples")
    for command in re.findall(r"^(?:andornot (?:index|search)|python) .*", (DOCS / "tutorial.md").read_text(), re.M):
        program, *arguments = shlex.split(command)
        subprocess.run([*here[program], *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for sheet in folder.glob("*.jpg"):
        sheet.rename(IMAGES / f"tutorial-{sheet.name}")


def _found(
    gallery: Gallery, formulas: Sequence[str], asked: Sequence[tuple[str, ...]], score: str
) -> list[tuple[set[str], set[str]]]:
    """For each of the first hits of each formula the things that were asked for, and those that it shows."""
    return [
        (set(things), set(Path(hit.path).stem.split("-")[:-1]))
        for things, hits in zip(asked, gallery.search(formulas, FIRST, score), strict=True)
        for hit in hits
    ]


def _save_searches(name: str, gallery: Gallery, searches: Sequence[Search]) -> None:
    """A line for each search, without the numbers in the names; as JPEG, because scenes are large as PNG."""
    rows = []
    several = len({search.score for search in searches}) > 1
    for formula, score in searches:
        text = re.sub(r"-\d+\.jpg", "", formula).replace(", ", ",\n", 1) + (f"\n{score}" if several else "")
        queries = [thing.path for thing in gallery.resolve(formula).named.values()]
        hits = [hit.path for hit in gallery.search(formula, HITS, score)]
        rows.append(SearchRow(text, _read(queries), _read(hits)))
    draw_search(rows).savefig(IMAGES / name, dpi=150, pil_kwargs={"quality": 85})


def _read(paths: Sequence[str]) -> list[Tensor]:
    return [to_tensor(decode(path)) for path in paths]


def main() -> None:
    """Writes all images."""
    IMAGES.mkdir(exist_ok=True)
    draw_features(example(), FEATURES).savefig(IMAGES / "algebra.png")
    draw_or_finds_both().savefig(IMAGES / "or-finds-both.png")
    draw_semantics().savefig(IMAGES / "semantics.png")
    for draw in (draw_gallery, draw_tutorial):
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder))


if __name__ == "__main__":
    main()
