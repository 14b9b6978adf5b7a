"""How long a word takes in a large gallery, and what its postings cost.

python benchmarks/bench_words.py --rows 1000000
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch

from andornot.gallery.layout import DERIVED
from andornot.gallery.postings import Postings, support_of
from andornot.words import KeptClasses, wordnet_nouns
from andornot.words.classes import KEPT

WORDS: Final = ("person", "car", "bird", "dog", "animal")


class Drawn:
    """Classes of pictures that were never taken: each shows one of the 1,000 most, and others less and less."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(0)
        first = rng.integers(0, 1000, rows, np.uint16)
        steps = np.sort(rng.integers(0, 160, (rows, KEPT), np.uint8), 1)
        # So many classes apart from each other, from a place that is drawn: none twice.
        others = (np.arange(KEPT) * 7 % 1000).astype(np.uint16)
        self._classes, self._weights = (first[:, None] + others) % 1000, steps

    def has(self, rows: np.ndarray) -> np.ndarray:
        """All of them are there."""
        return np.ones(len(rows), bool)

    def read(self, rows: np.ndarray) -> KeptClasses:
        """Those of some rows."""
        return KeptClasses(torch.from_numpy(self._classes[rows]), torch.from_numpy(self._weights[rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows: int = parser.parse_args().rows
    evidence, nouns = Drawn(rows), wordnet_nouns()
    with TemporaryDirectory() as folder:
        postings = Postings(Path(folder), 1, rows, evidence)
        took, _ = timed(postings.extend)
        size = sum(file.stat().st_size for file in (Path(folder) / DERIVED).iterdir())
        print(f"{rows:,} pictures, seed 0: postings made in {took:.1f} s, {size / rows:.0f} bytes a picture")
        print("| word | classes | first time | again | without postings |\n| --- | --- | --- | --- | --- |")
        postings = Postings(Path(folder), 1, rows, evidence)
        for word in WORDS:
            classes = nouns.look_up(word).classes
            first, found = timed(lambda: postings.support(classes))  # noqa: B023
            again, _ = timed(lambda: postings.support(classes))  # noqa: B023
            slowly, same = timed(lambda: support_of(evidence, np.arange(rows), classes))  # noqa: B023
            assert np.allclose(found, same.clip(max=1), atol=1e-4)
            print(f"| {word} | {len(classes)} | {first:.3f} s | {again:.3f} s | {slowly:.2f} s |", flush=True)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
