"""Report of the retrieval experiment for one or several models: tables, charts and hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Final

import torch

from ...data import ImageSet, ResizedImages
from ...logic import Formula
from ...logic.distance import SCORES
from ...model import Model
from ..metrics.intervals import Interval
from ..metrics.operability import CLOSE, RetrievalRow, compare_rows, summarize_runs
from ..report.charts import BothRates, RateGroup, draw_both_rates, draw_rates
from ..report.figures import SearchRow, draw_search
from ..report.outcome import Cell, Figure, Outcome, Section, Table
from .config import RetrievalConfig
from .operability import NEIGHBOURS, measure_operability
from .operators import CONDITIONS, OPERATORS, TRUTH, Operator, check_operators
from .retrieval import EncodedTask, RetrievalTask, choose_images, encode_task, load_images, load_pair

Rows = Mapping[str, Sequence[RetrievalRow]]
"""Rows of each model, by its name."""

_QUERIES: Final = {
    "a|b": "OR: a|b",
    "ab&a": "AND: ab&a",
    "ab&~b": "NOT: ab&~b",
    "ab&~b|a": "NOT, keeping what a shares",
}
_NAMES: Final = {"a|b": "OR", "ab&a": "AND", "ab&~b": "NOT"}
_DISTANCES: Final = {
    "cross-entropy": "cross-entropy",
    "reverse-cross-entropy": "cross-entropy, reversed",
    "degrees": "cosine of degrees",
    "features": "cosine of features",
    TRUTH: "truth in each image",
}
_PAPER_DISTANCES: Final = ("cross-entropy", "reverse-cross-entropy", "degrees")
_BY: Final = {"cross-entropy": "the paper's cross-entropy", "degrees": "the cosine of degrees"}
_OPERABILITY: Final = (
    "The difference alone favours weak models: one that finds nothing is close to any reference. So the second table "
    "divides it by (reference - chance), where chance is the share of class a in the gallery: 0 is as good as a plain "
    "image, 1 as far from it as chance. Cells are empty if the reference is not above chance.\n\n"
    "An operator works, in the first sentence of this page, if the interval of its mean rate minus the reference lies "
    f"within {CLOSE:.0%} of (reference - chance). It falls short if the interval lies outside."
)
_GROUPS: Final = (
    "All bars show the rate of class a; a colour is what the queries of a group should find. Blue, “like ab”: as much "
    "as an image of both. Orange, “like a”: as much as a. Green, “like b”: as little as b, because ab AND b, or ab "
    "without a, is b."
)
_SHOWN_PAIRS: Final = 3
_HITS: Final = 10


def evaluate_operability(
    model: Model,
    gallery: ImageSet,
    queries: ImageSet | None,
    config: RetrievalConfig = RetrievalConfig(),  # noqa: B008 - frozen
    *,
    operators: Sequence[Operator] = OPERATORS,
    progress: bool | None = None,
) -> Outcome:
    """Evaluate all queries, operators and distances for one model; pass custom operators as `[*PAPER, mine]`."""
    check_operators(operators)
    task = choose_images(gallery, queries, config)
    encoded = encode_task(model, task, progress=progress)
    rows = measure_rows(encoded, config, operators=operators, progress=progress)
    hits = draw_hits("the model", model, task)
    return report_retrieval("Operability of representations", {"the model": rows}, task, config, hits)


def measure_rows(
    task: EncodedTask,
    config: RetrievalConfig,
    *,
    operators: Sequence[Operator] = OPERATORS,
    progress: bool | None = None,
) -> list[RetrievalRow]:
    """Run the searches and return a row for each query, operator and distance."""
    measured = measure_operability(task, top=config.top, operators=operators, conditions=CONDITIONS, progress=progress)
    return summarize_runs([measured], seed=config.seed)


def report_retrieval(
    title: str,
    rows: Rows,
    task: RetrievalTask,
    config: RetrievalConfig,
    hits: Sequence[Figure],
    *,
    first: str | None = None,
) -> Outcome:
    """Return the report on one or several models with the same task.

    The summary begins with the model `first` (default: the last), which has the most detailed tables.
    """
    about = list(rows)[-1] if first not in rows else str(first)
    sections = [
        Section(
            "The task",
            "a is an image of one class, b of another, ab shows both. A query is an image, or images combined by an "
            f"operator. Its rate is the share of class a among the {config.top} nearest images of the gallery, "
            "averaged over all combinations of query images and all ordered pairs of classes.\n\n"
            "If an operator works, its query finds what a plain image finds: a|b what ab finds, ab&a and ab&~b what a "
            "finds. The smaller the difference to this reference, the better; for NOT, class b must disappear, too.",
        ),
        Section("How far each operator is from its reference", _OPERABILITY, _difference_tables(rows, about)),
        Section("Occurrence rates", _GROUPS, list(_charts(rows, config.top))),
        Section(
            "Operators compared",
            "The same queries by other operators: other logics, and vector arithmetic. A tuned weight is chosen for "
            "each pair of classes on the pairs that share no class with it. "
            f"“near b” is the mean of the {NEIGHBOURS} gallery images nearest to b. Conditions (`a and b`) are not "
            "operators: each gallery image has a truth value for each term, as in a gallery without regions, and the "
            "highest are the hits.",
            [*_operator_tables(rows, about, both=not task.mixed), *_negation_charts(rows, about, config.top)],
        ),
    ]
    if hits:
        sections.append(Section("Hits", "Queries on the left, the nearest images on the right.", hits))
    return Outcome(
        title,
        _summary(rows, about),
        {name: [asdict(row) for row in found] for name, found in rows.items()},
        {
            **config.model_dump(),
            **task.counts(),
            "combinations of a pair, at most": config.images_per_class**2,
            "relative negation": "ab with pairs (a, b): as many combinations as for two operands",
            "distance of cross-entropy": "-1/N Σ q·log g, with the query as target; reversed: -1/N Σ g·log q",
            "tuning": "largest rate of a minus rate of b, on pairs that share no class",
            "runs": {name: len(found[0].runs) for name, found in rows.items()},
            "interval": "95 %, bootstrap over classes (means over runs), 2,000 resamples",
            "chance": "the share of class a in the gallery",
        },
        sections,
        _verdict(about, rows[about]),
    )


def best_rows(rows: Sequence[RetrievalRow], query: str) -> list[RetrievalRow]:
    """Return the rows of a query; those of NOT are sorted by rate of a minus rate of b, best first."""
    found = [row for row in rows if row.query == query]
    return sorted(found, key=lambda row: row.b.value - row.a.value) if query.startswith("ab&~b") else found


def _summary(rows: Rows, about: str) -> str:
    """Return a paragraph on the model with the paper's distance, and one on the last model with that of searches."""
    parts = dict.fromkeys([(about, "cross-entropy"), (list(rows)[-1], "degrees")])
    return "\n\n".join(_rates_in_words(name, rows[name], distance) for name, distance in parts)


def _verdict(name: str, found: Sequence[RetrievalRow]) -> str:
    """Return a sentence on whether each of the paper's operators works with the paper's distance."""
    words = {"close": "works", "apart": "falls short", "unclear": "is unclear with these images"}
    of = _of_paper(found, "cross-entropy")
    parts = ", ".join(f"{operator} {words[of[query].closeness]}" for query, operator in _NAMES.items())
    return f"For {name}, by {_BY['cross-entropy']}: {parts}."


def _of_paper(found: Sequence[RetrievalRow], distance: str) -> dict[str, RetrievalRow]:
    """Return the rows of the paper's operators, by query."""
    return {row.query: row for row in found if row.operator == "Gödel" and row.distance == distance}


def _rates_in_words(name: str, found: Sequence[RetrievalRow], distance: str) -> str:
    paper = _of_paper(found, distance)
    either, common, without = (paper[query] for query in ("a|b", "ab&a", "ab&~b"))
    return (
        f"{name[0].upper()}{name[1:]}, by {_BY[distance]}. Class a makes up {either.a.value:.0%} of the hits of "
        f"a|b, {either.reference:.0%} of those of ab; {common.a.value:.0%} for ab&a, {without.a.value:.0%} for ab&~b, "
        f"{common.reference:.0%} for a. After ab&~b, class b is left in {without.b.value:.0%}."
    )


def _difference_tables(rows: Rows, about: str) -> list[Table]:
    """Return tables of differences to the reference: absolute, relative to (reference - chance), paired, over runs."""
    captions = {
        "difference": "The paper's operators: mean absolute difference to the reference rate over all ordered pairs; "
        "lower is better.",
        "relative": "The same, divided by (reference rate - chance); lower is better.",
    }
    tables = [_paper_table(rows, caption, attrgetter(name)) for name, caption in captions.items()]
    if others := {name: found for name, found in rows.items() if name != about}:
        compared = {row.key: row for row in rows[about]}
        caption = f"The same minus that of {about}, paired over the same pairs of classes; above 0 is worse."
        tables.append(_paper_table(others, caption, lambda row: compare_rows(row, compared[row.key])))
    several = {name: found for name, found in rows.items() if len(found[0].runs) > 1}
    if several:
        counts = ", ".join(f"{name} {len(found[0].runs)}" for name, found in several.items())
        caption = f"The difference over training seeds ({counts} runs), for the same images."
        tables.append(_paper_table(several, caption, lambda row: row.over_runs("difference")))
    return tables


def _paper_table(rows: Rows, caption: str, cell: Callable[[RetrievalRow], Cell]) -> Table:
    """Return a table with a row for each model and distance, and a column for each query of the paper."""
    columns = list(_QUERIES.values())
    lines: list[list[Cell]] = []
    for name, found in rows.items():
        for distance in _PAPER_DISTANCES:
            of = _of_paper(found, distance)
            lines.append([name, _DISTANCES[distance], *(cell(of[query]) for query in _QUERIES)])
    return Table(caption, ["model", "compared by", *columns], lines, best=dict.fromkeys(columns, "low"))


def _charts(rows: Rows, top: int) -> list[Figure]:
    """Return the paper's bar chart for each distance."""
    charts = []
    for distance in _PAPER_DISTANCES:
        groups = [
            RateGroup("like ab", {"ab": _rates(rows, "ab", distance), "a|b": _rates(rows, "a|b", distance)}),
            RateGroup(
                "like a",
                {
                    "a": _rates(rows, "a", distance),
                    "ab&a": _rates(rows, "ab&a", distance),
                    "ab&~b": _rates(rows, "ab&~b", distance),
                    "ab&~b, keeping a": _rates(rows, "ab&~b|a", distance),
                },
            ),
            # Over all ordered pairs, the rate of a for ab&b equals that of b for ab&a.
            RateGroup(
                "like b",
                {
                    "b": _rates(rows, "a", distance, "b"),
                    "ab&b": _rates(rows, "ab&a", distance, "b"),
                    "ab&~a": _rates(rows, "ab&~b", distance, "b"),
                },
            ),
        ]
        caption = f"Share of class a among the {top} nearest images by {_DISTANCES[distance]}; dashed: the reference."
        charts.append(Figure(caption, draw_rates(groups, list(rows), top=top)))
    return charts


def _rates(rows: Rows, query: str, distance: str, of_class: str = "a") -> list[Interval]:
    """Return the rate of a class for a query of the paper, for each model."""
    return [
        getattr(row, of_class)
        for found in rows.values()
        for row in found
        if (row.query, row.distance) == (query, distance) and row.operator in ("", "Gödel")
    ]


def _operator_tables(rows: Rows, about: str, both: bool) -> list[Table]:
    tables = []
    models = {about: rows[about], **dict(reversed(list(rows.items())))}
    for query, title in _QUERIES.items():
        lines: list[list[Cell]] = []
        for row in best_rows(next(iter(models.values())), query):
            cells: list[Cell] = [row.operator, _DISTANCES.get(row.distance, row.distance)]
            for found in models.values():
                same = next((r for r in found if r.key == row.key), None)
                of_row: list[Cell] = [same.a.value, same.b.value, same.difference.value] if same else [None] * 3
                if both and query == "a|b":
                    of_row.append(same.both if same else None)
                cells += of_row
            lines.append(cells)
        of_model = ["class a", "class b", "difference", *(["both"] if both and query == "a|b" else [])]
        names = [f"{name}: {column}" if len(models) > 1 else column for name in models for column in of_model]
        best = {
            n: "high" if n.endswith(("class a", "both")) else "low" for n in names if query != "a|b" or "class" not in n
        }
        if query in ("a|b", "ab&a"):
            best = {n: how for n, how in best.items() if not n.endswith("class b")}
        reference = "ab" if query == "a|b" else "a"
        caption = f"{title}. Rates of both classes, and the mean absolute difference of class a to {reference}."
        tables.append(Table(caption, ["operator", "compared by", *names], lines, best=best))
    return tables


def _negation_charts(rows: Rows, about: str, top: int) -> list[Figure]:
    """Return charts of all operators for NOT, for the main model of the report and for the last."""
    charts = []
    for name in dict.fromkeys([about, list(rows)[-1]]):
        queries = {
            f"{row.operator}{', keeping a' if row.query.endswith('|a') else ''} ({row.distance})": BothRates(
                row.a, row.b
            )
            for row in rows[name]
            if row.query.startswith("ab&~b")
        }
        reference = next(row for row in rows[name] if (row.query, row.distance) == ("a", "degrees"))
        caption = f"Removing b from ab, for {name}: class a should stay, class b should go."
        charts.append(Figure(caption, draw_both_rates(queries, BothRates(reference.a, reference.b), top=top)))
    return charts


def draw_hits(name: str, model: Model, task: RetrievalTask, distance: str = "cross-entropy") -> list[Figure]:
    """Return figures of the nearest images for the first query images of a few, evenly spaced pairs of classes."""
    gallery = load_images(model, task.gallery)
    score = SCORES[distance]
    searched = score.gallery(model.encode(gallery))
    pairs = list(task.pairs)
    chosen = [pairs[i * len(pairs) // min(_SHOWN_PAIRS, len(pairs))] for i in range(min(_SHOWN_PAIRS, len(pairs)))]
    figures = []
    for a, b in chosen:
        first = {
            "a": _first(load_images(model, task.singles[a])),
            "b": _first(load_images(model, task.singles[b])),
            "ab": _first(load_pair(model, task.pairs[a, b])),
        }
        values = {letter: model.encode(image) for letter, image in first.items()}
        rows = []
        for text in ("ab", "a | b", "ab & a", "ab & b", "ab & ~a", "ab & ~b"):
            formula = Formula(text)
            nearest = (searched @ score.query(formula.evaluate(values)).flatten()).argsort(descending=True)[:_HITS]
            rows.append(SearchRow(text, [first[letter] for letter in formula.names], list(gallery[nearest])))
        names = task.class_names
        caption = f"a is “{names[a]}”, b is “{names[b]}”: {name}, by {_BY[distance]}."
        figures.append(Figure(caption, draw_search(rows)))
    return figures


def _first(images: ResizedImages | torch.Tensor) -> torch.Tensor:
    return images[:1][0]
