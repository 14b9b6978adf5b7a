"""What the algebra costs, single-threaded: `python benchmarks/bench_logic.py` (about half a minute)."""

import operator
from functools import partial

import torch
from torch import Tensor

from andornot import Formula, Representation, cross_entropy
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


def bench_cross_entropy() -> list[Row]:
    queries, gallery = random_representation(64, 128, 8), random_representation(60_000, 128, 8)
    weights, logs = queries.probs.flatten(1), gallery.log_probs.flatten(1)
    ratio, _, seconds = best_ratio(lambda: cross_entropy(queries, gallery), lambda: weights @ logs.T)
    what = f"all-pairs cross-entropy, speed against the bare product ({1000 * seconds:.0f} ms), 64 × 60,000 × 1,024"
    return [Row(what, 1 / ratio, "≥ 0.9", 1 / ratio >= 0.9)]


def main() -> None:
    settle()
    print_table("logic (one thread, best of several runs)", [*bench_or(), *bench_semantics(), *bench_cross_entropy()])


if __name__ == "__main__":
    main()
