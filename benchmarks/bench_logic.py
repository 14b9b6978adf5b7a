"""What the algebra costs, single-threaded: `python benchmarks/bench_logic.py` (about half a minute)."""

import itertools
import operator
import random
import statistics
import time
from functools import partial

import torch
from torch import Tensor

from andornot import Formula, FormulaError, Representation, cross_entropy
from timing import Row, best_ratio, print_table, settle

SHAPES = ((256, 512, 8), (256, 128, 32))


def outer_product_or(a: Tensor, b: Tensor, is_maximum: Tensor) -> Tensor:
    """The form that reads off the definition: all M² joint probabilities, added up by their maximum."""
    return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(-2) @ is_maximum


def random_representation(*shape: int) -> Representation:
    return Representation.from_logits(3 * torch.randn(*shape))


def bench_or() -> list[Row]:
    rows = []
    for shape, most, least in zip(SHAPES, (6.0, 6.0), (10.0, 40.0), strict=True):
        a, b = random_representation(*shape), random_representation(*shape)
        m = shape[-1]
        maximum = torch.maximum(torch.arange(m)[:, None], torch.arange(m)).flatten()
        is_maximum = torch.nn.functional.one_hot(maximum).to(a.dtype)
        torch.testing.assert_close(outer_product_or(a.probs, b.probs, is_maximum), (a | b).probs)

        either, both = partial(operator.or_, a, b), partial(operator.and_, a, b)
        maximum_of_two = partial(torch.maximum, a.probs, b.probs)
        cost, *_ = best_ratio(either, maximum_of_two)
        and_cost, *_ = best_ratio(both, maximum_of_two)
        gain, *_ = best_ratio(partial(outer_product_or, a.probs, b.probs, is_maximum), either, 12)
        goal = f"≤ {most:g}" if m == 8 else "-"
        rows.append(Row(f"a | b, times the cost of torch.maximum, {shape}", cost, goal, m != 8 or cost <= most))
        rows.append(Row(f"a & b, times the cost of torch.maximum, {shape}", and_cost, "-", True))
        rows.append(Row(f"a | b, times as fast as the outer product, {shape}", gain, f"≥ {least:g}", gain >= least))
    return rows


def bench_semantics() -> list[Row]:
    values = {name: random_representation(64, 512, 8) for name in "abcd"}
    once, twice = Formula("(a | b) & ~c - d"), Formula("(a | b) & (a | ~c) - d")
    same, *_ = best_ratio(lambda: once.evaluate(values), lambda: once.evaluate(values, "independent"))
    more, *_ = best_ratio(lambda: twice.evaluate(values), lambda: twice.evaluate(values, "independent"))
    return [
        Row("exact, times the cost of independent, no name twice", same, "≤ 1.05", same <= 1.05),
        Row("exact, times the cost of independent, one name twice", more, "-", True),
    ]


def random_formula(rng: random.Random, names: list[str], leaves: int) -> str:
    if leaves == 1:
        return rng.choice(("", "", "~")) + rng.choice(names)
    if leaves > 3 and rng.random() < 0.25:
        count = rng.randint(3, min(leaves, 12))
        cuts = [0, *sorted(rng.sample(range(1, leaves), count - 1)), leaves]
        parts = [random_formula(rng, names, end - start) for start, end in itertools.pairwise(cuts)]
        return f"at_least({rng.randint(1, count)}, {', '.join(parts)})"
    left = rng.randint(1, leaves - 1)
    sign = rng.choice("||||&&&&-")
    return f"({random_formula(rng, names, left)}) {sign} ({random_formula(rng, names, leaves - left)})"


def bench_cost(count: int = 300) -> list[Row]:
    """The time that `Formula.cost` foretells, against the time of the processor, for those that take 20 ms or more."""
    rng, ratios = random.Random(0), []
    refused = 0
    for _ in range(count):
        names = [f"n{number}" for number in range(rng.randint(3, 14))]
        formula = Formula(random_formula(rng, names, rng.choice((6, 12, 20, 30, 40, 60))))
        shape = rng.choice(((64, 4), (128, 32), (512, 8), (1280, 8)))
        values = {name: random_representation(*shape) for name in formula.names}
        start = time.process_time()
        try:
            formula.evaluate(values)
        except FormulaError:
            refused += 1
            continue
        seconds = time.process_time() - start
        if seconds > 0.02:
            ratios.append(formula.cost(shape).seconds / seconds)
    least, middle, most = min(ratios), statistics.median(ratios), max(ratios)
    what = f"of {count} formulas {refused} refused, {len(ratios)} that take 20 ms or more: time foretold against time"
    return [
        Row(f"{what}, least", least, "≥ 0.4", least >= 0.4),
        Row("the same, median", middle, "-", True),
        Row("the same, most", most, "≤ 6", most <= 6),
    ]


def bench_cross_entropy() -> list[Row]:
    queries, gallery = random_representation(64, 128, 8), random_representation(60_000, 128, 8)
    weights, logs = queries.probs.flatten(1), gallery.log_probs.flatten(1)
    ratio, _, seconds = best_ratio(lambda: cross_entropy(queries, gallery), lambda: weights @ logs.T)
    what = f"all-pairs cross-entropy, speed against the bare product ({1000 * seconds:.0f} ms), 64 × 60,000 × 1,024"
    return [Row(what, 1 / ratio, "≥ 0.9", 1 / ratio >= 0.9)]


def main() -> None:
    settle()
    print_table(
        "logic (one thread, best of several runs)",
        [*bench_or(), *bench_semantics(), *bench_cost(), *bench_cross_entropy()],
    )


if __name__ == "__main__":
    main()
