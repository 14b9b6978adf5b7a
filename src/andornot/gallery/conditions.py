"""The truth of a condition in the pictures of a gallery, and the pictures in which it is highest."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from .likeness.truth import ENOUGH_PICTURES, Scale, scale_of

# Pictures whose vectors are in memory at once, and whose truths are.
_BLOCK: Final = 2**14
_SPAN: Final = 2**18
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
        """For each term its truths `(n,)` in rows, which ascend; 0 for each that is not among `only` these.

        In double precision: torch rounds the last numbers of a block in another way, and the same picture should have
        the same truth wherever it is.
        """
        asked = range(self._count) if only is None else only
        anywhere = [number for number in self._in_regions if number in asked]
        has = self._have_regions(rows) if anywhere else np.zeros(len(rows), bool)
        as_wholes = [number for number in self._wholes if number in asked and (number not in anywhere or not has.all())]
        truths = self._by_words(rows, asked)
        if as_wholes:
            found = similarities(self._centred.codes(rows), torch.stack([self._wholes[number] for number in as_wholes]))
            truths.update(
                zip(as_wholes, _some(self.whole_scale, self._wholes, as_wholes).truth(found.double()), strict=True)
            )
        if has.any():
            queries = torch.stack([self._in_regions[number] for number in anywhere])
            found = _some(self._region_scale, self._in_regions, anywhere).truth(self._best(rows, queries).double())
            for number, values in zip(anywhere, found, strict=True):
                truths[number] = values if has.all() else torch.where(torch.from_numpy(has), values, truths[number])
        nothing = torch.zeros(len(rows), dtype=torch.float64)
        return [truths.get(number, nothing) for number in range(self._count)]

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
        return best_region(self._regions.codes(rows), queries)

    def _by_words(self, rows: np.ndarray, asked: Container[int]) -> dict[int, Tensor]:
        meanings = {number: meaning for number, meaning in self._meanings.items() if number in asked}
        if not meanings:
            return {}
        assert self._words is not None, "a term that is no vector is a word"
        return {number: self._words.truth(meaning, rows).double() for number, meaning in meanings.items()}


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
        would be among the best without it.
        """
        asked_for = {formula.terms.index(term) for term in formula.positive_terms}
        best = Best(1, top)

        def truth(of: np.ndarray, only: Collection[int] | None = None) -> Tensor:
            values = torch.empty(len(of))
            for start in range(0, len(of), _BLOCK):
                block = of[start : start + _BLOCK]
                values[start : start + _BLOCK] = formula.truth_of_terms(truths.of(block, only), logic)
            return values

        for start in range(0, len(rows), _SPAN):
            span = rows[start : start + _SPAN]
            values = truth(span, asked_for)
            if len(asked_for) < len(formula.terms):
                likeliest = np.sort(largest(values[None], min(top, len(span)))[1][0].numpy())
                reached = float(truth(span[likeliest]).min())
                span = span[values.numpy() >= max(reached, best.last) - _ROUNDING]
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
