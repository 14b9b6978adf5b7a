"""The truth of conditions in the images of a block: exact, by bounds that leave most images out."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from ..logic import Formula
from ..similarity import Scale, best_region_dot, best_region_index, int8_dot, truth_of_deviations
from ..words import truth_of
from .blocks import Block, spans
from .plan import Best, ConditionPlan, Term, largest

if TYPE_CHECKING:
    from collections.abc import Callable

# Images whose vectors are compared at once; and how many are scanned first, to know a bound for the others.
_BLOCK: Final = 2**15
_FIRST: Final = 2**16
_SPAN: Final = 2**18
# Of more candidates than this the likeliest are computed first.
_MANY: Final = 2**11
# So many terms are enough to exclude most images.
_BOUNDED_TERMS: Final = 4
# Deviations that are tried as bounds; exact in single precision, too.
_STEPS: Final = torch.arange(-8, 16, 2**-5, dtype=torch.float64)
# More than rounding may raise a truth above the highest that is possible.
_ROUNDING: Final = 1e-6


def search_block(plan: ConditionPlan, block: Block, truths: TermTruths, best: Best) -> None:
    """Add the truest images of a block to the best.

    A negated term can only make a condition less true. So it is computed only for images that would be among the best
    without it. Nor are truths computed where one term alone makes the condition less true than the best so far.
    """
    formula, logic = plan.formula, plan.logic
    positive = {formula.terms.index(term) for term in formula.positive_terms}
    bounded = [number for number in truths.with_vectors if number in positive][:_BOUNDED_TERMS]

    def truth(rows: np.ndarray, only: Collection[int] | None = None) -> Tensor:
        values = torch.empty(len(rows))
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            values[start : start + _BLOCK] = formula.truth_of_terms(truths.of(part, only), logic)
        return values

    rows = block.rows(plan.filter)
    first = _FIRST if math.isinf(best.last) else _SPAN
    for span in (rows[:first], *spans(rows[first:], _SPAN)):
        if not len(span):
            continue
        least = _lower_bounds(formula, logic, best.last, bounded)
        if least:
            span, known = truths.reaching(span, least)
            values = formula.truth_of_terms(_most_favourable(formula, known), logic).float()
        else:
            values = truth(span, positive)
        if least or len(positive) < len(formula.terms):
            reached = best.last
            if len(span) > max(plan.top, _MANY):
                likeliest = np.sort(largest(values[None], plan.top)[1][0].numpy())
                reached = max(reached, float(truth(span[likeliest]).min()))
            span = span[values.numpy() >= reached - _ROUNDING]
            values = truth(span)
        best.add(block.ids[span], values[None])


class TermTruths:
    """The truths of the terms of a plan in the rows of a block. Rows ascend."""

    def __init__(self, plan: ConditionPlan, block: Block) -> None:
        self._plan, self._block = plan, block
        self._wholes = {n: term.whole for n, term in enumerate(plan.terms) if term.whole is not None}
        self._in_regions = {
            n: term.region for n, term in enumerate(plan.terms) if term.region is not None and plan.region_scale
        }
        self._words: dict[int, Term] = {n: term for n, term in enumerate(plan.terms) if term.word is not None}

    def of(self, rows: np.ndarray, only: Collection[int] | None = None) -> list[Tensor]:
        """Return for each term its truths `(n,)` in rows; 0 for each that is not among `only` these."""
        count = len(self._plan.terms)
        asked = range(count) if only is None else only
        truths = {
            number: truth_of(self._block.support(term.word)[torch.from_numpy(rows)], term.half).double()
            for number, term in self._words.items()
            if number in asked and term.word is not None
        }
        truths |= {number: truth_of_deviations(found) for number, found in self._deviations(rows, asked).items()}
        nothing = torch.zeros(len(rows), dtype=torch.float64)
        return [truths.get(number, nothing) for number in range(count)]

    @property
    def with_vectors(self) -> Collection[int]:
        """The numbers of the terms that are no words."""
        return self._wholes.keys()

    def reaching(self, rows: np.ndarray, least: Mapping[int, float]) -> tuple[np.ndarray, dict[int, Tensor]]:
        """Return those rows in which some terms all reach their least deviation, and their truths."""
        found = self._deviations(rows, least)
        kept = np.flatnonzero(reduce(torch.logical_and, [found[number] >= least[number] for number in least]))
        return rows[kept], {number: truth_of_deviations(found[number][kept]) for number in least}

    def best_regions(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Return the best region of each row for each term that is looked for in regions; -1 where there is none."""
        if not self._in_regions:
            return {}
        has = self._block.has_regions(rows)
        best = best_region_index(self._block.regions(rows), self._stacked(self._in_regions)).numpy()
        return {number: np.where(has, best[place], -1) for place, number in enumerate(self._in_regions)}

    def _stacked(self, vectors: Mapping[int, Tensor]) -> Tensor:
        return torch.stack(list(vectors.values()))

    @cached_property
    def _whole_scales(self) -> dict[int, Scale]:
        scale = self._plan.whole_scale
        return {} if scale is None else {n: scale.select([place]) for place, n in enumerate(self._wholes)}

    @cached_property
    def _region_scales(self) -> dict[int, Scale]:
        scale = self._plan.region_scale
        return {} if scale is None else {n: scale.select([place]) for place, n in enumerate(self._in_regions)}

    def _deviations(self, rows: np.ndarray, asked: Container[int]) -> dict[int, Tensor]:
        """Return how far those terms that have vectors stand out in each row, `(n,)`."""
        anywhere = {n: vector for n, vector in self._in_regions.items() if n in asked}
        has = self._block.has_regions(rows) if anywhere else np.zeros(len(rows), bool)
        wholes = {
            n: vector for n, vector in self._wholes.items() if n in asked and (n not in anywhere or not has.all())
        }
        deviations: dict[int, Tensor] = {}
        if wholes:
            queries = self._stacked(wholes)
            found = _in_parts(rows, queries, lambda part: int8_dot(self._block.codes(part), queries))
            for place, number in enumerate(wholes):
                deviations[number] = self._whole_scales[number].deviations(found[place : place + 1])[0]
        if has.any():
            regions = self._stacked(anywhere)
            found = _in_parts(rows, regions, lambda part: best_region_dot(self._block.regions(part), regions))
            for place, number in enumerate(anywhere):
                values = self._region_scales[number].deviations(found[place : place + 1])[0]
                deviations[number] = (
                    values if has.all() else torch.where(torch.from_numpy(has), values, deviations[number])
                )
        return deviations


def _in_parts(rows: np.ndarray, queries: Tensor, compare: Callable[[np.ndarray], Tensor]) -> Tensor:
    """Return the similarities `(Q, n)` of rows, compared some at a time: their vectors need much more memory."""
    found = torch.empty(len(queries), len(rows))
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        found[:, start : start + len(part)] = compare(part)
    return found


def positive_truth(formula: Formula, truths: Sequence[Tensor], logic: str) -> Tensor:
    """Return the truth of a condition if nothing of its negated terms were there: `not` alone makes no match."""
    positive = formula.positive_terms
    pairs = zip(formula.terms, truths, strict=True)
    return formula.truth_of_terms(
        [truth if term in positive else torch.zeros_like(truth) for term, truth in pairs], logic
    )


def _lower_bounds(formula: Formula, logic: str, reached: float, numbers: Sequence[int]) -> dict[int, float]:
    """Return how far some terms must stand out, or the condition is less true than what was reached.

    That holds whatever the other terms are. Terms without which the condition may be as true are left out, such as
    those of an `or`; and all of them where a term is both positive and negated.
    """
    if math.isinf(reached) or not set(formula.positive_terms).isdisjoint(formula.negative_terms):
        return {}
    least = {}
    for number in numbers:
        highest = formula.truth_of_terms(_most_favourable(formula, {number: truth_of_deviations(_STEPS)}), logic)
        too_low = int((highest < reached - _ROUNDING).sum())
        if too_low:
            least[number] = float(_STEPS[too_low - 1])
    return least


def _most_favourable(formula: Formula, known: Mapping[int, Tensor]) -> list[Tensor]:
    """Return the truths of all terms that make a condition truest, except for those that are known."""
    most = torch.ones_like(next(iter(known.values())))
    positive = formula.positive_terms
    return [known.get(number, most * (term in positive)) for number, term in enumerate(formula.terms)]
