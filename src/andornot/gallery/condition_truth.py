"""Exact truth of conditions in the images of a block, with bounds that exclude most images early."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from ..concepts import truth_of
from ..logic import Formula
from ..similarity import Scale, best_region_dot, best_region_index, int8_dot, relative_truth, truth_of_deviations
from .blocks import Block, spans
from .plan import Best, ConditionPlan, Term, largest

if TYPE_CHECKING:
    from collections.abc import Callable

# Images compared at once, and images scanned first to find a bound for the others.
_BLOCK: Final = 2**15
_FIRST: Final = 2**16
_SPAN: Final = 2**18
# With more candidates than this, the most likely ones are computed first.
_MANY: Final = 2**11
# This many terms are enough to exclude most images.
_BOUNDED_TERMS: Final = 4
# Deviations tried as bounds; exact in single precision too.
_STEPS: Final = torch.arange(-8, 16, 2**-5, dtype=torch.float64)
# Tolerance: more than rounding can raise a truth above its upper bound.
_ROUNDING: Final = 1e-6


def search_block(plan: ConditionPlan, block: Block, truths: TermTruths, best: Best) -> None:
    """Add the truest images of a block to the best.

    A negated term can only lower the truth of a condition, so it is computed only for images that would be among the
    best without it. Images in which a single term already makes the condition less true than the best so far are
    skipped.
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
    """The truths of a plan's terms in the rows of a block. Row indices must be ascending."""

    def __init__(self, plan: ConditionPlan, block: Block) -> None:
        self._plan, self._block = plan, block
        self._wholes = {n: term.whole for n, term in enumerate(plan.terms) if term.whole is not None}
        self._in_regions = {
            n: term.region for n, term in enumerate(plan.terms) if term.region is not None and plan.region_scale
        }
        self._words: dict[int, Term] = {n: term for n, term in enumerate(plan.terms) if term.word is not None}

    def of(self, rows: np.ndarray, only: Collection[int] | None = None) -> list[Tensor]:
        """Return the truths `(n,)` of each term in rows; zeros for terms that are not in `only`."""
        count = len(self._plan.terms)
        asked = range(count) if only is None else only
        truths = {
            number: truth_of(self._block.support(term.word)[torch.from_numpy(rows)], term.half).double()
            for number, term in self._words.items()
            if number in asked and term.word is not None
        }
        deviations = self._deviations(rows, asked)
        truths |= {number: self._truth(number, found, deviations) for number, found in deviations.items()}
        nothing = torch.zeros(len(rows), dtype=torch.float64)
        return [truths.get(number, nothing) for number in range(count)]

    def _truth(self, number: int, found: Tensor, deviations: Mapping[int, Tensor]) -> Tensor:
        """Return the truths of a term from its deviations; `deviations` also has the terms that it is relative to."""
        term = self._plan.terms[number]
        if not term.relative_to:
            return truth_of_deviations(found)
        wanted = reduce(torch.maximum, [deviations[other] for other in term.relative_to])
        return relative_truth(found, wanted, term.examples)

    @property
    def with_vectors(self) -> Collection[int]:
        """The numbers of the terms that are not words."""
        return self._wholes.keys()

    def reaching(self, rows: np.ndarray, least: Mapping[int, float]) -> tuple[np.ndarray, dict[int, Tensor]]:
        """Return the rows in which all given terms reach their minimum deviations, and the truths of these terms."""
        found = self._deviations(rows, least)
        kept = np.flatnonzero(reduce(torch.logical_and, [found[number] >= least[number] for number in least]))
        return rows[kept], {number: truth_of_deviations(found[number][kept]) for number in least}

    def best_regions(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Return the best region of each row for each term that is searched in regions; -1 if there is none."""
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
        """Return the deviations `(n,)` in each row of the requested terms with vectors."""
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
    """Return the similarities `(Q, n)` of rows, computed in blocks to limit memory."""
    found = torch.empty(len(queries), len(rows))
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        found[:, start : start + len(part)] = compare(part)
    return found


def positive_truth(formula: Formula, truths: Sequence[Tensor], logic: str) -> Tensor:
    """Return the truth of a condition if all negated terms were 0: `not` alone makes no match."""
    positive = formula.positive_terms
    pairs = zip(formula.terms, truths, strict=True)
    return formula.truth_of_terms(
        [truth if term in positive else torch.zeros_like(truth) for term, truth in pairs], logic
    )


def necessary_terms(formula: Formula, logic: str) -> list[int]:
    """Return the numbers of the terms without which a condition cannot be true, such as those joined by `and`."""
    known = [{number: torch.zeros(1)} for number in range(len(formula.terms))]
    return [
        number
        for number, nothing in enumerate(known)
        if formula.terms[number] in formula.positive_terms
        and not formula.truth_of_terms(_most_favourable(formula, nothing), logic).any()
    ]


def _lower_bounds(formula: Formula, logic: str, reached: float, numbers: Sequence[int]) -> dict[int, float]:
    """Return the minimum deviations of terms for the condition to be at least as true as `reached`.

    The bounds hold whatever the other terms are. Terms that are not necessary, such as those of an `or`, have no bound;
    if a term is both positive and negated, no term has one.
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
    """Return truths for all terms: the known ones, and for the others those that make the condition most true."""
    most = torch.ones_like(next(iter(known.values())))
    positive = formula.positive_terms
    return [known.get(number, most * (term in positive)) for number, term in enumerate(formula.terms)]
