"""Timings as ratios: the machine is shared and noisy, so each row compares two runs made at the same time."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch


class Row(NamedTuple):
    """One comparison: how many times as long (or as fast) as the baseline, and what was aimed at."""

    what: str
    ratio: float
    target: str
    met: bool


def settle() -> None:
    """One thread, one seed, and an allocator that keeps its memory, as in a process that has run for a while.

    glibc gives freed blocks back to the system until a larger one has been freed; without this, page faults of
    fresh memory are what is measured, and they come and go with the order of the benchmarks.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.zeros(31 * 2**20, dtype=torch.uint8)


def best_ratio(
    candidate: Callable[[], object],
    baseline: Callable[[], object],
    rounds: int = 30,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """(candidate / baseline, candidate seconds, baseline seconds), each the best of several runs.

    They take turns, so that both see the machine busy and idle, but not run by run: the memory that one frees would
    be given back by the system at the other's cost.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        for function, record in zip((candidate, baseline), times, strict=True):
            function()
            for _ in range(-(-rounds // 3)):
                start = clock()
                function()
                record.append(clock() - start)
    mine, theirs = min(times[0]), min(times[1])
    return mine / theirs, mine, theirs


def print_table(title: str, rows: list[Row]) -> None:
    """Prints the rows, and keeps them for the table of the docs; a missed target is shown, not hidden."""
    if kept := os.environ.get("BENCH_ROWS"):
        with Path(kept).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps([title, *row]) + "\n" for row in rows)
    width = max(len(row.what) for row in rows)
    print(f"\n{title}")
    for row in rows:
        print(f"  {row.what:<{width}}  {row.ratio:8.2f}   target {row.target:<8} {'met' if row.met else 'MISSED'}")
