"""What the paper says, judged by the figures of an experiment: by rules that stand here, and in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..evaluate.metrics.intervals import Interval, paired_difference
from ..evaluate.metrics.operability import CLOSE, Closeness, closeness
from .paper import BASELINES, PAPERS

Figures = Mapping[str, Any]
"""The figures of a `result.json`."""

Verdict = Literal["holds", "does not hold", "cannot be judged"]

# The paper's methods with synthesis are within about a point of each other.
MARGIN: Final = 0.01
_DISTANCE: Final = "cross-entropy"
# See docs/results.md: after one epoch and after five the methods are in opposite order.
_OF_HEADS: Final = (
    "is not judged where the layer reads the degrees of heads on a frozen backbone: the paper's reads a network that "
    "the method trained"
)


@dataclass(frozen=True)
class Claim:
    """A sentence, whose it is, what became of it here, by which rule, and from what."""

    text: str
    whose: Literal["the paper", "ours"]
    verdict: Verdict
    rule: str
    evidence: str


def judge(experiment: str, figures: Figures, reads: str = "backbone") -> list[Claim]:
    """The claims that this experiment is about. `reads`: what the linear layer of a table reads."""
    claims = list(_JUDGES[experiment](figures))
    if reads == "backbone":
        return claims
    return [replace(claim, verdict="cannot be judged", rule=_OF_HEADS) for claim in claims]


def _below(interval: Interval, limit: float) -> Verdict:
    """Whether a figure is below a limit, by its interval."""
    if interval.high < limit:
        return "holds"
    return "does not hold" if interval.low > limit else "cannot be judged"


def _all_of(verdicts: Sequence[Verdict]) -> Verdict:
    if not verdicts:
        return "cannot be judged"
    if "does not hold" in verdicts:
        return "does not hold"
    return "cannot be judged" if "cannot be judged" in verdicts else "holds"


def _shown(interval: Interval | None) -> str:
    return "no figure" if interval is None else f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


# --- tables ---------------------------------------------------------------------------------------------------------


def _difference(figures: Figures, one: str, other: str) -> Interval | None:
    """One less the other, over runs with the same seed."""
    if one not in figures or other not in figures:
        return None
    pairs = list(zip(figures[one]["runs"], figures[other]["runs"], strict=False))
    return paired_difference(pairs) if len(pairs) > 1 else None


def _of_methods(what: str) -> Callable[[Figures], Iterator[Claim]]:
    def judge_methods(figures: Figures) -> Iterator[Claim]:
        synthetic = {name: _difference(figures, name, PAPERS) for name in BASELINES if name != "vanilla"}
        yield Claim(
            f"Logic is competitive with the other ways of synthesis, mean and maximum, in {what}.",
            "the paper",
            _all_of([_below(found, MARGIN) if found else "cannot be judged" for found in synthetic.values()]),
            f"holds if the paired intervals of mean - logic and of maximum - logic end below {MARGIN:.0%}, does not "
            "hold if one begins above it",
            "; ".join(f"{name} - logic {_shown(found)}" for name, found in synthetic.items()),
        )
        plain = _difference(figures, "vanilla", PAPERS)
        yield Claim(
            f"Logic is better than no synthesis in {what}.",
            "the paper",
            _below(plain, 0.0) if plain else "cannot be judged",
            "holds if the paired interval of vanilla - logic lies below 0, does not hold if above",
            f"vanilla - logic {_shown(plain)}",
        )

    return judge_methods


def _of_shapes(what: str) -> Callable[[Figures], Iterator[Claim]]:
    def judge_shapes(figures: Figures) -> Iterator[Claim]:
        found = figures.get("Truth values", {})
        eight = next((name for name in found if name.endswith("M = 8")), "")
        others = {name: _difference(found, name, eight) for name in found if name != eight}
        binary = next((difference for name, difference in others.items() if name.endswith("M = 2")), None)
        yield Claim(
            f"Many truth values are better than two, at the same N·M, in {what}.",
            "the paper",
            _below(binary, 0.0) if binary else "cannot be judged",
            "holds if the paired interval of M = 2 less M = 8 lies below 0, does not hold if above",
            f"M = 2 less M = 8: {_shown(binary)}",
        )
        yield Claim(
            f"M = 8 is the best of 2, 4, 8, 16 and 32, in {what}.",
            "the paper",
            _all_of([_below(one, 0.0) if one else "cannot be judged" for one in others.values()]),
            "holds if the paired intervals of all others less M = 8 lie below 0, does not hold if one lies above",
            "; ".join(f"{name} {_shown(one)}" for name, one in others.items()) or "no figures",
        )

    return judge_shapes


# --- possession degrees ---------------------------------------------------------------------------------------------


def _of_degrees(figures: Figures) -> Iterator[Claim]:
    found = figures.get(PAPERS, {})
    classes, crops = found.get("classes"), found.get("crops")
    area = Interval(**classes["area_interval"]) if classes else None
    yield Claim(
        "Possession degrees stand for what pictures show: a class has a feature of its own.",
        "the paper",
        _below(_mirrored(area), -0.5) if area else "cannot be judged",
        "holds if the area under the ROC curve of the best feature of a class, on held-out pictures, has an interval "
        "over classes above 0.5, does not hold if below",
        f"area {_shown(area)}",
    )
    share = Interval(**crops["all"]["higher_in_own_crop"]) if crops else None
    yield Claim(
        "The feature of an object is higher in a crop to that object than in a crop to another.",
        "the paper",
        _below(_mirrored(share), -0.5) if share else "cannot be judged",
        "holds if Wilson's interval lies above one half, does not hold if below",
        f"share {_shown(share)}",
    )


def _mirrored(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.high, -interval.low)


# --- retrieval ------------------------------------------------------------------------------------------------------


def _row(rows: Sequence[Mapping[str, Any]], query: str) -> Mapping[str, Any]:
    return next(row for row in rows if (row["query"], row["operator"], row["distance"]) == (query, "Gödel", _DISTANCE))


def _closeness(row: Mapping[str, Any]) -> Verdict:
    """Whether the mean rate is close to that of the reference."""
    above_chance = None if row["relative"] is None else row["reference"] - row["chance"]
    return _CLOSENESS[closeness(Interval(**row["shift"]), above_chance)]


_CLOSENESS: Final[dict[Closeness, Verdict]] = {
    "close": "holds",
    "apart": "does not hold",
    "unclear": "cannot be judged",
}
_OPPOSITE: Final[dict[Verdict, Verdict]] = {
    "holds": "does not hold",
    "does not hold": "holds",
    "cannot be judged": "cannot be judged",
}


def _of_retrieval(where: str) -> Callable[[Figures], Iterator[Claim]]:
    def judge_retrieval(figures: Figures) -> Iterator[Claim]:
        if PAPERS not in figures:
            return
        rows = {query: _row(figures[PAPERS], query) for query in ("a|b", "ab&a", "ab&~b", "ab&~b|a")}
        rule = (
            f"by cross-entropy; close is within {CLOSE:.0%} of what the reference is above chance: holds if the "
            "interval over pairs of classes lies inside, does not hold if outside"
        )
        for query, text in (
            ("a|b", "OR works: a|b finds what ab finds"),
            ("ab&a", "AND works: ab&a finds what a finds"),
        ):
            yield Claim(f"{text}, on {where}.", "the paper", _closeness(rows[query]), rule, _evidence(rows[query]))
        yield Claim(
            f"NOT alone falls short: ab&~b is not close to a, on {where}.",
            "the paper",
            _OPPOSITE[_closeness(rows["ab&~b"])],
            rule,
            _evidence(rows["ab&~b"]),
        )
        plain, relative = (Interval(**rows[query]["difference"]) for query in ("ab&~b", "ab&~b|a"))
        yield Claim(
            f"The relative negation is closer to a than NOT alone, on {where}.",
            "the paper",
            "holds"
            if relative.high < plain.low
            else "does not hold"
            if relative.low > plain.high
            else "cannot be judged",
            "by the mean absolute difference to the reference: holds or not if the two intervals do not overlap",
            f"NOT {_shown(plain)}, relative {_shown(relative)}",
        )
        yield from _of_other_methods(figures, where)

    return judge_retrieval


def _of_other_methods(figures: Figures, where: str) -> Iterator[Claim]:
    """Ours: the paper compares no methods in retrieval."""
    for query, name in (("a|b", "OR"), ("ab&a", "AND")):
        found = {
            method: Interval(**row["relative"])
            for method in (*BASELINES, PAPERS)
            if method in figures and (row := _row(figures[method], query))["relative"]
        }
        others = {method: interval for method, interval in found.items() if method != PAPERS}
        verdict: Verdict = "cannot be judged"
        if PAPERS in found and others:
            nearest = min(others.values(), key=lambda interval: interval.value)
            if found[PAPERS].high < nearest.low:
                verdict = "holds"
            elif found[PAPERS].low > nearest.high:
                verdict = "does not hold"
        yield Claim(
            f"Of the four methods, logic is nearest to the reference for {name}, on {where}.",
            "ours",
            verdict,
            "by the relative difference: holds if logic's interval lies below that of the best other method, does not "
            "hold if above; they overlap where it cannot be judged",
            "; ".join(f"{method} {_shown(interval)}" for method, interval in found.items())
            or "no reference above chance",
        )


def _evidence(row: Mapping[str, Any]) -> str:
    shift = Interval(**row["shift"])
    return (
        f"rate of a {row['a']['value']:.3f}, reference {row['reference']:.3f}, chance {row['chance']:.3f}; difference "
        f"{_shown(shift)}"
    )


_JUDGES: Final[dict[str, Callable[[Figures], Iterator[Claim]]]] = {
    "classification": _of_methods("accuracy of a linear layer (Table 1)"),
    "ablation": _of_shapes("accuracy of a linear layer (Table 1)"),
    "multilabel": _of_methods("mean average precision (Table 2)"),
    "multilabel-ablation": _of_shapes("mean average precision (Table 2)"),
    "degrees": _of_degrees,
    "mnist-retrieval": _of_retrieval("digits"),
    "voc-retrieval": _of_retrieval("photos"),
    "scenes-retrieval": _of_retrieval("drawn scenes"),
}
