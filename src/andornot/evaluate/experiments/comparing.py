"""Compare finished runs: models by their logs, or evaluations by their results, with paired differences over seeds."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import EvaluationError
from ..metrics.intervals import Interval, MeanStd, paired_difference
from ..report.figures import PALETTE, literal
from ..report.outcome import Cell, Figure, Outcome, Section, Table
from ..report.writing import RESULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

_LOG: Final = "log.csv"
_SEED: Final = re.compile(r"(.*?)[-_.]?(?:seed[-_]?)?(\d+)$")
# Columns of a log that describe the state of training, not its result.
_NOT_COMPARED: Final = ("step", "epoch", "learning_rate")
_MAX_CHARTS: Final = 12


class _FinishedRun(NamedTuple):
    method: str
    seed: int
    metrics: dict[str, float]


def compare_runs(folders: Sequence[Path], reference: str | None = None) -> Outcome:
    """Compare runs of several methods: the metrics of each, and its difference to the reference (default: the first).

    A folder contains the `result.json` of an evaluation, or a model, whose metrics are those of the last step in
    `log.csv`. It is named METHOD-SEED: runs of the same seed are paired, and two or more pairs give a 95 % interval by
    Student's t.
    """
    runs = [_read(folder) for folder in folders]
    methods = list(dict.fromkeys(run.method for run in runs))
    reference = methods[0] if reference is None else reference
    if reference not in methods:
        raise EvaluationError(f'there is no run of the reference "{reference}"; the runs are of {", ".join(methods)}')
    by_method = {method: {run.seed: run.metrics for run in runs if run.method == method} for method in methods}
    for method, by_seed in by_method.items():
        if len(by_seed) < sum(run.method == method for run in runs):
            raise EvaluationError(f'two runs of "{method}" have the same seed; name the folders METHOD-SEED')
    names = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    names.sort(key=lambda name: name.startswith("loss_"))  # last: losses of different methods are hardly comparable
    if not names:
        raise EvaluationError("the runs have no metric in common; compare runs of the same evaluation")
    others = [method for method in methods if method != reference]
    values = [[name, *(_value(by_method[method], name) for method in methods)] for name in names]
    differences = [[name, *(_difference(by_method, method, reference, name) for method in others)] for name in names]
    content: list[Table | Figure] = [Table("Metrics of each method", ["metric", *methods], values)]
    if others:
        content.append(Table(f"Difference to {reference}", ["metric", *others], differences))
    content.append(Figure("Each run", _draw(by_method, names[:_MAX_CHARTS])))
    text = (
        "± is over seeds. Differences are paired: runs of the same seed, their mean difference, and its 95 % interval "
        "by Student's t where two seeds or more are common."
    )
    return Outcome(
        title="Comparison of runs",
        summary=f"{len(runs)} runs of {len(methods)} methods, {len(names)} metrics; the reference is {reference}.",
        metrics={
            "values": {name: dict(zip(methods, row, strict=True)) for name, *row in values},
            "differences": {name: dict(zip(others, row, strict=True)) for name, *row in differences},
        },
        protocol={"runs": [str(folder) for folder in folders], "reference": reference},
        sections=[Section("Methods", text, content)],
    )


def _read(folder: Path) -> _FinishedRun:
    try:
        if (folder / RESULT).exists():
            metrics = dict(_numbers(json.loads((folder / RESULT).read_text(encoding="utf-8"))["metrics"]))
        elif (folder / _LOG).exists():
            with (folder / _LOG).open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            metrics = {key: float(value) for row in rows for key, value in row.items() if value}
            metrics = {key: value for key, value in metrics.items() if key not in _NOT_COMPARED}
        else:
            raise EvaluationError(
                f"{folder} has neither {RESULT} nor {_LOG}; andornot evaluate writes the first, andornot pretrain the "
                "second"
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, EvaluationError):
            raise
        raise EvaluationError(f"the result in {folder} cannot be read: {error}") from None
    name = folder.resolve().name
    match = _SEED.fullmatch(name)
    return _FinishedRun(match[1], int(match[2]), metrics) if match and match[1] else _FinishedRun(name, 0, metrics)


def _numbers(metrics: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in nested metrics with their keys; for a number with uncertainty, its value or mean."""
    if isinstance(metrics, Mapping):
        for key in ("value", "mean"):
            if key in metrics and metrics.keys() <= {"value", "low", "high", "mean", "std"}:
                yield from _numbers(metrics[key], name)
                return
        for key, item in metrics.items():
            yield from _numbers(item, f"{name} › {key}" if name else key)
    elif isinstance(metrics, int | float) and not isinstance(metrics, bool):
        yield name, float(metrics)


def _value(by_seed: Mapping[int, Mapping[str, float]], name: str) -> Cell:
    values = [metrics[name] for metrics in by_seed.values()]
    return values[0] if len(values) == 1 else MeanStd.of(values)


def _difference(
    by_method: Mapping[str, Mapping[int, Mapping[str, float]]], method: str, reference: str, name: str
) -> float | Interval | None:
    mine, theirs = by_method[method], by_method[reference]
    pairs = [(mine[seed][name], theirs[seed][name]) for seed in sorted(mine.keys() & theirs.keys())]
    if len(pairs) > 1:
        return paired_difference(pairs)
    return pairs[0][0] - pairs[0][1] if pairs else None


def _draw(by_method: Mapping[str, Mapping[int, Mapping[str, float]]], names: Sequence[str]) -> MatplotlibFigure:
    """Draw a row of points for each metric: a point for each run, and a line for the mean."""
    from matplotlib.figure import Figure as MatplotlibFigure

    figure = MatplotlibFigure(figsize=(7, 0.6 + (0.5 + 0.22 * len(by_method)) * len(names)), layout="constrained")
    for axes, name in zip(figure.subplots(len(names), squeeze=False).flat, names, strict=True):
        for place, by_seed in enumerate(by_method.values()):
            values, colour = [metrics[name] for metrics in by_seed.values()], PALETTE[place % len(PALETTE)]
            axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.7, markersize=5)
            axes.plot(sum(values) / len(values), place, "|", color=colour, markersize=14)
        axes.set(yticks=range(len(by_method)), yticklabels=[literal(method) for method in by_method])
        axes.set_ylim(len(by_method) - 0.5, -0.5)
        axes.set_title(literal(name), loc="left", fontsize=9)
        axes.tick_params(labelsize=8)
    return figure
