"""The truth of a condition in the pictures of a gallery, and the pictures in which it is highest."""

import math
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..logic import Formula
from .centred import Centred, evenly
from .engines import Engine, Scan
from .engines.exact import Best, largest
from .filters import Selection
from .likeness.products import best_region, similarities, where_best
from .likeness.truth import ENOUGH_PICTURES, Scale, scale_of, truth_of

# Pictures whose vectors are in memory at once, and whose truths are; and how many are looked at first.
_BLOCK: Final = 2**15
_SPAN: Final = 2**18
_FIRST: Final = 2**16
# Of more pictures that may be among the best, the likeliest are computed first.
_MANY: Final = 2**11
# So many terms are enough to leave out most pictures.
_NARROWING: Final = 4
# Deviations that are tried as bounds; exact in single precision, too.
_STEPS: Final = torch.arange(-8, 16, 2**-5, dtype=torch.float64)
# More than by which rounding may raise a truth above the highest that is possible.
_ROUNDING: Final = 1e-6


class Regions(Protocol):
    """The regions of the pictures of one state of a gallery."""

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Which rows have regions, `(n,)` bool."""

    def codes(self, rows: np.ndarray) -> Tensor:
        """Those regions in bytes, `(n, R, r)`."""


class WordTruths(Protocol):
    """What is known of words in pictures."""

    def truth(self, meaning: Any, rows: np.ndarray) -> Tensor:
        """The truth of a word in rows, `(n,)`."""


@dataclass(frozen=True)
class Term:
    """What a term asks of a picture: to be like `whole` `(d,)`, to have a region like `region` `(r,)`, or a word.

    One with both is looked for in regions where a picture has them. `own` are the ids of the pictures it is made of.
    """

    whole: Tensor | None = None
    region: Tensor | None = None
    meaning: Any = None
    own: frozenset[int] = frozenset()


class Found(NamedTuple):
    """The best rows `(k,)`, the truths in them, and those of what is asked for, without what is not to be seen.

    `places` has by the number of a term which region of each row is most like it. A picture without regions has -1
    there, and a term that is not looked for in regions nothing.
    """

    rows: np.ndarray
    truths: np.ndarray
    asked_for: np.ndarray
    places: dict[int, np.ndarray]


class Truths:
    """The truths of terms in pictures: how far each stands out in the gallery, as a sample of it tells."""

    def __init__(
        self,
        terms: Sequence[Term],
        centred: Centred,
        everything: Selection,
        regions: Regions | None = None,
        words: WordTruths | None = None,
    ) -> None:
        self._centred, self._regions, self._words = centred, regions, words
        self._sample = evenly(everything.rows, ENOUGH_PICTURES)
        self._count = len(terms)
        self._wholes = {number: term.whole for number, term in enumerate(terms) if term.whole is not None}
        in_regions = {number: term.region for number, term in enumerate(terms) if term.region is not None}
        self._in_regions = in_regions if regions is not None else {}
        self._meanings = {number: term.meaning for number, term in enumerate(terms) if term.whole is None}

    def of(self, rows: np.ndarray, only: Collection[int] | None = None) -> list[Tensor]:
        """For each term its truths `(n,)` in rows, which ascend; 0 for each that is not among `only` these."""
        asked = range(self._count) if only is None else only
        truths = self._by_words(rows, asked)
        truths |= {number: truth_of(found) for number, found in self._deviations(rows, asked).items()}
        nothing = torch.zeros(len(rows), dtype=torch.float64)
        return [truths.get(number, nothing) for number in range(self._count)]

    @property
    def pictures(self) -> Collection[int]:
        """The numbers of the terms that are pictures, and no words."""
        return self._wholes.keys()

    def reaching(self, rows: np.ndarray, least: Mapping[int, float]) -> tuple[np.ndarray, dict[int, Tensor]]:
        """Those of the rows, which ascend, in which some terms of pictures all stand out so far, and their truths."""
        found = self._deviations(rows, least)
        kept = np.flatnonzero(reduce(torch.logical_and, [found[number] >= least[number] for number in least]))
        return rows[kept], {number: truth_of(found[number][kept]) for number in least}

    def places(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """The best region of each of a few rows for each term that is looked for in regions; -1 where there is none."""
        if self._regions is None or not self._in_regions:
            return {}
        has = self._have_regions(rows)
        best = where_best(self._regions.codes(rows), self._region_queries).numpy()
        return {number: np.where(has, best[place], -1) for place, number in enumerate(self._in_regions)}

    @cached_property
    def whole_scale(self) -> Scale:
        """How alike the pictures of the gallery are to each term that is a picture."""
        return scale_of(similarities(self._centred.codes(self._sample), self._whole_queries))

    @cached_property
    def _region_scale(self) -> Scale:
        return scale_of(self._best(self._sample[self._have_regions(self._sample)], self._region_queries))

    @cached_property
    def _whole_queries(self) -> Tensor:
        return torch.stack(list(self._wholes.values()))

    @cached_property
    def _region_queries(self) -> Tensor:
        return torch.stack(list(self._in_regions.values()))

    def _have_regions(self, rows: np.ndarray) -> np.ndarray:
        if self._regions is None or not self._in_regions:
            return np.zeros(len(rows), bool)
        return self._regions.has(rows)

    def _best(self, rows: np.ndarray, queries: Tensor) -> Tensor:
        """How alike the best region of each row is to each query, `(Q, n)`."""
        assert self._regions is not None, "terms are looked for in regions where there are some"
        codes = self._regions.codes
        return _in_blocks(rows, queries, lambda block: best_region(codes(block), queries))

    def _deviations(self, rows: np.ndarray, asked: Container[int]) -> dict[int, Tensor]:
        """How far those terms that are pictures stand out in each row, `(n,)`."""
        anywhere = [number for number in self._in_regions if number in asked]
        has = self._have_regions(rows) if anywhere else np.zeros(len(rows), bool)
        as_wholes = [number for number in self._wholes if number in asked and (number not in anywhere or not has.all())]
        deviations: dict[int, Tensor] = {}
        if as_wholes:
            queries = torch.stack([self._wholes[number] for number in as_wholes])
            found = _in_blocks(rows, queries, lambda block: similarities(self._centred.codes(block), queries))
            scale = _some(self.whole_scale, self._wholes, as_wholes)
            deviations.update(zip(as_wholes, scale.deviations(found), strict=True))
        if has.any():
            found = self._best(rows, torch.stack([self._in_regions[number] for number in anywhere]))
            scale = _some(self._region_scale, self._in_regions, anywhere)
            for number, values in zip(anywhere, scale.deviations(found), strict=True):
                deviations[number] = (
                    values if has.all() else torch.where(torch.from_numpy(has), values, deviations[number])
                )
        return deviations

    def _by_words(self, rows: np.ndarray, asked: Container[int]) -> dict[int, Tensor]:
        meanings = {number: meaning for number, meaning in self._meanings.items() if number in asked}
        if not meanings:
            return {}
        assert self._words is not None, "a term that is no vector is a word"
        return {number: self._words.truth(meaning, rows).double() for number, meaning in meanings.items()}


def _in_blocks(rows: np.ndarray, queries: Tensor, compared: Callable[[np.ndarray], Tensor]) -> Tensor:
    """The similarities `(Q, n)` of rows, compared some at a time: their vectors need much more room."""
    found = torch.empty(len(queries), len(rows))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        found[:, start : start + len(block)] = compared(block)
    return found


def _some(scale: Scale, terms: Mapping[int, Tensor], chosen: Sequence[int]) -> Scale:
    """The scale of some of the terms that it is of."""
    places = [place for place, number in enumerate(terms) if number in chosen]
    return Scale(scale.middle[places], scale.spread[places])


def truth_of_asked_for(formula: Formula, truths: Sequence[Tensor], logic: str) -> Tensor:
    """The truth of a condition in pictures that show nothing of what they should not: `not` vouches for no match."""
    asked_for = formula.positive_terms
    pairs = zip(formula.terms, truths, strict=True)
    return formula.truth_of_terms(
        [truth if term in asked_for else torch.zeros_like(truth) for term, truth in pairs], logic
    )


class ConditionSearch:
    """Finds the pictures of one state of a gallery in which a condition is truest.

    All are compared, unless there are more than `exact_up_to` and an engine finds the nearest elsewhere. That is asked
    for so many `candidates` in each direction in which the condition becomes truer.
    """

    exact_up_to = 10**6  # a tenth of a second; docs/gallery.md has the figures
    candidates = 10_000  # Milvus gives no more than 16,384

    def __init__(
        self,
        centred: Centred,
        engine: Engine,
        everything: Selection,
        regions: Regions | None = None,
        words: WordTruths | None = None,
    ) -> None:
        self._centred, self._engine, self._everything = centred, engine, everything
        self._regions, self._words = regions, words

    def search(self, formula: Formula, terms: Sequence[Term], logic: str, top: int, selection: Selection) -> Found:
        """The `top` truest rows of a selection, which is not empty, the truest first; of equal ones the lower row."""
        truths = Truths(terms, self._centred, self._everything, self._regions, self._words)
        best = self._best(formula, truths, logic, top, self._candidates(formula, terms, logic, selection))
        ascending, back = np.unique(best.rows[0], return_inverse=True)
        asked_for = truth_of_asked_for(formula, truths.of(ascending), logic).float().numpy()[back]
        places_of = {number: found[back] for number, found in truths.places(ascending).items()}
        return Found(best.rows[0], best.scores[0], asked_for, places_of)

    def _best(self, formula: Formula, truths: Truths, logic: str, top: int, rows: np.ndarray) -> Best:
        """The truest of some rows, which ascend.

        What is not to be seen can only make a condition less true. So that is looked for in those pictures alone that
        would be among the best without it. Nor are truths computed where one term alone is so far from true that the
        condition is less true than in the best so far.
        """
        asked_for = {formula.terms.index(term) for term in formula.positive_terms}
        narrowing = [number for number in truths.pictures if number in asked_for][:_NARROWING]
        best = Best(1, top)

        def truth(of: np.ndarray, only: Collection[int] | None = None) -> Tensor:
            values = torch.empty(len(of))
            for start in range(0, len(of), _BLOCK):
                block = of[start : start + _BLOCK]
                values[start : start + _BLOCK] = formula.truth_of_terms(truths.of(block, only), logic)
            return values

        for span in _growing(rows):
            least = _least(formula, logic, best.last, narrowing)
            if least:
                span, known = truths.reaching(span, least)
                values = formula.truth_of_terms(_ideal(formula, known), logic).float()
            else:
                values = truth(span, asked_for)
            if least or len(asked_for) < len(formula.terms):
                reached = best.last
                if len(span) > max(top, _MANY):
                    likeliest = np.sort(largest(values[None], top)[1][0].numpy())
                    reached = max(reached, float(truth(span[likeliest]).min()))
                span = span[values.numpy() >= reached - _ROUNDING]
                values = truth(span)
            if len(span):
                best.add(span, values[None])
        return best

    def _candidates(self, formula: Formula, terms: Sequence[Term], logic: str, selection: Selection) -> np.ndarray:
        """Rows of a selection, which ascend, with the truest ones among them."""
        directions = _directions(formula, terms)
        is_near = isinstance(self._engine, Scan) or len(selection) <= self.exact_up_to
        if is_near or directions is None or suits_nothing(formula, logic):
            return selection.rows
        found, _ = self._engine.search(directions, self.candidates, selection)
        return np.unique(found)


def _growing(rows: np.ndarray) -> Iterator[np.ndarray]:
    """All rows in parts, small ones first: what is among the best of few says what is not among those of many."""
    start, size = 0, _FIRST
    while start < len(rows):
        yield rows[start : start + size]
        start, size = start + size, min(_SPAN, 4 * size)


def _least(formula: Formula, logic: str, reached: float, numbers: Sequence[int]) -> dict[int, float]:
    """How far some terms that are asked for must stand out, or the condition is less true than what was `reached`.

    That is so however well the others do. Terms without which it may be as true are left out, such as those of an
    `or`; and all of them where a term is both asked for and not to be seen.
    """
    if math.isinf(reached) or not set(formula.positive_terms).isdisjoint(formula.negative_terms):
        return {}
    least = {}
    for number in numbers:
        highest = formula.truth_of_terms(_ideal(formula, {number: truth_of(_STEPS)}), logic)
        too_low = int((highest < reached - _ROUNDING).sum())
        if too_low:
            least[number] = float(_STEPS[too_low - 1])
    return least


def _ideal(formula: Formula, known: Mapping[int, Tensor]) -> list[Tensor]:
    """Truths of all terms that are the best for a condition, but for those that are known."""
    best = torch.ones_like(next(iter(known.values())))
    asked_for = formula.positive_terms
    return [known.get(number, best * (term in asked_for)) for number, term in enumerate(formula.terms)]


def suits_nothing(formula: Formula, logic: str) -> bool:
    """Whether a picture that has nothing of any term is one of those that are asked for, as with `not a`."""
    return float(formula.truth_of_terms([torch.zeros(1)] * len(formula.terms), logic)) > 0


def _directions(formula: Formula, terms: Sequence[Term]) -> Tensor | None:
    """Where to look for candidates `(n, d)`; None if a term that is asked for is a word.

    Each term that is asked for, all of them together, and the same without what is not to be seen.
    """
    by_sign = [
        [terms[formula.terms.index(term)].whole for term in of_sign]
        for of_sign in (formula.positive_terms, formula.negative_terms)
    ]
    if not by_sign[0] or any(whole is None for whole in by_sign[0]):
        return None
    wanted, unwanted = ([whole for whole in of_sign if whole is not None] for of_sign in by_sign)
    together = torch.stack(wanted).sum(0)
    directions = [*wanted]
    if len(wanted) > 1:
        directions.append(together)
    if unwanted:
        directions.append(together - torch.stack(unwanted).sum(0))
    return normalize(torch.stack(directions), dim=1)
