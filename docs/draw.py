"""Draws the pictures of the docs: `python docs/draw.py`. Everything in them is computed, nothing is drawn by hand."""

from pathlib import Path

from matplotlib.figure import Figure

from andornot import Formula, Representation, degree_distance
from andornot.demo import FEATURES, example
from andornot.evaluate.figures import FAINT, INK, PALETTE, draw_features

IMAGES = Path(__file__).parent / "images"


def draw_or_finds_both() -> Figure:
    """Distances of four kinds of pictures to the queries a, b and a | b."""
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


def main() -> None:
    """Writes all pictures."""
    IMAGES.mkdir(exist_ok=True)
    draw_features(example(), FEATURES).savefig(IMAGES / "algebra.png")
    draw_or_finds_both().savefig(IMAGES / "or-finds-both.png")
    draw_semantics().savefig(IMAGES / "semantics.png")


if __name__ == "__main__":
    main()
