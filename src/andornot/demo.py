"""`andornot demo`: the algebra on two pictures, small enough to follow by hand."""

from pathlib import Path
from typing import Final

from .evaluate.figures import draw_features
from .logic import Representation

FEATURES: Final = ("dog", "ball", "sea")


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
    """Prints the example and draws it."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = example()
    print("a is a dog with a ball, b a dog in the sea. How much of each feature, from 0 to 1:\n")
    print(" " * 8 + "".join(f"{title:>10}" for title in columns))
    for row, feature in enumerate(FEATURES):
        print(f"{feature:>8}" + "".join(f"{r.degrees[row].item():>10.2f}" for r in columns.values()))
    picture = folder / "algebra.png"
    draw_features(columns, FEATURES).savefig(picture)
    print(f"\nThe distributions behind these numbers: {picture}")
