"""Draws the images of the docs: `python docs/draw.py [effective-rank]`. Everything in them is computed."""

import csv
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from andornot import Formula, Gallery, Representation, degree_distance, load_recipe, pretrain
from andornot.data import decode, open_images
from andornot.data.converting import to_tensor
from andornot.demo import FEATURES, SCENES, Search, example, index_scenes, pair_searches, write_scenes
from andornot.evaluate.report.figures import FAINT, INK, PALETTE, SearchRow, draw_features, draw_search

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
HITS = 8  # drawn


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


def draw_effective_rank(folder: Path) -> Figure:
    """Two trainings on the embedded digits: effective rank of the degrees of held-out digits after each epoch."""
    figure = Figure(figsize=(6, 2.4), dpi=160, layout="constrained")
    axes = figure.subplots()
    for colour, weight in zip(PALETTE, (0, 1), strict=False):
        recipe = load_recipe("digits", prior=None, epochs=8, decorrelation=weight)
        run = folder / f"decorrelation-{weight}"
        pretrain("digits", run, recipe, say=lambda _: None)
        with (run / "log.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["rank_degrees"]]
        epochs, ranks = ([float(row[key]) for row in rows] for key in ("epoch", "rank_degrees"))
        axes.plot(epochs, ranks, color=colour, marker="o", label=f"decorrelation: {weight}")
    axes.set(xlabel="epoch", ylabel="effective rank (of 128)", ylim=(0, 128))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_gallery(folder: Path) -> None:
    """The figure of gallery.md: four formulas of two scenes."""
    images = open_images(SCENES)
    write_scenes(images, folder / "scenes")
    gallery = index_scenes(folder / "scenes", folder / "gallery")
    searches = pair_searches(images, "dog", "car")
    chosen = [searches[name] for name in ("both", "without", "shared", "minus")]
    _save_searches("gallery-dog-car.jpg", gallery, chosen)


def draw_tutorial(folder: Path) -> None:
    """The sheets of tutorial.md, by its own commands."""
    here = {"andornot": [sys.executable, "-m", "andornot"], "python": [sys.executable]}
    (folder / "examples").symlink_to(DOCS.parent / "examples")
    for command in re.findall(r"^(?:andornot (?:index|search)|python) .*", (DOCS / "tutorial.md").read_text(), re.M):
        program, *arguments = shlex.split(command)
        subprocess.run([*here[program], *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for sheet in folder.glob("*.jpg"):
        sheet.rename(IMAGES / f"tutorial-{sheet.name}")


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
    if "effective-rank" in sys.argv[1:]:  # it takes minutes
        with tempfile.TemporaryDirectory() as folder:
            draw_effective_rank(Path(folder)).savefig(IMAGES / "effective-rank.png")
    for draw in (draw_gallery, draw_tutorial):
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder))


if __name__ == "__main__":
    main()
