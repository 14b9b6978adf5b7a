"""Conditions of three terms, with regions, in galleries of made-up pictures.

    python benchmarks/bench_conditions.py
    python benchmarks/bench_conditions.py --large 1000000      # takes minutes, and 4 GB

In a gallery of 50,000 beside a search by degrees, which is what version 0.1 did; in a large one, of which there are but
the bytes that are searched, beside brute force over full vectors.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from andornot import Formula, Gallery, Model
from andornot.gallery.basis import Basis
from andornot.gallery.conditions import ConditionSearch, Term, Truths
from andornot.gallery.database import Picture
from andornot.gallery.engines import Scan
from andornot.gallery.feature_store import as_rows, checksum
from andornot.gallery.likeness.components import to_bytes
from andornot.gallery.likeness.neighbours import expand
from andornot.gallery.writer import open_writer
from andornot.model import new_backbone
from andornot.ssl.recipe import load_recipe
from timing import Row, best_ratio, print_table

_FEATURES, _WHOLE, _REGION, _REGIONS = 1280, 128, 64, 9
_KINDS = 400
_TOP = 50
_BATCH = 4096
_CONDITIONS = ("a and b", "a and b and not c", "a and not b", "(a or b) and not c")


class Bytes:
    """The components of pictures that have nothing else."""

    def __init__(self, codes: Tensor) -> None:
        self._codes = codes

    def codes(self, rows: np.ndarray) -> Tensor:
        """Those of rows, not copied where they follow each other."""
        first, last = int(rows[0]), int(rows[-1])
        follow = last - first + 1 == len(rows)
        if follow:
            return self._codes[first : last + 1]
        return torch.from_numpy(self._codes.numpy().take(rows, axis=0))


class MadeUpRegions(Bytes):
    """Regions in memory: each shows the thing of its picture, or of another one, or both; and noise."""

    count, dimensions = _REGIONS, _REGION

    def __init__(self, wholes: Tensor, generator: torch.Generator, basis: Basis | None = None) -> None:
        self.basis = basis
        super().__init__(torch.empty(len(wholes), _REGIONS, _REGION, dtype=torch.int8))
        for start in range(0, len(wholes), _BATCH):
            part = wholes[start : start + _BATCH, None, :]
            noise = torch.randn(len(part), _REGIONS, _REGION, generator=generator) / _REGION**0.5
            self._codes[start : start + _BATCH] = to_bytes(normalize(part + 0.7 * noise, dim=-1))

    def has(self, rows: np.ndarray) -> np.ndarray:
        """All of them."""
        return np.ones(len(rows), bool)

    def box_in(self, *_: int) -> tuple[float, float, float, float]:
        """Somewhere."""
        return (0, 0, 1, 1)


def activations(count: int, generator: torch.Generator) -> Tensor:
    """Of pictures of some kinds of things, two in each, and something of their own."""
    kinds = torch.rand(_KINDS, _FEATURES, generator=torch.Generator().manual_seed(0)) ** 6
    chosen = torch.randint(_KINDS, (count, 2), generator=generator)
    weights = torch.rand(count, 2, 1, generator=generator)
    return (weights * kinds[chosen]).sum(1) + 0.3 * torch.rand(count, _FEATURES, generator=generator) ** 6


def made_up_gallery(folder: Path, count: int) -> Gallery:
    generator = torch.Generator().manual_seed(1)
    recipe = load_recipe("photos")
    model = Model.calibrated(new_backbone(recipe, channels=3), activations(2000, generator), recipe)
    Gallery.create(folder, model)
    with open_writer(folder) as writer:
        for start in range(0, count, _BATCH):
            rows = as_rows(activations(min(_BATCH, count - start), generator))
            first = writer.features.append(rows)
            for row, own in enumerate(rows, first):
                digest = row.to_bytes(32, "big")
                path = f"/none/{row:08}.jpg"
                writer.database.insert(Picture(writer.new_id(), path, 1, 1, digest, 0, row, checksum(own)))
            writer.commit()
    gallery = Gallery.open(folder)
    gallery.search("1")
    searcher = gallery._searching
    rows = np.arange(count)
    seen = searcher._sources.activations(rows[:2000])
    basis = Basis.fit(model, seen, seen, calibrate=False)
    wholes = torch.cat([basis.project(searcher._degrees.take(part)) for part in np.array_split(rows, 50)])
    searcher._regions = MadeUpRegions(wholes, generator, basis)  # type: ignore[assignment]
    return gallery


def bench_gallery(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        gallery = made_up_gallery(Path(folder) / "g", count)
        condition = partial(gallery.search, "11 and 222 and not 3333")
        ratio, mine, theirs = best_ratio(condition, partial(gallery.search, "11", score="degrees"), 30)
        term, mine_too, _ = best_ratio(
            partial(gallery.search, "11", top=_TOP), partial(gallery.search, "11", top=_TOP, score="degrees"), 15
        )
        written = (Path(folder) / "g" / "derived" / "centred.bin").stat().st_size / count
    searched = written + _REGIONS * _REGION
    return [
        Row(
            f"three terms ({1000 * mine:.0f} ms) / a search by degrees ({1000 * theirs:.0f} ms)",
            ratio,
            "≤ 1",
            ratio <= 1,
        ),
        Row(f"a term by centred ({1000 * mine_too:.1f} ms) / by degrees", term, "≤ 1", term <= 1),
        Row("bytes a picture of all that is searched", searched, "≤ 1,500", searched <= 1500),
    ]


class Everything:
    """A selection of all rows."""

    def __init__(self, count: int) -> None:
        self.rows = np.arange(count)

    def __len__(self) -> int:
        return len(self.rows)


def bench_large(count: int) -> list[Row]:
    generator = torch.Generator().manual_seed(2)
    kinds = normalize(torch.randn(_KINDS, _WHOLE, generator=generator), dim=1)
    wholes = torch.empty(count, _WHOLE)
    for start in range(0, count, _BATCH):
        part = wholes[start : start + _BATCH]
        chosen = torch.randint(_KINDS, (len(part), 2), generator=generator)
        weights = torch.rand(len(part), 2, 1, generator=generator)
        noise = torch.randn(len(part), _WHOLE, generator=generator) / _WHOLE**0.5
        part.copy_(normalize((weights * kinds[chosen]).sum(1) + 0.5 * noise, dim=1))
    regions = MadeUpRegions(normalize(wholes[:, :_REGION], dim=1), generator)
    centred: Any = Bytes(to_bytes(wholes))
    everything: Any = Everything(count)
    engine = Scan(SimpleNamespace(centred=centred))  # type: ignore[arg-type]
    chosen = torch.randint(count, (30, 3), generator=generator)

    def expanded(numbers: Tensor) -> list[Term]:
        queries = wholes[numbers]
        rows, alike = engine.search(queries, 20, everything)
        whole = expand(queries, wholes[torch.from_numpy(rows)], torch.from_numpy(alike))
        return [Term(one, normalize(one[:_REGION], dim=0)) for one in whole]

    searching = ConditionSearch(centred, engine, everything, regions)

    def search(formula: Formula, terms: list[Term]) -> np.ndarray:
        return searching.search(formula, terms, "product", _TOP, everything).rows

    rows = []
    for text in _CONDITIONS:
        formula, recalls = Formula(text), []
        for numbers in chosen[:5]:
            terms = expanded(numbers)[: len(formula.terms)]
            if len(formula.positive_terms) == 1:
                terms[0] = Term(wholes[numbers[0]])
            best = search_all(formula, terms, centred, regions, everything)
            recalls.append(len(np.intersect1d(best, search(formula, terms))) / _TOP)
        recall = float(np.mean(recalls))
        rows.append(Row(f"recall@{_TOP} of {text}", recall, "≥ 0.99", recall >= 0.99))
    formula = Formula("a and b and not c")
    part = normalize(torch.rand(min(count, 100_000), _FEATURES, generator=generator), dim=1).half()
    block, asked = torch.empty(816, _FEATURES), normalize(torch.rand(3, _FEATURES, generator=generator), dim=1)

    def brute_force() -> None:
        """Neighbours of three terms, then their truths, over full vectors; a part of them stands for the others."""
        for _ in range(0, 2 * count, len(part)):
            scores = torch.empty(3, len(part))
            for start in range(0, len(part), len(block)):
                some = part[start : start + len(block)]
                scores[:, start : start + len(block)] = asked @ block[: len(some)].copy_(some).T
            (scores[0] * scores[1] * (1 - scores[2])).topk(_TOP)

    ratio, theirs, mine = best_ratio(brute_force, lambda: search(formula, expanded(chosen[0])), 3)
    rows.append(
        Row(
            f"three terms ({1000 * mine:.0f} ms), speed against full vectors ({theirs:.2f} s)",
            ratio,
            "≥ 10",
            ratio >= 10,
        )
    )
    return rows


def search_all(
    formula: Formula, terms: list[Term], centred: Any, regions: MadeUpRegions, everything: Any
) -> np.ndarray:
    """Every picture by all of its regions."""
    truths = Truths(terms, centred, everything, regions)
    values = [
        formula.truth_of_terms(truths.of(part)).float()
        for part in np.array_split(everything.rows, max(1, len(everything) // 16_384))
    ]
    return torch.cat(values).topk(_TOP).indices.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=50_000, help="of the gallery (default: 50,000)")
    parser.add_argument("--large", type=int, default=200_000, help="of the large one (default: 200,000)")
    options = parser.parse_args()
    torch.manual_seed(0)
    start = time.perf_counter()
    print_table(f"conditions, {options.pictures:,} made-up pictures", bench_gallery(options.pictures))
    print_table(f"conditions, {options.large:,} made-up pictures", bench_large(options.large))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
