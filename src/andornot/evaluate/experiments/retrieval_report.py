"""Retrieval as an experiment: measured for one model or several, and reported with tables, charts and hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Final

import torch

from ...data import ImageSet, Pictures
from ...logic import Formula
from ...logic.distance import SCORES
from ...model import Model
from ..metrics.intervals import Interval
from ..metrics.operability import CLOSE, Row, summarise
from ..report.charts import BothRates, RateGroup, draw_both_rates, draw_rates
from ..report.figures import SearchRow, draw_search
from ..report.outcome import Cell, Outcome, Picture, Section, Table
from .compared_conditions import CONDITIONS, TRUTH
from .compared_operators import OPERATORS, Operator, check_operators
from .operability import NEIGHBOURS, measure_operability
from .protocol import Protocol
from .retrieval import EncodedRetrieval, Retrieval, choose_pictures, encode_retrieval, load, pixels_of_pair

Rows = Mapping[str, Sequence[Row]]
"""The rows of each model, by its name."""

_QUERIES: Final = {
    "a|b": "OR: a|b",
    "ab&a": "AND: ab&a",
    "ab&~b": "NOT: ab&~b",
    "ab&~b|a": "NOT, keeping what a shares",
}
_NAMES: Final = {"a|b": "OR", "ab&a": "AND", "ab&~b": "NOT"}
_DISTANCES: Final = {
    "cross-entropy": "cross-entropy",
    "degrees": "cosine of degrees",
    "features": "cosine of features",
    TRUTH: "truth in each picture",
}
_BY: Final = {"cross-entropy": "the paper's cross-entropy", "degrees": "the cosine of degrees"}
_OPERABILITY: Final = (
    "The difference alone flatters a weak model: one that finds nothing has no reference to be away from. So the "
    "second table divides it by what the reference is above chance, which is the share of class a in the gallery: 0 is "
    "as good as a plain picture, 1 as far from it as that is from chance. Nothing stands where the reference is not "
    "above chance.\n\n"
    "An operator works, in the first sentence of this page, if all of the interval of its mean rate less that of the "
    f"reference lies within {CLOSE:.0%} of what that is above chance. It falls short if all of it lies outside."
)
_GROUPS: Final = (
    "All bars are of class a, and a colour is what the queries of a group should find. Blue, “like ab”: as much of it "
    "as a picture of both. Orange, “like a”: as much as a finds. Green, “like b”: as little of it as b finds, for what "
    "is left of ab after AND with b, or without a, is b."
)
_PICTURED: Final = 3
_HITS: Final = 10


def operability_outcome(
    model: Model,
    gallery: ImageSet,
    queries: ImageSet | None,
    protocol: Protocol = Protocol(),  # noqa: B008 - frozen
    *,
    operators: Sequence[Operator] = OPERATORS,
    progress: bool | None = None,
) -> Outcome:
    """All queries, operators and distances for one model; operators of your own as in `[*PAPER, mine]`."""
    check_operators(operators)
    retrieval = choose_pictures(gallery, queries, protocol)
    encoded = encode_retrieval(model, retrieval, progress=progress)
    rows = measure_rows(encoded, protocol, operators=operators, progress=progress)
    pictures = draw_hits("the model", model, retrieval)
    return retrieval_outcome("Operability of representations", {"the model": rows}, retrieval, protocol, pictures)


def measure_rows(
    task: EncodedRetrieval,
    protocol: Protocol,
    *,
    operators: Sequence[Operator] = OPERATORS,
    progress: bool | None = None,
) -> list[Row]:
    """Searches: a row for each query, operator and distance."""
    measured = measure_operability(
        task, top=protocol.top, operators=operators, conditions=CONDITIONS, progress=progress
    )
    return summarise([measured], seed=protocol.seed)


def retrieval_outcome(
    title: str,
    rows: Rows,
    retrieval: Retrieval,
    protocol: Protocol,
    pictures: Sequence[Picture],
    *,
    first: str | None = None,
) -> Outcome:
    """The report on one or several models that did the same task.

    `first` is the model that the summary begins with, and of which there is most to read; by default the last.
    """
    about = list(rows)[-1] if first not in rows else str(first)
    sections = [
        Section(
            "What was asked",
            "a is a picture of one class, b one of another, ab shows both. A query is a picture, or pictures joined "
            f"by an operator. The figure is the share of class a among the {protocol.top} nearest pictures of the "
            "gallery, averaged over all combinations of query pictures and over all ordered pairs of classes.\n\n"
            "Where an operator works, its query finds what a plain picture finds: a|b what ab does, ab&a and ab&~b "
            "what a does. The smaller the difference to that reference, the better; for NOT, class b must go as well.",
        ),
        Section("How far each operator is from its reference", _OPERABILITY, _difference_tables(rows)),
        Section("Occurrence rates", _GROUPS, list(_charts(rows, protocol.top))),
        Section(
            "Operators compared",
            "The same queries answered in other ways: other logics, and arithmetic on plain vectors. A weight that is "
            "tuned is chosen for each pair of classes on the pairs that share no class with it. "
            f"“near b” is b averaged over its {NEIGHBOURS} nearest pictures of the gallery. Conditions (`a and b`) are "
            "no operators: each picture of the gallery has a truth for each term, as in a gallery without regions, and "
            "the truest are found.",
            [*_operator_tables(rows, about, both=not retrieval.mixed), *_negation_charts(rows, about, protocol.top)],
        ),
    ]
    if pictures:
        sections.append(Section("Hits", "Queries on the left, the nearest pictures on the right.", pictures))
    return Outcome(
        title,
        _summary(rows, about),
        {name: [asdict(row) for row in found] for name, found in rows.items()},
        {
            **protocol.model_dump(),
            **retrieval.counts(),
            "combinations of a pair, at most": protocol.pictures**2,
            "relative negation": "ab with (a, b) one by one: as many combinations as for two operands",
            "distance of cross-entropy": "-1/N Σ q·log g, the query in the target's place",
            "tuning": "largest rate of a less rate of b, on pairs that share no class",
            "runs": {name: len(found[0].runs) for name, found in rows.items()},
            "interval": "95 %, bootstrap over unordered pairs of classes, 2,000 resamples; a pair's figure is its mean "
            "over runs",
            "chance": "the share of class a in the gallery",
        },
        sections,
        _verdict(about, rows[about]),
    )


def best_rows(rows: Sequence[Row], query: str) -> list[Row]:
    """The rows of a query; for NOT the best first: where most of a stays and most of b goes."""
    found = [row for row in rows if row.query == query]
    return sorted(found, key=lambda row: row.b.value - row.a.value) if query.startswith("ab&~b") else found


def _summary(rows: Rows, about: str) -> str:
    """The model by the paper's distance, then the last model by that of search, each in a paragraph."""
    told = dict.fromkeys([(about, "cross-entropy"), (list(rows)[-1], "degrees")])
    return "\n\n".join(_rates_in_words(name, rows[name], distance) for name, distance in told)


def _verdict(name: str, found: Sequence[Row]) -> str:
    """What became of each of the paper's operators, by its distance."""
    words = {"close": "works", "apart": "falls short", "unclear": "cannot be judged by these pictures"}
    of = _of_paper(found, "cross-entropy")
    told = ", ".join(f"{operator} {words[of[query].closeness]}" for query, operator in _NAMES.items())
    return f"For {name}, by {_BY['cross-entropy']}: {told}."


def _of_paper(found: Sequence[Row], distance: str) -> dict[str, Row]:
    """The rows of the paper's operators, by their query."""
    return {row.query: row for row in found if row.operator == "Gödel" and row.distance == distance}


def _rates_in_words(name: str, found: Sequence[Row], distance: str) -> str:
    paper = _of_paper(found, distance)
    either, common, without = (paper[query] for query in ("a|b", "ab&a", "ab&~b"))
    return (
        f"{name[0].upper()}{name[1:]}, by {_BY[distance]}. Class a makes up {either.a.value:.0%} of the hits of "
        f"a|b, {either.reference:.0%} of those of ab; {common.a.value:.0%} for ab&a, {without.a.value:.0%} for ab&~b, "
        f"{common.reference:.0%} for a. After ab&~b, class b is left in {without.b.value:.0%}."
    )


def _difference_tables(rows: Rows) -> list[Table]:
    """The figures that sum up operability: to the reference, as a part of what that is above chance, and over runs."""
    captions = {
        "difference": "The paper's operators: mean absolute difference to the reference rate over all ordered pairs; "
        "less is better.",
        "relative": "The same, divided by what the reference rate is above chance; less is better.",
    }
    tables = [_paper_table(rows, caption, attrgetter(name)) for name, caption in captions.items()]
    several = {name: found for name, found in rows.items() if len(found[0].runs) > 1}
    if several:
        counts = ", ".join(f"{name} {len(found[0].runs)}" for name, found in several.items())
        caption = f"The difference over trainings with different seeds ({counts} runs), of the same pictures."
        tables.append(_paper_table(several, caption, lambda row: row.spread("difference")))
    return tables


def _paper_table(rows: Rows, caption: str, cell: Callable[[Row], Cell]) -> Table:
    """A line for each model and distance, a column for each query of the paper."""
    columns = list(_QUERIES.values())
    lines: list[list[Cell]] = []
    for name, found in rows.items():
        for distance in ("cross-entropy", "degrees"):
            of = _of_paper(found, distance)
            lines.append([name, _DISTANCES[distance], *(cell(of[query]) for query in _QUERIES)])
    return Table(caption, ["model", "compared by", *columns], lines, best=dict.fromkeys(columns, "low"))


def _charts(rows: Rows, top: int) -> list[Picture]:
    """The paper's bar chart, once for each distance."""
    charts = []
    for distance in ("cross-entropy", "degrees"):
        groups = [
            RateGroup("like ab", {"ab": _of(rows, "ab", distance), "a|b": _of(rows, "a|b", distance)}),
            RateGroup(
                "like a",
                {
                    "a": _of(rows, "a", distance),
                    "ab&a": _of(rows, "ab&a", distance),
                    "ab&~b": _of(rows, "ab&~b", distance),
                    "ab&~b, keeping a": _of(rows, "ab&~b|a", distance),
                },
            ),
            # Over all ordered pairs, class a after ab&b is what class b is after ab&a.
            RateGroup(
                "like b",
                {
                    "b": _of(rows, "a", distance, "b"),
                    "ab&b": _of(rows, "ab&a", distance, "b"),
                    "ab&~a": _of(rows, "ab&~b", distance, "b"),
                },
            ),
        ]
        caption = f"Share of class a among the {top} nearest pictures by {_DISTANCES[distance]}; dashed: the reference."
        charts.append(Picture(caption, draw_rates(groups, list(rows), top=top)))
    return charts


def _of(rows: Rows, query: str, distance: str, of_class: str = "a") -> list[Interval]:
    """The rate of a class for a query of the paper, in each model."""
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
        caption = f"{title}. Rates of both classes, and the mean absolute difference of class a to that of {reference}."
        tables.append(Table(caption, ["operator", "compared by", *names], lines, best=best))
    return tables


def _negation_charts(rows: Rows, about: str, top: int) -> list[Picture]:
    """All answers to NOT, of the model that the report is about, and of the last."""
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
        caption = f"Taking b away from ab, for {name}: class a should stay, class b should go."
        charts.append(Picture(caption, draw_both_rates(queries, BothRates(reference.a, reference.b), top=top)))
    return charts


def draw_hits(name: str, model: Model, retrieval: Retrieval, distance: str = "cross-entropy") -> list[Picture]:
    """The nearest pictures for a few pairs of classes, evenly taken, and their first query pictures."""
    gallery = load(model, retrieval.gallery)
    score = SCORES[distance]
    searched = score.gallery(model.encode(gallery))
    pairs = list(retrieval.pairs)
    chosen = [pairs[i * len(pairs) // min(_PICTURED, len(pairs))] for i in range(min(_PICTURED, len(pairs)))]
    pictures = []
    for a, b in chosen:
        first = {
            "a": _first(load(model, retrieval.singles[a])),
            "b": _first(load(model, retrieval.singles[b])),
            "ab": _first(pixels_of_pair(model, retrieval.pairs[a, b])),
        }
        values = {letter: model.encode(picture) for letter, picture in first.items()}
        rows = []
        for text in ("ab", "a | b", "ab & a", "ab & b", "ab & ~a", "ab & ~b"):
            formula = Formula(text)
            nearest = (searched @ score.query(formula.evaluate(values)).flatten()).argsort(descending=True)[:_HITS]
            rows.append(SearchRow(text, [first[letter] for letter in formula.names], list(gallery[nearest])))
        names = retrieval.class_names
        caption = f"a is “{names[a]}”, b is “{names[b]}”: {name}, by {_BY[distance]}."
        pictures.append(Picture(caption, draw_search(rows)))
    return pictures


def _first(pictures: Pictures | torch.Tensor) -> torch.Tensor:
    return pictures[:1][0]
